"""What a judge takes over from earlier ones of its task: nothing that does not fit, or that a candidate could touch."""

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from evaluators import baseline_cache, calibration
from evaluators.baseline_cache import AGE_S, BaselineCache, describe_cache, open_baseline_cache, workshop_of
from evaluators.build import BuiltProgram
from evaluators.cache_entry import read_entry, write_entry
from evaluators.cache_folder import OFF, VARIABLE
from evaluators.calibration import calibrate_all
from evaluators.cuda.arena import CudaArena
from evaluators.errors import TaskError
from evaluators.evaluation import Environment, Status
from evaluators.failure import CandidateFailure
from evaluators.task_loading import load_task
from tests.evaluators.sandbox_support import PATIENCE_S, request, scratch, zygote

__all__ = ["scratch", "zygote"]
DATA = Path(__file__).parents[1] / "data"
TIMES = {"8x8": {"eager": 12.5, "compiled": 10.0}}
HOST = {
    "gpu_uuid": "GPU-1",
    "cuda_driver": "13.0",
    "arch": "sm_90",
    "python": "3.12.1",
    "numpy": "2.3.0",
    "torch": "2.13.0",
    "triton": "3.7.1",
    "nvidia-cuda-nvrtc": "13.0.88",
}
ENVIRONMENT = Environment(device_class="sm_90:NVIDIA H200", host=HOST, sandbox="full")
TASK = SimpleNamespace(hash="0123")
COMPILED = BuiltProgram("compiled", "torch", "c" * 64)
EAGER = BuiltProgram("eager", "torch", "e" * 64)
NATIVE = BuiltProgram("native", "cuda", "d" * 64)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache" / "baselines"


@pytest.fixture
def places(tmp_path):
    """As many folders of judges as are asked for."""

    def make():
        made = tmp_path / f"judge-{len(list(tmp_path.glob('judge-*')))}"
        made.mkdir()
        return made

    return make


def opened(place, *, task=TASK, environment=ENVIRONMENT, driver="580.82", programs=(COMPILED, EAGER, NATIVE)):
    return open_baseline_cache(task, environment, driver, programs, place)


def compile_something(place, program=COMPILED, text="kernel"):
    workshop = workshop_of(place, program.source_hash)
    kernel = workshop / "triton" / "KEY"
    kernel.mkdir(parents=True)
    (kernel / "k.cubin").write_bytes(text.encode())
    (kernel / "__grp__k.json").write_text(json.dumps({"child_paths": {"k.cubin": str(kernel / "k.cubin")}}))
    return workshop


def kept(place, times=TIMES):
    """A first judge, which leaves what it knows."""
    cache = opened(place)
    assert not cache.since
    compile_something(place)
    cache.keep(times)
    return cache


def test_the_next_judge_finds_what_was_compiled_where_it_looks_for_it(places):
    kept(places())
    place = places()
    cache = opened(place)
    assert cache.since
    assert cache.baseline_us == TIMES
    kernel = workshop_of(place, COMPILED.source_hash) / "triton" / "KEY"
    assert (kernel / "k.cubin").read_text() == "kernel"
    group = json.loads((kernel / "__grp__k.json").read_text())
    assert group == {"child_paths": {"k.cubin": str(kernel / "k.cubin")}}
    assert not any(workshop_of(place, EAGER.source_hash).iterdir())
    assert not workshop_of(place, NATIVE.source_hash).exists()


@pytest.mark.parametrize(
    "changed",
    [
        {"task": SimpleNamespace(hash="0124")},
        {"driver": "580.83"},
        *(
            {"environment": ENVIRONMENT.model_copy(update={"host": {**HOST, name: HOST[name] + "0"}})}
            for name in sorted(HOST)
        ),
        {"environment": ENVIRONMENT.model_copy(update={"host": {**HOST, "kernel": "6.1"}})},
        {"environment": ENVIRONMENT.model_copy(update={"device_class": "sm_90:NVIDIA H100"})},
        {"environment": ENVIRONMENT.model_copy(update={"sandbox": "reduced"})},
    ],
    ids=str,
)
def test_nothing_is_taken_over_where_one_thing_differs(places, changed):
    kept(places())
    place = places()
    cache = opened(place, **changed)
    assert not cache.since
    assert not cache.baseline_us
    assert not list(place.iterdir())
    assert opened(places()).since


