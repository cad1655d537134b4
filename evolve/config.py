"""The configuration of ``evolve run``: defaults, then a TOML file, then ``--set key=value``; every mistake one line.

Keys of models are read from the environment by whoever needs them; none is ever part of a configuration.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, FiniteFloat, ValidationError, model_validator

from evaluators.client import SandboxMode
from evaluators.errors import UsageError
from evaluators.evaluation import Frozen
from evolve.config_document import ASSIGNED, UNSET, Document, short, to_toml
from evolve.database_url import without_password
from evolve.llm.settings import LlmSettings
from evolve.prompts.settings import PromptSettings
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
    llm: Weight | None = None
    """Asks the models of ``[llm]``; unset: 1 where any is named."""
    agent: Weight = 0.0
    """Above 0: the run waits for agents outside (evolve ask, evolve tell) when nobody else has anything to propose.
    They may take part in any run at any time, so this is no share."""


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
    llm: LlmSettings = LlmSettings()
    """Language models: which, where, at what price."""
    prompts: PromptSettings = PromptSettings()
    """What they are told."""

    @model_validator(mode="after")
    def _somebody(self) -> Self:
        if self.proposers.llm and not self.llm.models:
            raise ValueError("proposers.llm is above 0 and llm.models names none: add [[llm.models]] with a name")
        if not any(self.shares.values()):
            raise ValueError("proposers: at least one must be above 0")
        return self

    @property
    def shares(self) -> dict[str, float]:
        """Each proposer's share of the proposals."""
        llm = self.proposers.llm
        return {**self.proposers.model_dump(), "llm": float(bool(self.llm.models)) if llm is None else llm}

    @property
    def run_settings(self) -> RunSettings:
        """What is stored with the run."""
        return RunSettings(search=self.search, caps=self.caps)


def load_config(path: Path | None = None, assignments: Sequence[str] = (), base: Config | None = None) -> Config:
    """Defaults (or ``base``), then the file, then the assignments.

    Args:
        path: A TOML file; ``None`` for none.
        assignments: ``key=value`` texts as given to ``--set``; keys are dotted, values are TOML or else plain text.
            ``none`` unsets a key that may be unset.
        base: What to start from, for instance the configuration a run was started with.

    Raises:
        UsageError: The file is missing or no TOML, a key is unknown, or a value is not allowed.
    """
    document = Document(Config, base.model_dump(mode="json", exclude_defaults=True) if base else {})
    if path is not None:
        document.lay_over(_read(path), str(path))
    for assignment in assignments:
        document.lay_over(_parse_assignment(assignment), ASSIGNED)
    return _validated(document)


def parse_config(text: str) -> Config:
    """Read back what :func:`dump_config` wrote.

    Raises:
        UsageError: It was written by a version with other keys; the line names the key.
    """
    document = Document(Config)
    document.lay_over(tomllib.loads(text), "the run's stored configuration")
    return _validated(document)


def dump_config(config: Config) -> str:
    """The whole configuration as TOML, without secrets: what is stored with a run. Unset values are left out."""
    document = config.model_dump(mode="json", exclude_none=True)
    if config.store.database:
        document["store"]["database"] = without_password(config.store.database)
    return to_toml(document)


def _validated(document: Document) -> Config:
    try:
        return Config.model_validate(document.strict_values(), strict=True)
    except ValidationError as error:
        raise UsageError(document.explain(error)) from None


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
        raise UsageError(f"--set {short(assignment)}: write key=value, for instance --set caps.seconds=60")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = None if text.strip() == UNSET else text
    for part in reversed(key.strip().split(".")):
        value = {part: value}
    return dict(value)
