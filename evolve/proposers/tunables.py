"""The tunable constants of a source text: finding them, and writing other values in their place.

A tunable is an assignment whose line ends in a comment that lists its values::

    constexpr int UNROLL = 4;  // tune: 1, 2, 4, 8
    #define TILE 32            // tune: 16, 32, 64
    BLOCK = 1024               # tune: 256, 512, 1024

In Triton, ``num_warps``, ``num_stages`` and defaults of ``tl.constexpr`` parameters are found without a comment too.
The compiler flags a task lets a candidate choose are tunables of its ``// build-flags:`` line.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from evaluators.source import evolve_blocks, flags_comment, flags_line, normal_form, picked_flags
from evaluators.task import Language

_TUNE_COMMENT = {
    "cpp": re.compile(r"//\s*tune:(.*)$"),
    "cuda": re.compile(r"//\s*tune:(.*)$"),
    "python": re.compile(r"#\s*tune:(.*)$"),
    "triton": re.compile(r"#\s*tune:(.*)$"),
}
_C_VALUE = re.compile(r"(?!=)(?:(?!//)[^;\s])(?:(?:(?!//)[^;])*[^;\s])?")
_C_ASSIGNMENT = re.compile(rf"^.*?\b([A-Za-z_]\w*)\s*=\s*({_C_VALUE.pattern})\s*;\s*$")
_C_DEFINE = re.compile(rf"^\s*#\s*define\s+([A-Za-z_]\w*)\s+({_C_VALUE.pattern})\s*$")
_PY_VALUE = re.compile(r"[^#=\s,](?:[^#=]*[^#=\s,])?")
_PY_ASSIGNMENT = re.compile(rf"^\s*([A-Za-z_]\w*)\s*(?::[^=]+)?=\s*({_PY_VALUE.pattern})\s*,?\s*$")
_LITERAL = re.compile(r"-?\d[\w.]*(?:[eE][+-]?\d+)?|\"[^\"#]*\"|'[^'#]*'|True|False|None")
_PY_ARGUMENT = re.compile(rf"^.*\b([A-Za-z_]\w*)\s*(?::\s*[\w.]+\s*)?=\s*({_LITERAL.pattern})[,)\]\s:]*$")
_TRITON_IMPLICIT = re.compile(
    r"\b(?:(num_warps|num_stages)|([A-Za-z_]\w*)\s*:\s*tl\.constexpr)\s*=\s*(\d+)(?=\s*[,):])"
)

_NUM_WARPS = ("1", "2", "4", "8", "16")
_NUM_STAGES = ("1", "2", "3", "4", "5", "6")
_SMALL_POWERS = ("1", "2", "4", "8")
_LARGE_POWERS = ("16", "32", "64", "128", "256", "512", "1024")
_BLANK = "\N{SYMBOL FOR NULL}"


@dataclass(frozen=True)
class Tunable:
    """One constant that may take other values."""

    name: str
    """Unique within its source: the second of the same name is ``NAME#2``."""
    choices: tuple[str, ...]
    """The values it may take, as they are written."""
    value: str
    """What the source says now; it need not be among the choices."""
    start: int
    """Where the value begins: a character offset in the source; -1 for a choice of the build-flags line."""

    @property
    def ordered(self) -> bool:
        """True where the choices are numbers in order, so that neighbours resemble each other."""
        numbers = [_number(choice) for choice in self.choices]
        return None not in numbers and numbers == sorted(numbers)  # type: ignore[type-var]


@dataclass(frozen=True)
class Tunables:
    """A source text and its tunables. Substituting changes the values and nothing else."""

    source: str
    constants: tuple[Tunable, ...]
    flags: tuple[Tunable, ...]
    """One for each group of the task's ``flag_choices``; empty where this source may not choose."""

    def __iter__(self) -> Iterator[Tunable]:
        yield from self.constants
        yield from self.flags

    def __bool__(self) -> bool:
        return bool(self.constants or self.flags)

    @property
    def values(self) -> dict[str, str]:
        """What the source says now."""
        return {tunable.name: tunable.value for tunable in self}

    @property
    def size(self) -> int:
        """How many combinations of choices there are; 1 where there is nothing to tune."""
        return math.prod(len(tunable.choices) for tunable in self)

    @property
    def structure(self) -> str:
        """A hash of the source with its values blanked: equal for sources that differ in tunable values only."""
        blanked = self._write({tunable.name: _BLANK for tunable in self.constants})
        line = flags_line(blanked) if self.flags else None
        if line is not None:
            lines = blanked.split("\n")
            blanked = "\n".join(lines[: line - 1] + lines[line:])
        return hashlib.sha256(normal_form(blanked).encode("utf-8", "surrogatepass")).hexdigest()

    def substitute(self, values: Mapping[str, str]) -> str:
        """The source with these values; names that are absent keep theirs.

        Raises:
            ValueError: An unknown name, or a value that is neither a choice nor what the source says now.
        """
        known = {tunable.name: tunable for tunable in self}
        for name, value in values.items():
            if name not in known:
                raise ValueError(f"no tunable named {name!r}")
            if value not in (*known[name].choices, known[name].value):
                raise ValueError(f"{value!r} is not a choice of {name}: {', '.join(known[name].choices)}")
        written = self._write({t.name: values.get(t.name, t.value) for t in self.constants})
        picked = [values.get(t.name, t.value) for t in self.flags]
        if picked == [t.value for t in self.flags]:
            return written
        default = picked == [t.choices[0] for t in self.flags]
        return _write_flags(written, None if default else flags_comment(picked))

    def _write(self, values: Mapping[str, str]) -> str:
        parts: list[str] = []
        position = 0
        for tunable in sorted(self.constants, key=lambda t: t.start):
            parts += [self.source[position : tunable.start], values[tunable.name]]
            position = tunable.start + len(tunable.value)
        return "".join([*parts, self.source[position:]])


