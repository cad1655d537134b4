"""The proposer that asks language models: it chooses operator and model, makes a prompt, and reads the answer.

Every dialogue is written down before its first request, so that after a crash it is led again, under the same number
and with the answers that were paid for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evolve.database.model_records import Dialogue, Ending
from evolve.edits.dialogue import Ask, Spoken, converse
from evolve.edits.outcome import DECLINES, HOLDS_KEY, Edited
from evolve.edits.reading import EditContext
from evolve.errors import BudgetRefusedError, ProposerDownError
from evolve.llm.answer import Answer
from evolve.llm.bandit import Arm
from evolve.llm.ensemble import Question
from evolve.llm.errors import AllModelsDownError, CallError, CapError
from evolve.llm.request import CallKey, Message, Request
from evolve.llm.settings import ModelName
from evolve.policies.credit import Credit
from evolve.prompts.context import PromptContext
from evolve.prompts.operators import OPERATORS, fitting
from evolve.prompts.rendering import Prompt, TooLong
from evolve.proposers.llm_parts import History, Parts, Subject
from evolve.types import Dropped, Program, ProgramState, Proposal, ProposeContext, StopReason

NAME = "llm"
CALL_FAILED = "call_failed"
"""The outcome of a dialogue that a model's server ended: it says nothing of the operator."""
KNOWN = "known"
"""The outcome of a dialogue whose program the run holds already."""

TOO_LONG = "too_long"
"""The outcome of a dialogue that could not be gone on with after a crash."""


@dataclass(frozen=True)
class Draft:
    """A question about to be put."""

    arm: Arm
    subject: Subject
    facts: PromptContext
    prompt: Prompt


