"""Live judges for one small time-scored task and one small value-scored one, shared by this folder's tests."""

from pathlib import Path

import pytest

from evaluators.judge import open_judge
from evaluators.task_loading import load_task

DATA = Path(__file__).parents[2] / "data"
DOUBLE_CPP = (DATA / "double" / "seed.cpp").read_text()
DOUBLE_PY = """
import numpy as np
def double_it(x, out, N):
    np.multiply(np.sqrt(np.abs(x)), np.float32(2), out=out)
"""
POINT_PY = (DATA / "point" / "seed.py").read_text()


@pytest.fixture(scope="session")
def double_judge():
    with open_judge(load_task(DATA / "double"), sandbox="full", lanes=1) as (judge, _):
        judge.calibrate()
        yield judge


@pytest.fixture(scope="session")
def point_judge():
    with open_judge(load_task(DATA / "point"), sandbox="full", lanes=2) as (judge, _):
        yield judge
