"""What a judge remembers of builds stays bounded, on disk too; what it needs for good stays."""

import pytest

from evaluators import build_cache
from evaluators.build import Builds
from evaluators.build_cache import BuildCache
from evaluators.evaluation import Status
from evaluators.failure import CandidateFailure
from evaluators.judge import PRELOAD
from evaluators.task_loading import load_task
from evaluators.zygote.client import Zygote
from tests.evaluators.judge.conftest import DATA, DOUBLE_CPP


def test_what_was_used_last_is_kept():
    refused = CandidateFailure(Status.BUILD_ERROR, "no")
    cache = BuildCache(most=2)
    for key in ("a", "b"):
        cache.put(key, refused)
    assert cache.get("a") is refused
    cache.put("c", refused)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (refused, None, refused)


@pytest.fixture
def builds(tmp_path, monkeypatch):
    monkeypatch.setattr(build_cache, "MOST_BUILDS", 2)
    with Zygote(minimum="reduced", scratch=tmp_path, preload=PRELOAD) as zygote:
        yield Builds(zygote, tmp_path, None)


def test_artifacts_of_what_is_forgotten_are_removed_and_ours_stay(builds):
    task = load_task(DATA / "double")
    ours = builds.build(task, DOUBLE_CPP + "// 0", "cpp", ("-O1",))
    assert builds.build(task, DOUBLE_CPP + "// 0", "cpp", ("-O1",), keep=True) is ours, "built before as a candidate"
    built = [builds.build(task, f"{DOUBLE_CPP}// {number}", "cpp", ("-O1",)) for number in (1, 2, 3)]
    there = [program.artifact.exists() for program in (ours, *built)]
    assert there == [True, False, True, True]
    again = builds.build(task, f"{DOUBLE_CPP}// 1", "cpp", ("-O1",))
    assert again.artifact.exists(), "built anew when it comes again"
