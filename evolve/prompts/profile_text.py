"""A profile in words: the same for people, for prompts, and for agents."""

from __future__ import annotations

from evaluators.profile import Counter, HotSpot, Profile

SHOWN_INSTRUCTIONS = 6
"""Of a hot spot, as text; the profile itself holds more."""
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def profile_text(profile: Profile) -> str:
    """Every fact of it, the most telling first. Parts of it are the candidate's own words: data."""
    lines = [_head(profile)]
    for ceiling in profile.ceilings:
        achieved, best = (_scaled(value, ceiling.unit) for value in (ceiling.achieved, ceiling.ceiling))
        lines.append(f"{ceiling.name}: {achieved} of {best} as measured ({ceiling.share:.2f})")
    if profile.threads:
        lines.append(f"threads: working {', '.join(f'{share:.0%}' for share in profile.threads)} of the time")
    lines += [f"{name}: {_counter(counter)}" for name, counter in sorted(profile.counters.items())]
    if profile.hot_spots:
        lines.append(f"where the time goes ({profile.samples} samples):")
        lines += [line for spot in profile.hot_spots for line in _spot(spot)]
    if profile.missing:
        lines.append(f"not measured: {profile.missing}")
    return "\n".join(lines)


def _head(profile: Profile) -> str:
    limit = f"limited by {profile.bottleneck.value}: " if profile.bottleneck else ""
    head = f"{limit}{profile.reason}" or "no limit found"
    where = f" on {profile.workload}" if profile.workload else ""
    took = f", {profile.call_us:.4g} us a call" if profile.call_us is not None else ""
    return f"{head}\nmeasured by {profile.tool}{where}{took}"


def _counter(counter: Counter) -> str:
    unit = "" if counter.unit == "1" else f" {counter.unit.replace('1/', 'per ', 1)}"
    return f"{counter.value:.4g}{unit}" + (" (compiled)" if counter.origin == "compiled" else "")


def _spot(spot: HotSpot) -> list[str]:
    place = f"line {spot.line}, {spot.function}" if spot.line is not None else spot.function
    text = f": {spot.text}" if spot.text else ""
    lines = [f"  {100 * spot.share:4.1f} %  {place}{text}"]
    some = spot.instructions[:SHOWN_INSTRUCTIONS]
    return lines + [f"          {100 * instruction.share:4.1f} %  {instruction.text}" for instruction in some]


def _scaled(value: float, unit: str) -> str:
    for factor, prefix in _PREFIXES:
        if value >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"