class LlmProposer:
    """See the module. Many proposals may be under way at once."""

    name = NAME
    in_flight = 8
    """Proposals under way where the configuration says nothing else."""

    def __init__(self, parts: Parts) -> None:
        """Ask with these parts."""
        self._parts = parts
        self._learnt = 0
        """From how many programs and endings; the order in which is kept over crashes."""
        self._resumed = {d.number: d for d in parts.dialogues.open_dialogues() if d.proposer == NAME}

    async def propose(self, context: ProposeContext) -> Proposal | Dropped | None:
        """See :class:`~evolve.types.Proposer`."""
        begun = self._resumed.get(context.number)  # kept: where nobody can be asked, its number is asked for again
        draft = self._again(context, begun) if begun else self.draft(context)
        if isinstance(draft, Dropped):
            return draft
        if draft is None:
            return None
        if begun is None:
            self._parts.dialogues.open_dialogue(_dialogue(context, draft))
        elif str(draft.arm.model) != begun.model:
            self._redirect(begun, str(draft.arm.model))
        self._parts.briefing.begin(draft.subject)
        try:
            spoken = await self._converse(context, draft)
        except CallError as error:
            rests = error.failure.retry_after_s is not None  # All calls to that model end so.
            return Dropped(CALL_FAILED, str(error), self._learnt, shared=rests)
        except CapError as error:
            raise BudgetRefusedError(error.reason) from None
        self._heard(draft.arm, spoken)
        if variable := self._parts.ensemble.holder(spoken.outcome.words):
            return self._dropped(context, draft.arm, HOLDS_KEY, f"what it answered holds the key that {variable} holds")
        if isinstance(spoken.outcome, Edited):
            return self._offered(context, draft, spoken, spoken.outcome)
        return self._dropped(context, draft.arm, spoken.outcome.reason.value, spoken.outcome.message)

    def draft(
        self,
        context: ProposeContext,
        operator: str | None = None,
        model: ModelName | None = None,
        subject: Subject | None = None,
    ) -> Draft | None:
        """What to ask whom, with nothing asked yet; ``None`` where nothing fits.

        Args:
            context: the run as it is.
            operator: this one, whether it fits or not.
            model: this one.
            subject: work on this; otherwise what the briefing chooses.

        Raises:
            ProposerDownError: no model can be asked.
            BudgetRefusedError: no model's call fits a cap any more.
        """
        ensemble = self._parts.ensemble
        subject = subject or self._parts.briefing.subject(context, context.rng, operator)
        facts = self._parts.briefing.facts(context, subject)
        operators = (operator,) if operator else fitting(facts)
        unfit = {Arm(o, m) for m in ensemble.models if model not in {None, m} for o in operators}
        refused: StopReason | None = None
        while (arm := self._choose(operators, context.rng, unfit)) is not None:
            try:
                drafted = self._drafted(arm, subject, facts)
                refused = ensemble.hopeless(arm, _question(drafted.prompt)) if drafted else None
            finally:
                ensemble.release(arm)
            if drafted is None:
                return None  # No operator shows less of the parent.
            if refused is None:
                return drafted
            unfit.add(arm)
        if refused is not None:
            raise BudgetRefusedError(refused)
        return None

    def request(self, draft: Draft) -> Request:
        """What would be sent first."""
        return self._parts.ensemble.request(draft.arm, _question(draft.prompt))

    def tell(self, program: Program) -> None:
        """See :class:`~evolve.types.Proposer`."""
        self._learnt += 1
        if program.model is not None:
            arm = Arm(program.operator, ModelName.parse(program.model))
            self._parts.ensemble.policy.learn(arm, self._parts.learning.reward(program))

    def replay(self, storage: History) -> None:
        """Learn again, in the order in which it was learnt: from programs, and from dialogues that became none."""
        endings = deque(sorted(storage.endings(), key=lambda pair: pair[1].learnt))
        for program in map(Credit().of, storage.programs(state=ProgramState.FINISHED)):
            if program.proposer != NAME or program.judge_failed:
                continue
            while endings and endings[0][1].learnt <= self._learnt:
                self._recall(*endings.popleft())
            self.tell(program)
        for dialogue, ending in endings:
            self._recall(dialogue, ending)

    def _recall(self, dialogue: Dialogue, ending: Ending) -> None:
        if dialogue.proposer == NAME and ending.outcome != CALL_FAILED:
            self._waste(Arm(dialogue.operator, ModelName.parse(dialogue.model)), dialogue.number)

    def _waste(self, arm: Arm, number: int) -> None:
        self._learnt += 1
        self._parts.ensemble.policy.learn(arm, self._parts.learning.wasted(number))

    def _choose(self, operators: Sequence[str], rng: np.random.Generator, without: Collection[Arm]) -> Arm | None:
        try:
            return self._parts.ensemble.choose(operators, rng, without)
        except AllModelsDownError as error:
            raise ProposerDownError(str(error), self._parts.waiting.rest_s(error)) from None

    def _drafted(self, arm: Arm, subject: Subject, facts: PromptContext) -> Draft | None:
        try:
            prompt = self._parts.book.render(replace(facts, operator=arm.operator))
        except TooLong:
            return None
        return Draft(arm, subject, facts, prompt)

    def _again(self, context: ProposeContext, begun: Dialogue) -> Draft | Dropped:
        """The draft of a dialogue that was broken off: the same question to the same model, as far as it is there."""
        subject = Subject(context.parent, begun.language)
        model = ModelName.parse(begun.model)
        arm = Arm(begun.operator, model)
        if not self._parts.ensemble.knows(model):
            other = self._choose((begun.operator,), context.rng, ())
            if other is None:
                words = f"{begun.model} is no longer among the models, and no other may do its {begun.operator}"
                return Dropped(CALL_FAILED, words, self._learnt)
            self._parts.ensemble.release(other)
            arm = other
        draft = self._drafted(arm, subject, self._parts.briefing.facts(context, subject))
        return draft or self._dropped(context, arm, TOO_LONG, "the prompt no longer fits its budget")

    def _redirect(self, begun: Dialogue, model: str) -> None:
        self._parts.dialogues.redirect_dialogue(begun.number, model)
        self._resumed[begun.number] = replace(begun, model=model)

    async def _converse(self, context: ProposeContext, draft: Draft) -> Spoken:
        task, parent = self._parts.task, draft.subject.parent
        edits = EditContext(
            parent=parent.source,
            seed=self._parts.seed,
            language=draft.subject.language,
            entry=task.entry,
            most_bytes=task.limits.source_bytes,
            same_language=draft.subject.language == parent.language,
        )
        return await converse(self._asking(draft), draft.prompt.user, edits, context.number, self._parts.book)

    def _asking(self, draft: Draft) -> Ask:
        async def ask(turns: tuple[Message, ...], key: CallKey) -> Answer:
            return await self._parts.ensemble.ask(draft.arm, Question(draft.prompt.system, turns), key)

        return ask

    def _heard(self, arm: Arm, spoken: Spoken) -> None:
        """A model that only declines is as good as down, and dearer."""
        outcome = spoken.outcome
        if not isinstance(outcome, Edited) and outcome.reason in DECLINES:
            said = f": {spoken.said!r}" if spoken.said else ""
            self._parts.ensemble.declined(arm, f"{outcome.message}{said}")
        else:
            self._parts.ensemble.worked(arm)
            self._parts.waiting.over()

    def _offered(self, context: ProposeContext, draft: Draft, spoken: Spoken, edited: Edited) -> Proposal | Dropped:
        arm, subject = draft.arm, draft.subject
        known = context.claim(edited.source, subject.language)
        if known is not None:
            words = f"equals program {known} up to layout, comments and local names"
            return self._dropped(context, arm, KNOWN, words)
        return offered(arm, subject, tuple(p.number for p in draft.facts.inspirations), spoken, edited)

    def _dropped(self, context: ProposeContext, arm: Arm, reason: str, message: str) -> Dropped:
        learnt = self._learnt
        self._waste(arm, context.number)
        return Dropped(reason, message, learnt)


def _question(prompt: Prompt) -> Question:
    return Question(prompt.system, (Message("user", prompt.user),))


def offered(arm: Arm, subject: Subject, inspirations: tuple[int, ...], spoken: Spoken, edited: Edited) -> Proposal:
    """The proposal that a dialogue came to; ``inspirations`` are those there were, whether the operator shows them."""
    shown = inspirations if "inspirations" in OPERATORS[arm.operator].sections else ()
    return Proposal(
        source=edited.source,
        language=subject.language,
        operator=arm.operator,
        proposer=NAME,
        parents=(subject.parent.number, *(shown if arm.operator == "crossover" else ())),
        inspirations=shown,
        model=str(arm.model),
        note=edited.note,
        details={
            "calls": spoken.calls,
            "reasons": [reason.value for reason in spoken.reasons],
            "tolerated": sorted(tolerance.value for tolerance in edited.tolerated),
        },
    )


def _dialogue(context: ProposeContext, draft: Draft) -> Dialogue:
    return Dialogue(
        number=context.number,
        proposer=NAME,
        island=context.island,
        parent=draft.subject.parent.number,
        inspirations=tuple(program.number for program in context.inspirations),
        language=draft.subject.language,
        operator=draft.arm.operator,
        model=str(draft.arm.model),
    )
