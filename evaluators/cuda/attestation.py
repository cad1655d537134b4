"""Is a round what it seems? What was recorded inside a runner against the judge's own clock and counters.

Pure functions over what was seen; whatever does not fit raises :class:`CandidateFailure` with ``cheating``.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from evaluators.cuda.recording import Activity
from evaluators.evaluation import MOST_KERNELS, NAME_CAP, KernelUse, Status, WorkloadAttestation
from evaluators.failure import CandidateFailure

TIME_SLACK = 0.10
"""Kernels may take this much longer, in all, than the rounds in which they were timed."""
LAUNCH_SLACK_US = 2.0
"""And this much for each of them: a profiler lengthens what is short."""
MOST_OVERLAP = 0.5
MOST_HELP = 0.05
"""Of a round's kernel time, what may go into kernels that ran not as often for each call: one that prepares each buffer
when it is first seen, or all of them once. A launch that does the work of many calls takes the round's time."""
UNEVEN_FACTOR, UNEVEN_SHARE = 3.0, 0.5
"""Calls beyond this many times the median call may not take more than this share of a round."""
LEAST_OWN_SHARE = 0.5
OWN_GRIDS = 8
"""A device begins grids by itself when a graph starts, one for each of its branches as it seems: so many more are seen
at most, or as many as streams were recorded. Few calls can hide behind them: where a round has few, each is long, and
to make several in one launch gains nothing but the gap between two."""
MOST_UNEVEN, LEAST_SAMPLES = 0.4, 8
"""Of a round's grids, how many may begin earlier or later than evenly; fewer samples of time than this tell nothing."""
WATCHED_SLACK = 0.5
"""Watched rounds may take this much longer than timed ones: the device waited before them and lowered its clock. Beyond
it they show nothing of the timed ones; it was chosen and not measured, and so convicts nobody."""
STALL_FACTOR = 3.0
"""A watched round so many times as long as a timed one was held up: work does not become so slow by itself."""
_GLUE = re.compile(r"elementwise_kernel|CatArrayBatchedCopy|FillFunctor|copy_kernel")
"""Torch's own kernels that move or fill memory: workspaces are copied with them."""
_PART = re.compile(r"(\d+)")


@dataclass(frozen=True)
class Watched:
    """What the device's counters read over one round of the ordinary, unobserved process."""

    dispatches: int
    blocks: int
    read_bytes: float
    written_bytes: float
    series: tuple[float, ...] = ()
    """Grids begun, in equal stretches of time."""
    call_us: float | None = None
    """Of a call in this round, by the judge's clock."""


@dataclass(frozen=True)
class Seen:
    """Everything that was seen of one workload."""

    workload: str
    calls: int
    """K: of a round."""
    rounds: tuple[Sequence[Activity], ...]
    """What each recorded round ran, by start."""
    call_us: float | None
    """Of a call in the timed rounds; ``None`` where the program was not timed."""
    watched: tuple[tuple[Watched, ...], ...] = ()
    """For each of the same rounds what the counters read, several times."""


def attest_workload(seen: Seen, declared: frozenset[str] | None, *, libraries_allowed: bool) -> WorkloadAttestation:
    """Check one workload.

    Args:
        seen: what was seen.
        declared: names of the kernels that were built; ``None`` where nobody knows.
        libraries_allowed: whether the task lets programs call vendors' libraries.

    Raises:
        CandidateFailure: it is not what it seems.
    """
    kernels = [_kernels(activities) for activities in seen.rounds]
    regular = _regular(seen.calls, kernels)
    for ran in kernels:
        _check_counts(seen, ran, regular)
    main = [[kernel for kernel in ran if kernel.name in regular] for ran in kernels]
    if not libraries_allowed:
        for ran in kernels:
            _check_own(seen, ran, declared)
    _check_even(seen, main)
    overlap = min(_overlap(seen.calls, ran) for ran in main)
    if overlap > MOST_OVERLAP:
        raise _cheating(seen, f"its calls run at the same time ({overlap:.0%} of the time two do)")
    busy_us = min(_busy_us(activities) / seen.calls for activities in seen.rounds)
    _check_time(seen, busy_us, min(len(ran) for ran in kernels) / seen.calls)
    _check_watched(seen, regular)
    return _summary(seen, busy_us, overlap)


def readable(name: str) -> str:
    """A mangled C++ name without its arguments, where that is simple; else the name, both cut."""
    if not name.startswith("_Z"):
        return name[:NAME_CAP]
    rest, parts = name[2:].removeprefix("N"), []
    while (length := _PART.match(rest)) is not None:
        start = length.end()
        parts.append(rest[start : start + int(length[1])])
        rest = rest[start + int(length[1]) :]
    return ("::".join(parts) or name)[:NAME_CAP]


