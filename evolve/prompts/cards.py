"""Knowledge cards: short, sourced facts, chosen by what limits the program and by what it runs on."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from evaluators.errors import UsageError
from evaluators.evaluation import Frozen
from evaluators.profile import Bottleneck
from evolve.prompts.context import PromptContext

_FRONT = re.compile(r"\A\+\+\+\n(.*?)\n\+\+\+\n(.*)\Z", re.DOTALL)


class CardHead(Frozen):
    """What stands between the ``+++`` lines at the top of a card."""

    title: str
    sources: tuple[str, ...]
    """Where the facts are from; a card without sources is refused."""
    architectures: tuple[str, ...] = ()
    """Only for these; empty: for all."""
    bottlenecks: tuple[Bottleneck, ...] = ()
    """For programs limited by one of these."""
    words: tuple[str, ...] = ()
    """For tasks whose name or description has one of these."""


@dataclass(frozen=True)
class Card:
    """One card."""

    name: str
    head: CardHead
    text: str

    def fits(self, context: PromptContext) -> bool:
        """Whether the facts are of use: on this architecture, and for what limits the program or is its subject."""
        head = self.head
        if head.architectures and context.architecture not in head.architectures:
            return False
        if not head.bottlenecks and not head.words:
            return True
        bottleneck = context.profile.bottleneck if context.profile else None
        about = f"{context.task.name} {context.task.description}".lower()
        return bottleneck in head.bottlenecks or _named(head.words, about)

    @property
    def about_architecture(self) -> bool:
        """Stays the same for a whole run, so it stands in the stable part of the prompt."""
        return bool(self.head.architectures) and not self.head.bottlenecks and not self.head.words


def load_cards(folders: Iterable[Path]) -> tuple[Card, ...]:
    """The cards of all folders; one of the same name in an earlier folder takes a later one's place.

    Raises:
        UsageError: a card's head is missing or wrong; names the file and the key.
    """
    cards: dict[str, Card] = {}
    for folder in folders:
        for path in sorted(folder.glob("knowledge/*.md")):
            cards.setdefault(path.stem, _load(path))
    return tuple(cards[name] for name in sorted(cards))


def _load(path: Path) -> Card:
    match = _FRONT.match(path.read_text("utf-8"))
    if match is None:
        raise UsageError(f"{path}: a knowledge card begins with its head between two lines of +++")
    try:
        head = CardHead.model_validate(tomllib.loads(match[1]))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: the head is not TOML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if not head.sources:
        raise UsageError(f"{path}: sources: name where the facts are from")
    return Card(path.stem, head, match[2].strip())


def _named(words: Iterable[str], about: str) -> bool:
    return any(re.search(rf"(?<![a-z0-9]){re.escape(word.lower())}", about) for word in words)
