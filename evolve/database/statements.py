"""The writing statements that run for every program.

All take the parameter ``run``; those on one row take its number as ``this``. Each transition names the state it starts
from, so that a program that is elsewhere is not touched.
"""

from __future__ import annotations

from sqlalchemy import bindparam, insert, literal, select, update
from sqlalchemy.dialects import postgresql

from evolve.database.schema import answers, cells, evaluations, events, islands, ledger, programs, runs, steps, texts
from evolve.types import AddStatus, ProgramState

_QUEUED, _JUDGED, _FINISHED = (state.value for state in ProgramState)

ADD_TEXT = postgresql.insert(texts).on_conflict_do_nothing()
"""In the words of PostgreSQL, which are SQLite's too. Several processes may store one text at the same instant."""

_THIS = (programs.c.run_id == bindparam("run"), programs.c.number == bindparam("this"))
JUDGE = (
    update(programs)
    .where(*_THIS, programs.c.state == _QUEUED, programs.c.duplicate_of.is_(None))
    .values(state=_JUDGED, judged_at=bindparam("now"))
)
FINISH = (
    update(programs)
    .where(*_THIS, programs.c.state == _JUDGED)
    .values(state=_FINISHED, placement=bindparam("placed"), finish_order=bindparam("nth"), finished_at=bindparam("now"))
)
FINISH_DUPLICATE = (
    update(programs)
    .where(*_THIS, programs.c.state == _QUEUED, programs.c.duplicate_of == bindparam("original"))
    .values(
        state=_FINISHED,
        placement=AddStatus.NOT_ADDED.value,
        finish_order=bindparam("nth"),
        finished_at=bindparam("now"),
    )
)
ATTEMPT = (
    update(programs).where(*_THIS, programs.c.state != _FINISHED).values(attempts=programs.c.attempts + literal(1))
)
SET_ISLAND = (
    update(islands)
    .where(islands.c.run_id == bindparam("run"), islands.c.number == bindparam("this"))
    .values({name: bindparam(f"new_{name}") for name in ("finished", "stagnant", "resets")})
)
SET_CELL = (
    update(cells)
    .where(cells.c.run_id == bindparam("run"), cells.c.island == bindparam("at"), cells.c.cell == bindparam("which"))
    .values(program=bindparam("elite"))
)
TAKE_ANSWER = (
    update(answers)
    .where(answers.c.run_id == bindparam("run"), answers.c.id == bindparam("this"), answers.c.program.is_(None))
    .values(program=bindparam("became"))
)

LOCK_RUN = select(runs.c.id).where(runs.c.id == bindparam("this")).with_for_update(key_share=True)
"""Whoever gives places away waits. SQLite's transactions that write have the whole file."""
PROMISE = update(runs).where(runs.c.id == bindparam("this")).values(promised=bindparam("candidates"))

ADD_PROGRAM = insert(programs)
ADD_EVALUATION = insert(evaluations).returning(evaluations.c.id)
ADD_LEDGER = insert(ledger)
ADD_EVENT = insert(events)
ADD_STEP = insert(steps)
