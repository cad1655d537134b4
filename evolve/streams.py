"""Random streams, one for each purpose and number, all from the run's seed.

Counter-based: a stream depends on nothing that happened before, so a resumed run draws what it would have drawn.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What a stream is for. Values are part of a run's reproducibility: never renumber."""

    SELECT = 0
    """Parent and inspirations of a program, by its number."""
    PROPOSE = 1
    """The proposer's own, by the program's number."""
    PROPOSER = 2
    """Which proposer is asked, by the program's number."""
    MIGRATE = 3
    """Which elite migrates, by round and island."""
    RESET = 4
    """Where an island starts over from, by island and reset."""
    LEASE = 5
    """Parent and inspirations for an agent, by how many leases were given before."""


def stream(seed: int, purpose: Stream, *numbers: int) -> np.random.Generator:
    """The generator for one purpose and number."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(int(purpose), *numbers)))
