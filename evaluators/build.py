"""The judge's side of building: lint, run the builder, take its files as data, remember what was built."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import stat
import subprocess
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluators import builder, exchange
from evaluators.builders import Builder, builder_of
from evaluators.builders.base import REPORT, BuildTarget
from evaluators.device_account import Watch, unwatched
from evaluators.errors import JudgeError
from evaluators.evaluation import Artifact, Status
from evaluators.exchange import Exchange
from evaluators.failure import CandidateFailure
from evaluators.source import build_flags, check_blocks, source_hash
from evaluators.task import Language, Task
from evaluators.turns import Turns
from evaluators.zygote.client import ChildLimits, SpawnRequest, Zygote

ARTIFACT_CAP = 64 << 20
REPORT_CAP = 64 << 10
LOG_CAP = 64 << 10
TEXT_CAP = 256 << 10
FOLDER_FILES = 512
"""Most files and folders a build may leave where its artifact is a folder."""
FOLDER_DEPTH = 16
COMPILER_MEMORY_BYTES = 2 << 30
COMPILER_PROCESSES = 128
GIVING_WAY = 15
"""How nice compilers are beside timed rounds."""
KEPT_BUILDS = 256
"""A search that runs for days makes more programs than memory and disk hold: the latest are kept, and those in use."""


@dataclass(frozen=True)
class BuiltProgram:
    """A program that a runner can import."""

    source: str
    language: Language
    source_hash: str
    artifact: Path | None = None
    """The shared object, or a folder of compiled kernels, for compiled languages."""
    measures: dict[str, float] = field(default_factory=dict)
    """Compiled facts."""
    artifacts: tuple[Artifact, ...] = ()
    build_s: float = 0.0
    runs_as: str | None = None
    """The module of :mod:`evaluators.programs` that runs it, where that is not its language's."""
    observed: bool = False
    """Built to be profiled: the judge may look at where its runner is."""


def lint(task: Task, source: str, language: Language, seed: str | None) -> tuple[str, ...]:
    """What can be said without building: returns the compiler flags, or raises ``rejected``."""
    if language not in task.languages:
        allowed = ", ".join(task.languages)
        raise CandidateFailure(Status.REJECTED, f"language {language} is not among the task's: {allowed}")
    size = len(source.encode(errors="replace"))
    if size > task.limits.source_bytes:
        raise CandidateFailure(
            Status.REJECTED, f"source of {size} bytes, over the task's {task.limits.source_bytes} (limits.source_bytes)"
        )
    if "\0" in source:
        raise CandidateFailure(Status.REJECTED, "source contains a NUL character")
    objection = check_blocks(seed, source) if seed is not None else None
    if objection:
        raise CandidateFailure(Status.REJECTED, objection)
    built = builder_of(language)
    if built is None or not built.takes_flags:
        return ()
    try:
        return (*task.build_flags, *build_flags(source, task.flag_choices))
    except ValueError as error:
        raise CandidateFailure(Status.REJECTED, str(error)) from None


