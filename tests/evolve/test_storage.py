"""The storage contract, on every backend."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from sqlalchemy import Connection, event, func, select

from evaluators.errors import UsageError
from evaluators.evaluation import (
    Artifact,
    Cost,
    Duel,
    DuelOutcome,
    Environment,
    ErrorMeasure,
    Evaluation,
    Interval,
    Stage,
    Status,
    Timed,
    WorkloadResult,
)
from evaluators.source import source_hash
from evolve.budget import Charge
from evolve.database.mail import MailCount, NewAnswer, NewLease
from evolve.database.mailbox import Documents, Mailbox
from evolve.database.reading import BATCH
from evolve.database.records import (
    GLOBAL,
    CellRecord,
    DuelRecord,
    Event,
    Finish,
    IslandRecord,
    LedgerEntry,
    MigrationRecord,
    Migrations,
    NewRun,
    Reset,
)
from evolve.database.schema import texts, timings
from evolve.database.sql_storage import SqlStorage
from evolve.database.steering import Steer
from evolve.database.versions import create_database
from evolve.errors import StorageError
from evolve.settings import Caps, RunSettings, SearchSettings
from evolve.testing import fake_profile
from evolve.types import AddStatus, Program, ProgramState, RunStatus

INTERVAL = Interval(low=1.1, estimate=1.2, high=1.3, level=0.99)
SETTINGS = RunSettings(search=SearchSettings(seed=7, islands=2), caps=Caps(candidates=9, seconds=1.5))
ENTRY = LedgerEntry("evaluation", Charge(device_s=0.25), build_s=0.5, wall_s=1.0)


def program(number: int, text: str | None = None, **changes: object) -> Program:
    source = text if text is not None else f"source {number}"
    values: dict[str, object] = {
        "number": number,
        "source": source,
        "source_hash": source_hash(source),
        "language": "python",
        "operator": "mutate",
        "proposer": "scripted",
        "state": ProgramState.QUEUED,
        "island": 1,
        "generation": 3,
        **changes,
    }
    return Program(**values)  # type: ignore[arg-type]


def evaluation(score: float | None = 2.0, *, device_class: str = "cpu:x:2", **changes: object) -> Evaluation:
    values: dict[str, object] = {
        "status": Status.PASSED if score is not None else Status.WRONG_VALUES,
        "stage": Stage.ROUNDS,
        "task_hash": "t",
        "source_hash": "s",
        "score": score,
        "environment": Environment(device_class=device_class, host={"compiler": "gcc 12"}),
        "cost": Cost(build_s=0.5, device_s=0.25, wall_s=1.0),
        **changes,
    }
    return Evaluation.model_validate(values)


def timed_evaluation() -> Evaluation:
    result = WorkloadResult(
        workload="m1",
        split="search",
        weight=0.5,
        errors={"normal": ErrorMeasure(max_ulp=None, rms_ulp=0.1, max_limit_ulp=4, rms_limit_ulp=1, elements=9)},
        call_us=Interval(low=9.5, estimate=10.0, high=10.1, level=0.99),
        ratios={"plain": INTERVAL, "blas": INTERVAL},
        strongest="blas",
        floor_us=3.0,
        rounds=21,
        prepare_ms=0.5,
    )
    return evaluation(
        1.2,
        message="fine",
        measures={"registers": 32.0},
        workloads=(result, result.model_copy(update={"workload": "m2", "call_us": None, "ratios": {}})),
        timing=Timed(speedup=INTERVAL, cold=True, rounds=21),
        artifacts=(Artifact(name="asm", text="mov\n"), Artifact(name="log", text="mov\n", truncated=True)),
    )


def queue_and_judge(storage: SqlStorage, number: int, score: float | None = 2.0, **changes: object) -> None:
    storage.add_program(program(number, **changes))
    storage.add_evaluation(number, evaluation(score), ENTRY)


def finish(number: int, order: int, **changes: object) -> Finish:
    return Finish(**{"number": number, "placement": AddStatus.NOT_ADDED, "order": order, **changes})  # type: ignore[arg-type]


def count(storage: SqlStorage, table: object) -> int:
    with storage._engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())  # type: ignore[arg-type]


@pytest.fixture(params=["file", "memory", "postgresql"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], SqlStorage]]:
    """Makes storages of new runs, all in one database."""
    urls = {"file": f"sqlite:///{tmp_path}/run.db", "memory": "sqlite://"}
    url = urls.get(request.param) or request.getfixturevalue("postgres_shared_url")
    engine = create_database(url)
    ticks = iter(range(1, 10**9))
    made: list[SqlStorage] = []

    def storage() -> SqlStorage:
        new = NewRun("night", "softmax", "hash", SETTINGS, "seed = 7\n")
        made.append(SqlStorage.create(engine, new, lambda: float(next(ticks))))
        return made[-1]

    yield storage
    for storage_ in made:
        storage_.close()


@pytest.fixture
def storage(make: Callable[[], SqlStorage]) -> SqlStorage:
    return make()


class TestStorage:
    def test_a_new_run_reads_back(self, storage: SqlStorage) -> None:
        record = storage.run()
        assert (record.name, record.task_name, record.task_hash) == ("night", "softmax", "hash")
        assert (record.settings, record.config) == (SETTINGS, "seed = 7\n")
        assert (record.best, record.migration_round, record.active_s) == (None, 0, 0.0)
        assert storage.islands() == [IslandRecord(0), IslandRecord(1)]
        assert storage.cells() == []
        assert [event.kind for event in storage.events()] == ["created"]

    def test_a_program_reads_back_field_by_field(self, storage: SqlStorage) -> None:
        storage.add_program(program(1))
        stored = program(
            5,
            "λ = 'ü'\n",
            parents=(1,),
            inspirations=(1,),
            model="provider/model",
            note="unrolled",
            details={"values": {"UNROLL": 4}, "x": [1.5, None]},
        )
        storage.add_program(stored)
        assert storage.program(5) == stored

    def test_a_missing_program_is_a_key_error(self, storage: SqlStorage) -> None:
        with pytest.raises(KeyError, match="no program 3"):
            storage.program(3)

    def test_an_evaluation_reads_back_field_by_field(self, storage: SqlStorage) -> None:
        storage.add_program(program(1))
        storage.add_evaluation(1, timed_evaluation(), ENTRY)
        judged = storage.program(1)
        assert judged == replace(program(1), state=ProgramState.JUDGED, evaluation=timed_evaluation())
        assert count(storage, timings) >= 1, "timed workloads have rows of their own"

    def test_both_verdicts_and_the_placement_read_back(self, storage: SqlStorage) -> None:
        queue_and_judge(storage, 1)
        confirmation = evaluation(2.5, confirmed=True, artifacts=(Artifact(name="ncu", text="…"),))
        storage.add_confirmation(1, confirmation, ENTRY)
        storage.finish(finish(1, 1, placement=AddStatus.NEW, best=True))
        stored = storage.program(1)
        assert (stored.evaluation, stored.confirmation) == (evaluation(2.0), confirmation)
        assert (stored.state, stored.placement) == (ProgramState.FINISHED, AddStatus.NEW)
        assert stored.confirmed
        assert stored.score == 2.5
        assert storage.run().best == 1

    def test_a_level_of_the_sandbox_counts_programs_and_not_verdicts(self, storage: SqlStorage) -> None:
        weak = Environment(device_class="fake:1", sandbox="none")
        for number in (1, 2, 3):
            queue_and_judge(storage, number)
        for number in (2, 3):
            storage.add_confirmation(number, evaluation().model_copy(update={"environment": weak}), ENTRY)
        storage.add_program(program(4))
        storage.add_evaluation(4, evaluation().model_copy(update={"environment": weak}), ENTRY)
        storage.add_confirmation(4, evaluation().model_copy(update={"environment": weak}), ENTRY)
        assert storage.sandboxes() == {"full": 3, "none": 3}

    def test_a_number_is_taken_once(self, storage: SqlStorage) -> None:
        storage.add_program(program(1))
        with pytest.raises(StorageError):
            storage.add_program(program(1, "other"))
        assert storage.program(1).source == "source 1"

    @pytest.mark.parametrize("state", [ProgramState.JUDGED, ProgramState.FINISHED])
    def test_a_program_begins_queued(self, storage: SqlStorage, state: ProgramState) -> None:
        with pytest.raises(StorageError, match="cannot be stored as"):
            storage.add_program(program(1, state=state))

    def test_an_evaluation_is_stored_once(self, storage: SqlStorage) -> None:
        queue_and_judge(storage, 1, 2.0)
        with pytest.raises(StorageError, match="not queued"):
            storage.add_evaluation(1, evaluation(9.0), ENTRY)
        assert storage.program(1).score == 2.0
        assert len(storage.ledger()) == 1, "a refused write books nothing"

    def test_a_confirmation_is_stored_once(self, storage: SqlStorage) -> None:
        queue_and_judge(storage, 1)
        storage.add_confirmation(1, evaluation(2.0, confirmed=True), ENTRY)
        with pytest.raises(StorageError):
            storage.add_confirmation(1, evaluation(None), ENTRY)
        assert storage.program(1).confirmed
        assert len(storage.ledger()) == 2

    def test_states_are_not_skipped(self, storage: SqlStorage) -> None:
        storage.add_program(program(1))
        with pytest.raises(StorageError, match="not judged"):
            storage.finish(finish(1, 1, best=True))
        with pytest.raises(StorageError, match="not judged"):
            storage.add_confirmation(1, evaluation(), ENTRY)
        assert storage.program(1) == program(1)
        assert storage.run().best is None

    def test_a_finished_program_never_changes(self, storage: SqlStorage) -> None:
        queue_and_judge(storage, 1)
        storage.finish(finish(1, 1))
        before = storage.program(1)
        for write in (
            lambda: storage.finish(finish(1, 2, placement=AddStatus.NEW)),
            lambda: storage.add_evaluation(1, evaluation(9.0), ENTRY),
            lambda: storage.add_confirmation(1, evaluation(9.0), ENTRY),
            lambda: storage.add_attempt(1, ENTRY, "again"),
            lambda: storage.add_program(program(1)),
        ):
            with pytest.raises(StorageError):
                write()
        assert storage.program(1) == before
        assert len(storage.ledger()) == 1

    def test_a_refused_finish_changes_nothing_else(self, storage: SqlStorage) -> None:
        queue_and_judge(storage, 1)
        lost = finish(1, 1, cells=(CellRecord(0, 4, 1),), island=IslandRecord(1, 1, 1), duplicates=((8, 2),))
        with pytest.raises(StorageError, match="program 8"):
            storage.finish(lost)
        assert storage.program(1).state is ProgramState.JUDGED
        assert storage.cells() == []
        assert storage.islands()[1] == IslandRecord(1)

    def test_the_same_source_is_judged_once_in_a_language(self, make: Callable[[], SqlStorage]) -> None:
        storage, other = make(), make()
        storage.add_program(program(1, "same"))
        with pytest.raises(StorageError):
            storage.add_program(program(2, "same"))
        storage.add_program(program(3, "same", language="triton"))
        other.add_program(program(1, "same"))
        assert storage.find(source_hash("same"), "python") == (1, ProgramState.QUEUED)
        assert storage.find(source_hash("same"), "triton") == (3, ProgramState.QUEUED)
        assert storage.find(source_hash("other"), "python") is None

    def test_a_duplicate_of_a_finished_program_is_finished_at_once(self, storage: SqlStorage) -> None:
        queue_and_judge(storage, 1, text="same")
        storage.add_confirmation(1, evaluation(None), ENTRY)
        storage.finish(finish(1, 1))
        storage.add_program(program(2, "same  ", duplicate_of=1, state=ProgramState.FINISHED), order=2)
        twin = storage.program(2)
        assert twin.source == "same  "
        assert (twin.state, twin.placement) == (ProgramState.FINISHED, AddStatus.NOT_ADDED)
        assert (twin.evaluation, twin.confirmation) == (evaluation(2.0), evaluation(None))
        assert storage.find(source_hash("same"), "python") == (1, ProgramState.FINISHED)

    def test_a_waiting_duplicate_finishes_with_its_original(self, storage: SqlStorage) -> None:
        queue_and_judge(storage, 1, text="same")
        storage.add_program(program(2, "same", duplicate_of=1))
        assert storage.program(2).evaluation is None
        with pytest.raises(StorageError, match="not queued"):
            storage.add_evaluation(2, evaluation(), ENTRY)
        storage.finish(finish(1, 1, duplicates=((2, 2),)))
        assert storage.program(2).state is ProgramState.FINISHED
        assert storage.program(2).evaluation == evaluation(2.0)
        assert [p.number for p in storage.programs(state=ProgramState.FINISHED)] == [1, 2]

    def test_unfinished_lists_judged_in_order_then_queued(self, storage: SqlStorage) -> None:
        for number in (1, 2, 3, 4, 5):
            storage.add_program(program(number))
        for number in (4, 2, 1):
            storage.add_evaluation(number, evaluation(), ENTRY)
        storage.finish(finish(4, 1))
        assert [p.number for p in storage.unfinished()] == [2, 1, 3, 5]

    def test_programs_stream_in_order_and_by_proposer(self, storage: SqlStorage) -> None:
        total = BATCH + 3
        for number in range(1, total + 1):
            queue_and_judge(storage, number, proposer="a" if number % 2 else "b")
        for order, number in enumerate(range(total, 0, -1), start=1):
            storage.finish(finish(number, order))
        assert [p.number for p in storage.programs()] == list(range(1, total + 1))
        finished = [p.number for p in storage.programs(state=ProgramState.FINISHED, proposer="a")]
        assert finished == [n for n in range(total, 0, -1) if n % 2]

    def test_an_order_is_given_once(self, storage: SqlStorage) -> None:
        queue_and_judge(storage, 1)
        queue_and_judge(storage, 2)
        storage.finish(finish(1, 1))
        with pytest.raises(StorageError):
            storage.finish(finish(2, 1))

    def test_a_cell_has_one_elite_and_a_reset_empties_one_island(self, storage: SqlStorage) -> None:
        queue_and_judge(storage, 1)
        storage.finish(finish(1, 1, cells=(CellRecord(0, 3, 1), CellRecord(1, 3, 1), CellRecord(GLOBAL, 3, 1))))
        queue_and_judge(storage, 2)
        storage.finish(finish(2, 2, cells=(CellRecord(0, 3, 2), CellRecord(0, 5, 2)), island=IslandRecord(0, 2, 1)))
        storage.reset(Reset(IslandRecord(0, 2, 0, 1), CellRecord(0, 7, 1), "over"))
        assert storage.cells() == [CellRecord(GLOBAL, 3, 1), CellRecord(0, 7, 1), CellRecord(1, 3, 1)]
        assert storage.islands() == [IslandRecord(0, 2, 0, 1), IslandRecord(1)]
        assert storage.events()[-1].kind == "reset"

    def test_rounds_of_migration_follow_one_another(self, storage: SqlStorage) -> None:
        queue_and_judge(storage, 1)
        storage.finish(finish(1, 1))
        move = MigrationRecord(1, 0, 1, 1, AddStatus.NEW)
        storage.migrate(Migrations(1, (move,), (CellRecord(1, 2, 1),)))
        with pytest.raises(StorageError, match="does not follow"):
            storage.migrate(Migrations(1, (), ()))
        storage.migrate(Migrations(2, (), ()))
        assert storage.run().migration_round == 2
        assert [m.moves for m in storage.migrations()] == [(move,)]
        assert storage.cells() == [CellRecord(1, 2, 1)]

    def test_a_duel_is_stored_once_with_its_cost(self, storage: SqlStorage) -> None:
        queue_and_judge(storage, 1)
        queue_and_judge(storage, 2)
        record = DuelRecord(2, 1, Duel(outcome=DuelOutcome.CHALLENGER, ratio=INTERVAL, rounds=9, message="won"))
        storage.add_duel(record, replace(ENTRY, kind="duel"))
        with pytest.raises(StorageError):
            storage.add_duel(record, ENTRY)
        assert storage.duels(2) == [record]
        assert storage.duels(1) == []
        assert [entry.kind for entry in storage.ledger()] == ["evaluation", "evaluation", "duel"]

    def test_a_profile_is_stored_once_with_its_cost_and_seen_with_program_and_duplicates(
        self, storage: SqlStorage
    ) -> None:
        profile = fake_profile("hot line\n")
        storage.add_program(program(1))
        with pytest.raises(StorageError, match="not judged, so it cannot be profiled"):
            storage.add_profile(1, profile, ENTRY)
        storage.add_evaluation(1, evaluation(), ENTRY)
        storage.add_program(program(2, "source 1", duplicate_of=1))
        storage.add_profile(1, profile, replace(ENTRY, kind="profile"))
        with pytest.raises(StorageError):
            storage.add_profile(1, profile, ENTRY)
        assert (storage.program(1).profile, storage.program(2).profile) == (profile, None)
        storage.finish(finish(1, 1, duplicates=((2, 2),)))
        assert storage.program(2).profile == profile
        assert [entry.kind for entry in storage.ledger()] == ["evaluation", "profile"]
        with pytest.raises(StorageError):
            storage.add_profile(1, profile, ENTRY)

    def test_attempts_are_counted_with_their_cost(self, storage: SqlStorage) -> None:
        storage.add_program(program(1))
        assert storage.attempts(1) == 0
        storage.add_attempt(1, replace(ENTRY, kind="infra", program=1), "the judge ended")
        storage.add_attempt(1, replace(ENTRY, kind="infra", program=1), "the judge ended")
        assert storage.attempts(1) == 2
        assert storage.totals().charge.device_s == 0.5
        assert [e.text for e in storage.events() if e.kind == "infra"] == ["the judge ended"] * 2

    def test_totals_sum_up_the_run(self, storage: SqlStorage) -> None:
        queue_and_judge(storage, 1, 1.0)
        storage.finish(finish(1, 1, best=True))
        queue_and_judge(storage, 2, 3.0)  # Passes, but its confirmation does not.
        storage.add_confirmation(2, evaluation(None), replace(ENTRY, charge=Charge(device_s=1.0)))
        storage.finish(finish(2, 2))
        queue_and_judge(storage, 3, None)
        storage.finish(finish(3, 3))
        queue_and_judge(storage, 4, 0.5)
        storage.finish(finish(4, 4))
        storage.add_program(program(6, "source 4", duplicate_of=4, state=ProgramState.FINISHED), order=5)
        storage.add_program(program(7))
        storage.add_ledger(LedgerEntry("abandoned", Charge(device_s=0.5)))
        totals = storage.totals()
        assert totals.charge == Charge(candidates=6, device_s=4 * 0.25 + 1.0 + 0.5)
        assert (totals.next_number, totals.finished, totals.duplicates) == (8, 5, 1)
        assert totals.verdicts == {"passed": 2, "wrong_values": 2}
        assert totals.since_best == 1
        assert totals.largest_device_s == 0.25

    def test_totals_of_a_new_run_are_zero(self, storage: SqlStorage) -> None:
        totals = storage.totals()
        assert (totals.charge, totals.next_number, totals.finished, totals.verdicts) == (Charge(), 1, 0, {})

    def test_status_heartbeat_and_settings(self, storage: SqlStorage) -> None:
        storage.set_status(RunStatus.RUNNING, "", 1.0)
        first = storage.run()
        storage.heartbeat(2.5)
        second = storage.run()
        assert (second.status, second.active_s) == (RunStatus.RUNNING, 2.5)
        assert second.heartbeat_at > first.heartbeat_at
        raised = SETTINGS.model_copy(update={"caps": Caps(candidates=99)})
        storage.set_settings(raised.model_dump_json(), "x = 1\n")
        assert (storage.run().settings, storage.run().config) == (raised, "x = 1\n")

    def test_what_is_on_its_way_is_told_and_what_agents_hold_is_learnt(self, storage: SqlStorage) -> None:
        storage.add_program(program(1))
        learnt: list[int] = []

        def fits(places: int) -> bool:
            learnt.append(places)
            return len(learnt) == 1

        storage.promise(3, fits)
        assert storage.run().promised == 3
        storage.promise(4, fits)
        assert (storage.run().promised, learnt) == (3, [0, 0]), "what does not fit is not on its way"
        storage.add_program(program(2), promised=2)
        assert storage.run().promised == 2, "what is stored is not on its way any more"
        storage.heartbeat(1.0, 1)
        assert storage.run().promised == 1

    def test_runs_of_one_database_do_not_mix(self, make: Callable[[], SqlStorage]) -> None:
        one, other = make(), make()
        queue_and_judge(one, 1)
        one.finish(finish(1, 1, cells=(CellRecord(0, 0, 1),), best=True))
        one.add_event(Event("note", "mine"))
        assert other.cells() == []
        assert other.totals().charge == Charge()
        assert other.run().best is None
        assert list(other.programs()) == []
        assert [event.kind for event in other.events()] == ["created"]

    def test_a_text_is_stored_once(self, storage: SqlStorage) -> None:
        before = count(storage, texts)
        storage.add_program(program(1, "same"))
        storage.add_program(program(2, "same", language="triton"))
        for number in (1, 2):
            storage.add_evaluation(number, evaluation(artifacts=(Artifact(name="log", text="same"),)), ENTRY)
        assert count(storage, texts) == before + 2, "the source, which is the artifact too, and the environment"

    def test_what_no_database_takes_in_a_text_is_replaced(self, storage: SqlStorage) -> None:
        """Candidates, compilers and models print what they like."""
        storage.add_program(program(1, note="a\0b\ud800"))
        artifacts = (Artifact(name="log\0", text="a\0b"),)
        storage.add_evaluation(1, evaluation(message="not\0this", artifacts=artifacts), ENTRY)
        storage.add_attempt(1, ENTRY, "ended: \0\udfff")
        stored = storage.program(1)
        assert stored.note == "a\ufffdb?"
        assert stored.evaluation is not None
        assert stored.evaluation.artifacts == (Artifact(name="log\ufffd", text="a\ufffdb"),)
        assert storage.table()[0]["message"] == "not\ufffdthis"
        assert storage.events()[-1].text == "ended: \ufffd?"

    def test_names_are_as_long_as_people_make_them(self, make: Callable[[], SqlStorage]) -> None:
        long = "n" * 250
        storage = make()
        storage.add_program(program(1, proposer=long, operator=long, model=long))
        found = timed_evaluation()
        named = found.workloads[0].model_copy(update={"workload": long, "ratios": {long: INTERVAL}, "strongest": long})
        judged = found.model_copy(
            update={
                "environment": Environment(device_class=long),
                "workloads": (named,),
                "artifacts": (Artifact(name=long, text="x"),),
            }
        )
        storage.add_evaluation(1, judged, ENTRY)
        assert storage.program(1).evaluation == judged
        engine = storage._engine
        other = SqlStorage.create(engine, NewRun(long, long, "hash", SETTINGS), lambda: 1.0)
        assert (other.run().name, other.run().task_name) == (long, long)
        other._connection.close()
        other._reading.close()

    def test_an_environment_rolled_back_is_stored_when_it_comes_again(self, storage: SqlStorage) -> None:
        storage.add_program(program(1))
        storage.add_program(program(2))
        storage.add_evaluation(1, evaluation(), ENTRY)
        with pytest.raises(StorageError):
            storage.add_confirmation(1, evaluation(device_class="gpu:z"), replace(ENTRY, kind=None))  # type: ignore[arg-type]
        storage.add_evaluation(2, evaluation(device_class="gpu:z"), ENTRY)
        found = storage.program(2).evaluation
        assert found is not None
        assert found.environment.device_class == "gpu:z"

    @pytest.mark.parametrize("moment", ["begin", "commit"])
    def test_what_is_broken_off_around_a_transaction_leaves_none_open(
        self, storage: SqlStorage, moment: Literal["begin", "commit"]
    ) -> None:
        """As a signal, or a commit that the database refuses: the next write works, and nobody waits for the lock."""

        def break_off(_connection: Connection) -> None:
            event.remove(storage._engine, moment, break_off)
            raise KeyboardInterrupt

        event.listen(storage._engine, moment, break_off)
        with pytest.raises(KeyboardInterrupt):
            storage.add_program(program(1))
        with storage._engine.execution_options(write=True).begin() as another:
            another.execute(select(texts)).all()
        assert list(storage.programs()) == []
        storage.add_program(program(1))
        assert [p.number for p in storage.programs()] == [1]

    def test_a_lock_that_is_not_given_back_is_one_line(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("evolve.database.engine.LOCK_PATIENCE_S", 0.0)
        url = f"sqlite:///{tmp_path}/shared.db"
        writer = SqlStorage.create(create_database(url), NewRun("a", "t", "h", SETTINGS))
        writer._connection.exec_driver_sql("PRAGMA busy_timeout = 1")
        writer._connection.rollback()
        with sqlite3.connect(tmp_path / "shared.db") as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(UsageError, match=r"^database sqlite:[^\n]*shared.db: database is locked; [^\n]*$"):
                writer.heartbeat(1.0)
            other.rollback()
        writer.heartbeat(2.0)
        assert writer.run().active_s == 2.0
        writer.close()

    def test_what_was_stored_is_there_for_another_process(self, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path}/shared.db"
        writer = SqlStorage.create(create_database(url), NewRun("a", "t", "h", SETTINGS))
        queue_and_judge(writer, 1)
        other = SqlStorage(create_database(url), 1)
        assert other.program(1) == writer.program(1)
        queue_and_judge(other, 2)
        assert writer.program(2).score == 2.0
        writer.close()
        other.close()


class TestMail:
    """What others than the search process write, on the same database."""

    @pytest.fixture
    def mailbox(self, storage: SqlStorage) -> Iterator[Mailbox]:
        queue_and_judge(storage, 1)
        box = Mailbox(storage._engine, storage.run().id, lambda: 100.0)
        yield box
        box._reading.close()

    def test_a_lease_is_open_until_it_is_answered_or_expires(self, storage: SqlStorage, mailbox: Mailbox) -> None:
        lease = mailbox.add_lease(NewLease("ann", 1, 1, (1,), 60.0))
        assert storage.open_leases(159.0) == [lease]
        assert storage.open_leases(160.0) == []
        mailbox.add_answer(NewAnswer("ann", "agent", "python", "x = 1\n", lease=lease))
        assert storage.open_leases(159.0) == []

    def test_an_answer_waits_until_it_is_a_program(self, storage: SqlStorage, mailbox: Mailbox) -> None:
        before = storage.mail_count()
        lease = mailbox.add_lease(NewLease("ann", 1, 1, (1,), 60.0))
        told = mailbox.add_answer(NewAnswer("ann", "agent", "python", "x = 1\n", "why", lease))
        assert storage.mail_count() != before
        assert storage.waiting_answers() == [told]
        assert (told.parents, told.inspirations, told.island, told.late_s) == ((1,), (1,), 1, None)
        storage.add_program(program(2, told.source), answer=told.id)
        assert storage.waiting_answers() == []
        assert mailbox.answer(told.id).program == 2

    def test_an_answer_becomes_one_program_and_a_second_is_not_stored(
        self, storage: SqlStorage, mailbox: Mailbox
    ) -> None:
        told = mailbox.add_answer(NewAnswer("ann", "inject", "python", "x = 1\n"))
        storage.add_program(program(2), answer=told.id)
        with pytest.raises(StorageError, match=f"answer {told.id}: missing, or a program already"):
            storage.add_program(program(3), answer=told.id)
        assert [p.number for p in storage.programs()] == [1, 2]

    def test_a_second_answer_to_a_lease_is_the_first_or_refused(self, storage: SqlStorage, mailbox: Mailbox) -> None:
        lease = mailbox.add_lease(NewLease("ann", 1, 1, (), 60.0))
        first = mailbox.add_answer(NewAnswer("ann", "agent", "python", "x = 1\n", lease=lease))
        assert mailbox.add_answer(NewAnswer("ann", "agent", "python", "x  =  1  # as before\n", lease=lease)) == first
        with pytest.raises(UsageError, match=f"lease {lease.id} was answered before"):
            mailbox.add_answer(NewAnswer("ann", "agent", "python", "x = 2\n", lease=lease))
        assert storage.waiting_answers() == [first]

    def test_a_place_is_held_until_its_answer_is_a_program_or_the_lease_expires(
        self, storage: SqlStorage, mailbox: Mailbox
    ) -> None:
        first, second, late = (mailbox.add_lease(NewLease("ann", 1, 1, (), s)) for s in (60.0, 60.0, -1.0))
        assert (storage.places(159.0), storage.places(160.0)) == (2, 0)
        mailbox.add_answer(NewAnswer("ann", "inject", "python", "x = 0\n"))
        mailbox.add_answer(NewAnswer("ann", "agent", "python", "x = 3\n", lease=late))
        assert storage.places(159.0) == 2, "neither has a place"
        told = mailbox.add_answer(NewAnswer("ann", "agent", "python", "x = 1\n", lease=first))
        assert (storage.places(159.0), storage.places(160.0)) == (2, 1), "it was told in time"
        storage.add_program(program(2, told.source), answer=told.id)
        assert storage.places(159.0) == 1
        assert [lease.id for lease in storage.open_leases(159.0)] == [second.id]

    def test_a_lease_that_there_is_no_room_for_is_not_stored(self, storage: SqlStorage, mailbox: Mailbox) -> None:
        def refuse() -> None:
            raise UsageError("no room")

        with pytest.raises(UsageError, match="no room"):
            mailbox.add_lease(NewLease("ann", 1, 1, (), 60.0), refuse)
        assert storage.open_leases(0.0) == []

    def test_orders_add_up_and_a_failed_change_leaves_everything(self, storage: SqlStorage, mailbox: Mailbox) -> None:
        hint = mailbox.steer(Steer.HINT, "tile", "", lambda before: before)
        mailbox.steer(Steer.BAN, "tables", "TABLE", lambda before: before)
        mailbox.steer(Steer.PAUSE, "island 1", "1", lambda before: before)
        mailbox.steer(Steer.CAP, "caps", "x=1", lambda before: (before[0], before[1] + "# changed\n"))
        assert storage.steering().wishes == ("Do not use: tables", "tile")
        assert storage.steering().paused == {1}
        assert storage.run().config == "seed = 7\n# changed\n"
        mailbox.steer(Steer.WITHDRAW, "hint", str(hint.id), lambda before: before)
        assert storage.steering().wishes == ("Do not use: tables",)

        def refuse(before: Documents) -> Documents:
            raise UsageError("no")

        count = storage.mail_count()
        with pytest.raises(UsageError, match="no"):
            mailbox.steer(Steer.CAP, "caps", "x=1", refuse)
        assert storage.mail_count() == count
        assert next(e.text for e in storage.events() if e.kind == "steer").endswith("hint: tile")

    def test_runs_in_one_database_do_not_read_each_others_mail(
        self, make: Callable[[], SqlStorage], storage: SqlStorage, mailbox: Mailbox
    ) -> None:
        other = make()
        mailbox.steer(Steer.HINT, "tile", "", lambda before: before)
        lease = mailbox.add_lease(NewLease("ann", 1, 1, (), 60.0))
        mailbox.add_answer(NewAnswer("ann", "agent", "python", "x = 1\n", lease=lease))
        assert other.mail_count() == MailCount()
        assert (other.waiting_answers(), other.open_leases(0.0), other.steering().records) == ([], [], ())
        with pytest.raises(KeyError):
            other.lease(lease.id)
