"""A judge leaves the cores alone on which programs are timed."""

from threadpoolctl import threadpool_info, threadpool_limits

from evaluators.judge import open_judge
from evaluators.task_loading import load_task
from tests.evaluators.judge.conftest import DATA


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_a_judge_keeps_its_linear_algebra_to_one_core():
    """Idle threads of a library would spin on the others, in the way of whoever is timed there."""
    with threadpool_limits(2):
        with open_judge(load_task(DATA / "point"), sandbox="reduced", lanes=1):
            assert blas_threads() == {1}
        assert blas_threads() == {2}
