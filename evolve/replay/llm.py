"""The proposer ``llm`` without models: each dialogue is led again with the stored answers.

Whom to ask, with which operator and about which program was decided by prices, outages and clocks, and is given back as
it was written down. What the answers mean is worked out again: edits, repairs, continuations, and whether the run holds
the program already.
"""

from __future__ import annotations

from evolve.database.model_records import Dialogue, Ending
from evolve.database.storage import Storage
from evolve.edits.dialogue import converse
from evolve.edits.outcome import HOLDS_KEY, Edited, Unusable
from evolve.edits.reading import EditContext
from evolve.llm.answer import Answer
from evolve.llm.bandit import Arm
from evolve.llm.request import CallKey, Message
from evolve.llm.settings import ModelName
from evolve.model_books import stored_answer
from evolve.prompt_facts import diverse
from evolve.proposers.llm import CALL_FAILED, KNOWN, NAME, TOO_LONG, offered
from evolve.proposers.llm_parts import Subject
from evolve.replay.errors import DifferenceError
from evolve.replay.recording import Recording
from evolve.replay.turns import RecordedTurns
from evolve.run import Run
from evolve.types import Dropped, Program, Proposal, ProposeContext

_NOT_THE_ANSWERS = frozenset({CALL_FAILED, TOO_LONG, HOLDS_KEY})
"""Outcomes that do not follow from what models answered: a replay knows no keys."""


class RecordedLlm:
    """Stands in for :class:`evolve.proposers.llm.LlmProposer`."""

    name = NAME

    def __init__(self, recording: Recording, run: Run, turns: RecordedTurns) -> None:
        """Lead the dialogues of ``recording`` again, for ``run``."""
        self._recording = recording
        self._run = run
        self._turns = turns
        self._dialogues: dict[int, Dialogue] = {d.number: d for d in recording.storage.dialogues()}
        self._endings: dict[int, Ending] = {dialogue.number: end for dialogue, end in recording.storage.endings()}

    async def propose(self, context: ProposeContext) -> Proposal | Dropped | None:
        """What the stored answers come to; ``None`` where no model was asked."""
        dialogue = self._dialogues.get(context.number)
        if dialogue is None or dialogue.proposer != NAME:
            return None
        if not context.resumes:
            self._run.storage.open_dialogue(dialogue)
        await self._turns.answers(context.number)
        ending = self._endings.get(context.number)
        if ending is not None and ending.outcome in _NOT_THE_ANSWERS:
            return Dropped(ending.outcome, ending.message, ending.learnt)
        return await self._led_again(context, dialogue, ending.learnt if ending else 0)

    def tell(self, program: Program) -> None:
        """It chooses nothing that it would have to learn for."""

    def replay(self, storage: Storage) -> None:
        """Nor has it anything to learn again."""

    async def _led_again(self, context: ProposeContext, dialogue: Dialogue, told: int) -> Proposal | Dropped:
        task, parent = self._run.task, self._run.program(dialogue.parent)
        edits = EditContext(
            parent=parent.source,
            seed=self._recording.seed().source,
            language=dialogue.language,
            entry=task.entry,
            most_bytes=task.limits.source_bytes,
            same_language=dialogue.language == parent.language,
        )
        spoken = await converse(self._answer, "", edits, context.number, _NoWords())
        if not isinstance(spoken.outcome, Edited):
            return Dropped(spoken.outcome.reason.value, spoken.outcome.message, told)
        known = context.claim(spoken.outcome.source, dialogue.language)
        if known is not None:
            return Dropped(KNOWN, f"equals program {known}", told)
        arm = Arm(dialogue.operator, ModelName.parse(dialogue.model))
        shown = tuple(program.number for program in diverse(parent, context.inspirations))
        return offered(arm, Subject(parent, dialogue.language), shown, spoken, spoken.outcome)

    async def _answer(self, turns: tuple[Message, ...], key: CallKey) -> Answer:
        """The stored answer to a question, put down in the replayed run as well."""
        call = self._recording.storage.model_answer(key.number, key.step)
        stored = stored_answer(call) if call is not None else None
        if call is None or call.reply is None or stored is None:
            raise DifferenceError(f"program {key.number}: the replay asks a model ({key.step}), the run did not")
        number = self._run.booking.model_asked(call.request)
        self._run.budget.book(self._run.booking.model_ended(number, key.number, call.reply))
        return stored.answer


class _NoWords:
    """Nobody reads what is said in later turns: the answers are there."""

    def go_on(self) -> str:
        return ""

    def mend(self, unusable: Unusable) -> str:
        return ""