def _check_counts(seen: Seen, kernels: Sequence[Activity], main: frozenset[str]) -> None:
    """Kernels as often for each call, in every round, but for helpers that take next to no time."""
    if not kernels:
        raise _cheating(seen, "no kernel ran in a round")
    helpers = [kernel for kernel in kernels if kernel.name not in main]
    if not main or _total_ns(helpers) > MOST_HELP * _total_ns(kernels):
        counts = _launches(helpers)
        name = max(counts, key=lambda name: (counts[name] % seen.calls != 0, counts[name]))
        if counts[name] % seen.calls == 0:
            raise _cheating(seen, "two rounds of the same calls ran different kernels")
        words = f"{seen.calls} calls ran kernel {readable(name)} {counts[name]} times: calls are not made one by one"
        raise _cheating(seen, words)


def _check_own(seen: Seen, kernels: Sequence[Activity], declared: frozenset[str] | None) -> None:
    """Only kernels that were built, and what moves memory; its own take most of the time."""
    if declared is None:
        return
    own_ns = total_ns = 0
    for kernel in kernels:
        own = _is_declared(kernel.name, declared)
        if not own and not _GLUE.search(kernel.name):
            raise _cheating(
                seen, f"kernel {readable(kernel.name)} is none of its own: the task asks for a kernel, not a library's"
            )
        own_ns += kernel.duration_ns if own else 0
        total_ns += kernel.duration_ns
    if own_ns < LEAST_OWN_SHARE * total_ns:
        raise _cheating(seen, f"its own kernels take {own_ns / max(total_ns, 1):.0%} of the time")


def _is_declared(name: str, declared: frozenset[str]) -> bool:
    return name in declared or any(known.startswith(name) for known in declared if len(name) == NAME_CAP - 1)


def _check_even(seen: Seen, rounds: Sequence[Sequence[Activity]]) -> None:
    """No few calls that do the work of all."""
    shares = []
    for kernels in rounds:
        times = _call_times(seen.calls, kernels)
        typical = median(times)
        shares.append(sum(t - typical for t in times if t > UNEVEN_FACTOR * typical) / max(sum(times), 1))
    if min(shares) > UNEVEN_SHARE:
        raise _cheating(seen, f"few of its calls take {min(shares):.0%} of a round's time: they do the others' work")


def _check_time(seen: Seen, busy_us: float, launches: float) -> None:
    """Kernels cannot take longer than the rounds in which they ran."""
    if seen.call_us is None:
        return
    most_us = (1 + TIME_SLACK) * seen.call_us + LAUNCH_SLACK_US * launches
    if busy_us > most_us:
        words = f"its kernels take {busy_us:.4g} us a call, its timed rounds {seen.call_us:.4g} us"
        raise _cheating(seen, words)


def adds_up(grids: int, calls: int, spare: int = OWN_GRIDS) -> bool:
    """Whether so many grids can be as many for each call, besides ``spare``: by default a few of the device's own."""
    return grids >= calls and grids % calls <= spare


def _check_watched(seen: Seen, regular: frozenset[str]) -> None:
    """The ordinary process began some grids for every call, as many for each, spread over the round.

    Not necessarily those of the recorded one: a program that tunes itself chooses anew in every process.
    """
    spare = max(_spare(seen.calls, activities, regular) for activities in seen.rounds) + _own_grids(seen)
    for watched in seen.watched:
        # Whatever else used the device adds to what was counted, and nothing takes away from it.
        began = [one.dispatches for one in watched]
        if min(began) < seen.calls or not any(adds_up(count, seen.calls, spare) for count in began):
            words = f"the device began {min(began)} grids in a round of {seen.calls} calls: not as many for each"
            raise _cheating(seen, words)
        if min(_unevenness(one.series) for one in watched) > 1 / seen.calls + MOST_UNEVEN:
            raise _cheating(seen, "the device began most of a round's grids at one end of it")


def not_as_timed(seen: Seen) -> str:
    """Why the watched rounds show nothing of the timed ones, or ``""``: they took far longer."""
    for watched in seen.watched:
        took_us = min((one.call_us for one in watched if one.call_us is not None), default=0.0)
        if seen.call_us is not None and took_us > (1 + WATCHED_SLACK) * seen.call_us:
            return (
                f"{seen.workload}: its calls take {took_us:.4g} us where they are counted, {seen.call_us:.4g} us where"
                " they are timed"
            )
    return ""


def stalls(took_us: float, call_us: float | None) -> bool:
    """Whether a watched round was held up, so that more went by than counters hold."""
    return call_us is not None and took_us > STALL_FACTOR * call_us


def _unevenness(series: Sequence[float]) -> float:
    """How far the share of grids begun strays from the share of time, from the first grid to the last."""
    busy = [index for index, count in enumerate(series) if count > 0]
    part = series[busy[0] : busy[-1] + 1] if busy else ()
    if len(part) < LEAST_SAMPLES:
        return 0.0
    total, so_far, most = sum(part), 0.0, 0.0
    for index, count in enumerate(part):
        most = max(most, abs(so_far / total - index / len(part)))
        so_far += count
        most = max(most, abs(so_far / total - (index + 1) / len(part)))
    return most


