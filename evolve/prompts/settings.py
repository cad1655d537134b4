"""What a user may configure about prompts."""

from __future__ import annotations

from evaluators.evaluation import Frozen
from evolve.prompts.budget import SectionBudgets


class PromptSettings(Frozen):
    """The ``[prompts]`` section."""

    folder: str | None = None
    """Templates and knowledge cards of one's own: a file there takes the place of the shipped one of the same path. A
    task's folder may hold ``prompts/`` too; this one comes before it."""
    budgets: SectionBudgets = SectionBudgets()
    """Tokens that a section may take."""
