"""Max, Min, ArgMax, ArgMin by prefix and suffix extremes (van Herk).

The state is (n, extreme, its row). A minimum is the maximum of −x, so that one comparison serves all
four. In a tie the most recent bar wins: a prefix takes an equal newcomer, a suffix, which grows
backwards, only a strictly larger one, and the prefix wins over the suffix.
"""

from __future__ import annotations

from math import inf, nan

import numpy as np

from rlgen.calculator.kernels.blocks import (
    BLOCK_FIRST,
    BLOCK_FRESH,
    BLOCK_HIGH,
    BLOCK_LOW,
    LANES,
    copy,
    fill,
    jit,
    row_function,
    suffix_rows,
)

MAX, MIN, ARGMAX, ARGMIN = range(4)
# Offsets in the state and in a stored suffix; the count of present values comes first.
BEST, BEST_ROW = LANES, 2 * LANES
STATE = 3 * LANES


@row_function
def _forward(values: np.ndarray, sign: float, row: float, state: np.ndarray) -> None:
    for j in range(LANES):
        value = values[j] * sign
        better = value >= state[BEST + j]
        state[j] += 1.0 if value == value else 0.0
        state[BEST_ROW + j] = row if better else state[BEST_ROW + j]
        state[BEST + j] = value if better else state[BEST + j]


@row_function
def _backward(values: np.ndarray, sign: float, row: float, state: np.ndarray) -> None:
    for j in range(LANES):
        value = values[j] * sign
        better = value > state[BEST + j]
        state[j] += 1.0 if value == value else 0.0
        state[BEST_ROW + j] = row if better else state[BEST_ROW + j]
        state[BEST + j] = value if better else state[BEST + j]


@row_function
def _merge(
    suffix: np.ndarray,
    state: np.ndarray,
    sign: float,
    row: float,
    position: bool,
    minimum: float,
    out: np.ndarray,
) -> None:
    for j in range(LANES):
        own = state[BEST + j] >= suffix[BEST + j]
        best = state[BEST + j] if own else suffix[BEST + j]
        best_row = state[BEST_ROW + j] if own else suffix[BEST_ROW + j]
        value = row - best_row if position else best * sign
        out[j] = value if state[j] + suffix[j] >= minimum else nan


@jit
def _reset(state: np.ndarray) -> None:
    fill(state, 0.0)
    fill(state[BEST:BEST_ROW], -inf)


@jit
def rolling_extreme(
    x: np.ndarray,
    out: np.ndarray,
    statistic: int,
    window: int,
    minimum: int,
    plan: np.ndarray,
    scratch: np.ndarray,
) -> None:
    """Write the rolling extreme, or its age in bars, of x (R, LANES) to out (R, LANES).

    The arguments are those of `moments.rolling_moment`; statistic: MAX … ARGMIN.
    """
    sign = 1.0 if statistic in (MAX, ARGMAX) else -1.0
    position = statistic >= ARGMAX
    depth = suffix_rows(window, x.shape[0])
    suffixes = scratch[: depth * STATE].reshape((depth, STATE))
    state = np.empty(STATE)
    for i in range(plan.shape[0]):
        first, low, high = plan[i, BLOCK_FIRST], plan[i, BLOCK_LOW], plan[i, BLOCK_HIGH]
        if plan[i, BLOCK_FRESH]:
            for k in range(depth):
                _reset(suffixes[k])
        _reset(state)
        for r in range(low, high):
            _forward(x[r], sign, float(r), state)
            _merge(suffixes[r + 1 - first], state, sign, float(r), position, minimum, out[r])
        if high == first + window:
            _reset(state)
            for r in range(high - 1, low - 1, -1):
                _backward(x[r], sign, float(r), state)
                copy(state, suffixes[r - first])
