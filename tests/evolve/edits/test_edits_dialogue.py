"""A question becomes a program in at most one continuation and one repair."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evolve.edits.continuation import joined
from evolve.edits.dialogue import converse
from evolve.edits.outcome import Edited, Reason, Unusable
from evolve.edits.reading import EditContext
from evolve.llm.answer import Answer, Finish, Usage
from evolve.llm.request import CallKey

PARENT = (Path(__file__).parent / "answers" / "parent.cpp").read_text()
CONTEXT = EditContext(PARENT, PARENT, "cpp", "entry", 100_000)
CHANGED = PARENT.replace("float sum = 0;", "float sum = 1;")
WHOLE = f"```cpp\n{CHANGED}```\n"
MISSING = "<<<<<<< SEARCH\nnowhere();\n=======\nx\n>>>>>>> REPLACE\n"
GOOD = "<<<<<<< SEARCH\n        sum += a[i] * b[i];\n=======\n        sum += b[i] * a[i];\n>>>>>>> REPLACE\n"


class Teller:
    """Answers in turn, and keeps what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[tuple] = []

    async def __call__(self, turns, key):
        self.asked.append((turns, key))
        return self._answers.pop(0)


class PlainWords:
    def go_on(self) -> str:
        return "go on"

    def mend(self, unusable: Unusable) -> str:
        return f"{unusable.message}: {unusable.search}"


def _answer(text: str, finish: Finish = Finish.STOP) -> Answer:
    return Answer(text, finish, Usage())


async def test_a_good_answer_takes_one_call():
    teller = Teller(_answer(GOOD))
    spoken = await converse(teller, "prompt", CONTEXT, 7, PlainWords())
    assert isinstance(spoken.outcome, Edited)
    assert (spoken.calls, spoken.reasons) == (1, ())
    assert teller.asked[0][1] == CallKey(7, "propose")


async def test_a_mismatch_is_shown_once_and_mended():
    teller = Teller(_answer(MISSING), _answer(GOOD))
    spoken = await converse(teller, "prompt", CONTEXT, 7, PlainWords())
    assert isinstance(spoken.outcome, Edited)
    assert (spoken.calls, spoken.reasons) == (2, (Reason.NOT_FOUND,))
    turns, key = teller.asked[1]
    assert key == CallKey(7, "mend")
    assert [t.role for t in turns] == ["user", "assistant", "user"]
    assert "nowhere();" in turns[-1].text


async def test_a_second_mismatch_ends_it():
    teller = Teller(_answer(MISSING), _answer(MISSING))
    spoken = await converse(teller, "prompt", CONTEXT, 7, PlainWords())
    assert isinstance(spoken.outcome, Unusable)
    assert (spoken.calls, spoken.reasons) == (2, (Reason.NOT_FOUND, Reason.NOT_FOUND))


@pytest.mark.parametrize("text", ["", "I'm sorry, I can't help with that."])
async def test_what_says_nothing_is_not_asked_again(text):
    spoken = await converse(Teller(_answer(text)), "prompt", CONTEXT, 7, PlainWords())
    assert spoken.calls == 1


async def test_a_truncated_answer_is_continued():
    teller = Teller(_answer(WHOLE[:300], Finish.LENGTH), _answer(WHOLE[300:]))
    spoken = await converse(teller, "prompt", CONTEXT, 7, PlainWords())
    assert isinstance(spoken.outcome, Edited)
    assert spoken.outcome.source == CHANGED
    assert spoken.reasons == (Reason.TRUNCATED,)
    assert teller.asked[1][1] == CallKey(7, "continue-1")


async def test_an_answer_truncated_again_is_dropped():
    teller = Teller(_answer(WHOLE[:200], Finish.LENGTH), _answer(WHOLE[200:300], Finish.LENGTH))
    spoken = await converse(teller, "prompt", CONTEXT, 7, PlainWords())
    assert isinstance(spoken.outcome, Unusable)
    assert spoken.outcome.reason is Reason.TRUNCATED
    assert spoken.calls == 2


async def test_reasoning_up_to_the_limit_is_not_continued():
    spoken = await converse(Teller(_answer("", Finish.LENGTH)), "prompt", CONTEXT, 7, PlainWords())
    assert (spoken.calls, spoken.reasons) == (1, (Reason.REASONING_ONLY,))


@given(st.integers(20, len(WHOLE) - 5), st.sampled_from(["plain", "repeats", "line", "fence"]))
def test_wherever_it_broke_off_and_however_it_goes_on_the_text_is_whole(cut, how):
    head, tail = WHOLE[:cut], WHOLE[cut:]
    start = head.rfind("\n") + 1
    # After indentation or a character or two nobody can tell a line that is repeated from one that goes on.
    assume(how in {"plain", "repeats"} or len(head[start:].strip()) >= 3 or not head[start:])
    if how == "repeats":
        tail = WHOLE[max(0, cut - 40) :]
    elif how == "line":
        tail = WHOLE[start:]
    elif how == "fence" and head.count("```") == 1:
        tail = "```cpp\n" + WHOLE[start:]
    assert joined(_answer(head, Finish.LENGTH), _answer(tail)).text == WHOLE
