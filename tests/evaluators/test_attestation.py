"""What is concluded from recorded kernels: honest programs pass, rounds that are not made call by call do not."""

import ctypes
import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluators.cuda.attestation import OWN_GRIDS, Seen, Watched, adds_up, attest_workload, not_as_timed, readable
from evaluators.cuda.cupti import CuptiUnavailable
from evaluators.cuda.plan import MAX_CALLS
from evaluators.cuda.recording import CAPACITY, Activity, DamagedRecord, FullRecord, Recording, build_recorder
from evaluators.evaluation import Status
from evaluators.failure import CandidateFailure

CALLS, SOFT = 64, "_Z4softPKfPfll"
US = 1000


def activity(start_us: float, took_us: float, name: str = SOFT, kind: str = "kernel", blocks: int = 128) -> Activity:
    start = int(start_us * US)
    sizes = {"grid": (blocks, 1, 1), "block": (256, 1, 1), "registers": 32, "shared_bytes": 1024, "local_bytes": 0}
    return Activity(
        kind=kind, name=name, stream=7, graph=1, start_ns=start, end_ns=start + int(took_us * US), bytes=0, **sizes
    )


def one_by_one(calls: int = CALLS, took_us: float = 20, gap_us: float = 1, **more) -> list[Activity]:
    return [activity(i * (took_us + gap_us), took_us, **more) for i in range(calls)]


def attest(*rounds, calls=CALLS, call_us=21.0, declared=frozenset({SOFT}), watched=(), libraries_allowed=False):
    seen = Seen("w", calls, rounds, call_us, watched)
    return attest_workload(seen, declared, libraries_allowed=libraries_allowed)


def convicted(*rounds, **more) -> str:
    with pytest.raises(CandidateFailure) as caught:
        attest(*rounds, **more)
    assert caught.value.status is Status.CHEATING
    return caught.value.message


@settings(deadline=None)
@given(st.integers(1, 300), st.integers(1, 3), st.floats(0.5, 500), st.floats(0, 3))
def test_calls_made_one_by_one_pass_whatever_their_number_and_length(calls, launches, took_us, gap_us):
    names = [SOFT, "a", "b"][:launches]
    whole = launches * (took_us + gap_us)
    round_ = [
        activity(i * whole + j * (took_us + gap_us), took_us, name)
        for i in range(calls)
        for j, name in enumerate(names)
    ]
    found = attest(round_, round_, calls=calls, call_us=whole, declared=frozenset(names))
    assert found.launches == launches
    assert found.kernel_us == pytest.approx(launches * took_us, rel=0.01)
    assert found.overlap < 0.01  # whole nanoseconds
    assert sum(use.launches for use in found.kernels) == launches


def test_a_rounds_calls_in_one_launch_are_convicted():
    assert "1 times" in convicted([activity(0, 900, blocks=128 * CALLS)] * 1, call_us=14)


