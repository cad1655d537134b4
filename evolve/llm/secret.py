"""API keys: read from the environment, kept out of everything that is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_SHORTEST = 8
"""A shorter value is no key, and replacing it everywhere would garble texts."""
_HEADER_VARIABLES = ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS")
_KEY_VARIABLES = ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
_SHAPES = re.compile(
    r"(?<![\w-])(?:sk-|gsk_|xai-|hf_|nvapi-|AIza|AKIA|gh[opsu]_|github_pat_)(?=[\w-]*\d)[\w-]{16,}", re.ASCII
)
"""What the keys of well-known providers begin with, followed by what no word goes on with."""
_INSTEAD = "[key]"


def looks_like_key(text: str) -> bool:
    """Whether something in the text has the shape of a well-known provider's key."""
    return _SHAPES.search(text) is not None


class Redactor:
    """Knows the values of keys, and takes them out of texts.

    In what programs, compilers and models say only exact values are replaced: a filter that guesses from looks destroys
    mangled C++ names and compiler output. Remarks of people hold neither, and whoever types one often does so where
    the environment has no key to compare with: in them what looks like a key is replaced too.
    """

    def __init__(self, keys: Iterable[tuple[str, str]]) -> None:
        """``keys`` are pairs of an environment variable's name and a key that it holds."""
        named = {value: name for name, value in keys if len(value) >= _SHORTEST}
        self._names = dict(sorted(named.items(), key=lambda pair: len(pair[0]), reverse=True))

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], key_variables: Iterable[str]) -> Redactor:
        """Everything the SDKs would send as a credential, and the keys of the configured providers."""
        found = [(name, environment.get(name, "").strip()) for name in (*key_variables, *_KEY_VARIABLES)]
        for name in _HEADER_VARIABLES:
            lines = environment.get(name, "").splitlines()
            found += [(name, line.partition(":")[2].strip()) for line in lines]
        return cls(found)

    def clean(self, text: str) -> str:
        """The text without keys."""
        for secret in self._names:
            if secret in text:
                text = text.replace(secret, _INSTEAD)
        return text

    def clean_part(self, text: str) -> str:
        """The text without keys, where it may be part of a longer one.

        The beginning of a key at the text's end, and the end of one at its beginning, go too where they are half of the
        key or more: of two texts that make up a key one does not keep its part.
        """
        text = self.clean(text)
        for secret in self._names:
            for size in range(len(secret) - 1, max(_SHORTEST, (len(secret) + 1) // 2) - 1, -1):
                if text.endswith(secret[:size]):
                    text = text[:-size] + _INSTEAD
                if text.startswith(secret[-size:]):
                    text = _INSTEAD + text[size:]
        return text

    def clean_remark(self, text: str) -> str:
        """A person's or agent's remark without keys, and without what has the shape of one."""
        return _SHAPES.sub(_INSTEAD, self.clean(text))

    def holder(self, text: str) -> str | None:
        """The environment variable whose key stands in a text; ``None`` where none does."""
        return next((name for secret, name in self._names.items() if secret in text), None)

    def __repr__(self) -> str:
        return f"Redactor({len(self._names)} keys)"
