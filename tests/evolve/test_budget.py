"""Caps hold at every instant, whatever is in flight."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from evolve.budget import Budget, Charge, Reservation, Spent
from evolve.settings import Caps
from evolve.types import StopReason


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class World:
    caps: Caps
    spent: Spent = field(default_factory=Spent)
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.budget = Budget(self.caps, self.spent, self.clock)

    def reserve(self, **worst: float) -> Reservation:
        reservation = self.budget.reserve(Charge(**worst))  # type: ignore[arg-type]
        assert isinstance(reservation, Reservation)
        return reservation


def test_what_is_in_flight_counts_with_its_worst_case() -> None:
    world = World(Caps(device_seconds=10))
    first = world.reserve(device_s=6)
    assert world.budget.reserve(Charge(device_s=6)) is StopReason.DEVICE_SECONDS
    world.budget.settle(first, Charge(device_s=1))
    world.reserve(device_s=6)
    assert world.budget.remaining_device_s() == pytest.approx(3)


@pytest.mark.parametrize(
    ("caps", "worst", "reason"),
    [
        (Caps(candidates=2), Charge(candidates=3), StopReason.CANDIDATES),
        (Caps(device_seconds=2.5), Charge(device_s=2.6), StopReason.DEVICE_SECONDS),
        (Caps(dollars=0.5), Charge(dollars=0.51), StopReason.DOLLARS),
        (Caps(tokens=100), Charge(tokens=101), StopReason.TOKENS),
        (Caps(seconds=0), Charge(), StopReason.SECONDS),
    ],
)
def test_each_cap_refuses_by_its_name(caps: Caps, worst: Charge, reason: StopReason) -> None:
    assert World(caps).budget.reserve(worst) is reason


def test_what_just_fits_is_let_in_and_costs_of_other_kinds_are_not_asked_about() -> None:
    world = World(Caps(candidates=2, dollars=0))
    world.reserve(candidates=2)
    assert world.budget.refusal(Charge(device_s=1e9)) is None
    assert world.budget.refusal(Charge(dollars=0.01)) is StopReason.DOLLARS


def test_a_cap_of_zero_dollars_is_met_from_the_start() -> None:
    assert World(Caps(dollars=0)).budget.reached() is StopReason.DOLLARS


def test_abandoned_work_gives_its_promise_back_and_books_what_it_used() -> None:
    world = World(Caps(device_seconds=10))
    world.budget.settle(world.reserve(device_s=10), Charge(device_s=4))
    assert world.budget.spent.charge.device_s == 4
    assert world.budget.promised == Charge()


def test_settling_twice_is_an_error() -> None:
    world = World(Caps())
    reservation = world.reserve(candidates=1)
    world.budget.settle(reservation)
    with pytest.raises(KeyError):
        world.budget.settle(reservation)


def test_wall_clock_is_active_time_over_resumes() -> None:
    world = World(Caps(seconds=30), Spent(seconds=20.0))
    world.clock.now += 7
    assert world.budget.spent.seconds == 27
    assert world.budget.remaining_s() == 3
    assert world.budget.reached() is None
    world.clock.now += 3
    assert world.budget.reached() is StopReason.SECONDS
    assert world.budget.refusal(Charge()) is StopReason.SECONDS


def test_patience_counts_passed_programs_since_the_last_best() -> None:
    world = World(Caps(patience=2), Spent(since_best=1))
    world.budget.note_best(1.0)
    world.budget.note_passed()
    assert world.budget.reached() is None
    world.budget.note_passed()
    assert world.budget.reached() is StopReason.PATIENCE


def test_the_target_is_reached_by_a_confirmed_best() -> None:
    world = World(Caps(target=2.0), Spent(best_score=1.9))
    assert world.budget.reached() is None
    world.budget.note_best(2.0)
    assert world.budget.reached() is StopReason.TARGET


def test_a_resumed_run_goes_on_from_what_was_spent() -> None:
    world = World(Caps(candidates=5), Spent(Charge(candidates=4)))
    world.reserve(candidates=1)
    assert world.budget.reserve(Charge(candidates=1)) is StopReason.CANDIDATES


@pytest.mark.parametrize("name", ["candidates", "seconds", "device_seconds", "dollars", "tokens", "patience", "target"])
@pytest.mark.parametrize("value", [-1, float("inf"), float("nan"), "many"])
def test_a_cap_is_finite_and_not_negative(name: str, value: object) -> None:
    if (name, value) == ("target", -1):
        assert Caps(target=-1).target == -1, "scores may be negative"
        return
    with pytest.raises(ValidationError):
        Caps(**{name: value})  # type: ignore[arg-type]


@given(st.floats(1e-6, 1e6), st.lists(st.floats(0, 1e5), max_size=20))
def test_what_remains_of_the_device_can_be_reserved(cap: float, spent: list[float]) -> None:
    """However the sums are rounded: 0.21 - 0.08 + 0.08 is more than 0.21."""
    world = World(Caps(device_seconds=cap))
    for device_s in spent:
        world.budget.book(Charge(device_s=device_s))
    remaining = world.budget.remaining_device_s()
    assert remaining is not None
    assert isinstance(world.budget.reserve(Charge(device_s=remaining)), Reservation)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "settle", "book"]),
        st.integers(0, 3),
        st.floats(0, 5),
        st.floats(0, 1),
    ),
    max_size=80,
)


@given(STEPS, st.integers(0, 8), st.floats(0, 20), st.floats(0, 20), st.integers(0, 8))
def test_no_interleaving_passes_a_cap(
    steps: list[tuple[str, int, float, float]], candidates: int, device: float, dollars: float, tokens: int
) -> None:
    """Work may end in any order and cost anything up to what it reserved; booking outside needs room too."""
    caps = Caps(candidates=candidates, device_seconds=device, dollars=dollars, tokens=tokens)
    budget = Budget(caps, Spent(), Clock())
    in_flight: list[Reservation] = []
    for action, whole, part, share in steps:
        worst = Charge(candidates=whole, device_s=part, dollars=part / 2, tokens=whole)
        if action == "reserve":
            got = budget.reserve(worst)
            if isinstance(got, Reservation):
                in_flight.append(got)
        elif in_flight and action == "settle":
            done = in_flight.pop(whole % len(in_flight))
            used = Charge(
                done.worst.candidates, done.worst.device_s * share, done.worst.dollars * share, done.worst.tokens
            )
            budget.settle(done, used)
        elif action == "book" and budget.refusal(worst) is None:
            budget.book(worst)
        charge = budget.spent.charge
        assert charge.candidates + budget.promised.candidates <= candidates
        assert charge.device_s + budget.promised.device_s <= device * (1 + 1e-9)
        assert charge.dollars + budget.promised.dollars <= dollars * (1 + 1e-9)
        assert charge.tokens + budget.promised.tokens <= tokens
    for reservation in in_flight:
        budget.settle(reservation)
    assert budget.promised == Charge()
