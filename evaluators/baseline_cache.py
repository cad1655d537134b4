"""What a judge on a GPU tells the next one of a task's baselines: what they compiled, and how long their calls took.

Neither decides anything. Every baseline is started, checked and measured in every judge; compiled state saves
``torch.compile`` its work, and known times say how many calls a round has before the first of them was made.

Compiled state is code, and runs in a baseline's box. It is copied into a folder of the judge's before that box exists
and copied out of it before the first candidate runs, so no box ever shows what is kept, and nothing that a candidate
does can come into it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from evaluators.build import BuiltProgram, read_plain_file, remove_tree
from evaluators.cache_entry import (
    ENTRY_CAP,
    MOST_FILES,
    MOST_PARTS,
    SUFFIX,
    Entry,
    EntryDamaged,
    EntryUnfit,
    clear_old,
    read_entry,
    write_entry,
)
from evaluators.cache_folder import OFF, VARIABLE, CacheUnusable, find_cache_folder, open_cache_folder
from evaluators.errors import TaskError
from evaluators.evaluation import Environment
from evaluators.scratch import fresh_folder
from evaluators.task import Task
from evaluators.task_hash import hash_files

PART = "baselines"
"""The folder's name."""
AGE_S = 7 * 24 * 3600.0
"""Older than this it is made anew."""
ALIKE = 1.25
"""Times that differ by less plan rounds of about the same length."""
_PRODUCT = "kernel-evolve"
_NEEDED = ("gpu_uuid", "cuda_driver", "arch", "python", "numpy", "torch", "triton")
"""What must be known of a machine, beside its driver; all else that an environment says of it counts as well."""
_PLACE = b"[WORKSHOP]"
"""Stands for the folder's path in the JSON files that Triton leaves: it differs from judge to judge."""
_log = logging.getLogger(__name__)


def workshop_of(scratch: Path, source_hash: str) -> Path:
    """Where a baseline's processes keep what they compile, in the judge's own folder."""
    return scratch / f"workshop-{source_hash[:16]}"


def open_baseline_cache(
    task: Task, environment: Environment, driver: str | None, programs: Iterable[BuiltProgram], scratch: Path
) -> BaselineCache:
    """What earlier judges left for this one, put where the baselines will look for it.

    Args:
        task: whose baselines.
        environment: machine, libraries and sandbox.
        driver: its version; ``None``: unknown, and nothing is kept.
        programs: the baselines.
        scratch: the judge's own folder.
    """
    try:
        facts = _facts(task, environment, driver)
        folder = open_cache_folder(PART)
    except (CacheUnusable, TaskError) as why:
        _log.warning("baselines are not kept for the next judge: %s", why)
        return BaselineCache()
    if folder is None:
        return BaselineCache()
    name = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]
    hashes = {p.source_hash for p in programs if p.language == "torch"}
    workshops = {source_hash: workshop_of(scratch, source_hash) for source_hash in hashes}
    cache = BaselineCache(folder / f"{name}{SUFFIX}", facts, workshops, scratch)
    cache.load()
    return cache


def describe_cache() -> str:
    """Where the baselines of how many tasks and machines are kept, in one line for people."""
    try:
        folder = find_cache_folder(PART)
        if folder is None:
            return f"not kept: {VARIABLE}={OFF}"
        if not folder.exists():
            return f"{folder}: nothing yet"
        folder = open_cache_folder(PART) or folder
        sizes = [path.lstat().st_size for path in folder.glob(f"*{SUFFIX}")]
    except CacheUnusable as why:
        return f"not kept: {why}"
    except OSError as error:
        return f"not kept: {error.filename}: {error.strerror}"
    return f"{folder}: {len(sizes)} kept, {sum(sizes) / 2**20:.1f} MiB"