def _summary(seen: Seen, busy_us: float, overlap: float) -> WorkloadAttestation:
    activities = seen.rounds[0]
    kinds = [activity.kind for activity in activities]
    watched = min(seen.watched[0], key=lambda one: one.dispatches) if seen.watched else None
    times = [one.call_us for order in seen.watched for one in order if one.call_us is not None]
    return WorkloadAttestation(
        workload=seen.workload,
        calls=seen.calls,
        launches=kinds.count("kernel") // seen.calls,
        copies=kinds.count("copy") // seen.calls,
        fills=kinds.count("fill") // seen.calls,
        kernel_us=busy_us,
        overlap=overlap,
        kernels=_uses(seen.calls, _kernels(activities)),
        watched_us=min(times, default=None),
        dispatches=watched and watched.dispatches,
        read_bytes=watched and watched.read_bytes / seen.calls,
        written_bytes=watched and watched.written_bytes / seen.calls,
    )


def _uses(calls: int, kernels: Iterable[Activity]) -> tuple[KernelUse, ...]:
    by_name: dict[str, list[Activity]] = defaultdict(list)
    for kernel in kernels:
        by_name[kernel.name].append(kernel)
    uses = [
        KernelUse(
            name=readable(name),
            launches=len(group) // calls,
            us=sum(kernel.duration_ns for kernel in group) / 1e3 / calls,
            blocks=group[0].blocks,
            threads=group[0].block[0] * group[0].block[1] * group[0].block[2],
            registers=group[0].registers,
            shared_bytes=group[0].shared_bytes,
            local_bytes=group[0].local_bytes,
        )
        for name, group in by_name.items()
    ]
    return tuple(sorted(uses, key=lambda use: -use.us)[:MOST_KERNELS])


def _kernels(activities: Iterable[Activity]) -> list[Activity]:
    return [activity for activity in activities if activity.kind == "kernel"]


def _launches(kernels: Iterable[Activity]) -> Counter[str]:
    return Counter(kernel.name for kernel in kernels)


def _regular(calls: int, rounds: Sequence[Sequence[Activity]]) -> frozenset[str]:
    """Kernels that ran as often for each call, and in every round; all others are helpers."""
    counts = [_launches(kernels) for kernels in rounds]
    first = counts[0]
    return frozenset(n for n in first if first[n] % calls == 0 and all(other[n] == first[n] for other in counts))


def _own_grids(seen: Seen) -> int:
    """How many grids a device may begin by itself in a round: it has at most so many branches as streams ran."""
    streams = max(len({activity.stream for activity in activities}) for activities in seen.rounds)
    return max(OWN_GRIDS, streams)


def _spare(calls: int, activities: Iterable[Activity], regular: frozenset[str]) -> int:
    """Launches, copies and fills that belong to no call: what counters may see beyond whole calls."""
    others = Counter(activity.kind for activity in activities if activity.kind != "kernel")
    helpers = sum(kernel.name not in regular for kernel in _kernels(activities))
    return helpers + sum(count % calls for count in others.values())


def _total_ns(kernels: Iterable[Activity]) -> int:
    return sum(kernel.duration_ns for kernel in kernels)


def _call_times(calls: int, kernels: Sequence[Activity]) -> list[int]:
    """Nanoseconds of each call's kernels: the i-th part of each kernel's launches is the i-th call's."""
    times = [0] * calls
    by_name: dict[str, list[int]] = defaultdict(list)
    for kernel in kernels:
        by_name[kernel.name].append(kernel.duration_ns)
    for durations in by_name.values():
        each = len(durations) // calls
        for index, duration in enumerate(durations):
            times[index // each] += duration
    return times


def _overlap(calls: int, kernels: Sequence[Activity]) -> float:
    """Of the time in which anything ran, how much belonged to two calls: calls follow each other by their starts."""
    each = len(kernels) // calls
    spans = [
        (min(k.start_ns for k in part), max(k.end_ns for k in part))
        for part in (kernels[i : i + each] for i in range(0, len(kernels), each))
    ]
    shared = sum(max(min(one[1], two[1]) - two[0], 0) for one, two in pairwise(spans))
    return shared / max(1e3 * _busy_us(kernels), 1)


def _busy_us(activities: Iterable[Activity]) -> float:
    """Microseconds in which at least one activity ran."""
    busy = until = 0
    for activity in activities:
        begin = max(activity.start_ns, until)
        busy += max(activity.end_ns - begin, 0)
        until = max(until, activity.end_ns)
    return busy / 1e3


def _cheating(seen: Seen, words: str) -> CandidateFailure:
    return CandidateFailure(Status.CHEATING, f"{seen.workload}: {words}")
