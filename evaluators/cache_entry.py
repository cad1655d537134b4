"""One file that a judge keeps for later ones: times, and the files that programs have compiled, under one checksum.

The checksum is of everything behind it: then come the length of the header, the header as JSON, and the files' bytes
one after another. It finds damage. Nobody but the user who wrote it can write it: see :mod:`evaluators.cache_folder`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, NonNegativeInt, ValidationError

from evaluators.evaluation import Frozen

ENTRY_CAP = 256 << 20
FOLDER_CAP = 2 << 30
"""Of all entries together; the oldest go first."""
MOST_FILES = 4096
MOST_PARTS = 16
"""Of a file's path."""
SUFFIX = ".kept"
_SCRATCH_SUFFIX, _SCRATCH_AGE_S = ".tmp", 3600.0
_DIGEST_BYTES = hashlib.sha256().digest_size
_LENGTH = struct.Struct(">Q")

Microseconds = Annotated[float, Field(gt=0, lt=1e9, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, lt=1e12, allow_inf_nan=False)]


class EntryDamaged(Exception):
    """What lies there was not written by a judge of this user, or not whole; the message says how, for people."""


class EntryUnfit(Exception):
    """This is not kept; the message says why, for people."""


class _Header(Frozen):
    model_config = ConfigDict(strict=True)

    facts: dict[str, str]
    made_s: Seconds
    baseline_us: dict[str, dict[str, Microseconds]]
    files: list[tuple[str, NonNegativeInt]]
    """Paths and sizes, in the order of their bytes."""


@dataclass(frozen=True)
class Entry:
    """What is kept."""

    facts: Mapping[str, str]
    """What it holds for, for whoever looks into the file: the file's name is made of them."""
    made_s: float
    """When, in seconds since 1970."""
    baseline_us: Mapping[str, Mapping[str, float]]
    """Workload -> baseline -> microseconds a call."""
    files: Mapping[str, bytes]
    """By relative path, without ``.`` and ``..``."""


def write_entry(path: Path, entry: Entry) -> None:
    """Put an entry in its place, whole or not at all, whoever else writes or reads it now.

    Raises:
        EntryUnfit: it is over a cap, or a time makes no sense.
        OSError: the disk is full, or the folder gone.
    """
    sizes = [(name, len(content)) for name, content in entry.files.items()]
    times = {workload: dict(of_workload) for workload, of_workload in entry.baseline_us.items()}
    try:
        header = _Header(facts=dict(entry.facts), made_s=entry.made_s, baseline_us=times, files=sizes)
        words = header.model_dump_json().encode()
    except ValueError as error:  # of pydantic's
        raise EntryUnfit(" ".join(str(error).split())) from None
    parts = [_LENGTH.pack(len(words)), words, *entry.files.values()]
    total = _DIGEST_BYTES + sum(map(len, parts))
    if len(sizes) > MOST_FILES or total > ENTRY_CAP:
        raise EntryUnfit(f"{len(sizes)} files of {total} bytes are too much")
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    scratch = path.with_name(f"{path.name}.{secrets.token_hex(8)}{_SCRATCH_SUFFIX}")
    fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.writelines([digest.digest(), *parts])
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def read_entry(path: Path) -> Entry:
    """What was kept there.

    Raises:
        FileNotFoundError: nothing was.
        EntryDamaged: it is not as it was written.
    """
    content = _own_content(path)
    digest, behind = content[:_DIGEST_BYTES], memoryview(content)[_DIGEST_BYTES:]
    if hashlib.sha256(behind).digest() != digest or len(behind) < _LENGTH.size:
        raise EntryDamaged("its checksum is wrong")
    (length,) = _LENGTH.unpack_from(behind)
    start = _LENGTH.size + length
    try:
        header = _Header.model_validate_json(bytes(behind[_LENGTH.size : start]))
    except ValidationError:
        raise EntryDamaged("its header makes no sense") from None
    if start + sum(size for _, size in header.files) != len(behind):
        raise EntryDamaged("it is not as long as its header says")
    files: dict[str, bytes] = {}
    for name, size in header.files:
        if name in files or not _is_plain(name):
            raise EntryDamaged(f"a file cannot be called {name!r}")
        files[name] = bytes(behind[start : start + size])
        start += size
    return Entry(header.facts, header.made_s, header.baseline_us, files)


def clear_old(folder: Path, age_s: float) -> None:
    """Remove entries older than that, the oldest beyond what a folder may hold, and what killed judges left of some."""
    now, found = time.time(), []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            facts = path.lstat()
            limit_s = _SCRATCH_AGE_S if path.suffix == _SCRATCH_SUFFIX else age_s
            if path.suffix not in (SUFFIX, _SCRATCH_SUFFIX):
                continue
            if now - facts.st_mtime > limit_s:
                path.unlink()
            else:
                found.append((facts.st_mtime, facts.st_size, path))
    held = 0
    for _, size, path in sorted(found, reverse=True):
        held += size
        if held > FOLDER_CAP:
            with contextlib.suppress(OSError):
                path.unlink()


def _own_content(path: Path) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise EntryDamaged(str(error.strerror)) from None
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:  # 0: another judge has just replaced it
            raise EntryDamaged("it is no file of its own")
        if facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
            raise EntryDamaged("it is, or was, others' to write")
        if facts.st_size > ENTRY_CAP:
            raise EntryDamaged("it is too large")
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(facts.st_size)
    finally:
        os.close(fd)


def _is_plain(name: str) -> bool:
    """Whether a path stays below where it is put."""
    parts = name.split("/")
    return len(parts) <= MOST_PARTS and "\0" not in name and not any(part in ("", ".", "..") for part in parts)