@pytest.mark.parametrize("what", ["_code_hash", "_version"])
def test_another_judge_takes_nothing_over(places, monkeypatch, what):
    kept(places())
    monkeypatch.setattr(baseline_cache, what, lambda: "another")
    assert not opened(places()).since


def test_a_change_of_any_of_our_files_is_another_judge(tmp_path, monkeypatch):
    package = tmp_path / "package"
    (package / "cuda" / "__pycache__").mkdir(parents=True)
    for name in ("baseline_cache.py", "rounds.py", "cuda/kernels.cu", "cuda/__pycache__/x.pyc"):
        (package / name).write_text("1")
    monkeypatch.setattr(baseline_cache, "__file__", str(package / "baseline_cache.py"))
    before = baseline_cache._code_hash()
    (package / "cuda/__pycache__/x.pyc").write_text("2")
    assert baseline_cache._code_hash() == before
    (package / "cuda/kernels.cu").write_text("2")
    assert baseline_cache._code_hash() != before


@pytest.mark.parametrize(
    "changed",
    [
        {"driver": None},
        {"task": SimpleNamespace(hash="")},
        {"environment": ENVIRONMENT.model_copy(update={"sandbox": "none"})},
        *(
            {"environment": ENVIRONMENT.model_copy(update={"host": {k: v for k, v in HOST.items() if k != name}})}
            for name in ("gpu_uuid", "torch", "triton", "python")
        ),
    ],
    ids=str,
)
def test_where_something_is_not_known_nothing_is_kept(places, folder, changed, caplog):
    cache = opened(places(), **changed)
    cache.keep(TIMES)
    assert not folder.exists()
    assert len(caplog.messages) == 1


def test_who_switched_it_off_hears_nothing_of_it(places, folder, monkeypatch, caplog):
    kept(places())
    monkeypatch.setenv(VARIABLE, OFF)
    cache = opened(places())
    cache.keep(TIMES)
    assert not cache.since
    assert not caplog.messages
    assert OFF in describe_cache()


def test_a_folder_open_to_others_is_not_used_and_that_is_said_once(places, folder, caplog):
    kept(places())
    folder.chmod(0o777)
    cache = opened(places())
    cache.keep(TIMES)
    assert not cache.since
    assert len(caplog.messages) == 1
    assert "chmod" in caplog.text
    assert "chmod" in describe_cache()


@pytest.mark.parametrize("age_s", [AGE_S + 60, -60])
def test_an_old_entry_or_one_of_tomorrow_is_made_anew(places, age_s):
    file = kept(places()).file
    entry = read_entry(file)
    write_entry(file, replace(entry, made_s=entry.made_s - age_s))
    place = places()
    cache = opened(place)
    assert not cache.since
    assert not list(place.iterdir())
    cache.keep(TIMES)
    assert opened(places()).since


@pytest.mark.parametrize("damage", ["cut", "garbage", "link", "folder of the same name in it"])
def test_what_is_damaged_is_dropped_with_one_line_and_made_anew(places, damage, caplog):
    file = kept(places()).file
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    elif damage == "garbage":
        file.write_bytes(b"{}")
    elif damage == "link":
        file.rename(file.with_name("elsewhere"))
        file.symlink_to("elsewhere")
    else:
        entry = read_entry(file)
        name = COMPILED.source_hash
        write_entry(file, replace(entry, files={f"{name}/a": b"", f"{name}/a/b": b""}))
    place = places()
    cache = opened(place)
    assert not cache.since
    assert not cache.baseline_us
    assert not workshop_of(place, COMPILED.source_hash).exists()
    assert not os.path.lexists(file)
    assert len(caplog.messages) == 1
    compile_something(place)
    cache.keep(TIMES)
    assert opened(places()).since
    assert len(caplog.messages) == 1


