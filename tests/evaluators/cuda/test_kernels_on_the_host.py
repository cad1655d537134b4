"""What the judge's own kernels write and see, for any shape and type: run on the host."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from evaluators.cuda import device
from evaluators.cuda.content import DeviceContent
from evaluators.cuda.device import Gpu, bytes_at
from evaluators.cuda.guard import DeviceGuard
from evaluators.cuda.health import DeviceSick, Health
from evaluators.dtypes import DTYPES, storage_dtype
from evaluators.layout import plan
from evaluators.task import Arg, Task, Workload
from tests.evaluators.cuda.host_driver import HostDriver

SLOTS = 3
SHAPES = [(5, 8), (4, 7), (1, 1), (64, 16), (33, 3), (130,), (128,), (), (3, 2, 4)]


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setattr(device, "compile_cubin", lambda *arguments: b"")
    yield Gpu(HostDriver(tmp_path_factory.mktemp("kernels")))
    patch.undo()


class Memory:
    """Stands for a buffer of the device's."""

    def __init__(self, gpu: Gpu, size: int) -> None:
        self.address, self.size, self.gpu = gpu.driver.allocate(size), size, gpu

    def bytes(self) -> np.ndarray:
        out = np.empty(self.size, np.uint8)
        self.gpu.download(out, self.address)
        return out


class Numbers:
    """In place of a reference: one array, the same for each member of a pool."""

    def __init__(self, arg: Arg, values: np.ndarray) -> None:
        self.task = Task(name="t", languages=("cuda",), entry="f", args=(arg,), workloads=(WORKLOAD,), **NOWHERE)
        self.families, self.values = ("only",), values

    def generate(self, workload, family, rng):
        return {"x": self.values}


NOWHERE = {"seed_program": "s", "folder": Path("."), "hash": "", "inputs_hash": ""}
WORKLOAD = Workload(name="w", axes={})


