"""Storing what the judge answered, each answer with its cost, and settling what was reserved for it."""

from __future__ import annotations

import math
from dataclasses import replace

from evaluators.evaluation import Cost, Evaluation
from evaluators.profile import Profile
from evolve.budget import Budget, Charge, Reservation
from evolve.database.model_records import ModelReply, ModelRequest
from evolve.database.records import DuelRecord, LedgerEntry
from evolve.database.steps import Step, StepKind
from evolve.database.storage import Storage
from evolve.types import Program, ProgramState


class Booking:
    """The ledger's writing side: one transaction for an answer and its cost, then the budget."""

    def __init__(self, storage: Storage, budget: Budget, largest_device_s: float) -> None:
        """Go on from a run whose dearest evaluation took ``largest_device_s`` of the device."""
        self._storage = storage
        self._budget = budget
        self.largest_device_s = largest_device_s
        """An evaluation may need as much."""

    def judged(
        self, program: Program, evaluation: Evaluation, reservation: Reservation | None, *, judge_failed: bool = False
    ) -> Program:
        """Store a program's evaluation and its cost: ``queued`` → ``judged``."""
        entry = _entry("evaluation", program.number, evaluation.cost)
        self._storage.note(Step(StepKind.JUDGE, program.number))
        self._storage.add_evaluation(program.number, evaluation, entry, judge_failed=judge_failed)
        self._settle(reservation, entry.charge)
        self.largest_device_s = max(self.largest_device_s, evaluation.cost.device_s)
        return replace(program, state=ProgramState.JUDGED, evaluation=evaluation, judge_failed=judge_failed)

    def confirmed(
        self, program: Program, evaluation: Evaluation, reservation: Reservation | None, *, judge_failed: bool = False
    ) -> Program:
        """Store a judged program's second verdict and its cost."""
        entry = _entry("confirmation", program.number, evaluation.cost)
        self._storage.note(Step(StepKind.CONFIRM, program.number))
        self._storage.add_confirmation(program.number, evaluation, entry, judge_failed=judge_failed)
        self._settle(reservation, entry.charge)
        return replace(program, confirmation=evaluation, judge_failed=judge_failed or program.judge_failed)

    def dueled(self, record: DuelRecord, reservation: Reservation) -> None:
        """Store a duel and its cost."""
        entry = _entry("duel", record.challenger, record.duel.cost)
        self._storage.note(Step(StepKind.DUEL, record.challenger, record.occupant))
        self._storage.add_duel(record, entry)
        self._settle(reservation, entry.charge)

    def profiled(self, program: Program, profile: Profile, reservation: Reservation) -> Program:
        """Store a judged program's profile and its cost."""
        entry = _entry("profile", program.number, profile.cost)
        self._storage.note(Step(StepKind.PROFILE, program.number))
        self._storage.add_profile(program.number, profile, entry)
        self._settle(reservation, entry.charge)
        return replace(program, profile=profile)

    def attempted(self, program: Program, reservation: Reservation, cost: Cost, text: str) -> None:
        """Book a try that the judge failed on."""
        entry = _broken_off("infra", program, reservation, cost)
        if program.state is ProgramState.FINISHED:
            self._storage.add_ledger(entry)
        else:
            self._storage.add_attempt(program.number, entry, text)
        self._settle(reservation, entry.charge)

    def abandoned(self, program: Program, reservation: Reservation, cost: Cost) -> None:
        """Book work that was broken off, or spoilt by noise, and will be done again."""
        entry = _broken_off("abandoned", program, reservation, cost)
        self._storage.add_ledger(entry)
        self._settle(reservation, entry.charge)

    def cut_short(self, program: Program, reservation: Reservation, cost: Cost) -> None:
        """Book work that was broken off because no more of the device was left: as little is not tried again."""
        self.abandoned(program, reservation, cost)
        self.largest_device_s = max(self.largest_device_s, math.nextafter(reservation.worst.device_s, math.inf))

    def model_asked(self, request: ModelRequest) -> int:
        """Store a request to a model that is about to leave; returns its call's id."""
        return self._storage.begin_model_call(request)

    def model_ended(self, call: int, program: int, reply: ModelReply) -> Charge:
        """Store how a request to a model ended, with its cost; returns the cost, for whoever holds its reservation."""
        charge = Charge(dollars=reply.dollars or 0.0, tokens=reply.tokens)
        self._storage.finish_model_call(call, reply, LedgerEntry("model", charge, program, wall_s=reply.wall_s))
        return charge

    def _settle(self, reservation: Reservation | None, charge: Charge) -> None:
        if reservation is not None:
            self._budget.settle(reservation, charge)


def _entry(kind: str, number: int, cost: Cost) -> LedgerEntry:
    return LedgerEntry(kind, Charge(device_s=cost.device_s), number, build_s=cost.build_s, wall_s=cost.wall_s)


def _broken_off(kind: str, program: Program, reservation: Reservation, cost: Cost) -> LedgerEntry:
    charge = Charge(device_s=min(cost.device_s, reservation.worst.device_s))
    return LedgerEntry(kind, charge, program.number, build_s=cost.build_s, wall_s=cost.wall_s)
