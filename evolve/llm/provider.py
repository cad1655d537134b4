"""Who serves models: known providers, a user's own, and the credentials that the environment holds for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from evaluators.errors import UsageError
from evolve.llm.errors import MissingKeyError
from evolve.llm.secret import Redactor
from evolve.llm.settings import LlmSettings, ModelName, ProviderSettings, WireName

KNOWN: dict[str, ProviderSettings] = {
    "openai": ProviderSettings(wire="chat", base_url="https://api.openai.com/v1", key_env="OPENAI_API_KEY"),
    "anthropic": ProviderSettings(wire="anthropic", base_url="https://api.anthropic.com", key_env="ANTHROPIC_API_KEY"),
    "openrouter": ProviderSettings(wire="chat", base_url="https://openrouter.ai/api/v1", key_env="OPENROUTER_API_KEY"),
    "ollama": ProviderSettings(wire="chat", base_url="http://127.0.0.1:11434/v1", concurrency=2),
    "vllm": ProviderSettings(wire="chat", base_url="http://127.0.0.1:8000/v1"),
}
BASE_URL_VARIABLES = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}
"""Known provider -> the variable whose address wins over the known one."""
_NO_KEY = "none"
"""Sent to servers that want no key; the SDKs insist on one."""


class ApiKey:
    """A key that shows itself to nobody but :meth:`reveal`'s caller."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The key itself, for the SDK's constructor only."""
        return self._value

    def __repr__(self) -> str:
        return "ApiKey(…)"

    def __reduce__(self) -> str:
        raise TypeError("an API key is not to be stored")


@dataclass(frozen=True)
class Endpoint:
    """Where requests to a provider go, and with which key."""

    provider: str
    wire: WireName
    base_url: str
    key: ApiKey


def provider_settings(settings: LlmSettings, model: ModelName) -> ProviderSettings:
    """The settings of a model's provider: the user's, else the known ones.

    Raises:
        UsageError: nobody knows that provider.
    """
    table = {**KNOWN, **settings.providers}
    if model.provider not in table:
        raise UsageError(
            f"model {model}: unknown provider {model.provider!r}; one of {', '.join(sorted(table))}, "
            f"or add [llm.providers.{model.provider}] with its base_url"
        )
    return table[model.provider]


def redactor(settings: LlmSettings, environment: Mapping[str, str]) -> Redactor:
    """Knows the keys of every provider that there is, whether a model of it is configured or not."""
    providers = (*KNOWN.values(), *settings.providers.values())
    return Redactor.from_environment(environment, [p.key_env for p in providers if p.key_env])


def refuse_keys(settings: LlmSettings, environment: Mapping[str, str]) -> None:
    """Refuse addresses that hold one of the environment's keys: the configuration is stored with the run.

    Raises:
        UsageError: names the provider and the variable.
    """
    known = redactor(settings, environment)
    for name, provider in settings.providers.items():
        variable = known.holder(unquote(provider.base_url or ""))
        if variable is not None:
            raise UsageError(f"llm.providers.{name}.base_url holds the key that {variable} holds: take it out")


def endpoint(settings: LlmSettings, model: ModelName, environment: Mapping[str, str]) -> Endpoint:
    """Where to reach a model.

    Raises:
        UsageError: unknown provider, or one without an address.
        MissingKeyError: the environment lacks its key.
    """
    provider = provider_settings(settings, model)
    name = model.provider
    address = environment.get(BASE_URL_VARIABLES.get(name, "")) or provider.base_url
    if not address or not address.startswith(("http://", "https://")):
        raise UsageError(f"llm.providers.{name}.base_url: give the server's address, for instance http://host:8000/v1")
    if provider.key_env is None:
        return Endpoint(name, provider.wire, address, ApiKey(_NO_KEY))
    key = environment.get(provider.key_env, "").strip()
    if not key:
        raise MissingKeyError(f"model {model}: set {provider.key_env} in the environment")
    if not key.isascii() or not key.isprintable() or " " in key:
        # It would fail inside the HTTP library, in a message that quotes it.
        raise MissingKeyError(f"model {model}: {provider.key_env} holds characters that no key has; set it anew")
    return Endpoint(name, provider.wire, address, ApiKey(key))
