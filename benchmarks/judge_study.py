"""What comes of every cheat and every honest program, with all of the judge and with one part of it switched off."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import pytest

from evaluators.evaluation import Status
from evaluators.judge import TaskJudge
from evaluators.sandbox.report import LayerName
from evaluators.task import Language
from evaluators.task_loading import load_task
from tests.exploits.corpus import LANGUAGES, PLAIN, Exploit, corpus, plain, read_head
from tests.exploits.fooled import World, fool, world
from tests.exploits.mechanisms import SWITCHES, Patch, without_layer
from tests.exploits.verdicts import Verdict, judged
from tests.quick_judge import DATA, quick_judges

ROOT = Path(__file__).parents[1]
HONEST = PLAIN.with_name("programs")
SECRET = "sk-canary-5d41402abc4b2a76"

Honest = tuple[str, str, str, Status]
"""Pattern, language, task and status of an honest program."""


@dataclass(frozen=True)
class Seen:
    """What came of a cheat once."""

    status: str
    as_expected: bool
    got_through: bool
    outcome: str
    """What it got, in a few words."""

    @classmethod
    def of(cls, verdict: Verdict) -> Seen:
        """What the report says of a verdict."""
        if verdict.duel is not None and verdict.duel.ratio is not None:
            ratio = verdict.duel.ratio
            words = f"{ratio.estimate:.2f}x the honest program [{ratio.low:.2f}, {ratio.high:.2f}]"
        else:
            words = "the secret" if verdict.stole else "a mark left" if verdict.left else verdict.status
        return cls(verdict.status, verdict.as_expected, verdict.got_through, words)


@dataclass
class Row:
    """What is known of one cheat."""

    exploit: Exploit
    fooled: bool | None
    """``None``: made for our judge."""
    verdict: Seen
    without: list[tuple[str, Seen]]
    """What came of it with something switched off."""


class Notes:
    """What was seen so far, in a file if there is one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._judge = _hash_of_judge()
        self._seen: dict[str, object] = {}
        if path is not None and path.exists():
            kept = json.loads(path.read_text())
            self._seen = kept["seen"] if kept["judge"] == self._judge else {}

    def get(self, what: str, program: str, see: Callable[[], object]) -> object:
        """What was seen, or is now."""
        key = _key(what, program)
        if key not in self._seen:
            self._seen[key] = see()
            print(key, self._seen[key], flush=True)
            if self._path is not None:
                self._path.write_text(json.dumps({"judge": self._judge, "seen": self._seen}, indent=1))
        return self._seen[key]

    def verdict(self, what: str, exploit: Exploit, see: Callable[[], Verdict]) -> Seen:
        """A cheat's verdict."""
        found = self.get(f"{what} {exploit.name}", exploit.text, lambda: asdict(Seen.of(see())))
        assert isinstance(found, dict)
        return Seen(**found)


def _key(what: str, program: str) -> str:
    return f"{what} {hashlib.sha256(program.encode()).hexdigest()[:12]}"


def _hash_of_judge() -> str:
    """Of all that a verdict depends on beside the program."""
    digest = hashlib.sha256()
    for folder in ("evaluators", "tests/data"):
        for path in sorted((ROOT / folder).rglob("*.*")):
            if path.suffix != ".pyc":
                digest.update(path.read_bytes())
    return digest.hexdigest()


class LazyJudges:
    """Judges that are weakened alike, opened when the first is needed."""

    def __init__(self, stack: ExitStack, weaken: Callable[[Patch], None] | None = None) -> None:
        self._stack, self._weaken = stack, weaken
        self._open: Callable[[str], TaskJudge] | None = None

    def __call__(self, task: str) -> TaskJudge:
        """The judge of a task."""
        if self._open is None:
            if self._weaken is not None:
                self._weaken(self._stack.enter_context(pytest.MonkeyPatch.context()))
            self._open = self._stack.enter_context(quick_judges())
        return self._open(task)


@contextmanager
def places() -> Iterator[World]:
    """A place for one cheat to steal from and leave something in."""
    with tempfile.TemporaryDirectory() as folder, world(Path(folder), SECRET) as place:
        yield place


def seen_by(judges: LazyJudges, exploit: Exploit) -> Verdict:
    """The verdict of one of these judges."""
    with places() as place:
        return judged(judges(exploit.task), exploit, place)


def first_pass(notes: Notes) -> list[Row]:
    """The naive harness and our judge as it is, for every cheat."""
    rows = []
    with ExitStack() as stack:
        judges = LazyJudges(stack)
        for exploit in corpus():
            fooled = None
            if exploit.flavour != "none":
                fooled = bool(notes.get(f"naive {exploit.name}", exploit.text, partial(fooled_naively, exploit)))
            verdict = notes.verdict("judged", exploit, partial(seen_by, judges, exploit))
            rows.append(Row(exploit, fooled, verdict, []))
    return rows


def fooled_naively(exploit: Exploit) -> bool:
    """Whether the naive harness falls for it."""
    task, baseline = load_task(DATA / exploit.task), plain(exploit.task, exploit.language)
    with places() as place:
        if exploit.language == "cpp":
            built = place.folder / "baseline.so"
            flags = [flag for flag in task.build_flags if not flag.startswith("-O")]
            subprocess.run(["g++", *flags, "-shared", "-fPIC", "-o", built, baseline], check=True)
            baseline = built
        return fool(exploit, task, baseline, place)[0]


def weakened(exploit: Exploit, notes: Notes) -> Seen:
    """The verdict of a judge without the mechanism that stops this cheat."""
    with ExitStack() as stack:
        judges = LazyJudges(stack, SWITCHES[exploit.stopped_by])
        return notes.verdict(f"without {exploit.stopped_by}", exploit, partial(seen_by, judges, exploit))


def study_layers(rows: Iterable[Row], notes: Notes) -> None:
    """Each layer of the sandbox left out in turn, for the cheats that the sandbox stops."""
    for layer in LayerName:
        with ExitStack() as stack:
            judges = LazyJudges(stack, partial(without_layer, layer=layer))
            for row in rows:
                seen = notes.verdict(f"without {layer.value}", row.exploit, partial(seen_by, judges, row.exploit))
                row.without.append((layer.value, seen))


def _status(judges: LazyJudges, task: str, text: str, language: Language) -> str:
    return judges(task).evaluate(text, language).status.value


def honest_statuses(notes: Notes) -> list[tuple[str, str, str, Status]]:
    """Pattern, language, task and status of every honest program."""
    found = []
    with ExitStack() as stack:
        judges = LazyJudges(stack)
        for path in sorted(HONEST.iterdir()):
            head, text = read_head(path.read_text())
            task, language = head.get("task", "double"), LANGUAGES[path.suffix]
            status = notes.get(f"honest {path.stem}", text, partial(_status, judges, task, text, language))
            found.append((head["pattern"], language, task, Status(str(status))))
    return found
