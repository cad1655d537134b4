"""Writes docs/judge_report.md: every cheat of the corpus, what stops it, and what does when that is switched off."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evaluators.device import find_cpu
from evaluators.environment import compiler_version
from evaluators.evaluation import Status
from evaluators.sandbox.report import LayerName
from evaluators.task_loading import load_task
from tests.exploits.corpus import LANGUAGES, PLAIN, Exploit, corpus, plain, read_head
from tests.exploits.fooled import World, fool, world
from tests.exploits.kinds import ELSEWHERE, KINDS
from tests.exploits.mechanisms import SANDBOX, SWITCHES, without_layer
from tests.exploits.verdicts import Verdict, judged
from tests.quick_judge import DATA, quick_judges

REPORT = Path(__file__).parents[1] / "docs" / "judge_report.md"
HONEST = PLAIN.with_name("programs")
SECRET = "sk-canary-5d41402abc4b2a76"


@dataclass
class Row:
    """What is known of one cheat."""

    exploit: Exploit
    fooled: bool | None
    """``None``: made for our judge."""
    verdict: Verdict
    without: list[tuple[str, Verdict]]
    """What came of it with something switched off."""


@contextmanager
def places() -> Iterator[World]:
    """A place for one cheat to steal from and leave something in."""
    with tempfile.TemporaryDirectory() as folder, world(Path(folder), SECRET) as place:
        yield place


def main() -> None:
    """Run everything; half an hour on two cores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECRET", SECRET)
        rows = first_pass()
        for row in rows:
            if row.exploit.stopped_by in SWITCHES:
                row.without.append((row.exploit.stopped_by, weakened(row.exploit)))
        study_layers([row for row in rows if row.exploit.stopped_by in SANDBOX])
        honest = honest_statuses()
    REPORT.write_text("\n".join(report(rows, honest)) + "\n")


def first_pass() -> list[Row]:
    """The naive harness and our judge as it is, for every cheat."""
    rows = []
    with quick_judges() as judge:
        for exploit in corpus():
            with places() as place:
                fooled = None if exploit.flavour == "none" else fooled_naively(exploit, place)
            with places() as place:
                rows.append(Row(exploit, fooled, judged(judge(exploit.task), exploit, place), []))
            print(exploit.name, fooled, rows[-1].verdict.status, flush=True)
    return rows


def fooled_naively(exploit: Exploit, place: World) -> bool:
    """Whether the naive harness falls for it."""
    task, baseline = load_task(DATA / exploit.task), plain(exploit.task, exploit.language)
    if exploit.language == "cpp":
        built = place.folder / "baseline.so"
        flags = [flag for flag in task.build_flags if not flag.startswith("-O")]
        subprocess.run(["g++", *flags, "-shared", "-fPIC", "-o", built, baseline], check=True)
        baseline = built
    return fool(exploit, task, baseline, place)[0]


def weakened(exploit: Exploit) -> Verdict:
    """The verdict of a judge without the mechanism that stops this cheat."""
    with pytest.MonkeyPatch.context() as patch, places() as place:
        SWITCHES[exploit.stopped_by](patch)
        with quick_judges() as judge:
            verdict = judged(judge(exploit.task), exploit, place)
    print("without", exploit.stopped_by, exploit.name, verdict.status, verdict.got_through, flush=True)
    return verdict


def study_layers(rows: Iterable[Row]) -> None:
    """Each layer of the sandbox left out in turn, for the cheats that the sandbox stops."""
    for layer in LayerName:
        with pytest.MonkeyPatch.context() as patch:
            without_layer(patch, layer)
            with quick_judges() as judge:
                for row in rows:
                    with places() as place:
                        row.without.append((layer.value, judged(judge(row.exploit.task), row.exploit, place)))
                    print("without", layer, row.exploit.name, row.without[-1][1].status, flush=True)


def honest_statuses() -> list[tuple[str, str, str, Status]]:
    """Pattern, language, task and status of every honest program."""
    found = []
    with quick_judges() as judge:
        for path in sorted(HONEST.iterdir()):
            head, text = read_head(path.read_text())
            task, language = head.get("task", "double"), LANGUAGES[path.suffix]
            found.append((head["pattern"], language, task, judge(task).evaluate(text, language).status))
    return found


def report(rows: list[Row], honest: list[tuple[str, str, str, Status]]) -> Iterator[str]:
    """The page."""
    natives = [row for row in rows if row.fooled is not None]
    wrong = [name for name, _, _, status in honest if status is not Status.PASSED]
    yield "# What the judge was shown"
    yield ""
    yield "Written by `make judge-report`; the programs are in `tests/exploits/programs` and `tests/honest/programs`."
    cpu = find_cpu()
    yield (
        f"Recorded {datetime.now(UTC):%Y-%m-%d} on {len(cpu.cores)} cores of {cpu.model}, {compiler_version()}, "
        "with judges whose rounds are few and short: it is about verdicts, not times."
    )
    yield ""
    gained = sum(row.verdict.got_through for row in rows)
    yield f"- {len(rows)} cheats of {len(covered(rows))} of {len(KINDS)} kinds; {gained} gained anything."
    yield f"  {sum(bool(r.fooled) for r in natives)} of {len(natives)} fool the naive harness; the other"
    yield f"  {len(rows) - len(natives)} were made against this judge, and got through before their mechanism existed."
    yield f"- {len(honest)} honest programs; {len(wrong)} convicted{': ' + ', '.join(wrong) if wrong else ''}."
    yield ""
    yield from cheats(rows)
    yield from alone(rows)
    yield from layers(rows)
    yield from elsewhere()
    yield from honest_table(honest)


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
        return f"**gets through** ({outcome(verdict)})"
    if verdict.status == "passed":
        return f"passed, {outcome(verdict)}"
    return f"{verdict.status}: a second line"


def outcome(verdict: Verdict) -> str:
    """What it got."""
    if verdict.duel is not None and verdict.duel.ratio is not None:
        ratio = verdict.duel.ratio
        return f"{ratio.estimate:.2f}x the honest program [{ratio.low:.2f}, {ratio.high:.2f}]"
    return "the secret" if verdict.stole else "a mark left" if verdict.left else verdict.status


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


def honest_table(honest: list[tuple[str, str, str, Status]]) -> Iterator[str]:
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
