"""WMA and EMA: weighted means whose weights are renormalised over the present values.

WMA weighs the bars of a window 1 … w, EMA λ^age with λ = 1 − 2/(w+1), the newest heaviest. Let u be
a bar's position in its block. At row r of a block (position k = r − first) the weight of a member

- of the prefix is w − k + u (WMA), λ^(k−u) (EMA);
- of the suffix of the block before is u − k, or λ^(w−1−u) · λ^(k+1).

So a prefix or suffix is the two sums of weights and of weighted deviations: for WMA, Σ1, Σd, Σu, Σu·d
serve every k; for EMA the sums decay by λ from row to row. With A, W the total sums and δ the distance
of the suffix's shift from the prefix's,

    mean = shift + (A_prefix + A_suffix + W_suffix δ) / (W_prefix + W_suffix)

A constant window's mean is its value exactly, since all deviations are zero.
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
    PREFIX_SHIFT,
    STATE,
    SUFFIX_SHIFT,
    SUMS,
    copy,
    fill,
    jit,
    reset,
    row_function,
    suffix_rows,
    take_shift,
)

WMA, EMA = range(2)
# Offsets: n, then the plain sum of deviations, then (WMA) Σu and Σu·d, or (EMA) the decayed sums.
PLAIN, WEIGHT, WEIGHTED = LANES, 2 * LANES, 3 * LANES


@row_function
def _add(values: np.ndarray, shift: int, decay: float, u: float, state: np.ndarray) -> None:
    """Add a row; decay 1 and weight u for WMA, decay λ and weight 1 for EMA."""
    for j in range(LANES):
        d = values[j] - state[shift + j]
        present = d == d
        weight = u if present else 0.0
        state[j] += 1.0 if present else 0.0
        state[PLAIN + j] += d if present else 0.0
        state[WEIGHT + j] = state[WEIGHT + j] * decay + weight
        state[WEIGHTED + j] = state[WEIGHTED + j] * decay + (u * d if present else 0.0)


@row_function
def _merge(
    suffix: np.ndarray,
    state: np.ndarray,
    prefix_plain: float,
    suffix_plain: float,
    suffix_factor: float,
    minimum: float,
    out: np.ndarray,
) -> None:
    """A row of results: weights are `plain`·Σ1 + Σu for WMA, `factor`·Σ for EMA."""
    for j in range(LANES):
        own = state[j] > 0.0
        shift = state[PREFIX_SHIFT + j] if own else state[SUFFIX_SHIFT + j]
        e = state[SUFFIX_SHIFT + j] - shift
        weight = state[WEIGHT + j] + prefix_plain * state[j]
        total = state[WEIGHTED + j] + prefix_plain * state[PLAIN + j]
        m = suffix_factor * suffix[WEIGHT + j] + suffix_plain * suffix[j]
        moved = suffix_factor * suffix[WEIGHTED + j] + suffix_plain * suffix[PLAIN + j]
        value = shift + (total + (moved + m * e)) / (weight + m)
        out[j] = value if (state[j] + suffix[j] >= minimum) & (abs(value) < inf) else nan


@jit
def rolling_weighted(
    x: np.ndarray,
    out: np.ndarray,
    statistic: int,
    window: int,
    minimum: int,
    plan: np.ndarray,
    scratch: np.ndarray,
) -> None:
    """Write the rolling weighted mean of x (R, LANES) to out (R, LANES).

    The arguments are those of `moments.rolling_moment`; statistic: WMA or EMA.
    """
    linear = statistic == WMA
    decay = 1.0 if linear else 1.0 - 2.0 / (window + 1.0)
    depth = suffix_rows(window, x.shape[0])
    suffixes = scratch[: depth * SUMS].reshape((depth, SUMS))
    state = np.empty(STATE)
    for i in range(plan.shape[0]):
        first, low, high = plan[i, BLOCK_FIRST], plan[i, BLOCK_LOW], plan[i, BLOCK_HIGH]
        if plan[i, BLOCK_FRESH]:
            fill(scratch[: depth * SUMS], 0.0)
            reset(state)
        fill(state[:SUMS], 0.0)
        take_shift(x, low, high, 1, state, PREFIX_SHIFT)
        # A partial first block (of a tile that starts within a block) yields no result that is used.
        factor = decay ** (low - first)
        for r in range(low, high):
            k = r - first
            factor *= decay
            if linear:
                _add(x[r], PREFIX_SHIFT, 1.0, float(k), state)
                _merge(suffixes[k + 1], state, float(window - k), -float(k), 1.0, minimum, out[r])
            else:
                _add(x[r], PREFIX_SHIFT, decay, 1.0, state)
                _merge(suffixes[k + 1], state, 0.0, 0.0, factor, minimum, out[r])
        if high == first + window:
            fill(state[:SUMS], 0.0)
            take_shift(x, high - 1, low - 1, -1, state, SUFFIX_SHIFT)
            weight = 1.0
            for r in range(high - 1, low - 1, -1):
                _add(x[r], SUFFIX_SHIFT, 1.0, float(r - first) if linear else weight, state)
                weight *= decay
                copy(state[:SUMS], suffixes[r - first])
