"""What holds for every answer and every program."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evaluators.source import check_blocks
from evolve.edits.outcome import Edited, Reason, Unusable
from evolve.edits.reading import EditContext, read_answer
from evolve.llm.answer import Answer, Finish, Usage

FRAME = "#include <cmath>\n// EVOLVE-BLOCK-START\n{}\n// EVOLVE-BLOCK-END\nextern void entry(int);\n"

_word = st.text("abxy(){};=+*<>/ \t", min_size=1, max_size=8).map(str.strip).filter(bool)
_line = st.tuples(st.sampled_from(["", "    ", "        "]), _word).map("".join)
_body = st.lists(_line, min_size=1, max_size=12)
_junk = st.lists(
    st.sampled_from(
        ["<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE", "```cpp", "```", "~~~", "@@ -1,2 +1,2 @@", "-x", "+y", "...",
         "// EVOLVE-BLOCK-START", "// EVOLVE-BLOCK-END", "int x;", "", "\t", "1: a", "2: b",
         "void entry(int) {", "é\u2028"]
    )
    | st.text(max_size=30),
    max_size=25,
).map("\n".join)  # fmt: skip


def _answer(text: str, finish: Finish = Finish.STOP) -> Answer:
    return Answer(text, finish, Usage())


def _context(source: str) -> EditContext:
    return EditContext(source, source, "cpp", "entry", 100_000)


def _diff(search: list[str], replace: list[str]) -> str:
    return "\n".join(["<<<<<<< SEARCH", *search, "=======", *replace, ">>>>>>> REPLACE", ""])


def _occurrences(lines: list[str], window: list[str]) -> int:
    """How often a window stands there under any uniform indentation: the reading that finds most."""
    size, plain = len(window), [line.strip() for line in window]
    return sum([line.strip() for line in lines[n : n + size]] == plain for n in range(len(lines) - size + 1))


@settings(max_examples=300)
@given(_junk, st.sampled_from(list(Finish)))
def test_no_answer_makes_reading_fail_or_changes_what_is_fixed(text, finish):
    seed = FRAME.format("int x;\nint y;\n\tint z;")
    outcome = read_answer(_answer(text, finish), _context(seed))
    if isinstance(outcome, Edited):
        assert check_blocks(seed, outcome.source) is None
        assert outcome.source != seed
    else:
        assert isinstance(outcome, Unusable)


@st.composite
def _edits(draw):
    """A body, a window of it that stands there once, and what to put in its place."""
    body = draw(_body)
    start = draw(st.integers(0, len(body) - 1))
    end = draw(st.integers(start + 1, len(body)))
    window = body[start:end]
    source = FRAME.format("\n".join(body))
    assume(_occurrences(source.split("\n"), window) == 1)
    replacement = draw(_body)
    assume([line.strip() for line in replacement] != [line.strip() for line in window])
    expected = FRAME.format("\n".join([*body[:start], *replacement, *body[end:]]))
    return source, window, replacement, expected


@given(_edits())
def test_a_quoted_window_is_replaced_and_nothing_else(edit):
    source, window, replacement, expected = edit
    outcome = read_answer(_answer("Change:\n" + _diff(window, replacement)), _context(source))
    assert isinstance(outcome, Edited), outcome
    assert outcome.source == expected


@given(_edits(), st.sampled_from(["crlf", "trailing", "fence", "shift", "numbers"]))
def test_the_same_edit_badly_written_comes_to_the_same(edit, how):
    source, window, replacement, expected = edit
    text = _diff(window, replacement)
    if how == "crlf":
        text = text.replace("\n", "\r\n")
    elif how == "trailing":
        text = _diff([line + "  " for line in window], replacement)
    elif how == "fence":
        text = f"```cpp\n{text}```"
    elif how == "shift":
        text = _diff(["  " + line for line in window], ["  " + line for line in replacement])
    elif how == "numbers":
        assume(len(window) > 1)
        text = _diff([f"{n:4}: {line}" for n, line in enumerate(window, 7)], replacement)
    outcome = read_answer(_answer(text), _context(source))
    assert isinstance(outcome, Edited), outcome
    assert outcome.source == expected


@given(_body, _word)
def test_what_stands_twice_is_never_edited(body, line):
    assume(all(other.strip() != line for other in body))
    source = FRAME.format("\n".join([line, *body, line]))
    outcome = read_answer(_answer(_diff([line], ["something_else;"])), _context(source))
    assert isinstance(outcome, Unusable)
    assert outcome.reason is Reason.AMBIGUOUS
    assert outcome.repairable


@given(_edits(), _word)
def test_of_several_blocks_all_are_made_or_none(edit, absent):
    source, window, replacement, _ = edit
    assume(all(absent not in line for line in (*source.split("\n"), *replacement)))
    outcome = read_answer(_answer(_diff(window, replacement) + _diff([absent], ["x"])), _context(source))
    assert isinstance(outcome, Unusable)


@given(_body)
def test_a_whole_program_is_taken_as_it_is(body):
    assume(any(line.strip() != "int x;" for line in body))
    seed = FRAME.format("int x;")
    program = FRAME.format("\n".join(body))
    outcome = read_answer(_answer(f"```cpp\n{program}```"), _context(seed))
    assert isinstance(outcome, Edited), outcome
    assert outcome.source == program
