"""The example in ``docs/tasks.md``: what a reader copies is a task."""

import re
from pathlib import Path

from evaluators import check, tolerance
from evaluators.check import check_task
from evaluators.task_loading import load_task
from evaluators.tolerance import LOCK_NAME

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "tasks.md"
FILE = re.compile(r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_example_of_the_documentation_is_a_task_that_passes_its_check(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "measure_limits", lambda reference: tolerance.measure_limits(reference, seeds=20))
    files = dict(FILE.findall(DOCUMENT.read_text(encoding="utf-8")))
    assert sorted(files) == ["lanes.cpp", "reference.py", "seed.cpp", "task.toml"]
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    task = load_task(tmp_path)
    assert [(baseline.name, baseline.file) for baseline in task.baselines] == [("lanes", "lanes.cpp")]
    assert check_task(task).frozen
    assert (tmp_path / LOCK_NAME).is_file()
