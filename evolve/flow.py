"""What is in flight in a search: when a task ends its result is taken in, and what there is room for is launched."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from evolve.backlog import Backlog
from evolve.budget import Reservation
from evolve.database.steps import Step, StepKind
from evolve.errors import BudgetRefusedError, ProposerDownError, UnquietError
from evolve.inbox import Inbox
from evolve.judge_keeper import JudgeKeeper
from evolve.judging import Judging
from evolve.observer import Observers, Progress
from evolve.outage import Outage
from evolve.placing import Placer
from evolve.proposing import Proposers
from evolve.run import Run
from evolve.tending import Tender
from evolve.tuning import Family, Tuning, unfinished_families
from evolve.types import AddStatus, Dropped, Program, ProgramState, Proposal, ProposeContext, RunStatus, StopReason

HEARTBEAT_S = 1.0

DRAINED = "all that agents handed in is judged"
"""How a search without proposers ends."""

Task = asyncio.Task[Any]


@dataclass(frozen=True)
class Outcome:
    """How a search ended."""

    status: RunStatus
    reason: StopReason | None
    """The cap that was met, where ``finished``."""
    text: str
    """One line for people."""


class Flow:
    """One call of :func:`evolve.loop.search`: the tasks in flight, and what is launched when one of them ends."""

    def __init__(
        self,
        run: Run,
        keeper: JudgeKeeper,
        proposers: Proposers,
        inbox: Inbox,
        observer: Observers,
        stop: asyncio.Event,
    ) -> None:
        self._run = run
        self._keeper = keeper
        self._proposers = proposers
        self._inbox = inbox
        self._observer = observer
        self._stop = stop
        self._lanes = run.settings.search.lanes_of(run.task)
        self._judging = Judging(run, keeper, lambda text: observer.on_note("judge", text))
        self._placer = Placer(run, self._judging, observer, self._wants_profiles)
        self._tender = Tender(run, self._judging, observer)
        self._tuning = Tuning(run, self._judging, observer)
        self._backlog = Backlog()
        self._tasks: dict[Task, Callable[[Task], None]] = {}
        self._proposing = 0
        self._evaluating = 0
        self._placing = False
        self._barren = 0
        """Proposals in a row that brought nothing new."""
        self._refused: StopReason | None = None
        """The cap that last refused work, until something in flight ends and may leave room."""
        self._tending_held = False
        self._beat_at = 0.0
        self._outage = Outage()
        self._spent: StopReason | None = None
        """The cap that leaves no room for any further proposal."""

    async def run(self) -> Outcome:
        """Search to the end."""
        self._run.set_status(RunStatus.RUNNING)
        self._observer.on_status(RunStatus.RUNNING, "")
        stopped = asyncio.create_task(self._stop.wait())
        try:
            self._start(self._keeper.open(), asyncio.Task.result)
            while self._tasks and not self._over():
                await self._wait(stopped)
                self._collect()
            self._recover()
            while not self._over():
                self._take_mail()
                if self._launch_placement():
                    await asyncio.sleep(0)  # it promises itself what it needs, before evaluations do
                self._launch()
                if not self._tasks and self._outage.rest_s() is None and not self._worth_waiting():
                    unquiet = self._backlog.last_to_place()
                    if unquiet is None:
                        break
                    self._place(unquiet)
                await self._wait(stopped)
                self._collect()
        finally:
            stopped.cancel()
        return self._outcome()

    async def end(self, outcome: Outcome) -> None:
        """Abandon what is in flight, end the judge, and record how the search ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        try:
            if tasks:
                await asyncio.wait(tasks)
            for task in tasks:
                if not task.cancelled() and task.exception() is not None:
                    self._observer.on_note("error", f"while ending: {task.exception()}")
        finally:
            await self._keeper.close()
        self._run.set_status(outcome.status, outcome.text)
        self._observer.on_status(outcome.status, outcome.text)

    def _recover(self) -> None:
        """Take up what is unfinished, tell proposers what they knew, and begin a new run with its seed."""
        self._run.note_opening(self._proposers.weights)
        if self._run.next_number > 1:
            self._proposers.replay(self._run.storage)
            self._run.broken_off.take_up(self._proposers.names)
        unfinished = self._run.storage.unfinished()
        for twin in unfinished:
            if twin.duplicate_of is not None:
                self._run.requeue_twin(twin)
        for family in unfinished_families(self._run, (p for p in unfinished if p.duplicate_of is None)):
            if family.queued is not None or self._tuning.wants_variant(family):
                self._backlog.waiting.append(family)
            elif family.decided:
                self._finish(family)
            else:
                self._backlog.line_up(family)
        if self._run.next_number == 1:
            seed = self._run.add_seed()
            if isinstance(seed, StopReason):
                self._refused = seed
            else:
                self._queue(seed)

    def _take_mail(self) -> None:
        """Obey orders, and make programs of what agents answered."""
        if self._inbox.read():
            self._barren = 0
            self._spent = None  # a cap may have been raised
            self._make_room()
        for program in self._inbox.take():
            self._take_in(program)

    def _worth_waiting(self) -> bool:
        return self._inbox.unread() or (self._refused is None and self._inbox.worth_waiting())

    def _launch_placement(self) -> bool:
        """Start the placement, or the tending, whose turn it is, if none is under way; whether there is one."""
        if self._placing:
            return False
        if not self._tending_held and self._tender.due():
            self._placing = True
            self._start(self._tender.tend(), self._tended)
        else:
            family = self._backlog.next_to_place(idle=self._judge_is_idle, best=self._run.population.best)
            if family is not None:
                self._place(family)
        return self._placing

    def _launch(self) -> None:
        """Start everything there is room for besides: evaluations, then proposals."""
        while self._backlog.waiting and self._evaluating < self._lanes:
            reservation = self._judging.reserve()
            if isinstance(reservation, StopReason):
                self._refused = reservation
                break
            self._evaluate(self._backlog.waiting.popleft(), reservation)
        while self._wants_proposal():
            try:
                context = self._run.ask(self._proposers.worst)
            except BudgetRefusedError:
                break  # An agent was given the last place this instant.
            self._proposing += 1
            self._start(self._proposers.propose(context), partial(self._proposed, context))

    @property
    def _judge_is_idle(self) -> bool:
        return not self._backlog.waiting and not self._evaluating

    def _place(self, family: Family) -> None:
        if self._tender.wanted():
            self._run.storage.note(Step(StepKind.UNTENDED))
        self._placing = True
        placing = self._placer.place(family.left[0], patient=self._backlog.patient(family))
        self._start(placing, partial(self._placed, family))

    def _evaluate(self, family: Family, reservation: Reservation) -> None:
        self._evaluating += 1
        self._start(self._tuning.judge(family, reservation), partial(self._evaluated, family))

    def _wants_proposal(self) -> bool:
        search = self._run.settings.search
        behind = self._backlog.behind + self._evaluating + self._placing
        return (
            self._proposers.any()
            and self._proposing < (search.proposals or self._proposers.in_flight)
            and behind < self._lanes + search.queue
            and self._barren < search.give_up_after
            and self._refused is None
            and self._spent is None
            and self._outage.paused is None
            and self._outage.rest_s() is None
            and self._run.may_ask(self._proposers.worst)
        )

    def _start(self, work: Coroutine[Any, Any, Any], collect: Callable[[Task], None]) -> None:
        self._tasks[asyncio.create_task(work)] = collect

    async def _wait(self, stopped: Task) -> None:
        """Until a task ends, mail comes, what noise spoilt is due or ``stop`` is set; the heart beats meanwhile."""
        if self._tasks:
            self._inbox.busy()
        while True:
            now = time.monotonic()
            if now >= self._beat_at:
                self._run.heartbeat()
                self._observer.on_progress(self._progress())
                self._beat_at = now + HEARTBEAT_S
            rest_s = self._outage.rest_s()
            due_s = self._due_s()
            limits = (self._beat_at - now, self._run.budget.remaining_s(), rest_s, due_s, self._inbox.until_look_s())
            timeout = min(limit for limit in limits if limit is not None)
            done, _ = await asyncio.wait((*self._tasks, stopped), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            rested = rest_s is not None and self._outage.rest_s() is None
            over = self._run.budget.remaining_s() == 0.0
            due = self._due_s() == 0.0
            if done or rested or over or due or not self._tasks or self._inbox.news():
                return

    def _due_s(self) -> float | None:
        """Seconds until there is somebody to place whom only the clock sends."""
        return None if self._placing else self._backlog.due_s(idle=self._judge_is_idle)

    def _collect(self) -> None:
        """Take in every task that ended, in the order in which they were launched."""
        for task in [task for task in self._tasks if task.done()]:
            self._tasks.pop(task)(task)

    def _proposed(self, context: ProposeContext, task: Task) -> None:
        self._proposing -= 1
        try:
            proposal: Proposal | Dropped | None = task.result()
        except ProposerDownError as error:
            self._run.withdraw(context)
            if self._outage.meet(error):
                self._observer.on_note("proposer", str(error))
            return
        except BudgetRefusedError as error:
            self._run.withdraw(context)
            self._spent = error.reason
            self._observer.on_note("proposer", str(error))
            return
        if proposal is not None:
            self._outage.over()
        program = self._run.tell(context, proposal)
        if isinstance(proposal, Dropped) and not (proposal.shared and self._outage.told(proposal.message)):
            self._observer.on_note("proposer", f"proposal {context.number}: {proposal.reason}: {proposal.message}")
        if program is None or program.duplicate_of is not None:
            # A rest that ends all calls to a model says nothing of what there is to find.
            self._barren += not (isinstance(proposal, Dropped) and proposal.shared)
        else:
            self._barren = 0
        if program is not None:
            self._take_in(program)

    def _take_in(self, program: Program) -> None:
        if program.state is ProgramState.FINISHED:
            self._announce([program])
        elif program.duplicate_of is None:
            self._queue(program)

    def _queue(self, program: Program) -> None:
        self._backlog.waiting.append(Family(program))
        self._observer.on_queued(program)

    def _evaluated(self, family: Family, task: Task) -> None:
        self._evaluating -= 1
        try:
            task.result()
        except BudgetRefusedError as error:
            self._refused = error.reason
            self._backlog.waiting.appendleft(family)
        else:
            self._backlog.line_up(family)
            self._make_room()

    def _placed(self, family: Family, task: Task) -> None:
        self._placing = False
        try:
            finished: list[Program] = task.result()
        except BudgetRefusedError as error:
            self._broken_off(family)
            self._refused = error.reason
            self._backlog.hold(family)
            return
        except UnquietError as error:
            self._observer.on_note("noise", f"{error}; it is measured again later")
            self._broken_off(family)
            self._backlog.spoilt(family)
            self._make_room()
            return
        if finished[0].placement is not AddStatus.NOT_ADDED:
            self._barren = 0  # There are new parents: proposers may have something to offer again.
        self._make_room()
        self._announce(finished)
        family.update(finished[0])
        if family.decided or not family.left:
            self._finish(family)
        else:
            self._backlog.line_up(family, first=True)

    def _broken_off(self, family: Family) -> None:
        """A placement came to no end: what is stored of it, a confirmation perhaps, is made use of the next time."""
        number = family.left[0].number
        self._run.storage.note(Step(StepKind.REFUSE, number))
        family.update(self._run.program(number))

    def _finish(self, family: Family) -> None:
        """One of a family was placed: the others are finished without a contest."""
        for program in family.left:
            self._announce(self._run.finish(program, ()))

    def _tended(self, task: Task) -> None:
        self._placing = False
        try:
            task.result()
        except BudgetRefusedError as error:
            self._run.storage.note(Step(StepKind.REFUSE))
            self._refused = error.reason
            self._tending_held = True
        else:
            self._make_room()

    def _make_room(self) -> None:
        """Something ended and gave its reservation back: what was refused may be tried again."""
        self._refused = None
        self._tending_held = False
        self._backlog.release()

    def _announce(self, finished: Sequence[Program]) -> None:
        for program in finished:
            self._run.storage.note(Step(StepKind.LEARN, program.number))
            self._proposers.tell(program)
            self._observer.on_program(program)
        self._observer.on_progress(self._progress())

    def _progress(self) -> Progress:
        return replace(
            self._run.progress(),
            proposing=self._proposing,
            waiting=len(self._backlog.waiting),
            judging=self._evaluating,
            placing=self._backlog.unplaced + self._placing,
            leases=self._inbox.leases,
        )

    def _wants_profiles(self) -> bool:
        wanted = self._run.settings.search.profiles
        return self._proposers.read_profiles or self._inbox.waits if wanted is None else wanted

    def _over(self) -> bool:
        return self._stop.is_set() or self._run.budget.remaining_s() == 0.0

    def _outcome(self) -> Outcome:
        if self._stop.is_set():
            return Outcome(RunStatus.INTERRUPTED, None, "interrupted")
        exhausted = self._barren >= self._run.settings.search.give_up_after and self._proposers.down
        paused = self._outage.paused or (str(exhausted) if exhausted else None)
        reason = self._run.spent_cap(self._proposers.worst) or self._spent or self._refused
        if reason is None and paused:
            return Outcome(RunStatus.INTERRUPTED, None, f"paused: {paused}")
        if reason is None and not self._proposers.any():
            return Outcome(RunStatus.INTERRUPTED, None, DRAINED)
        reason = reason or StopReason.EXHAUSTED
        return Outcome(RunStatus.FINISHED, reason, reason.value)
