"""Dequantise a panel of rows with NumPy, multiply it with BLAS."""

import numpy as np

PANEL = 256


def q4_matvec(nibbles, scales, x, out, M, K):
    """Fill ``out``."""
    panel = np.empty((min(PANEL, M), K // 32, 32), dtype=np.float32)
    for start in range(0, M, PANEL):
        rows = slice(start, min(start + PANEL, M))
        weights = panel[: rows.stop - start]
        packed = nibbles[rows].reshape(len(weights), K // 32, 16)
        np.bitwise_and(packed, 15, out=weights[:, :, :16], casting="unsafe")
        np.right_shift(packed, 4, out=weights[:, :, 16:], casting="unsafe")
        weights -= 8
        weights *= scales[rows].astype(np.float32)[:, :, None]
        np.matmul(weights.reshape(len(weights), K), x, out=out[rows])
