"""Ref and Delta: a value of the past, and the change since then."""

from __future__ import annotations

from math import inf, nan

import numpy as np

from rlgen.calculator.kernels.blocks import LANES, copy, fill, jit, row_function

REF, DELTA = range(2)


@row_function
def _subtract(values: np.ndarray, past: np.ndarray, out: np.ndarray) -> None:
    for j in range(LANES):
        value = values[j] - past[j]
        out[j] = value if abs(value) < inf else nan


@jit
def rolling_shift(x: np.ndarray, out: np.ndarray, statistic: int, window: int, starts: np.ndarray) -> None:
    """Write x[t−window], or x[t] − x[t−window], of x (R, LANES) to out (R, LANES).

    A bar whose past lies before its segment is missing. `starts` is that of `blocks.block_plan`.
    """
    for s in range(starts.shape[0] - 1):
        low = max(starts[s], 0)
        for r in range(low, starts[s + 1]):
            if r - window < low:
                fill(out[r], nan)
            elif statistic == REF:
                copy(x[r - window], out[r])
            else:
                _subtract(x[r], x[r - window], out[r])
