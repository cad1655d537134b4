"""Pack circles in the unit square: rows of centres, pushed apart for a while, then radii as large as they go."""

import numpy as np

# EVOLVE-BLOCK-START
ROWS = 5  # tune: 4, 5, 6
SHIFT = 0.25  # tune: 0.0, 0.125, 0.25, 0.5
JITTER = 0.02  # tune: 0.0, 0.01, 0.02, 0.05
SEED = 0  # tune: 0, 1, 2, 3, 4, 5, 6, 7
STEPS = 50  # tune: 0, 50, 200, 500
DIAMETER = 0.2  # tune: 0.19, 0.195, 0.2, 0.205, 0.21, 0.22
PUSH = 0.3  # tune: 0.1, 0.3, 0.5
SWEEPS = 1  # tune: 1, 5, 20


def start(count):
    """Centres in rows of about equal length, every other row shifted, and a little jitter."""
    lengths = np.full(ROWS, count // ROWS)
    lengths[: count % ROWS] += 1
    centres = []
    for row, length in enumerate(lengths):
        shift = SHIFT * (row % 2) / length
        for column in range(length):
            centres.append(((column + 0.5) / length + shift, (row + 0.5) / ROWS))
    noise = np.random.default_rng(SEED).normal(0.0, JITTER, (count, 2))
    return np.clip(np.array(centres) + noise, 0.05, 0.95)


def push_apart(centres):
    """Centres nearer than DIAMETER, and those nearer to a wall than half of it, give way."""
    for _ in range(STEPS):
        offsets = centres[:, None] - centres[None]
        distances = np.hypot(offsets[..., 0], offsets[..., 1]) + np.eye(len(centres))
        force = np.clip(DIAMETER - distances, 0.0, None) / distances
        centres = centres + PUSH * (force[..., None] * offsets).sum(axis=1)
        centres = np.clip(centres, DIAMETER / 2, 1.0 - DIAMETER / 2)
    return centres


def grow(centres):
    """Half the way to the nearest neighbour or up to the wall; then each in turn takes the room that is left."""
    distances = np.hypot(*(centres[:, None] - centres[None]).transpose(2, 0, 1))
    np.fill_diagonal(distances, np.inf)
    walls = np.minimum(centres, 1.0 - centres).min(axis=1)
    radii = np.minimum(distances.min(axis=1) / 2, walls)
    for _ in range(SWEEPS):
        for i in range(len(radii)):
            radii[i] = min(walls[i], (distances[i] - radii).min())
    return radii


# EVOLVE-BLOCK-END


def pack(circles, N):
    """Fill ``circles``, rows of x, y and radius."""
    centres = push_apart(start(N))
    circles[:, :2] = centres
    circles[:, 2] = np.maximum(grow(centres) - 1e-12, 0.0)
