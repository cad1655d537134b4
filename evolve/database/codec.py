"""Between our frozen values and rows of the tables. Pure; exact in both directions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from evaluators.evaluation import Artifact, Duel, Evaluation, Interval, Timed
from evaluators.profile import Profile
from evaluators.task import Language
from evolve.database.records import DuelRecord, LedgerEntry
from evolve.types import AddStatus, Program, ProgramState

Row = dict[str, Any]


def text_hash(text: str) -> str:
    """SHA-256 of a text: the key under which it is stored once."""
    return hashlib.sha256(text.encode()).hexdigest()


def storable(text: str) -> str:
    """A text that every database can hold: what is no Unicode, and NUL, is replaced."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")


def program_row(program: Program) -> Row:
    """The columns of a program that never change."""
    return {
        "number": program.number,
        "source_hash": program.source_hash,
        "text_hash": text_hash(program.source),
        "language": program.language,
        "operator": program.operator,
        "proposer": program.proposer,
        "model": program.model,
        "note": storable(program.note),
        "details": json.dumps(program.details),
        "parents": json.dumps(program.parents),
        "inspirations": json.dumps(program.inspirations),
        "island": program.island,
        "generation": program.generation,
        "state": program.state.value,
        "duplicate_of": program.duplicate_of,
        "variant_of": program.variant_of,
    }


def program_of(row: Mapping[str, Any], evaluation: Evaluation | None, confirmation: Evaluation | None) -> Program:
    """A program from its row, source text and verdicts."""
    return Program(
        number=row["number"],
        source=row["source"],
        source_hash=row["source_hash"],
        language=cast(Language, row["language"]),
        operator=row["operator"],
        proposer=row["proposer"],
        state=ProgramState(row["state"]),
        island=row["island"],
        generation=row["generation"],
        parents=tuple(json.loads(row["parents"])),
        inspirations=tuple(json.loads(row["inspirations"])),
        model=row["model"],
        note=row["note"],
        details=json.loads(row["details"]),
        evaluation=evaluation,
        placement=AddStatus(row["placement"]) if row["placement"] else None,
        confirmation=confirmation,
        duplicate_of=row["duplicate_of"],
        variant_of=row["variant_of"],
        judge_failed=evaluation is not None and bool(row["judge_failed"] or row["confirmation_judge_failed"]),
        profile=Profile.model_validate_json(row["profile"]) if row["profile"] is not None else None,
    )


def evaluation_row(evaluation: Evaluation) -> Row:
    """The columns people query by, and the whole evaluation as JSON but for what is stored as text of its own."""
    timing = evaluation.timing
    speedup = timing.speedup if isinstance(timing, Timed) else None
    return {
        "device_class": evaluation.environment.device_class,
        "sandbox": evaluation.environment.sandbox,
        "status": evaluation.status.value,
        "stage": evaluation.stage.value,
        "score": evaluation.score,
        **_interval_columns("speedup", speedup),
        "glance_level": speedup.level if speedup is not None and speedup.glance else None,
        "confirmed": evaluation.confirmed,
        "message": storable(evaluation.message),
        "build_s": evaluation.cost.build_s,
        "device_s": evaluation.cost.device_s,
        "wall_s": evaluation.cost.wall_s,
        "document": evaluation.model_dump_json(exclude={"environment", "artifacts"}),
    }


def evaluation_of(document: str, environment: str, artifacts: Sequence[Artifact]) -> Evaluation:
    """An evaluation from its document, its environment's JSON and its artifacts."""
    evaluation = Evaluation.model_validate_json(f'{document[:-1]},"environment":{environment}}}')
    return evaluation.model_copy(update={"artifacts": tuple(artifacts)}) if artifacts else evaluation


def profile_row(profile: Profile) -> Row:
    """The columns people query by, and the whole profile as JSON."""
    return {
        "device_class": profile.device_class,
        "tool": profile.tool,
        "bottleneck": profile.bottleneck.value if profile.bottleneck else None,
        "document": profile.model_dump_json(),
    }


def timing_rows(evaluation: Evaluation) -> list[Row]:
    """One row for each workload that was timed, with the ratio to its strongest baseline."""
    return [
        {
            "workload": result.workload,
            "split": result.split,
            **_interval_columns("call_us", result.call_us),
            "strongest": result.strongest,
            **_interval_columns("ratio", result.ratios.get(result.strongest or "")),
            "floor_us": result.floor_us,
            "prepare_ms": result.prepare_ms,
            "rounds": result.rounds,
        }
        for result in evaluation.workloads
        if result.call_us is not None
    ]


def duel_row(record: DuelRecord) -> Row:
    """A duel's columns."""
    return {
        "challenger": record.challenger,
        "occupant": record.occupant,
        "outcome": record.duel.outcome.value,
        **_interval_columns("ratio", record.duel.ratio),
        "document": record.duel.model_dump_json(),
    }


def duel_of(row: Mapping[str, Any]) -> DuelRecord:
    """A duel from its row."""
    return DuelRecord(row["challenger"], row["occupant"], Duel.model_validate_json(row["document"]))


def ledger_row(entry: LedgerEntry) -> Row:
    """A booking's columns. Candidates are not booked: they are counted where they are stored."""
    return {
        "kind": entry.kind,
        "program": entry.program,
        "device_s": entry.charge.device_s,
        "dollars": entry.charge.dollars,
        "tokens": entry.charge.tokens,
        "build_s": entry.build_s,
        "wall_s": entry.wall_s,
    }


def _interval_columns(name: str, interval: Interval | None) -> Row:
    if interval is None:
        return {f"{name}_low": None, name: None, f"{name}_high": None}
    return {f"{name}_low": interval.low, name: interval.estimate, f"{name}_high": interval.high}
