"""What kinds of work an instruction is, from its text in a disassembly: x86-64 in AT&T syntax, and AArch64."""

from __future__ import annotations

import re
from enum import StrEnum

_WIDEST = ((512, re.compile(r"%zmm")), (256, re.compile(r"%ymm")), (128, re.compile(r"%xmm|\b[vz]\d+\.")))
_SCALAR_FLOAT = re.compile(r"^v?(?:f?n?m(?:add|sub)\d+|[a-z]+)(?:ss|sd|sh)$|^v?u?comis[sdh]$|^f\w+$")
_SCALAR_CONVERSION = re.compile(r"^v?cvtt?(?:s[sdhi]2|usi2)\w+$")
_FLOAT = re.compile(r"^v?(?:f?n?m(?:add|sub)\d+|add|sub|mul|div|sqrt|max|min|dp)(?:p[sdh]|s[sdh])$|^f\w+$")
_DIVISION = re.compile(r"^(?:v?(?:div|sqrt)[sp][sdh]|i?div[bwlq]?|[us]div|fdiv|fsqrt)$")
_FMA = re.compile(r"^(?:vfn?m(?:add|sub)\w+|fn?m(?:add|sub|la|ls)\w*)$")
_GATHER = re.compile(r"^v?p?gather\w+$")
_BRANCH = re.compile(r"^(?:j\w+|call\w*|ret\w*|b(?:\.\w+)?|bl|cbn?z|tbn?z)$")
_ATOMIC = re.compile(r"^(?:lock|xchg\w*|ldx?a\w*xr\w*|stl?xr\w*|cas\w*)\b")
_MEMORY_OPERAND = re.compile(r"\(|\[")
_NO_ACCESS = re.compile(r"^(?:lea\w*|nop\w*|prefetch\w*|j\w+|call\w*)$")


class Kind(StrEnum):
    """One kind of work; an instruction may be of several."""

    VECTOR = "vector"
    """Several elements at once."""
    SCALAR_FLOAT = "scalar_float"
    FLOAT = "float"
    """Floating-point arithmetic, of one element or several."""
    FMA = "fma"
    DIVISION = "division"
    """Division or square root."""
    GATHER = "gather"
    MEMORY = "memory"
    """It reads or writes memory."""
    BRANCH = "branch"
    ATOMIC = "atomic"


def kinds_of(text: str) -> frozenset[Kind]:
    """What an instruction does; empty for plain work in scalar registers."""
    words = text.split(maxsplit=1)
    if not words:
        return frozenset()
    mnemonic, operands = words[0], words[1] if len(words) > 1 else ""
    registers = "%xmm" in operands if not mnemonic.startswith("f") else vector_bits(text) == 0
    scalar_float = registers and bool(_SCALAR_FLOAT.match(mnemonic))
    conversion = bool(_SCALAR_CONVERSION.match(mnemonic))
    found = {
        Kind.VECTOR: not scalar_float and not conversion and vector_bits(text) > 0 and not _moves_scalar(mnemonic),
        Kind.SCALAR_FLOAT: scalar_float or conversion,
        Kind.FLOAT: bool(_FLOAT.match(mnemonic)),
        Kind.FMA: bool(_FMA.match(mnemonic)),
        Kind.DIVISION: bool(_DIVISION.match(mnemonic)),
        Kind.GATHER: bool(_GATHER.match(mnemonic)),
        Kind.MEMORY: bool(_MEMORY_OPERAND.search(operands)) and not _NO_ACCESS.match(mnemonic),
        Kind.BRANCH: bool(_BRANCH.match(mnemonic)),
        Kind.ATOMIC: bool(_ATOMIC.match(text)),
    }
    return frozenset(kind for kind, is_one in found.items() if is_one)


def vector_bits(text: str) -> int:
    """The width of the widest vector register that an instruction names; 0 where it names none."""
    return next((bits for bits, pattern in _WIDEST if pattern.search(text)), 0)


def _moves_scalar(mnemonic: str) -> bool:
    return mnemonic in {"movss", "movsd", "vmovss", "vmovsd", "movd", "movq", "vmovd", "vmovq"}
