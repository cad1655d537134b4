"""Configuration as a document: laying one over another with every key checked, and writing one as TOML."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from evaluators.errors import UsageError

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_USERINFO = re.compile(r"//[^/@\s]*@")

ASSIGNED = "--set"
"""The origin of what the command line assigns."""
UNSET = "none"
"""The word for a value that is not there: TOML has none."""


@dataclass
class Document:
    """What was configured so far, checked against ``model``, and who said it.

    ``None`` unsets a key; one that cannot be unset takes it for the word that it was written as.
    """

    model: type[BaseModel]
    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    """Dotted key -> the file or option that it came from."""

    def lay_over(self, addition: Mapping[str, Any], origin: str) -> None:
        """Take in ``addition``, whose values win.

        Raises:
            UsageError: it has a key that no field has, or a value where a section belongs.
        """
        self._level(self.values, addition, self.model, "", origin)

    def explain(self, error: ValidationError) -> str:
        """The first thing wrong, in one line that names where it was said, the key and the value."""
        first = error.errors(include_url=False)[0]
        parts = [str(part) for part in first["loc"]]
        heads = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
        origin = next((self.origins[head] for head in heads if head in self.origins), "configuration")
        # A section that we refuse is not quoted: it may be refused because of what must not be shown.
        hidden = first["type"] == "value_error" and isinstance(first["input"], Mapping)
        value = "" if hidden else f" = {short(first['input'])}"
        where = f"{'.'.join(parts)}{value}: " if parts else ""
        return f"{origin}: {where}{reason(first)}"

    def strict_values(self) -> Any:
        """The values for strict validation: TOML's arrays are our tuples."""
        return _frozen(self.values)

    def _level(
        self, values: dict[str, Any], addition: Mapping[str, Any], model: type[BaseModel], prefix: str, origin: str
    ) -> None:
        for key, value in addition.items():
            dotted = prefix + key
            if key not in model.model_fields:
                raise UsageError(f"{origin}: unknown key {dotted!r}{self._nearest(dotted, value)}")
            annotation = model.model_fields[key].annotation
            section, many = _section(annotation)
            if section is None or many is tuple:
                if section is not None:
                    self._check_list(value, section, dotted, origin)
                values[key] = UNSET if value is None and not _may_be_unset(annotation) else value
                self.origins[dotted] = origin
                continue
            self._check_section(value, dotted, origin)
            inside = values.setdefault(key, {})
            if many is dict:
                for name, entry in value.items():
                    self._check_section(entry, f"{dotted}.{name}", origin)
                    self.origins[f"{dotted}.{name}"] = origin
                    self._level(inside.setdefault(name, {}), entry, section, f"{dotted}.{name}.", origin)
            else:
                self._level(inside, value, section, f"{dotted}.", origin)

    def _check_list(self, value: object, section: type[BaseModel], dotted: str, origin: str) -> None:
        if not isinstance(value, Sequence) or not all(isinstance(entry, Mapping) for entry in value):
            write = listed(dotted, section) if origin == ASSIGNED else f"write [[{dotted}]] for each"
            raise UsageError(f"{origin}: {dotted!r} is a list of sections: {write}")
        for entry in value:
            self._level({}, entry, section, f"{dotted}.", origin)

    def _check_section(self, value: object, dotted: str, origin: str) -> None:
        if not isinstance(value, Mapping):
            first = next((key for key in known_keys(self.model) if key.startswith(f"{dotted}.")), f"{dotted}.KEY")
            raise UsageError(f"{origin}: {dotted!r} is a section: set one of its keys, for instance {first}")

    def _nearest(self, dotted: str, value: object) -> str:
        """What was perhaps meant: a key by its whole name or its last part, else a section."""
        known = list(known_keys(self.model))
        whole = _first_key(dotted, value)
        close = difflib.get_close_matches(whole, known, n=1, cutoff=0.6)
        tail = whole.rpartition(".")[2]
        close = close or [key for key in known if key.rpartition(".")[2] == tail][:1]
        sections = dict.fromkeys(section for key in known if (section := key.rpartition(".")[0]))
        close = close or difflib.get_close_matches(dotted, sections, n=1, cutoff=0.6)
        return f": did you mean {close[0]!r}?" if close else f"; known keys: {', '.join(known)}"


def known_keys(model: type[BaseModel], prefix: str = "") -> tuple[str, ...]:
    """Every key that can be set, dotted. ``NAME`` stands for a name that one chooses."""
    keys: list[str] = []
    for name, info in model.model_fields.items():
        section, many = _section(info.annotation)
        if section is None:
            keys.append(prefix + name)
        else:
            keys += known_keys(section, f"{prefix}{name}.{'NAME.' if many is dict else ''}")
    return tuple(keys)


def listed(dotted: str, section: type[BaseModel]) -> str:
    """How a list of sections is given on a command line."""
    first = next(iter(section.model_fields))
    example = (section.model_fields[first].examples or ["..."])[0]
    return f"--set '{dotted}=[{{{first}={json.dumps(example)}}}]'"


def to_toml(document: Mapping[str, Any]) -> str:
    """A document of plain values as TOML."""
    return "\n".join(_table(document, ())).strip("\n") + "\n"


def short(value: object) -> str:
    """A value for a message: one line, cut, without what stands before an address's ``@``."""
    text = _USERINFO.sub("//***@", json.dumps(value, default=str))
    return text if len(text) <= 60 else text[:57] + "..."


def reason(detail: ErrorDetails) -> str:
    """What pydantic says is wrong with one value, on one line."""
    words = detail["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    return " ".join(words.split())


def _section(annotation: Any) -> tuple[type[BaseModel] | None, type | None]:
    """The model behind a field, and whether there are many of it: by name (``dict``) or in a row (``tuple``)."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, None
    many = get_origin(annotation)
    inner = [a for a in get_args(annotation) if isinstance(a, type) and issubclass(a, BaseModel)]
    return (inner[0], many) if many in {dict, tuple} and inner else (None, None)


def _first_key(dotted: str, value: object) -> str:
    """The dotted name of the first key in ``value``, which stands at ``dotted``."""
    while isinstance(value, Mapping) and value:
        key, value = next(iter(value.items()))
        dotted = f"{dotted}.{key}"
    return dotted


def _may_be_unset(annotation: Any) -> bool:
    return type(None) in get_args(annotation)


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    yield from (_line(key, value) for key, value in table.items() if not _is_table(value))
    for key, value in table.items():
        here = (*path, key)
        if isinstance(value, Mapping) and value:
            if any(not _is_table(entry) for entry in value.values()):
                yield from ("", f"[{_dotted(here)}]")
            yield from _table(value, here)
        elif isinstance(value, list) and _is_table(value):
            for entry in value:
                yield from ("", f"[[{_dotted(here)}]]", *_table(entry, here))


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list) and bool(value) and all(isinstance(entry, Mapping) for entry in value)
    )


def _dotted(path: Sequence[str]) -> str:
    return ".".join(_key(part) for part in path)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _line(key: str, value: object) -> str:
    # A JSON string, number, boolean or array is the same in TOML, but for one control character; infinite numbers are
    # refused before they get here.
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"{_key(key)} = {text}"


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _frozen(entry) for key, entry in value.items()}
    return tuple(_frozen(entry) for entry in value) if isinstance(value, list | tuple) else value
