"""The machine code of compiled GPU kernels, as text.

All kernels in one run of ``nvdisasm``, which takes half a second to start: their code is cut out of the cubins (ELF-64:
System V ABI, chapter 4; a function lies in a section ``.text.NAME``) and put one after the other.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from evaluators.builders.resources import dump

CODE = "kernels.bin"
_HEADER, _SECTION = struct.Struct("<4s36xQ10xHHH"), struct.Struct("<II16xQQ24x")
_MAGIC, _TEXT = b"\x7fELF", b".text."
_WITH_FEATURES = 90
"""From this architecture on its own instructions need the name with an ``a``."""
_NAME = re.compile(r"[\w$.@]+")
_ADDRESS = re.compile(r"\s+/\*([0-9a-f]+)\*/")


def disassemble(tool: str | None, arch: str, work: Path, cubins: Sequence[bytes]) -> list[str] | None:
    """The instructions of each cubin; ``None`` where one cannot be read.

    Args:
        tool: ``nvdisasm``; without one there are none.
        arch: ``sm_90``, for instance.
        work: where a file may be left.
        cubins: perhaps made by an enemy.
    """
    texts = ["" for _ in cubins]
    if tool is None:
        return texts
    code, places = b"", {}
    try:
        for index, cubin in enumerate(cubins):
            for name, body in functions(cubin):
                places[len(code)] = index, name
                code += body
    except (ValueError, LookupError, OverflowError, struct.error):
        return None
    (work / CODE).write_bytes(code)
    number = int(arch.removeprefix("sm_"))
    listing = dump([tool, "--binary", f"SM{number}{'a' if number >= _WITH_FEATURES else ''}"], work / CODE)
    rows: dict[int, list[str]] = {}
    here: list[str] = []
    for row in listing.splitlines():
        found = _ADDRESS.match(row)
        if found and int(found[1], 16) in places:
            index, name = places[int(found[1], 16)]
            here = rows.setdefault(index, [])
            here.append(f"{name}:")
        here.append(row)
    return ["\n".join(rows.get(index, [])) + "\n" for index, _ in enumerate(cubins)] if rows else None


def functions(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    """Name and code of every function.

    Raises:
        ValueError: it is no cubin; ``LookupError``, ``OverflowError`` and ``struct.error`` likewise.
    """
    magic, at, size, count, names_at = _HEADER.unpack_from(cubin)
    if magic != _MAGIC or size < _SECTION.size:
        raise ValueError("no ELF file")
    sections = [_SECTION.unpack_from(cubin, at + size * index) for index in range(count)]
    names = sections[names_at][2]
    for name, _, offset, length in sections:
        word = cubin[names + name : cubin.index(b"\0", names + name)]
        if word.startswith(_TEXT) and length:
            function = word.removeprefix(_TEXT).decode(errors="replace")
            if not _NAME.fullmatch(function):  # it could hold lines that look like instructions
                raise ValueError("no name of a function")
            yield function, cubin[offset : offset + length]