def test_only_ordinary_files_are_kept(places, tmp_path):
    place = places()
    cache = opened(place)
    workshop = compile_something(place)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (workshop / "link").symlink_to(secret)
    (workshop / "links").symlink_to(tmp_path)
    os.link(secret, workshop / "hard")
    os.mkfifo(workshop / "fifo")
    (workshop / "placed.json").write_bytes(b'"[WORKSHOP]"')
    (workshop / os.fsdecode(b"\xff")).write_text("x")
    (workshop / "/".join("d" * 30)).mkdir(parents=True)
    (workshop / "/".join("d" * 30) / "deep").write_text("x")
    cache.keep(TIMES)
    names = {name.split("/", 1)[1] for name in read_entry(cache.file).files}
    assert names == {"triton/KEY/k.cubin", "triton/KEY/__grp__k.json"}


def test_too_much_is_not_kept_and_that_is_said(places, monkeypatch, caplog):
    monkeypatch.setattr(baseline_cache, "MOST_FILES", 1)
    cache = kept(places())
    assert not cache.file.exists()
    assert len(caplog.messages) == 1


def test_a_disk_that_takes_nothing_stops_no_judge(places, folder, caplog):
    cache = opened(places())
    folder.rmdir()
    cache.keep(TIMES)
    assert len(caplog.messages) == 1


def test_a_time_that_makes_no_sense_stops_no_judge(places, caplog):
    cache = opened(places())
    cache.keep({"8x8": {"eager": float("nan")}})
    assert not cache.file.exists()
    assert len(caplog.messages) == 1


def test_an_entry_is_replaced_only_where_its_times_plan_other_rounds(places):
    file = kept(places()).file
    before = file.stat().st_ino
    for times in ({"8x8": {"eager": 13.0, "compiled": 9.5}}, TIMES):
        opened(places()).keep(times)
        assert file.stat().st_ino == before
    for times in ({"8x8": {"eager": 12.5, "compiled": 7.0}}, {"8x8": {"eager": 12.5}}, {}):
        opened(places()).keep(times)
        assert opened(places()).baseline_us == times


def test_other_times_make_what_was_compiled_no_younger(places):
    file = kept(places()).file
    made_s = read_entry(file).made_s - AGE_S + 3600
    write_entry(file, replace(read_entry(file), made_s=made_s))
    slower = {workload: {name: 2 * us for name, us in times.items()} for workload, times in TIMES.items()}
    opened(places()).keep(slower)
    entry = read_entry(file)
    assert (entry.made_s, entry.baseline_us) == (made_s, slower)


def test_an_old_entry_goes_when_another_is_written(places):
    file = kept(places()).file
    past = file.stat().st_mtime - AGE_S - 60
    os.utime(file, (past, past))
    opened(places(), driver="581").keep(TIMES)
    assert not file.exists()
    assert ": 1 kept," in describe_cache()


class Arena:
    """Whose runners compile for each workload that they prepare."""

    def __init__(self, place=None, size=1 << 30, fails=False):
        self.discarded, self.opened, self.prepared = [], [], []
        self._place, self._fails = place, fails
        self.inputs = self.outputs = SimpleNamespace(size=size)

    def discard(self, name):
        self.discarded.append(name)

    def kept(self, name, program):
        self.opened.append((name, program))
        return self

    def prepare(self, layout, deadline_s):
        if self._fails:
            raise CandidateFailure(Status.RUNTIME_ERROR, "out of luck")
        self.prepared.append(layout.workload)
        (workshop_of(self._place, COMPILED.source_hash) / layout.workload).write_text("kernel")


