"""Rank, Med, Mad: statistics that need the window's values themselves.

**Rank** compares the current value with every value of its window, lane by lane in SIMD; brute force
beats any sorted structure up to several hundred bars. **Mad** takes the window's mean from `moments`
and sums |x − mean| in the same manner. **Med** keeps each lane's window sorted: the bar that leaves
and the bar that enters are found by bisection and the values between them move by one place.
All three use the window's own values only, exactly; nothing accumulates over time.
"""

from __future__ import annotations

from math import inf, nan

import numpy as np

from rlgen.calculator.kernels.blocks import LANES, fill, jit, row_function

# Offsets in the state of Rank: smaller, equal (the value itself included), present.
EQUAL, PRESENT = LANES, 2 * LANES


@row_function
def _compare(values: np.ndarray, current: np.ndarray, state: np.ndarray) -> None:
    for j in range(LANES):
        value = values[j]
        state[j] += 1.0 if value < current[j] else 0.0
        state[EQUAL + j] += 1.0 if value == current[j] else 0.0
        state[PRESENT + j] += 1.0 if value == value else 0.0


@row_function
def _percentile(state: np.ndarray, minimum: float, out: np.ndarray) -> None:
    for j in range(LANES):
        n = state[PRESENT + j]
        value = (state[j] + 0.5 * (state[EQUAL + j] + 1.0)) / n
        out[j] = value if (n >= minimum) & (state[EQUAL + j] > 0.0) else nan


@jit
def rolling_rank(x: np.ndarray, out: np.ndarray, minimum: int, first: np.ndarray) -> None:
    """Write each bar's ascending percentile within its window of x (R, LANES) to out (R, LANES).

    Args:
        minimum: present values that a window needs.
        first: `blocks.window_starts` of the tile.
    """
    state = np.empty(3 * LANES)
    for r in range(x.shape[0]):
        fill(state, 0.0)
        current = x[r]
        for k in range(first[r], r + 1):
            _compare(x[k], current, state)
        _percentile(state, minimum, out[r])


@row_function
def _deviate(values: np.ndarray, mean: np.ndarray, state: np.ndarray) -> None:
    for j in range(LANES):
        d = abs(values[j] - mean[j])
        state[j] += d if d == d else 0.0
        state[EQUAL + j] += 1.0 if values[j] == values[j] else 0.0


@row_function
def _average(state: np.ndarray, out: np.ndarray) -> None:
    for j in range(LANES):
        # Missing where the mean, which `out` holds, is missing.
        value = state[j] / state[EQUAL + j] + 0.0 * out[j]
        out[j] = value if abs(value) < inf else nan


@jit
def rolling_mad(x: np.ndarray, out: np.ndarray, first: np.ndarray) -> None:
    """Replace the windows' means in `out`, of x (R, LANES), by the mean absolute deviations from them."""
    state = np.empty(2 * LANES)
    for r in range(x.shape[0]):
        fill(state, 0.0)
        for k in range(first[r], r + 1):
            _deviate(x[k], out[r], state)
        _average(state, out[r])


@jit
def _place(ordered: np.ndarray, n: int, value: float) -> int:
    """The number of the first n values that are smaller than `value`."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if ordered[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def rolling_median(
    x: np.ndarray, out: np.ndarray, minimum: int, first: np.ndarray, ordered: np.ndarray
) -> None:
    """Write the windows' medians of x (R, LANES) to out; `ordered` holds at least a window's values."""
    for j in range(LANES):
        n = 0
        leaving = 0
        for r in range(x.shape[0]):
            if first[r] == r:  # a segment's first bar, or a window of one
                n = 0
                leaving = r
            hole = n
            while leaving < first[r]:
                old = x[leaving, j]
                leaving += 1
                if old == old:
                    hole = _place(ordered, n, old)
                    n -= 1
            new = x[r, j]
            if new == new:
                # Move the values between the place that became free and the newcomer's.
                while hole > 0 and ordered[hole - 1] > new:
                    ordered[hole] = ordered[hole - 1]
                    hole -= 1
                while hole < n and ordered[hole + 1] < new:
                    ordered[hole] = ordered[hole + 1]
                    hole += 1
                ordered[hole] = new
                n += 1
            else:
                for k in range(hole, n):
                    ordered[k] = ordered[k + 1]
            if n < minimum:
                out[r, j] = nan
            elif n % 2:
                out[r, j] = ordered[n // 2]
            else:
                value = 0.5 * ordered[n // 2 - 1] + 0.5 * ordered[n // 2]
                out[r, j] = value if abs(value) < inf else nan
