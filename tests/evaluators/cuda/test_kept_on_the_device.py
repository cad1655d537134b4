"""On a real GPU: what one judge compiled of its baselines the next one uses."""

import pytest

from tests.evaluators.cuda.conftest import compiled
from tests.evaluators.cuda.judges import DEFAULT_TASK

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]


def graphs(files):
    return {file for file in files if "fxgraph" in file[0].parts}


def test_the_next_judge_compiles_none_of_its_baselines_again(judges, found):
    first = judges.of(DEFAULT_TASK).judge
    assert graphs(compiled(first))
    assert first.bench.cache.file.exists()
    judges.close()
    judge = judges.of(DEFAULT_TASK).judge
    assert judge.bench.cache.since
    assert any(path.suffix == ".cubin" for path, _ in found[DEFAULT_TASK])
    assert found[DEFAULT_TASK] <= compiled(judge)  # none was written anew
    assert graphs(compiled(judge)) == graphs(found[DEFAULT_TASK])
