"""From a context to a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import jinja2
from jinja2.sandbox import SandboxedEnvironment

from evaluators.errors import UsageError
from evaluators.shipped import shipped_folder
from evolve.edits.outcome import Unusable
from evolve.llm.draft import estimate_tokens
from evolve.prompts.budget import SectionBudgets, fitting_items, fitting_text, shortened
from evolve.prompts.cards import Card, load_cards
from evolve.prompts.context import PromptContext, ShownProgram
from evolve.prompts.fencing import fenced, quoted
from evolve.prompts.operators import AGENT, OPERATORS, Operator
from evolve.prompts.settings import PromptSettings

_CHARACTERS_PER_TOKEN = 3


class TooLong(UsageError):
    """What cannot be cut does not fit its budget."""


@dataclass(frozen=True)
class Section:
    """One part of a prompt."""

    name: str
    text: str

    @property
    def tokens(self) -> int:
        """By our own estimate."""
        return estimate_tokens(self.text)


@dataclass(frozen=True)
class Prompt:
    """What is sent: a stable system text that providers can cache, and the user's message."""

    system: str
    sections: tuple[Section, ...]
    """Of the user's message, in order."""

    @property
    def user(self) -> str:
        """The user's message."""
        return "\n\n".join(section.text for section in self.sections)


class PromptBook:
    """Templates and knowledge cards: the shipped ones, and a run's or task's own in place of them.

    Args:
        folders: where to look first; a file there replaces the shipped one of the same path.
        budgets: of the sections.

    Raises:
        UsageError: a folder does not exist, or a card is wrong.
    """

    def __init__(self, folders: Sequence[Path] = (), budgets: SectionBudgets | None = None) -> None:
        for folder in folders:
            if not folder.is_dir():
                raise UsageError(f"{folder}: no such folder of prompts")
        where = [*folders, shipped_folder("prompts")]
        self._budgets = budgets or SectionBudgets()
        self._cards = load_cards(where)
        self._systems: dict[object, str] = {}
        self._fitting: dict[object, list[Card]] = {}
        self._templates = SandboxedEnvironment(
            loader=jinja2.FileSystemLoader(where),
            undefined=jinja2.StrictUndefined,
            autoescape=False,  # nothing here is HTML; foreign text is fenced
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {"fenced": fenced, "quoted": quoted}

    @classmethod
    def configured(cls, settings: PromptSettings, task_folder: Path) -> Self:
        """As a run's configuration and its task have it.

        Raises:
            UsageError: a folder does not exist, or a card is wrong.
        """
        own = [Path(settings.folder)] if settings.folder else []
        tasks = task_folder / "prompts"
        return cls([*own, *([tasks] if tasks.is_dir() else [])], settings.budgets)

    def render(self, context: PromptContext) -> Prompt:
        """The prompt for a context: the same context gives the same prompt.

        Raises:
            TooLong: the parent or the task does not fit its budget.
            UsageError: an unknown operator, or a template that cannot be rendered; names the file.
        """
        known = {**OPERATORS, AGENT.name: AGENT}
        if context.operator not in known:
            raise UsageError(f"operator {context.operator!r}: one of {', '.join(OPERATORS)}")
        operator = known[context.operator]
        cards = self._fitting_cards(context)
        sections = [Section("parent", self._parent(context))]
        for name in operator.sections:
            sections.append(Section(name, self._section(name, context, cards)))
        sections.append(Section("operator", self._instruction(operator, context)))
        return Prompt(self._system(context, cards), tuple(s for s in sections if s.text))

    def go_on(self) -> str:
        """What is said to a model whose answer broke off."""
        return self._text("answers/go_on.j2")

    def mend(self, unusable: Unusable) -> str:
        """What is said to a model whose answer does not fit; shows what it does not fit to."""
        most = self._budgets.detail * _CHARACTERS_PER_TOKEN
        shown = replace(unusable, search=shortened(unusable.search, most), closest=shortened(unusable.closest, most))
        return self._text("answers/mend.j2", unusable=shown)

    def _fitting_cards(self, context: PromptContext) -> list[Card]:
        bottleneck = context.profile.bottleneck if context.profile else None
        key = (context.task, context.architecture, bottleneck)
        if key not in self._fitting:
            self._fitting[key] = [card for card in self._cards if card.fits(context)]
        return self._fitting[key]

    def _system(self, context: PromptContext, cards: Sequence[Card]) -> str:
        stable = tuple(card for card in cards if card.about_architecture)
        key = (context.task, context.device, stable)
        if key not in self._systems:  # the same for nearly all prompts of a run
            self._systems[key] = self._new_system(context, stable)
        return self._systems[key]

    def _new_system(self, context: PromptContext, stable: Sequence[Card]) -> str:
        def render(cards: Sequence[Card]) -> str:
            # Only what does not change during a run: else no provider could cache it.
            return self._text("system.j2", task=context.task, device=context.device, cards=cards)

        return fitting_items(stable, self._budgets.system, render) or self._whole(
            "the task", render(()), self._budgets.system
        )

    def _parent(self, context: PromptContext) -> str:
        detail = context.parent.detail

        def render(some: str) -> str:
            shown = replace(context.parent, detail=shortened(some, self._budgets.detail * _CHARACTERS_PER_TOKEN))
            return self._text("sections/parent.j2", context=context, parent=shown)

        text = fitting_text(detail, self._budgets.parent, render) if detail else ""
        return text or self._whole(f"program {context.parent.number}", render(""), self._budgets.parent)

    def _section(self, name: str, context: PromptContext, cards: Sequence[Card]) -> str:
        budget = getattr(self._budgets, name)

        def listed(items: Sequence[Any]) -> str:
            return fitting_items(items, budget, lambda some: self._text(f"sections/{name}.j2", items=some))

        if name == "profile":
            return self._profile(context, budget)
        if name == "inspirations":
            return listed([_without_detail(program) for program in context.inspirations])
        if name == "failures":
            return listed([replace(f, detail=shortened(f.detail, self._budgets.detail)) for f in context.failures])
        if name == "knowledge":
            return listed([card for card in cards if not card.about_architecture])
        return listed(getattr(context, name))

    def _profile(self, context: PromptContext, budget: int) -> str:
        profile = context.profile
        if profile is None:
            return ""

        def render(text: str) -> str:
            return self._text("sections/profile.j2", profile=replace(profile, text=text))

        return fitting_text(profile.text, budget, render)

    def _instruction(self, operator: Operator, context: PromptContext) -> str:
        what = self._text(f"operators/{operator.name}.j2", context=context)
        how = self._text(f"answers/{operator.answer}.j2", context=context)
        return f"{what}\n\n{how}"

    def _whole(self, name: str, text: str, budget: int) -> str:
        tokens = estimate_tokens(text)
        if tokens > budget:
            raise TooLong(f"{name} takes about {tokens} tokens of a prompt where {budget} are allowed")
        return text

    def _text(self, template: str, **values: Any) -> str:
        try:
            return self._templates.get_template(template).render(**values).strip()
        except jinja2.TemplateNotFound as error:
            raise UsageError(f"prompts: no template {error}") from None
        except (jinja2.TemplateSyntaxError, jinja2.UndefinedError, jinja2.exceptions.SecurityError) as error:
            raise UsageError(f"prompts/{template}: {error}") from None


def _without_detail(program: ShownProgram) -> ShownProgram:
    return replace(program, detail="")
