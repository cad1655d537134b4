"""What a user may configure about language models. Keys are never settings: they come from the environment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal, Self
from urllib.parse import parse_qsl, unquote

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from evaluators.errors import UsageError
from evaluators.evaluation import Frozen
from evolve.llm.secret import looks_like_key
from evolve.settings import Share

WireName = Literal["chat", "responses", "anthropic"]
Effort = Literal["minimal", "low", "medium", "high", "xhigh", "max"]

_CREDENTIAL = re.compile(r"key|token|secret|passw|pwd|auth|credential|signature|\Asig\Z", re.IGNORECASE)
"""In the names of an address's parameters."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, order=True)
class ModelName:
    """``provider/model``, for instance ``anthropic/claude-sonnet-4-5`` or ``openrouter/qwen/qwen3-coder``."""

    provider: str
    model: str

    @classmethod
    def parse(cls, text: str) -> ModelName:
        """Split at the first slash; both sides must be there.

        Raises:
            UsageError: the text is not ``provider/model``.
        """
        provider, slash, model = text.strip().partition("/")
        if not (provider and slash and model):
            raise UsageError(f"model {text!r}: write it as provider/model, for instance openai/gpt-5-mini")
        return cls(provider, model)

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


class ProviderSettings(Frozen):
    """Where a provider is and what it may be asked at once."""

    wire: WireName = "chat"
    """``chat``: OpenAI chat completions, what every compatible server speaks; ``responses``: OpenAI's newer API;
    ``anthropic``: Anthropic messages."""
    base_url: str | None = None
    """``None``: the provider's own. ``$NAME_BASE_URL`` overrides it for ``openai`` and ``anthropic``."""
    key_env: str | None = None
    """Name of the environment variable that holds the key; ``None`` for servers that want none."""
    concurrency: PositiveInt = 32
    """Requests at once."""
    requests_per_minute: PositiveFloat | None = None
    tokens_per_minute: PositiveFloat | None = None

    @model_validator(mode="after")
    def _no_secret(self) -> Self:
        url, variable = self.base_url or "", self.key_env
        if "@" in url.partition("//")[2].partition("/")[0]:
            raise ValueError("no password in an address: name its environment variable as key_env")
        names = [name for part in re.split("[?#]", url)[1:] for name, _ in parse_qsl(part, keep_blank_values=True)]
        if any(_CREDENTIAL.search(name) for name in names) or looks_like_key(unquote(url)):
            raise ValueError("no key in base_url: name the environment variable that holds it as key_env")
        if variable is not None and (not _VARIABLE.fullmatch(variable) or looks_like_key(variable)):
            raise ValueError("key_env is the name of the environment variable that holds the key, not the key")
        return self


class ModelSettings(Frozen):
    """One model of the ensemble."""

    name: Annotated[str, Field(examples=["provider/model"])]
    """``provider/model``."""
    weight: NonNegativeFloat = 1.0
    operators: tuple[str, ...] = ()
    """The operators it may be used for; empty: all."""
    max_output_tokens: Annotated[int, Field(ge=256)] = 16_384
    """Reasoning included. It is the worst case that the dollar cap is checked with."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    effort: Effort | None = None
    """Reasoning effort, where the model has one."""
    thinking_tokens: Annotated[int, Field(ge=1024)] | None = None
    """A fixed thinking budget (Anthropic); part of ``max_output_tokens``."""

    @model_validator(mode="after")
    def _room_to_answer(self) -> Self:
        if self.thinking_tokens is not None and self.thinking_tokens >= self.max_output_tokens:
            raise ValueError(f"model {self.name}: thinking_tokens must be below max_output_tokens")
        return self


class PriceSettings(Frozen):
    """US dollars per million tokens."""

    input: NonNegativeFloat
    output: NonNegativeFloat
    cached_input: NonNegativeFloat | None = None
    """Read from the provider's prompt cache; ``None``: as ``input``."""
    cache_write: NonNegativeFloat | None = None
    """Written to the prompt cache; ``None``: as ``input``."""


class PatienceSettings(Frozen):
    """How long to wait for a model, and how often to ask again."""

    attempts: PositiveInt = 6
    """Requests for one answer, the first included."""
    call_s: PositiveFloat = 900.0
    """From the first request to the last byte, waiting between attempts included."""
    first_byte_s: PositiveFloat = 300.0
    """Until the answer begins; models that reason may stay silent for minutes."""
    silence_s: PositiveFloat = 60.0
    """Between two pieces of a stream."""
    backoff_s: PositiveFloat = 1.0
    """First wait where the server does not name one; doubles each time, with jitter."""
    backoff_most_s: PositiveFloat = 60.0
    """The longest wait within a call. Where a server names a longer one the call fails and the model rests so long."""
    failures: PositiveInt = 4
    """Calls in a row that failed after all their requests, or dialogues that it declined, after which a model rests."""
    rest_s: PositiveFloat = 60.0
    """The first rest; doubles each time the first call after it fails too."""
    rest_most_s: PositiveFloat = 1800.0
    outage_s: NonNegativeFloat = 1800.0
    """While every model rests the run waits so long for one, then it pauses and can be resumed."""


class LlmSettings(Frozen):
    """The ``[llm]`` section."""

    models: tuple[ModelSettings, ...] = ()
    providers: dict[str, ProviderSettings] = Field(default={})
    """Beside, or in place of, the known ones: openai, anthropic, openrouter, ollama, vllm."""
    prices: dict[str, PriceSettings] = Field(default={})
    """``provider/model`` -> price; wins over the data file."""
    choose: Literal["weights", "bandit"] = "bandit"
    usd_per_device_hour: NonNegativeFloat = 3.0
    """What an hour of the device is worth, for weighing model cost against device time in the bandit."""
    repair: Share = 0.15
    """Share of proposals that mend a program that failed, where there is one."""
    port: Share = 0.1
    """Share of proposals that write a program anew in another of the task's languages, where it has several."""
    patience: PatienceSettings = PatienceSettings()
