"""Writes docs/judge_report.md: every cheat of the corpus, what stops it, and what does when that is switched off.

    python -m benchmarks.judge_report [--keep STATE.json]

Half an hour on two idle cores. With ``--keep`` what was seen is kept as it comes, and is not run again as long as the
program and the judge's own code are the same: so it may be ended at any time, and a new cheat costs its own time only.
Its first lines go into docs/judge.md too.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.judge_study import ROOT, SECRET, Honest, Notes, Row, first_pass, honest_statuses, study_layers, weakened
from evaluators.device import find_cpu
from evaluators.environment import compiler_version
from evaluators.evaluation import Status
from evaluators.sandbox.report import LayerName
from tests.exploits.kinds import ELSEWHERE, KINDS
from tests.exploits.mechanisms import SANDBOX, SWITCHES

REPORT = ROOT / "docs" / "judge_report.md"
PAGE = ROOT / "docs" / "judge.md"
BEGIN, END = "<!-- written by make judge-report -->", "<!-- end -->"


def main() -> None:
    """Run everything that is not known yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path)
    notes = Notes(parser.parse_args().keep)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECRET", SECRET)
        rows = first_pass(notes)
        honest = honest_statuses(notes)
        for row in rows:
            if row.exploit.stopped_by in SWITCHES:
                row.without.append((row.exploit.stopped_by, weakened(row.exploit, notes)))
        study_layers([row for row in rows if row.exploit.stopped_by in SANDBOX], notes)
    REPORT.write_text("\n".join(report(rows, honest)) + "\n")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text("\n".join([f"{before}{BEGIN}", *summary(rows, honest), f"{END}{after}"]))


def report(rows: list[Row], honest: list[Honest]) -> Iterator[str]:
    """The page."""
    yield "# What the judge was shown"
    yield ""
    yield "Written by `make judge-report`; the programs are in `tests/exploits/programs` and `tests/honest/programs`."
    cpu = find_cpu()
    yield (
        f"Recorded {datetime.now(UTC):%Y-%m-%d} on {len(cpu.cores)} cores of {cpu.model}, {compiler_version()}, "
        "with judges whose rounds are few and short: it is about verdicts, not times."
    )
    yield ""
    yield from summary(rows, honest)
    yield ""
    yield from cheats(rows)
    yield from alone(rows)
    yield from layers(rows)
    yield from elsewhere()
    yield from honest_table(honest)


def summary(rows: list[Row], honest: list[Honest]) -> Iterator[str]:
    """The counts."""
    natives = [row for row in rows if row.fooled is not None]
    wrong = [name for name, _, _, status in honest if status is not Status.PASSED]
    gained = [row.exploit.name for row in rows if row.verdict.got_through]
    kinds = f"{len(covered(rows))} of {len(KINDS)} kinds"
    yield f"- {len(rows)} cheats of {kinds}; {len(gained)} gained anything{_list(gained)}."
    yield f"  {sum(bool(r.fooled) for r in natives)} of {len(natives)} fool the naive harness; the other"
    yield f"  {len(rows) - len(natives)} were made against this judge, and got through before their mechanism existed."
    yield f"- {len(honest)} honest programs; {len(wrong)} convicted{_list(wrong)}."


def _list(names: list[str]) -> str:
    return f": {', '.join(names)}" if names else ""


def covered(rows: Iterable[Row]) -> set[int]:
    """The kinds that some program is of."""
    return {kind for row in rows for kind in row.exploit.kinds}


def cheats(rows: Iterable[Row]) -> Iterator[str]:
    """One line a cheat."""
    yield "## Cheats"
    yield ""
    yield "| program | kinds | language | what it does | naive harness | our verdict | stopped by | without that |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        e = row.exploit
        kinds = ", ".join(map(str, e.kinds))
        fooled = "-" if row.fooled is None else f"fooled: {e.proof}" if row.fooled else "**not fooled**"
        verdict = row.verdict.status if row.verdict.as_expected else f"**{row.verdict.status}**"
        cells = [e.name, kinds, e.language, e.story, fooled, verdict, e.stopped_by, without(row)]
        yield f"| {' | '.join(cells)} |"
    yield ""


def without(row: Row) -> str:
    """What happens with the mechanism off."""
    if not row.without:
        return "how the judge is built"
    if row.exploit.stopped_by in SANDBOX:
        through = [name for name, verdict in row.without if verdict.got_through]
        return f"gets through without {', '.join(through)}" if through else "stopped by the other layers"
    verdict = row.without[0][1]
    if verdict.got_through:
        return f"**gets through** ({verdict.outcome})"
    if verdict.status == "passed":
        return f"passed, {verdict.outcome}"
    return f"{verdict.status}: a second line"


def alone(rows: Iterable[Row]) -> Iterator[str]:
    """Which mechanisms stand alone, and why that is acceptable."""
    through = [row for row in rows if row.exploit.stopped_by in SWITCHES and any(v.got_through for _, v in row.without)]
    second = [
        row for row in rows if row.exploit.stopped_by in SWITCHES and not any(v.got_through for _, v in row.without)
    ]
    yield "## Depth"
    yield ""
    failing = [row for row in second if row.without[0][1].status != "passed"]
    harmless = [row.exploit.name for row in second if row not in failing]
    yield "With one mechanism switched off at a time, these have a second line of defence:"
    yield ", ".join(f"{row.exploit.name} ({row.without[0][1].status})" for row in failing) + "."
    yield f"These pass then as before, without a gain that shows above the noise: {', '.join(harmless)}."
    yield ""
    yield "These have none: " + ", ".join(f"{row.exploit.name} ({row.exploit.stopped_by})" for row in through) + "."
    yield ""
    yield "A mechanism that stands alone is one that looks at the one thing that is wrong: limits at wrong numbers,"
    yield "guard zones at bytes beside an output, edge shapes at shapes. None can be switched off outside of tests, and"
    yield "a confirmation goes through all of them again in a new process with new inputs."
    yield ""


def layers(rows: Iterable[Row]) -> Iterator[str]:
    """The sandbox, layer by layer."""
    studied = [row for row in rows if row.exploit.stopped_by in SANDBOX]
    yield "## Layers of the sandbox"
    yield ""
    yield f"Left out one at a time, for the {len(studied)} cheats that it stops"
    yield f"({', '.join(row.exploit.name for row in studied)}):"
    yield ""
    yield "| without | gets through |"
    yield "|---|---|"
    for layer in LayerName:
        through = [r.exploit.name for r in studied for name, v in r.without if name == layer.value and v.got_through]
        yield f"| {layer.value} | {', '.join(through) or 'nothing'} |"
    yield ""
    yield "Seccomp, which needs no new privileges, stands alone before what the kernel offers besides files, networks"
    yield "and processes. A judge refuses to start without it, but for `--sandbox=none`, which shows in every result."
    yield ""


def elsewhere() -> Iterator[str]:
    """Kinds that are dealt with in other places."""
    yield "## Kinds"
    yield ""
    for number, name in KINDS.items():
        yield f"{number}. {name}{f' - {ELSEWHERE[number]}' if number in ELSEWHERE else ''}"
    yield ""


def honest_table(honest: list[Honest]) -> Iterator[str]:
    """One line an honest program."""
    yield "## Honest programs"
    yield ""
    yield "| pattern | language | task | verdict |"
    yield "|---|---|---|---|"
    for pattern, language, task, status in honest:
        word = status.value if status is Status.PASSED else f"**{status.value}**"
        yield f"| {pattern} | {language} | {task} | {word} |"


if __name__ == "__main__":
    main()
