"""Who may have a cell, as far as that can be said without a duel."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from evolve.archive import Elite


class Look(Enum):
    """What a first look says of a challenger and the occupant of its cell."""

    TAKE = "take"
    LEAVE = "leave"
    DUEL = "duel"
    """Only a paired measurement can tell."""


def first_look(challenger: Elite, occupant: Elite | None, metric: Literal["time", "value"], min_gain: float) -> Look:
    """An empty cell is taken. By value a gain above ``min_gain`` takes it; by time a duel has to be won.

    The duel is spared where the challenger's interval lies entirely below the occupant's, be one of them or both what
    was seen at a glance: nobody takes a cell by it. A program without a time never displaces one, and gives way to the
    first that has one.
    """
    if occupant is None:
        return Look.TAKE
    if occupant.number == challenger.number:
        return Look.LEAVE
    if metric == "value":
        return Look.TAKE if challenger.score > occupant.score + min_gain else Look.LEAVE
    if challenger.speedup is None:
        return Look.LEAVE
    if occupant.speedup is None:
        return Look.TAKE
    return Look.LEAVE if challenger.speedup.high < occupant.speedup.low else Look.DUEL
