"""Shapes of the GPU tasks are those of the models that they name."""

import re
from math import prod
from pathlib import Path

import pytest

from evaluators.task_loading import load_task

TASKS = Path(__file__).parents[2] / "tasks"
HEADS = {
    "Llama-3-8B": 32,
    "Llama-3-70B": 64,
    "Mistral-7B": 32,
    "Gemma-2-9B": 16,
    "GPT-2": 12,
    "BERT-large": 16,
    "Whisper large-v3, encoder": 20,
    "CLIP ViT-L/14": 16,
}
"""Attention heads, from the models' published configurations."""
PROJECTIONS = {
    "Llama-3-8B: attention output projection": (4096, 4096),
    "Llama-3-8B: attention k and v projections": (4096, 1024),
    "Llama-3-8B: feed-forward gate and up projections": (4096, 14336),
    "Llama-3-8B: feed-forward down projection": (14336, 4096),
    "Llama-2-13B: attention projections": (5120, 5120),
}
"""Inputs and outputs of the layers, from the same."""


def scored(name):
    return [w for w in load_task(TASKS / name).workloads if w.split != "edge"]


@pytest.mark.parametrize("name", ["softmax", "softmax_bf16"])
def test_rows_are_heads_times_queries_and_columns_are_keys(name):
    for workload in scored(name):
        model, _, shape = workload.source.partition(": ")
        *rows, keys = (int(number) for number in re.findall(r"\d+", shape))
        assert rows[0] == HEADS[model], workload.source
        assert (prod(rows), keys) == (workload.axes["M"], workload.axes["N"]), workload.source


def test_products_are_those_of_the_layers():
    for workload in scored("matmul_bf16"):
        layer, _, tokens = workload.source.rpartition(", ")
        assert PROJECTIONS[layer] == (workload.axes["K"], workload.axes["N"]), workload.source
        assert tokens == f"{workload.axes['M']} tokens"


def test_the_tasks_in_two_precisions_have_one_reference():
    one, other = (load_task(TASKS / name) for name in ("softmax", "softmax_bf16"))
    assert one.reference_path.resolve() == other.reference_path.resolve()
    assert one.hash != other.hash