def test_two_calls_in_a_launch_are_convicted():
    assert "32 times" in convicted(one_by_one(CALLS // 2))


def test_the_first_of_many_launches_that_does_all_the_work_is_convicted():
    fused = [activity(0, 900), *(activity(900 + i, 0.8) for i in range(1, CALLS))]
    assert "few of its calls" in convicted(fused, fused, call_us=15)


def test_one_call_that_was_interrupted_is_no_conviction():
    calm, disturbed = one_by_one(), [*one_by_one(CALLS - 1), activity(CALLS * 21, 1800)]
    attest(calm, disturbed, call_us=50)


def helped(helpers: int, took_us: float, where: int = 3) -> list[Activity]:
    """Calls of 20 us, and a helper that runs a few times somewhere among them."""
    prepared = [activity((where + i) * 21 - 0.9, took_us, "prepare", blocks=1) for i in range(helpers)]
    return sorted([*one_by_one(), *prepared], key=lambda a: a.start_ns)


OWN = frozenset({SOFT, "prepare"})


@pytest.mark.parametrize("helpers", [1, 7, CALLS - 1])
def test_a_helper_that_runs_now_and_then_is_no_conviction(helpers):
    found = attest(helped(helpers, 0.8), helped(helpers, 0.8), declared=OWN)
    assert found.launches == 1
    assert found.overlap < 0.01


def test_buffers_that_are_prepared_when_they_are_first_seen_are_no_conviction():
    attest(helped(CALLS - 1, 0.8), helped(5, 0.8), one_by_one(), declared=OWN)


def test_a_helper_that_takes_more_than_next_to_no_time_is_convicted():
    fused = helped(1, 100)
    assert "prepare 1 times" in convicted(fused, fused, declared=OWN, call_us=30)


def test_a_round_of_other_kernels_than_the_one_before_is_convicted():
    other = one_by_one(name="prepare")
    assert "different kernels" in convicted(one_by_one(), other, declared=OWN)


def test_what_helpers_begin_may_be_counted_and_no_more():
    round_ = helped(2, 0.8)
    for dispatches in (CALLS, CALLS + 2, 2 * CALLS + 1):
        watched = Watched(dispatches, 0, 0, 0)
        attest(round_, declared=OWN, watched=((watched,),))
    more = Watched(CALLS + 2 + OWN_GRIDS + 1, 0, 0, 0)
    assert "not as many for each" in convicted(round_, declared=OWN, watched=((more,),))
    fewer = Watched(CALLS - 1, 0, 0, 0)
    assert "began 63 grids" in convicted(round_, declared=OWN, watched=((fewer,),))


def test_a_program_that_is_slower_while_it_is_counted_is_not_convicted_but_was_not_watched():
    fast, slow, held_up = (Watched(CALLS, 0, 0, 0, call_us=us) for us in (21.5, 60.0, 900.0))
    assert attest(one_by_one(), watched=((fast, held_up), (slow, fast))).watched_us == 21.5
    watched = ((fast, fast), (slow, held_up))
    assert attest(one_by_one(), watched=watched).watched_us == 21.5
    assert "where they are timed" in not_as_timed(Seen("w", CALLS, (one_by_one(),), 21.0, watched))
    assert not_as_timed(Seen("w", CALLS, (one_by_one(),), 21.0, ((fast, held_up), (slow, fast)))) == ""


def test_calls_side_by_side_are_convicted():
    side_by_side = [activity(i * 1.2, 20) for i in range(CALLS)]
    assert "at the same time" in convicted(side_by_side, call_us=1.5)


def test_kernels_of_one_call_may_run_side_by_side():
    forked = [activity(i * 22 + j, 20, name) for i in range(CALLS) for j, name in enumerate((SOFT, "other"))]
    found = attest(forked, call_us=22, declared=frozenset({SOFT, "other"}))
    assert found.overlap == 0
    assert found.kernel_us == pytest.approx(21)


def test_kernels_that_take_longer_than_the_timed_rounds_are_convicted():
    assert "timed rounds" in convicted(one_by_one(took_us=20), call_us=10)


def test_a_profiler_may_lengthen_short_kernels():
    attest(one_by_one(took_us=2.5), call_us=1.6)


def test_a_round_without_a_kernel_is_convicted():
    assert "no kernel" in convicted([activity(i, 1, kind="fill") for i in range(CALLS)])


@pytest.mark.parametrize(
    "name",
    [
        "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_TNT",
        "_ZN2at6native49_GLOBAL__N__cunn_SoftMaxForwardE",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas",
    ],
)
def test_a_librarys_kernel_is_convicted_where_the_task_forbids_it(name):
    called = [*one_by_one(), activity(1e6, 1, name)] * 1
    called = [a for i in range(CALLS) for a in (activity(i * 40, 20), activity(i * 40 + 21, 15, name))]
    assert "none of its own" in convicted(called, call_us=40)
    attest(called, call_us=40, libraries_allowed=True)
    attest(called, call_us=40, declared=None)


def test_moving_a_workspace_with_torchs_copy_passes_and_leaving_it_all_to_torch_does_not():
    copy = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_23direct_copy_kernel_cudaE"
    moved = [a for i in range(CALLS) for a in (activity(i * 40, 20), activity(i * 40 + 21, 8, copy))]
    attest(moved, call_us=30)
    mostly = [a for i in range(CALLS) for a in (activity(i * 40, 1), activity(i * 40 + 2, 30, copy))]
    assert "its own kernels take" in convicted(mostly, call_us=32)


def test_counters_that_agree_with_the_record_bear_it_out():
    watched = Watched(dispatches=CALLS, blocks=128 * CALLS, read_bytes=64e6, written_bytes=32e6)
    found = attest(one_by_one(), watched=((watched, watched),))
    assert (found.dispatches, found.read_bytes) == (CALLS, 1e6)


def test_a_program_that_behaves_while_it_is_recorded_is_convicted_by_the_counters():
    fused = Watched(dispatches=1, blocks=128 * CALLS, read_bytes=0, written_bytes=0)
    assert "began 1 grids" in convicted(one_by_one(), watched=((fused, fused),))


def test_a_program_that_tunes_itself_anew_in_every_process_is_no_cheat():
    other = Watched(2 * CALLS, 16 * CALLS, 0, 0)
    attest(one_by_one(), watched=((other, other),))


def test_a_fused_launch_among_empty_ones_is_convicted_by_when_they_begin():
    spread = Watched(CALLS, 0, 0, 0, (0.0, 0.0, *[4.0] * 16, 0.0))
    attest(one_by_one(), watched=((spread,),))
    at_the_end = Watched(CALLS, 0, 0, 0, (0.0, 1.0, *[0.0] * 40, 40.0, CALLS - 41.0))
    assert "at one end" in convicted(one_by_one(), watched=((at_the_end, at_the_end),))


def test_few_long_calls_begin_as_evenly_as_can_be():
    long = Watched(4, 0, 0, 0, tuple(float(i % 40 == 0) for i in range(160)))
    attest(one_by_one(4, took_us=2000), calls=4, call_us=2000, watched=((long,),))


def test_one_order_of_two_that_is_fused_is_enough():
    fair, fused = (Watched(n, 128 * CALLS, 0, 0) for n in (CALLS, 2))
    assert "began 2 grids" in convicted(one_by_one(), one_by_one(), watched=((fair, fair), (fused, fused)))


def test_grids_that_are_no_calls_are_convicted_by_the_counters():
    more = Watched(dispatches=CALLS + OWN_GRIDS + 1, blocks=256 * CALLS, read_bytes=0, written_bytes=0)
    assert "not as many for each" in convicted(one_by_one(), watched=((more, more),))


def test_fills_and_copies_may_or_may_not_be_grids():
    filled = [a for i in range(CALLS) for a in (activity(i * 30, 2, "", "fill", 1), activity(i * 30 + 3, 20))]
    for dispatches in (CALLS, 2 * CALLS):
        watched = Watched(dispatches, 128 * CALLS, 0, 0)
        assert attest(filled, call_us=30, watched=((watched,),)).fills == 1


def test_another_programs_grids_in_one_watched_round_do_not_convict():
    quiet, busy = (Watched(n, 128 * n, 0, 0) for n in (CALLS, CALLS + 9))
    attest(one_by_one(), watched=((busy, quiet),))


def test_names_are_made_readable():
    assert readable(SOFT) == "soft"
    assert readable("_ZN2at6native13reduce_kernelILi512EEEv") == "at::native::reduce_kernel"
    assert readable("softmax_kernel") == "softmax_kernel"


def written(recording: Recording, *records: bytes, header: bytes | None = None) -> None:
    view = recording._view
    view[:64] = header or struct.pack("<QIIIIQII24x", 0x64726F636572656B, 1, CAPACITY, len(records), 0, 0, 1, 0)
    for index, record in enumerate(records):
        view[64 + 232 * index : 64 + 232 * (index + 1)] = record


def record(kind=1, start=10, end=20, grid=(4, 1, 1), block=(64, 1, 1), name=b"soft") -> bytes:
    return struct.pack("<IIIIQQQ3I3III160s", kind, 7, 1, 32, start, end, 0, *grid, *block, 0, 0, name)


def test_what_the_recorder_writes_is_read_in_the_order_of_time():
    recording = Recording()
    written(
        recording, record(start=30, end=40, name=b"later"), record(), record(kind=3, grid=(0, 0, 0), block=(0, 0, 0))
    )
    found = recording.read()
    assert [a.name for a in found] == ["soft", "soft", "later"]
    assert found[0].blocks == 4
    recording.clear()
    assert recording.read() == []


@pytest.mark.parametrize(
    ("records", "header"),
    [
        ([record(kind=9)], None),
        ([record(start=20, end=10)], None),
        ([record(block=(2000, 1, 1))], None),
        ([record(grid=(0, 1, 1))], None),
        ([], bytes(64)),
        ([], struct.pack("<QIIIIQII24x", 0x64726F636572656B, 1, CAPACITY, 0, 0, 3, 1, 0)),
    ],
)
def test_a_damaged_record_is_noticed(records, header):
    recording = Recording()
    written(recording, *records, header=header)
    with pytest.raises(DamagedRecord):
        recording.read()


@pytest.mark.parametrize(("count", "left_out"), [(0, 3), (CAPACITY + 1, 0)])
def test_a_program_that_does_more_than_is_recorded_is_told_apart_from_one_that_damages_its_record(count, left_out):
    recording = Recording()
    written(recording, header=struct.pack("<QIIIIQII24x", 0x64726F636572656B, 1, CAPACITY, count, left_out, 0, 1, 0))
    with pytest.raises(FullRecord, match="too many"):
        recording.read()


def test_a_hundred_launches_a_call_fit_into_a_record_of_the_longest_round():
    assert 100 * MAX_CALLS <= CAPACITY


def test_a_recording_that_nobody_began_is_damaged():
    with pytest.raises(DamagedRecord):
        Recording().read()


def test_the_recorder_compiles_and_finds_its_library_wherever_it_lies(tmp_path):
    try:
        library = build_recorder(tmp_path)
    except CuptiUnavailable as missing:
        pytest.skip(str(missing))
    recorder = ctypes.CDLL(str(library))
    assert recorder.recorder_open(-1) == -1


@pytest.mark.parametrize(("launches", "own"), [(1, 0), (1, 1), (2, 2), (3, 8)])
def test_grids_that_a_device_begins_by_itself_are_no_launches_of_the_round(launches, own):
    watched = Watched(launches * CALLS + own, 1, 0.0, 0.0)
    attest(one_by_one(), watched=((watched, watched),))


def test_a_device_may_begin_a_grid_by_itself_for_each_of_many_branches():
    branches = OWN_GRIDS + 4
    round_ = [replace(one, stream=index % branches) for index, one in enumerate(one_by_one())]
    began, more = (Watched(CALLS + branches + extra, 1, 0.0, 0.0) for extra in (0, 1))
    attest(round_, watched=((began, began),))
    assert "not as many for each" in convicted(round_, watched=((more, more),))


@pytest.mark.parametrize("began", [1 + 8, CALLS // 2 + 8, CALLS - 1, CALLS + 9, 2 * CALLS - 1])
def test_neither_fewer_grids_than_calls_nor_some_calls_with_more_of_them_are_taken_for_a_whole_round(began):
    watched = Watched(began, 1, 0.0, 0.0)
    assert "not as many for each" in convicted(one_by_one(), watched=((watched, watched),))


@pytest.mark.parametrize("grids", [69, 70, 140])
def test_counters_are_believed_where_they_add_up_on_a_baseline(grids):
    assert adds_up(grids, 69)


@pytest.mark.parametrize("grids", [0, 35, 68, 90])
def test_counters_that_do_not_add_up_on_a_baseline_are_not_believed(grids):
    assert not adds_up(grids, 69)