def find_tunables(source: str, language: Language, flag_choices: Sequence[Sequence[str]] = ()) -> Tunables:
    """The tunables inside the regions of ``source`` that may change. Never raises: a broken text has none."""
    try:
        editable = _editable_lines(source)
    except ValueError:
        return Tunables(source, (), ())
    lines = source.split("\n")
    offsets = [0, *accumulate(len(line) + 1 for line in lines)]
    constants: list[Tunable] = []
    for index in editable:
        for name, value, start, choices in _in_line(lines[index], language):
            constants.append(Tunable(_unique(name, constants), choices, value, offsets[index] + start))
    return Tunables(source, tuple(constants), _flag_tunables(source, editable, language, flag_choices))


def _editable_lines(source: str) -> range | list[int]:
    """Indices of the lines inside regions; of all lines where there are no regions."""
    blocks = evolve_blocks(source)
    if not blocks:
        return range(source.count("\n") + 1)
    return [index for block in blocks for index in range(block.start_line, block.end_line - 1)]


def _in_line(line: str, language: Language) -> Iterator[tuple[str, str, int, tuple[str, ...]]]:
    """Name, value, column and choices of each tunable in one line."""
    comment = _TUNE_COMMENT[language].search(line)
    if comment:
        found = _assignment(line[: comment.start()], language)
        if found:
            match, pattern = found
            choices = tuple(c for c in _split(comment.group(1)) if pattern.fullmatch(c) and _balanced(c))
            if choices:
                yield match.group(1), match.group(2), match.start(2), choices
    elif language == "triton" and "Config(" not in line:
        code = line.split("#", 1)[0]
        for match in _TRITON_IMPLICIT.finditer(code):
            choices = _implicit_choices(match.group(1), match.group(3))
            if choices:
                yield match.group(1) or match.group(2), match.group(3), match.start(3), choices


def _assignment(code: str, language: Language) -> tuple[re.Match[str], re.Pattern[str]] | None:
    """The assignment a line ends in, and the pattern its values must match to be found again."""
    if language in ("cpp", "cuda"):
        match = _C_DEFINE.match(code) or _C_ASSIGNMENT.match(code)
        return (match, _C_VALUE) if match else None
    match = _PY_ASSIGNMENT.match(code)
    if match and _balanced(match.group(2)):
        return match, _PY_VALUE
    match = _PY_ARGUMENT.match(code)
    return (match, _LITERAL) if match else None


def _implicit_choices(keyword: str | None, value: str) -> tuple[str, ...]:
    options: tuple[tuple[str, ...], ...] = (_SMALL_POWERS, _LARGE_POWERS)
    if keyword:
        options = (_NUM_WARPS,) if keyword == "num_warps" else (_NUM_STAGES,)
    return next((choices for choices in options if value in choices), ())


def _flag_tunables(
    source: str, editable: Sequence[int], language: Language, flag_choices: Sequence[Sequence[str]]
) -> tuple[Tunable, ...]:
    if not flag_choices or language not in ("cpp", "cuda"):
        return ()
    try:
        line = flags_line(source)
        picked = picked_flags(source, flag_choices)
    except ValueError:
        return ()
    if line is not None and line - 1 not in editable:
        return ()
    groups = zip(flag_choices, picked, strict=True)
    return tuple(Tunable(f"build_flags_{n}", tuple(group), value, -1) for n, (group, value) in enumerate(groups, 1))


def _write_flags(source: str, comment: str | None) -> str:
    """The source with this build-flags line, or without one: where there was one, or else in the first region."""
    lines = source.split("\n")
    number = flags_line(source)
    blocks = evolve_blocks(source)
    index = number - 1 if number is not None else blocks[0].start_line if blocks else 0
    ending = "\r" if lines[0].endswith("\r") else ""
    lines[index : index + (number is not None)] = [comment + ending] if comment is not None else []
    return "\n".join(lines)


def _split(text: str) -> Iterator[str]:
    """The items of a list separated by commas outside brackets and quotes; no item twice."""
    seen: set[str] = set()
    depth, quote, item = 0, "", ""
    for char in f"{text},":
        if char == "," and depth <= 0 and not quote:
            if item.strip() and item.strip() not in seen:
                seen.add(item.strip())
                yield item.strip()
            item = ""
            continue
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        else:
            depth += (char in "([{") - (char in ")]}")
        item += char


def _balanced(text: str) -> bool:
    depth = 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        if depth < 0:
            return False
    return depth == 0


def _unique(name: str, taken: Sequence[Tunable]) -> str:
    count = sum(tunable.name.split("#")[0] == name for tunable in taken)
    return name if count == 0 else f"{name}#{count + 1}"


def _number(text: str) -> float | None:
    try:
        number = float(text.rstrip("uUlLfF").replace("'", "").replace("_", "")) if text[:2].lower() != "0x" else None
    except ValueError:
        return None
    return number if number is not None and math.isfinite(number) else None
