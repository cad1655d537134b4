"""API keys: read from the environment, kept out of everything that is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_SHORTEST = 8
"""A shorter value is no key, and replacing it everywhere would garble texts."""
_HEADER_VARIABLES = ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS")
_KEY_VARIABLES = ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


class Redactor:
    """Replaces the values of known keys, and nothing else, in a text.

    Only exact values are replaced: a filter that guesses from looks destroys mangled C++ names and compiler output.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        longest_first = sorted({s for s in secrets if len(s) >= _SHORTEST}, key=len, reverse=True)
        self._secrets = tuple(longest_first)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], key_variables: Iterable[str]) -> Redactor:
        """Everything the SDKs would send as a credential, and the keys of the configured providers."""
        found = [environment.get(name, "") for name in (*key_variables, *_KEY_VARIABLES)]
        for name in _HEADER_VARIABLES:
            found += [line.partition(":")[2].strip() for line in environment.get(name, "").splitlines()]
        return cls(value.strip() for value in found)

    def clean(self, text: str) -> str:
        """The text without keys."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, "[key]")
        return text

    def __repr__(self) -> str:
        return f"Redactor({len(self._secrets)} keys)"