def filled(gpu, shape, dtype, transform, values):
    layout = plan("w", (), [("x", "in", dtype, shape)], SLOTS)
    memory = Memory(gpu, layout.input_bytes)
    arg = Arg(name="x", role="in", dtype=dtype, shape=shape, transform=transform)
    content = DeviceContent(gpu, Numbers(arg, values), WORKLOAD, np.random.default_rng(1))
    content.fill(layout, memory, list(range(SLOTS)), np.random.default_rng(2))
    content.close()
    place = layout.places[0]
    raw = memory.bytes()
    return [
        raw[s * layout.input_stride + place.offset :][: place.nbytes].view(storage_dtype(dtype)).reshape(shape)
        for s in range(SLOTS)
    ]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["fp64", "fp32", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2"])
def test_every_float_changes_within_its_power_of_two_and_special_ones_stay(gpu, shape, dtype):
    rng, info = np.random.default_rng(0), DTYPES[dtype]
    bits = np.dtype(f"u{info.storage.itemsize}")
    words = rng.integers(0, np.iinfo(bits).max, shape, dtype=bits, endpoint=True)
    fraction = (1 << (info.precision - 1)) - 1
    exponent = ((1 << (8 * bits.itemsize - 1)) - 1) ^ fraction
    with np.errstate(invalid="ignore"):
        slots = filled(gpu, shape, dtype, "rotate", np.array(words).view(info.storage))
    ours = np.sort(words.reshape(-1) & ~bits.type(fraction))
    for slot in slots:
        theirs = np.sort(np.array(slot).view(bits).reshape(-1) & ~bits.type(fraction))
        # An element of every row (one in 64 of a flat array) is another's: all others keep sign and exponent.
        replaced = shape[0] if len(shape) > 1 else max(words.size // 64, 1)
        assert sum(np.isin(theirs, ours)) == theirs.size
        assert abs(len(np.intersect1d(ours, theirs)) - len(np.unique(ours))) <= replaced
        special = np.isin(np.array(slot).view(bits) & exponent, (0, exponent))
        assert np.isin(np.array(slot).view(bits)[special], words).all()
    if words.size > 100 and fraction > 100:
        known = np.isin(np.array(slots[0]).view(bits), words)
        assert known.mean() < 0.5  # no value comes twice, but for those that were exchanged
    assert words.size < 8 or not np.array_equal(slots[0], slots[1])


@pytest.mark.parametrize("shape", SHAPES)
def test_integers_only_move(gpu, shape):
    values = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    for slot in filled(gpu, shape, "i32", "rotate", values):
        assert np.isin(slot, values).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_of_bits_have_keys_of_their_own_and_a_byte_that_tells_nothing(gpu, shape):
    values = np.zeros(shape, np.uint8)
    slots = filled(gpu, shape, "u8", "xor", values)
    assert values.size < 8 or len({slot.tobytes() for slot in slots}) == SLOTS
    if len(shape) > 1 and values[0].size >= 16 and values[0].size % 8 == 0:
        for slot in slots:
            words = slot.reshape(len(slot), -1).view(np.uint64)
            assert all(len(np.unique(row)) == 2 for row in words)  # the key, and the word with the changed byte
            assert len(np.unique(words[:, 0])) > len(words) // 2


def test_arguments_generated_together_stay_together(gpu):
    args = tuple(Arg(name=n, role="in", dtype="i32", shape=(4,), transform="fresh") for n in ("a", "b"))

    class Pairs(Numbers):
        def __init__(self):
            self.task = Task(name="t", languages=("cuda",), entry="f", args=args, workloads=(WORKLOAD,), **NOWHERE)
            self.families, self.made = ("only",), 0

        def generate(self, workload, family, rng):
            self.made += 1
            return {n: np.full(4, self.made, np.int32) for n in ("a", "b")}

    layout = plan("w", (), [(n, "in", "i32", (4,)) for n in ("a", "b")], SLOTS)
    memory = Memory(gpu, layout.input_bytes)
    DeviceContent(gpu, Pairs(), WORKLOAD, np.random.default_rng(1)).fill(
        layout, memory, [0, 1, 2], np.random.default_rng(2)
    )
    for slot in range(SLOTS):
        row = memory.bytes()[slot * layout.input_stride :]
        a, b = (row[p.offset :][:16].view(np.int32) for p in layout.places)
        assert a[0] == b[0] > 0


@pytest.mark.parametrize(("dtype", "shape"), [("fp32", (5, 3)), ("u8", (13,)), ("bf16", (1, 1)), ("fp64", (4, 4))])
def test_poison_and_guards_see_every_byte(gpu, dtype, shape):
    layout = plan("w", (), [("a", "out", dtype, shape), ("b", "out", "fp32", (3,))], SLOTS)
    memory = Memory(gpu, layout.output_bytes)
    guard = DeviceGuard(gpu, layout, memory, np.random.default_rng(3))
    guard.arm()
    everything = np.arange(SLOTS)
    assert guard.unwritten_among([0, 1, 2]) == [0, 1, 2]
    guard.poison([])
    assert guard.broken() is None
    assert not guard.touched(everything)
    assert guard.unwritten_among([0, 1, 2]) == [0, 1, 2]
    outputs = np.zeros(layout.output_bytes, bool)
    for slot in range(SLOTS):
        for place in layout.places:
            start = slot * layout.output_stride + place.offset
            outputs[start : start + place.nbytes] = True
    for at in range(layout.output_bytes):
        before = bytes_at(gpu, memory.address, np.array([at]))
        gpu.upload(memory.address + at, before ^ 1)
        assert (guard.broken() is None) == outputs[at]
        assert guard.touched(everything) == outputs[at]
        gpu.upload(memory.address + at, before)
    guard.poison([0, 2])
    assert guard.broken() is None
    assert not guard.touched(np.array([1]))
    with pytest.raises(RuntimeError):
        guard.touched(np.array([0, 1]))


def test_of_a_large_output_what_is_left_out_is_noticed(gpu):
    layout = plan("w", (), [("a", "out", "fp32", (8, 1001))], SLOTS)
    memory = Memory(gpu, layout.output_bytes)
    guard = DeviceGuard(gpu, layout, memory, np.random.default_rng(3))
    place, rng = layout.places[0], np.random.default_rng(4)

    def write(slot, share):
        values = rng.standard_normal(int(8008 * share)).astype(np.float32)
        gpu.upload(memory.address + slot * layout.output_stride + place.offset, values)

    guard.arm()
    for _ in range(3):
        guard.poison([0, 1])
        assert guard.unwritten_among([0, 1]) == [0, 1]
        assert guard.unwritten(1) == "a"
        write(0, 1.0)
        assert guard.unwritten_among([0, 1]) == [1]
        write(1, 0.8)  # all but one of 64 places in a fifth of it: once in two million rounds
        assert guard.unwritten_among([0, 1]) == [1]
        assert guard.unwritten(1) is None
        assert not guard.touched(np.array([2]))
        write(2, 0.5)
        assert guard.touched(np.array([2]))


def test_a_well_device_is_found_well_and_one_that_forgets_is_not(gpu, monkeypatch):
    health = Health(gpu, None, "GPU-0")
    health.after_failure()
    monkeypatch.setattr(gpu, "checksum", lambda *arguments: 1)
    monkeypatch.setattr("evaluators.cuda.health.quarantine", lambda uuid, why: why)
    with pytest.raises(DeviceSick, match="does not hold"):
        health.after_failure()


def test_a_row_is_gathered_whole(gpu):
    values = np.arange(60, dtype=np.float32).reshape(10, 6)
    memory = Memory(gpu, values.nbytes)
    gpu.upload(memory.address, values)
    there = device.DeviceArray(gpu, memory.address, values.dtype, values.shape)
    assert np.array_equal(there[np.array([7, 2])], values[[7, 2]])
    assert np.array_equal(np.asarray(there), values)


def test_more_rows_than_a_grid_has_are_gathered_too(gpu):
    values = np.arange(70_000, dtype=np.int32).reshape(-1, 1)
    memory = Memory(gpu, values.nbytes)
    gpu.upload(memory.address, values)
    there = device.DeviceArray(gpu, memory.address, values.dtype, values.shape)
    rows = np.arange(70_000)[::-1].copy()
    assert np.array_equal(there[rows], values[rows])


def test_changes_whose_second_differences_vanish_are_seen_in_a_checksum(gpu):
    """With keys in arithmetic progression almost none of these was: 5778 steps of it come back to nearly the same."""
    packs = 11557
    words = np.zeros((packs, 4), np.uint32)
    words[:, 1] = 7
    memory = Memory(gpu, words.nbytes)
    unseen = 0
    for trial in range(50):
        key = int(np.random.default_rng(trial).integers(1 << 62))
        gpu.upload(memory.address, words)
        before = gpu.checksum(memory.address, words.nbytes, key)
        changed = words.astype(np.int64)
        changed[[0, 5778, 11556], 0] += np.array([1000, -2000, 1000])
        gpu.upload(memory.address, changed.astype(np.uint32))
        unseen += gpu.checksum(memory.address, words.nbytes, key) == before
    assert unseen == 0


def test_a_checksum_depends_on_every_byte_and_on_its_place(gpu):
    values = np.arange(37, dtype=np.uint8)
    memory = Memory(gpu, values.nbytes)
    seen = set()
    for changed in [*(np.where(np.arange(37) == i, 255, values) for i in range(37)), values, np.roll(values, 8)]:
        gpu.upload(memory.address, changed.astype(np.uint8))
        seen.add(gpu.checksum(memory.address, values.nbytes, 5))
    assert len(seen) == 39


def test_what_the_host_takes_to_hand_over_a_checksum_is_not_its_time(gpu, monkeypatch):
    """On a busy machine that takes milliseconds: a program was convicted for it of leaving work behind."""
    values = np.arange(64, dtype=np.uint8)
    memory = Memory(gpu, values.nbytes)
    gpu.upload(memory.address, values)
    right = gpu.checksum(memory.address, values.nbytes, 5)
    for elapsed_ms, took_ms in ((3.4, 0.4), (8.0, 5.0), (2.0, 0.0)):
        clock = iter([10.0, 10.003])
        monkeypatch.setattr(device, "time", SimpleNamespace(perf_counter=lambda clock=clock: next(clock)))
        monkeypatch.setattr(gpu.driver, "elapsed_ms", lambda *_, elapsed_ms=elapsed_ms: elapsed_ms)
        found, took = gpu.timed_checksum(memory.address, values.nbytes, 5)
        assert (found, took) == (right, pytest.approx(took_ms))


def waits(gpu, monkeypatch, turnarounds_us):
    """Have our smallest kernel take so long, one time after another; then as long as the last time."""
    left = list(turnarounds_us)
    monkeypatch.setattr(
        gpu.driver, "turnaround_ns", lambda *_: 1000 * (left.pop(0) if len(left) > 1 else left[0]), raising=False
    )


@pytest.mark.parametrize(
    ("turnarounds_us", "settled"),
    [
        pytest.param([15], True, id="idle"),
        pytest.param([900, 700, 16], True, id="the host was late twice"),
        pytest.param([1800, 600, 250], False, id="somebody else has every other slice"),
    ],
)
def test_a_device_has_settled_once_nobody_else_has_slices_of_it(gpu, monkeypatch, turnarounds_us, settled):
    waits(gpu, monkeypatch, [15])
    assert gpu.settles()
    waits(gpu, monkeypatch, turnarounds_us)
    assert gpu.settles(within_s=0.01) is settled
