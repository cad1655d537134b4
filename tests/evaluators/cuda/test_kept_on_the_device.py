"""On a real GPU: what one judge compiled of its baselines the next one uses."""

import pytest

from evaluators.cache_folder import VARIABLE
from evaluators.judge import open_judge
from evaluators.kernel import KernelJudge
from evaluators.task_loading import load_task
from tests.exploits.gpu.corpus import TASKS

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]


def opened():
    return open_judge(load_task(TASKS / "softmax"), sandbox="full", lanes=1)


def compiled(judge):
    """Every kernel and graph that torch.compile has left: where, and which file that is."""
    folders = judge.bench.cache.workshops.values()
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    kept = [path for path in files if path.suffix == ".cubin" or "fxgraph" in path.parts]
    return {(path, path.stat().st_ino) for path in kept}


def test_the_next_judge_compiles_none_of_its_baselines_again(judges, cache, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(cache))
    judges.close()  # one judge at a time
    with opened() as (judge, _):
        if not isinstance(judge, KernelJudge):
            pytest.skip("no GPU on this machine")
        judge.calibrate()
        assert compiled(judge)
        assert judge.bench.cache.file.exists()
    with opened() as (judge, _):
        assert judge.bench.cache.since
        before = compiled(judge)
        assert any(path.suffix == ".cubin" for path, _ in before)
        judge.calibrate()
        assert judge.bench.cache.since
        assert compiled(judge) == before
