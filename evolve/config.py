"""The configuration of ``evolve run``: defaults, then a TOML file, then ``--set key=value``; every mistake one line.

Keys of models are read from the environment by whoever needs them; none is ever part of a configuration.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel, Field, FiniteFloat, ValidationError, model_validator

from evaluators.client import SandboxMode
from evaluators.errors import UsageError
from evaluators.evaluation import Frozen
from evolve.proposers.tuner import TunerSettings
from evolve.settings import Caps, RunSettings, SearchSettings

Weight = Annotated[FiniteFloat, Field(ge=0)]


class JudgeConfig(Frozen):
    """How the judge is started."""

    sandbox: SandboxMode = "full"
    """The least sandbox to accept on this host; ``none`` is shown in every result."""


class StoreConfig(Frozen):
    """Where runs are kept."""

    folder: str = "runs"
    """Where ``evolve run`` makes a run's directory, unless ``--dir`` names one."""
    database: str | None = None
    """SQLAlchemy URL of the database; by default SQLite in the run's directory. Its password is never stored."""


class ProposerWeights(Frozen):
    """Each proposer's share of the proposals; 0 leaves it out."""

    tuner: Weight = 1.0
    """Searches the tunable values of programs; needs no language model."""
    agent: Weight = 0.0
    """Above 0: the run waits for agents outside (evolve ask, evolve tell) when nobody else has anything to propose.
    They may take part in any run at any time, so this is no share."""

    @model_validator(mode="after")
    def _somebody(self) -> Self:
        if not any(self.model_dump().values()):
            raise ValueError("at least one must be above 0")
        return self


class Config(Frozen):
    """Everything that can be configured."""

    task: str = ""
    """A shipped task's name or a task's folder; the command line names it."""
    search: SearchSettings = SearchSettings()
    """How the search goes about it."""
    caps: Caps = Caps()
    """What the run may use up; without any it goes on until it is stopped."""
    judge: JudgeConfig = JudgeConfig()
    """How programs are judged."""
    store: StoreConfig = StoreConfig()
    """Where the run is kept."""
    proposers: ProposerWeights = ProposerWeights()
    """Who proposes."""
    tuner: TunerSettings = TunerSettings()
    """The tuner's own settings."""

    @property
    def run_settings(self) -> RunSettings:
        """What is stored with the run."""
        return RunSettings(search=self.search, caps=self.caps)


def load_config(path: Path | None = None, assignments: Sequence[str] = (), base: Config | None = None) -> Config:
    """Defaults (or ``base``), then the file, then the assignments.

    Args:
        path: A TOML file; ``None`` for none.
        assignments: ``key=value`` texts as given to ``--set``; keys are dotted, values are TOML or else plain text.
        base: What to start from, for instance the configuration a run was started with.

    Raises:
        UsageError: The file is missing or no TOML, a key is unknown, or a value is not allowed.
    """
    document: dict[str, Any] = base.model_dump(mode="json", exclude_defaults=True) if base else {}
    origins: dict[str, str] = {}
    if path is not None:
        _merge(document, _read(path), str(path), origins)
    for assignment in assignments:
        _merge(document, _parse_assignment(assignment), "--set", origins)
    try:
        return Config.model_validate(document, strict=True)
    except ValidationError as error:
        raise UsageError(_explain(error, origins)) from None


def parse_config(text: str) -> Config:
    """Read back what :func:`dump_config` wrote.

    Raises:
        UsageError: It was written by a version with other keys; the line names the key.
    """
    document: dict[str, Any] = {}
    origins: dict[str, str] = {}
    _merge(document, tomllib.loads(text), "the run's stored configuration", origins)
    try:
        return Config.model_validate(document, strict=True)
    except ValidationError as error:
        raise UsageError(_explain(error, origins)) from None


def dump_config(config: Config) -> str:
    """The whole configuration as TOML, without secrets: what is stored with a run. Unset values are left out."""
    document = config.model_dump(mode="json", exclude_none=True)
    if config.store.database:
        document["store"]["database"] = _without_password(config.store.database)
    lines = [_line(key, value) for key, value in document.items() if not isinstance(value, dict)]
    for section, values in document.items():
        if isinstance(values, dict):
            lines += ["", f"[{section}]", *(_line(key, value) for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such configuration file") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from None


def _parse_assignment(assignment: str) -> dict[str, Any]:
    key, equals, text = assignment.partition("=")
    if not equals or not all(key.strip().split(".")):
        raise UsageError(f"--set {_short(assignment)}: write key=value, for instance --set caps.seconds=60")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    for part in reversed(key.strip().split(".")):
        value = {part: value}
    return dict(value)


def _merge(document: dict[str, Any], addition: Mapping[str, Any], origin: str, origins: dict[str, str]) -> None:
    """Lay ``addition`` over ``document``, refusing keys that no field has, and note where each key came from."""
    _merge_level(document, addition, Config, "", (origin, origins))


def _merge_level(
    document: dict[str, Any],
    addition: Mapping[str, Any],
    model: type[BaseModel],
    prefix: str,
    noted: tuple[str, dict[str, str]],
) -> None:
    origin, origins = noted
    for key, value in addition.items():
        dotted = prefix + key
        if key not in model.model_fields:
            raise UsageError(f"{origin}: unknown key {dotted!r}{_nearest(dotted)}")
        section = model.model_fields[key].annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            if not isinstance(value, Mapping):
                raise UsageError(
                    f"{origin}: {dotted!r} is a section: set one of its keys, for instance {_first(dotted)}"
                )
            _merge_level(document.setdefault(key, {}), value, section, f"{dotted}.", noted)
        else:
            document[key] = value
            origins[dotted] = origin


def _nearest(dotted: str) -> str:
    known = list(known_keys())
    close = difflib.get_close_matches(dotted, known, n=1, cutoff=0.6)
    tail = dotted.rpartition(".")[2]
    close = close or [key for key in known if key.rpartition(".")[2] == tail][:1]
    return f": did you mean {close[0]!r}?" if close else f"; known keys: {', '.join(known)}"


def known_keys(model: type[BaseModel] = Config, prefix: str = "") -> tuple[str, ...]:
    """Every key that can be set, dotted."""
    keys: list[str] = []
    for name, field in model.model_fields.items():
        section = field.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            keys += known_keys(section, f"{prefix}{name}.")
        else:
            keys.append(prefix + name)
    return tuple(keys)


def _first(section: str) -> str:
    return next(key for key in known_keys() if key.startswith(f"{section}."))


def _explain(error: ValidationError, origins: Mapping[str, str]) -> str:
    """The first thing wrong, in one line that names where it was said, the key and the value."""
    first = error.errors(include_url=False)[0]
    parts = [str(part) for part in first["loc"]]
    dotted = next(
        (".".join(parts[:n]) for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in origins), ".".join(parts)
    )
    reason = first["msg"].removeprefix("Value error, ").replace("Input should be", "must be").replace("\n", " ")
    return f"{origins.get(dotted, 'configuration')}: {dotted} = {_short(first['input'])}: {reason}"


def _short(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _line(key: str, value: object) -> str:
    # A JSON string, number or boolean is the same in TOML, but for one control character; infinite numbers are refused
    # before they get here.
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"{key} = {text}"


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at or ":" not in user:
        return url
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:***@{host}"))