class Builds:
    """Builds programs in sandboxed builders; the same source and flags are not built again soon."""

    def __init__(
        self,
        zygote: Zygote,
        scratch: Path,
        cpus: frozenset[int] | None,
        arch: str | None = None,
        *,
        beside_rounds: bool = False,
        at_once: int | None = None,
        watch: Watch = unwatched,
    ) -> None:
        """Nothing is built yet.

        Args:
            zygote: forks the builders.
            scratch: where they work, and where what they leave is kept.
            cpus: theirs.
            arch: of the device.
            beside_rounds: programs are built while others are timed, so compilers give way.
            at_once: so many programs are built at a time, the others wait for their turn; ``None``: all.
            watch: told who waits.
        """
        self._zygote = zygote
        self.cpus = cpus
        self.nice = GIVING_WAY if beside_rounds else 0
        self._arch = arch
        self._work = scratch / "build"
        self._store = scratch / "artifacts"
        for folder in (self._work, self._store):
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._turns = None if at_once is None else Turns(at_once)
        self._watch = watch
        self._done: OrderedDict[str, BuiltProgram | CandidateFailure] = OrderedDict()
        self._lock = threading.Lock()

    def build(
        self,
        task: Task,
        source: str,
        language: Language,
        flags: tuple[str, ...],
        *,
        observed: bool = False,
        book: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> BuiltProgram:
        """A program ready for a runner. Its artifact is there for as long as somebody holds the program.

        Args:
            task: what it is for.
            source: its text.
            language: of the text.
            flags: of the compiler.
            observed: for a profile; leaves a disassembly with lines of the source, where the language has one.
            book: what surrounds the work, once it is its turn.

        Raises:
            CandidateFailure: the compiler refused it (``build_error``), or took too long or too much.
        """
        built = builder_of(language)
        if built is None:
            return BuiltProgram(source, language, source_hash(source), observed=observed)
        order = built.order(BuildTarget(task, flags, self._arch, observed))
        text = "\0".join((language, source, json.dumps(order, sort_keys=True)))
        key = hashlib.sha256(text.encode(errors="replace")).hexdigest()
        with self._lock:
            known = self._done.get(key)
            if known is not None:
                self._done.move_to_end(key)
        if known is None:
            try:
                with self._turn(), book():
                    known = self._compile(task, source, language, order, key)
            except CandidateFailure as failure:
                if failure.status is Status.TIMEOUT:  # another time the machine may be less busy
                    raise
                known = failure.with_traceback(None)
            with self._lock:
                self._done[key] = known
                while len(self._done) > KEPT_BUILDS:
                    self._done.popitem(last=False)
        if isinstance(known, CandidateFailure):  # a new one: what is raised holds on to every frame it passes
            raise CandidateFailure(known.status, known.message, detail=known.detail)
        return known

    def _turn(self) -> AbstractContextManager[None]:
        return nullcontext() if self._turns is None else self._turns.turn(self._watch)

    def _compile(self, task: Task, source: str, language: Language, order: Mapping[str, Any], key: str) -> BuiltProgram:
        started, built = time.monotonic(), builder_of(language)
        until = started + task.limits.build_s
        assert built is not None
        artifact = self._store / f"{key[:32]}-{secrets.token_hex(4)}{Path(built.artifact).suffix}"
        payload = {"language": language, "order": order}
        try:
            with self._folder() as folder:
                (folder / built.source_name).write_text(source, encoding="utf-8", errors="replace")
                log = self._run_builder(task, folder, built, payload, until)
                take_artifact(folder / built.artifact, artifact)
                artifacts = _texts(folder, built.texts, log)
                if not built.runs_source:  # else what lies there now is the program's word
                    measures, found = read_report(folder / REPORT), _texts(folder, built.report_texts)
            if built.runs_source:
                with self._folder() as folder:
                    self._run_builder(task, folder, built, {**payload, "built": str(artifact)}, until, artifact)
                    measures, found = read_report(folder / REPORT), _texts(folder, built.report_texts)
        except BaseException:
            _forget(artifact)
            raise
        seconds, observed = time.monotonic() - started, bool(order.get("listing"))
        program = BuiltProgram(
            source, language, source_hash(source), artifact, measures, artifacts + found, seconds, observed=observed
        )
        weakref.finalize(program, _forget, artifact).atexit = False
        return program

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """A fresh work folder for one builder's process."""
        folder = self._work / secrets.token_hex(8)
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
        try:
            yield folder
        finally:
            remove_tree(folder)

    def _run_builder(
        self, task: Task, folder: Path, built: Builder, payload: Mapping[str, Any], until: float, *readable: Path
    ) -> str:
        request = SpawnRequest(
            role="builder",
            entry="evaluators.builder:main",
            payload={"folder": str(folder), **payload},
            fds={},
            readable=readable,
            writable=(folder,),
            limits=ChildLimits(
                memory_bytes=COMPILER_MEMORY_BYTES,
                cpu_s=task.limits.build_s,
                file_bytes=ARTIFACT_CAP,
                processes=COMPILER_PROCESSES,
            ),
            cpus=self.cpus,
            nice=self.nice,
            environment={"TMPDIR": str(folder)},
            python_packages=built.packages,
        )
        child = self._zygote.spawn(request)
        try:
            log, status = child.collect(max(until - time.monotonic(), 0.0), LOG_CAP)
        finally:
            child.kill()
            child.close()
        if status is None:
            raise CandidateFailure(
                Status.TIMEOUT, f"build took longer than {task.limits.build_s:g} s (limits.build_s)", detail=log
            )
        if status.code == 0:
            return log
        rows = log.splitlines()
        first_error = next((row for mark in ("error:", "rror") for row in rows if mark in row), "")
        if status.code == builder.BUILD_FAILED:
            raise CandidateFailure(Status.BUILD_ERROR, first_error[:300] or "the compiler failed", detail=log)
        raise CandidateFailure(Status.BUILD_ERROR, f"the builder ended with {status}", detail=log)


def _forget(artifact: Path) -> None:
    """Remove what nobody can run any more."""
    if artifact.is_dir():
        remove_tree(artifact)
    else:
        artifact.unlink(missing_ok=True)


def _texts(folder: Path, names: Sequence[str], log: str = "") -> tuple[Artifact, ...]:
    """What a build left for people to look at, its log first."""
    found = [Artifact(name="build.log", text=log[-LOG_CAP:])] if log.strip() else []
    for name in names:
        content = read_plain_file(folder / name, ARTIFACT_CAP)
        if content is not None:
            text = content[:TEXT_CAP].decode(errors="replace")
            found.append(Artifact(name=name, text=text, truncated=len(content) > TEXT_CAP))
    return tuple(found)


def take_artifact(path: Path, target: Path) -> None:
    """Copy a file, or a folder of files, that an enemy may have made; see :func:`take_file`.

    Raises:
        CandidateFailure: it is none, or too large.
    """
    if path.is_symlink() or not path.is_dir():
        take_file(path, target)
        return
    scratch = target.with_suffix(f".{secrets.token_hex(4)}.tmp")
    try:
        _take_folder(path, scratch)
    except BaseException:
        remove_tree(scratch)
        raise
    scratch.rename(target)


def _take_folder(path: Path, target: Path) -> None:
    found, total = 0, 0
    for parent, folders, files in os.walk(path):
        place = target / Path(parent).relative_to(path)
        found += 1 + len(files)
        if found > FOLDER_FILES or len(place.relative_to(target).parts) > FOLDER_DEPTH:
            raise CandidateFailure(Status.BUILD_ERROR, f"the build left too many files or folders in {path.name}")
        place.mkdir(mode=0o755)
        folders[:] = [name for name in folders if not (Path(parent) / name).is_symlink()]
        for name in files:
            take_file(Path(parent) / name, place / name)
            total += (place / name).stat().st_size
            if total > ARTIFACT_CAP:
                raise CandidateFailure(Status.BUILD_ERROR, f"the build left too much in {path.name}")


def remove_tree(folder: Path) -> None:
    """Remove a folder that an enemy may have filled: also one that is deeper than Python can go."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", folder], check=False)


def take_file(path: Path, target: Path) -> None:
    """Copy a file that an enemy may have made: no links, regular, capped; the copy is read-only.

    Raises:
        CandidateFailure: it is none of that.
    """
    content = read_plain_file(path, ARTIFACT_CAP)
    if content is None:
        raise CandidateFailure(Status.BUILD_ERROR, f"the build left no ordinary file {path.name} of a sane size")
    scratch = target.with_name(f"{target.name}.{secrets.token_hex(4)}.tmp")
    scratch.write_bytes(content)
    scratch.chmod(0o444)
    scratch.replace(target)


def read_report(path: Path) -> dict[str, float]:
    """The builder's report as finite numbers; whatever is not is left out."""
    text = read_plain_file(path, REPORT_CAP)
    try:
        data = json.loads(text or b"", parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(data, dict):
        return {}
    numbers = {k: v for k, v in data.items() if isinstance(v, int | float) and not isinstance(v, bool)}
    return {str(k): float(v) for k, v in numbers.items() if abs(v) < 1e15}


def read_plain_file(path: Path, cap: int) -> bytes | None:
    """The content of a regular file with one name and at most ``cap`` bytes; ``None`` for anything else."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1 or facts.st_size > cap:
            return None
        with os.fdopen(fd, "rb", closefd=False) as file:
            content = file.read(cap + 1)
    finally:
        os.close(fd)
    return content if len(content) <= cap else None


def build_exchange(builds: Builds, task: Task, cpus: frozenset[int]) -> Exchange:
    """The native ends of timed rounds, for runners bound to these cores.

    Raises:
        CandidateFailure: the compiler refused our own source.
    """
    program = builds.build(task, exchange.SOURCE.read_text(), "cpp", exchange.FLAGS)
    if program.artifact is None:
        raise JudgeError("the C++ builder left no shared object")
    undisturbed = os.sched_getscheduler(0) != os.SCHED_OTHER and len(os.sched_getaffinity(0)) > len(cpus)
    return Exchange(program.artifact, undisturbed, program)