@dataclass
class BaselineCache:
    """One task's entry on one machine; without a file nothing is known and nothing is kept."""

    file: Path | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    workshops: Mapping[str, Path] = field(default_factory=dict)
    """By the hash of a baseline's source."""
    scratch: Path = Path()
    baseline_us: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Workload -> baseline -> microseconds a call in an earlier judge."""
    since: str = ""
    """When that was; empty where nothing of it is in use."""
    made_s: float = 0.0
    """The same in seconds since the epoch; 0 there."""

    def load(self) -> None:
        """Take over what lies there, where it is whole and not too old; what is damaged is removed."""
        if self.file is None:
            return
        try:
            entry = read_entry(self.file)
        except FileNotFoundError:
            return
        except (EntryDamaged, OSError) as damage:
            _log.warning("%s: %s; baselines are compiled anew", self.file, damage)
            self._remove()
            return
        if not 0 <= time.time() - entry.made_s <= AGE_S:
            return
        try:
            self._unpack(entry)
        except OSError as error:
            _log.warning("%s: %s; baselines are compiled anew", self.file, error.strerror)
            self._remove()
            self._empty_workshops()
            return
        self.baseline_us = entry.baseline_us
        self.made_s = entry.made_s
        self.since = f"{datetime.fromtimestamp(entry.made_s, UTC):%Y-%m-%d %H:%M} UTC"

    def has_compiled(self, program: BuiltProgram) -> bool:
        """Whether there is something to keep of what a baseline has compiled."""
        folder = self.workshops.get(program.source_hash)
        return folder is not None and folder.is_dir() and any(folder.iterdir())

    def keep(self, baseline_us: Mapping[str, Mapping[str, float]]) -> None:
        """Leave for later judges what this one knows. To be called before its first candidate."""
        if self.file is None or (self.since and _alike(self.baseline_us, baseline_us)):
            return
        try:
            made_s = self.made_s or time.time()  # what was compiled is as old as it was
            write_entry(self.file, Entry(self.facts, made_s, baseline_us, dict(self._packed())))
            clear_old(self.file.parent, AGE_S)
        except (EntryUnfit, OSError) as why:
            _log.warning("baselines are not kept for the next judge: %s", why)

    def forget(self) -> bool:
        """Remove the entry and all that came from it, since a baseline failed on it; whether anything did.

        No runner of a baseline may be left.
        """
        if not self.since:
            return False
        _log.warning("a baseline failed on what was kept of it since %s; it is compiled anew", self.since)
        self._remove()
        self._empty_workshops()
        self.baseline_us, self.since, self.made_s = {}, "", 0.0
        return True

    def _remove(self) -> None:
        assert self.file is not None
        with contextlib.suppress(OSError):
            self.file.unlink()

    def _empty_workshops(self) -> None:
        for folder in self.workshops.values():
            remove_tree(folder)

    def _unpack(self, entry: Entry) -> None:
        for source_hash, folder in self.workshops.items():
            place = fresh_folder(self.scratch)
            for name, content in entry.files.items():
                owner, _, path = name.partition("/")
                if owner == source_hash and path:
                    target = place / path
                    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    target.write_bytes(_moved(path, content, _PLACE, bytes(folder)))
            place.rename(folder)

    def _packed(self) -> Iterator[tuple[str, bytes]]:
        """What the baselines have compiled. Their processes are stopped."""
        for source_hash, folder in self.workshops.items():
            for path, content in _files(folder):
                if path.endswith(".json") and _PLACE in content:  # it could not be told from the place
                    continue
                yield f"{source_hash}/{path}", _moved(path, content, bytes(folder), _PLACE)


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Ordinary files of a folder, by relative path; links, and what is too deep, are left out.

    Raises:
        EntryUnfit: there is more than is kept.
    """
    found, total = 0, 0
    for parent, folders, names in os.walk(folder):
        depth = len(Path(parent).relative_to(folder).parts)
        folders[:] = sorted(folders) if depth + 2 < MOST_PARTS else []  # a file's path begins with the source's hash
        for name in sorted(names):
            path = Path(parent, name)
            content = read_plain_file(path, ENTRY_CAP)
            if content is None or not _is_text(str(path)):
                continue
            found, total = found + 1, total + len(content)
            if found > MOST_FILES or total > ENTRY_CAP:
                raise EntryUnfit(f"{found} files or {total} bytes are too much")
            yield path.relative_to(folder).as_posix(), content


def _moved(path: str, content: bytes, old: bytes, new: bytes) -> bytes:
    return content.replace(old, new) if path.endswith(".json") else content


def _is_text(path: str) -> bool:
    """Whether a path's bytes are UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _alike(known: Mapping[str, Mapping[str, float]], found: Mapping[str, Mapping[str, float]]) -> bool:
    """Whether times plan the same rounds."""
    if {w: set(times) for w, times in known.items()} != {w: set(times) for w, times in found.items()}:
        return False
    ratios = (us / known[workload][name] for workload, times in found.items() for name, us in times.items())
    return all(1 / ALIKE <= ratio <= ALIKE for ratio in ratios)


def _facts(task: Task, environment: Environment, driver: str | None) -> dict[str, str]:
    """All that what is kept depends on.

    Raises:
        CacheUnusable: something is not known, or programs can come to this user's files here.
        TaskError: our own code cannot be read.
    """
    unknown = [name for name in _NEEDED if not environment.host.get(name)]
    unknown += ["driver"] * (not driver) + ["hash of the task"] * (not task.hash)
    if unknown:
        raise CacheUnusable(f"not known here: {', '.join(unknown)}")
    if environment.sandbox == "none":
        raise CacheUnusable("without a sandbox programs could write it")
    return {
        **{f"host.{name}": value for name, value in environment.host.items()},
        "task": task.hash,
        "device_class": environment.device_class,
        "sandbox": environment.sandbox,
        "driver": str(driver),
        "judge": _code_hash(),
        "version": _version(),
    }


def _code_hash() -> str:
    """Of everything that this package is made of: a judge that was changed uses nothing of the one before."""
    folder = Path(__file__).parent
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return hash_files(folder, files)


def _version() -> str:
    try:
        return importlib.metadata.version(_PRODUCT)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
