"""What a run came to: the honest account that ends ``evolve run`` and opens ``evolve show``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime

from evaluators.evaluation import Evaluation, Interval, Timed
from evolve.database.mail import Lease
from evolve.display import sandbox, wording
from evolve.display.costs import Talk, costs_data, costs_notes, costs_table
from evolve.display.report import Report, Table, facts
from evolve.observer import Progress
from evolve.types import Program, StopReason


@dataclass(frozen=True)
class Account:
    """Everything a summary is made of."""

    directory: str
    task: str
    """As the user would name it."""
    progress: Progress
    seed: Program | None
    reason: str = ""
    """Why the run ended, one line."""
    best_known: float | None = None
    best_known_source: str = ""
    talk: Talk = field(default_factory=Talk)
    """With language models."""
    leases: Sequence[Lease] = ()
    """Those that are open."""
    sandboxes: Mapping[str, int] = field(default_factory=dict)
    """By level of the sandbox, how many programs were judged at it."""
    command: str = "evolve"
    """How this program is called here."""


def summarise(account: Account) -> Report:
    """The summary of a run, as data and as text."""
    best = account.progress.best
    pairs = [("ended", wording.reason(account.reason))]
    if best is None:
        contender = account.progress.contender
        unconfirmed = f"; program {contender.number} looked best and is not confirmed" if contender else ""
        pairs.append(("best program", f"none confirmed{unconfirmed}"))
    else:
        pairs += [("best program", _describe(best)), *_merit(best, account), ("held-out", held_out(best))]
    pairs += [("candidates", candidates(account.progress)), ("spent", spent(account.progress))]
    pairs += [
        ("leases", leases(account)),
        ("sandbox", sandbox.warning(account.sandboxes)),
        ("stored in", account.directory),
        ("next", _next_steps(account)),
    ]
    parts: list[str | Table] = [facts(pairs)]
    if account.talk.spending:
        parts.append(costs_table(account.talk))
    if notes := costs_notes(account.talk):
        parts.append(notes)
    return Report(_data(account), parts)


def versus_strongest(interval: Interval, names: str) -> str:
    """A speed-up in words that do not flatter: what no interval shows is not claimed, a gain not at a glance."""
    gain = "too few rounds to call it faster" if interval.glance else "faster than it"
    against = f"of the strongest baseline{f' ({names})' if names else ''}"
    verdict = "slower than it" if interval.high < 1 else gain if interval.low > 1 else "no difference shown"
    bounds = f"[{interval.low:.3g}, {interval.high:.3g}], {interval.level * 100:g} % interval"
    return f"{interval.estimate:.3g}x {against}, {bounds}: {verdict}"


def strongest_baselines(evaluation: Evaluation) -> str:
    """Names of the baselines the score is measured against, the same one once."""
    names = [w.strongest for w in evaluation.workloads if w.split == "search" and w.strongest]
    return ", ".join(dict.fromkeys(names))


def relative(ours: Interval, theirs: Interval) -> Interval:
    """The quotient of two speed-ups over the same baselines, as wide as their intervals allow."""
    return Interval(
        low=ours.low / theirs.high,
        estimate=ours.estimate / theirs.estimate,
        high=ours.high / theirs.low,
        level=min(ours.level, theirs.level),
    )


def held_out(program: Program) -> str:
    """How many held-out workloads the confirmation passed."""
    if program.confirmation is None:
        return "not confirmed yet"
    count = sum(w.split == "heldout" for w in program.confirmation.workloads)
    if not program.confirmation.confirmed:
        return f"confirmation failed: {program.confirmation.status}"
    return (
        f"{count} of {count} workloads passed in a confirmation run"
        if count
        else "confirmed; the task has no such workloads"
    )


def candidates(progress: Progress) -> str:
    """Tried, passed, failed by status, duplicates."""
    passed = progress.verdicts.get("passed", 0)
    text = f"{progress.programs} tried: {passed} passed, {wording.failures(progress.verdicts)} failed"
    text += f", {progress.duplicates} duplicates" if progress.duplicates else ""
    waiting = progress.programs - progress.finished
    return text + (f", {waiting} not judged or not placed yet" if waiting > 0 else "")


def spent(progress: Progress) -> str:
    """Time, device time, and money where there was any."""
    charge = progress.spent.charge
    text = f"{wording.duration(progress.spent.seconds)} ({wording.duration(charge.device_s)} of the device)"
    text += f", {charge.tokens} tokens" if charge.tokens else ""
    return text + (f", ${charge.dollars:.2f}" if charge.dollars else "")


def leases(account: Account) -> str:
    """Who was given work and has not answered, and until when the run counts on them."""
    return "\n".join(
        f"{lease.id} of {lease.agent}, on program {lease.parent}, until "
        f"{datetime.fromtimestamp(lease.expires_at).astimezone():%Y-%m-%d %H:%M:%S}"
        for lease in account.leases
    )


def _describe(program: Program) -> str:
    note = f": {program.note}" if program.note else ""
    return f"{program.number} ({program.operator}, generation {program.generation}{note})"


def _merit(best: Program, account: Account) -> list[tuple[str, str]]:
    verdict = best.verdict
    if verdict is None or verdict.score is None:
        return []
    if not isinstance(verdict.timing, Timed):
        return [("score", _value_merit(verdict.score, account))]
    pairs = [("speed", versus_strongest(verdict.timing.speedup, strongest_baselines(verdict)))]
    seed = account.seed.verdict if account.seed else None
    if seed is not None and isinstance(seed.timing, Timed) and account.seed and account.seed.number != best.number:
        gain = wording.ratio(relative(verdict.timing.speedup, seed.timing.speedup))
        pairs.append(("", f"{gain} the seed's speed, by way of the same baselines"))
    return pairs


def _value_merit(score: float, account: Account) -> str:
    parts = [f"{score:.10g}"]
    if account.seed and account.seed.score is not None:
        parts.append(f"seed {account.seed.score:.10g}")
    if account.best_known is not None:
        parts.append(f"best published {account.best_known:.10g}")
    return "; ".join(parts) + (f"\n{account.best_known_source}" if account.best_known_source else "")


def _next_steps(account: Account) -> str:
    run, evolve = account.directory, account.command
    steps = [f"{evolve} show {run}", f"{evolve} resume {run}{_raised_cap(account)}"]
    best = account.progress.best
    if best is not None:
        name = f"best{_SUFFIX.get(best.language, '.txt')}"
        steps[1:1] = [f"{evolve} best {run} -o {name}", f"{evolve} eval {account.task} {name}"]
    return "\n".join(steps)


def _raised_cap(account: Account) -> str:
    """What has to be added for a run that met a cap to go on: twice as much of it."""
    cap = account.progress.caps.model_dump().get(account.reason)
    return "" if not cap or account.reason == StopReason.TARGET else f" --set caps.{account.reason}={2 * cap:.15g}"


_SUFFIX: Mapping[str, str] = {"cpp": ".cpp", "cuda": ".cu", "python": ".py", "triton": ".py"}


def _data(account: Account) -> dict[str, object]:
    progress = account.progress
    best = progress.best
    verdict = best.verdict if best else None
    return {
        "directory": account.directory,
        "task": account.task,
        "status": progress.status,
        "reason": account.reason,
        "best": best.number if best else None,
        "score": best.score if best else None,
        "confirmed": best.confirmed if best else False,
        "speedup": verdict.timing.speedup.model_dump() if verdict and isinstance(verdict.timing, Timed) else None,
        "strongest_baselines": strongest_baselines(verdict) if verdict else "",
        "seed_score": account.seed.score if account.seed else None,
        "best_known": account.best_known,
        "tried": progress.programs,
        "finished": progress.finished,
        "duplicates": progress.duplicates,
        "verdicts": dict(progress.verdicts),
        "spent": asdict(progress.spent),
        "caps": progress.caps.model_dump(exclude_none=True),
        "sandbox": sandbox.lowest(account.sandboxes),
        "sandboxes": dict(account.sandboxes),
        "leases": [asdict(lease) for lease in account.leases],
        "models": costs_data(account.talk),
    }