def bench_of(cache, task=None):
    task = task or SimpleNamespace(workloads=())
    return SimpleNamespace(cache=cache, baselines={"eager": EAGER, "compiled": COMPILED}, task=task)


def calibrated(bench, arena, monkeypatch, fails):
    def calibrate(bench, arena, workload, languages):
        if fails(bench):
            raise TaskError("baseline compiled fails on 8x8: wrong values")
        return SimpleNamespace(baseline_us=TIMES["8x8"])

    monkeypatch.setattr(calibration, "calibrate", calibrate)
    return calibrate_all(bench, arena, [SimpleNamespace(name="8x8")], ["cuda"])


def test_a_baseline_that_fails_on_what_it_had_compiled_is_tried_without(places, monkeypatch, caplog):
    file = kept(places()).file
    place, arena = places(), Arena()
    bench, workshop = bench_of(opened(place)), workshop_of(place, COMPILED.source_hash)
    made = calibrated(bench, arena, monkeypatch, lambda bench: workshop.exists())
    assert set(made) == {"8x8"}
    assert set(arena.discarded) == {"eager", "compiled"}
    assert not bench.cache.since
    assert not read_entry(file).files
    assert len(caplog.messages) == 1


def test_a_baseline_that_is_wrong_by_itself_is_an_error_whatever_was_kept(places, monkeypatch):
    file = kept(places()).file
    for _ in range(2):
        with pytest.raises(TaskError, match="wrong values"):
            calibrated(bench_of(opened(places())), Arena(), monkeypatch, lambda bench: True)
        assert not file.exists()


def test_held_out_workloads_are_compiled_for_before_any_candidate_runs(places, monkeypatch):
    task, names = load_task(DATA / "double"), {"held"}
    place = places()
    bench, arena = bench_of(opened(place), task), Arena(place)
    compile_something(place)
    calibrated(bench, arena, monkeypatch, lambda bench: False)
    assert [program for _, program in arena.opened] == [COMPILED]
    assert set(arena.prepared) == names
    assert arena.discarded == [name for name, _ in arena.opened]
    assert not {name for name, _ in arena.opened} & set(bench.baselines)
    place = places()
    later = Arena(place)
    cache = opened(place)
    assert (workshop_of(place, COMPILED.source_hash) / "held").exists()
    calibrated(bench_of(cache, task), later, monkeypatch, lambda bench: False)
    assert not later.opened


@pytest.mark.parametrize("arena", [{"size": 100}, {"fails": True}], ids=["no room", "it fails"])
def test_what_cannot_be_compiled_ahead_is_left_for_later(places, monkeypatch, arena):
    place = places()
    bench, arena = bench_of(opened(place), load_task(DATA / "double")), Arena(place, **arena)
    compile_something(place)
    calibrated(bench, arena, monkeypatch, lambda bench: False)
    assert not arena.prepared
    assert len(arena.discarded) == len(arena.opened) == 1
    assert opened(places()).since


def test_an_arena_hands_a_baseline_what_was_kept_of_it(places):
    kept(places())
    place = places()
    opened(place)
    folder = CudaArena._workshop(SimpleNamespace(_scratch=place), COMPILED)
    assert (folder / "triton" / "KEY" / "k.cubin").read_text() == "kernel"
    assert not any(CudaArena._workshop(SimpleNamespace(_scratch=places()), COMPILED).iterdir())


def test_where_nothing_is_kept_a_failure_is_not_tried_again(monkeypatch):
    tried = []
    with pytest.raises(TaskError):
        calibrated(bench_of(BaselineCache()), Arena(), monkeypatch, lambda bench: tried.append(1) is None)
    assert len(tried) == 1


def said_by(zygote, code, role, **changes):
    child = zygote.spawn(request(code, role=role, **changes))
    try:
        return child.collect(PATIENCE_S, 10_000)[0]
    finally:
        child.kill()
        child.close()


