"""The judges of the tests on a device, shared by all of them: see :mod:`tests.evaluators.cuda.judges`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evaluators.cache_folder import VARIABLE
from evaluators.evaluation import Status
from evaluators.judge import open_judge
from evaluators.kernel import KernelJudge
from evaluators.task_loading import load_task
from tests.evaluators.cuda import in_place
from tests.evaluators.cuda.judges import DEFAULT_TASK, Judges, by_task
from tests.exploits.gpu.corpus import TASKS, GpuProgram, yardstick
from tests.exploits.gpu.verdicts import SECRET, GpuCourt

_OTHERS = {in_place.TASK.name: in_place.TASK}
"""Tasks that are not shipped."""
Compiled = set[tuple[Path, int]]
_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    ordered = iter(by_task([item for item in items if here in item.path.parents]))
    items[:] = [next(ordered) if here in item.path.parents else item for item in items]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


def _is_well(court: GpuCourt) -> bool:
    try:
        plain = in_place.HONEST["seed.cu"][1] if court.task in _OTHERS else yardstick(court.task, "cuda").source({})
        return court.judge.evaluate(plain, "cuda").status is Status.PASSED
    except Exception:  # whatever a broken judge raises
        return False


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where these judges keep what later ones of them may use, and nobody else's do."""
    return tmp_path_factory.mktemp("cache")


def compiled(judge: KernelJudge) -> Compiled:
    """Every kernel and graph that torch.compile has left: where, and which file that is."""
    folders = judge.bench.cache.workshops.values()
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    kept = [path for path in files if path.suffix == ".cubin" or "fxgraph" in path.parts]
    return {(path, path.stat().st_ino) for path in kept}


@pytest.fixture(scope="session")
def found() -> dict[str, Compiled]:
    """For each task what the judge that was opened last found compiled when it started."""
    return {}


@pytest.fixture(scope="session")
def judges(
    cache: Path, found: dict[str, Compiled], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Judges[GpuCourt]]:
    """Of any task, one at a time."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    secret = tmp_path_factory.mktemp("secret") / "secret.txt"
    secret.write_text(SECRET)

    @contextmanager
    def opens(task: str) -> Iterator[GpuCourt]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SECRET", SECRET)
            patch.setenv(VARIABLE, str(cache))
            with open_judge(_OTHERS.get(task) or load_task(TASKS / task), sandbox="full", lanes=1) as (judge, _):
                if not isinstance(judge, KernelJudge):
                    pytest.skip("no GPU on this machine")
                found[task] = compiled(judge)
                judge.calibrate()
                yield GpuCourt(judge, task, {"SECRET_FILE": str(secret)})

    made = Judges(opens, _is_well)
    yield made
    made.close()


@pytest.fixture
def judge(request: pytest.FixtureRequest, judges: Judges[GpuCourt]) -> Iterator[KernelJudge]:
    yield judges.of(getattr(request, "param", DEFAULT_TASK)).judge
    if _FAILED in request.node.stash:
        judges.doubt()


@pytest.fixture(scope="session")
def built() -> set[str]:
    """Tasks whose corpus was built side by side; a judge that is opened again builds what is left one by one."""
    return set()


def _chosen(session: pytest.Session, task: str) -> list[GpuProgram]:
    """The programs of a task's corpus that this run is about."""
    parameters = [item.callspec.params for item in session.items if hasattr(item, "callspec")]
    return [p["program"] for p in parameters if p.get("court") == task and "program" in p]


@pytest.fixture
def court(request: pytest.FixtureRequest, judges: Judges[GpuCourt], built: set[str]) -> Iterator[GpuCourt]:
    task: str = request.param
    opened = judges.of(task)
    if task not in built:
        built.add(task)
        opened.build(_chosen(request.session, task))
    yield opened
    if _FAILED in request.node.stash:
        judges.doubt()