def test_a_baseline_may_change_what_it_was_given_and_nobody_else_sees_it(zygote, scratch, places, folder):
    kept(places())
    place = scratch / "judge"
    place.mkdir(mode=0o711)
    opened(place)
    workshop = workshop_of(place, COMPILED.source_hash)
    cubin = workshop / "triton" / "KEY" / "k.cubin"
    entry = next(folder.glob("*.kept"))
    look = f"""
    import os
    for path in {[str(p) for p in (cubin, workshop, entry, folder, folder.parent)]}:
        try:
            os.listdir(path) if os.path.isdir(path) else open(path).read()
            print("saw", path)
        except OSError:
            print("saw nothing")
        try:
            open(path + "/x" if os.path.isdir(path) else path, "w")
            print("wrote", path)
        except OSError:
            print("wrote nothing")
    """
    own = scratch / "builder"
    own.mkdir(mode=0o777)
    for role, given in (("builder", {"writable": (own,)}), ("runner", {})):
        said = said_by(zygote, look, role, **given)
        assert said.splitlines() == ["saw nothing", "wrote nothing"] * 5, said
    change = f"""
    print(open({str(cubin)!r}).read())
    open({str(cubin)!r}, "w").write("changed")
    open({str(workshop / "triton" / "new")!r}, "w").write("new")
    """
    assert said_by(zygote, change, "builder", writable=(workshop,)).strip() == "kernel"
    assert cubin.read_text() == "changed"
    assert read_entry(entry).files[f"{COMPILED.source_hash}/triton/KEY/k.cubin"] == b"kernel"


INDUCTOR = """
    import torch
    from torch._dynamo.utils import counters

    @torch.compile(dynamic=False)
    def compiled(x, out):
        out.copy_(torch.softmax(x, dim=1))

    x = torch.randn(8, 16)
    compiled(x, torch.empty_like(x))
    print(counters["inductor"]["fxgraph_cache_hit"], counters["inductor"]["fxgraph_cache_miss"])
"""
TRITON = """
    import sys
    from pathlib import Path
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget

    @triton.jit
    def kernel(x, n: tl.constexpr):
        at = tl.arange(0, n)
        tl.store(x + at, tl.load(x + at) * 2)

    source = triton.compiler.ASTSource(kernel, signature={"x": "*fp32", "n": "constexpr"}, constexprs={"n": 64})
    print(len(triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]) > 0)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("what", ["inductor", "triton"])
def test_torch_and_triton_use_what_was_compiled_in_another_place(places, tmp_path, what):
    """Of their own accord: the first judge's folder is gone."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(INDUCTOR if what == "inductor" else TRITON))
    said, inodes = [], []
    for _ in range(2):
        place = places()
        cache = opened(place)
        workshop = workshop_of(place, COMPILED.source_hash)
        workshop.mkdir(exist_ok=True)
        caches = {
            "TRITON_CACHE_DIR": f"{workshop}/triton",
            "TORCHINDUCTOR_CACHE_DIR": f"{workshop}/inductor",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "TMPDIR": str(workshop),
            "HOME": str(workshop),
        }
        before = _inodes(workshop / "triton")
        done = subprocess.run(
            [sys.executable, program], env={**os.environ, **caches}, capture_output=True, text=True, check=True
        )
        said.append(done.stdout.strip())
        inodes.append((before, _inodes(workshop / "triton")))
        cache.keep(TIMES)
        place.rename(place.with_name(f"{place.name}-gone"))
    if what == "inductor":
        assert said == ["0 1", "1 0"]
    else:
        assert inodes[0][0] == {}
        assert any(name.endswith(".cubin") for name in inodes[0][1])
        assert inodes[1][0] == inodes[1][1] != {}


def _inodes(folder):
    return {path.relative_to(folder).as_posix(): path.stat().st_ino for path in Path(folder).rglob("*.*")}
