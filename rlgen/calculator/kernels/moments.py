"""Mean, Sum, Var, Std, Skew, Kurt: central moments from power sums of deviations.

A prefix or suffix is (n, S1 … Sk), S_i = Σ(x − shift)^i, k = 1 for the mean, 2 for the variance, 4
for skewness and kurtosis. To merge, the suffix's sums are moved to the prefix's shift by the binomial
theorem (a prefix without values has no shift of its own and takes the suffix's); with μ = S1/n the
central moments follow:

    M2 = S2 − μ S1,  M3 = S3 − 3μ S2 + 2n μ³,  M4 = S4 − 4μ S3 + 6μ² S2 − 3n μ⁴

**Precision.** Both shifts are members of the window, so every deviation is at most its range, and
the range is at most √(2n) standard deviations: the cancellation in M2 costs a factor of at most n.
Prices of 1e4 that move by ticks, or one outlier of 1e15, lose nothing more. A constant window's mean
is its value exactly, since all its deviations are zero.
"""

from __future__ import annotations

from math import inf, nan, sqrt

import numpy as np

from rlgen.calculator.kernels.blocks import (
    BLOCK_FIRST,
    BLOCK_FRESH,
    BLOCK_HIGH,
    BLOCK_LOW,
    DIFFERS,
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
    track_constancy,
)

MEAN, SUM, VAR, STD, SKEW, KURT = range(6)
# Offsets of the power sums, in the state and in a stored suffix.
S1, S2, S3, S4 = LANES, 2 * LANES, 3 * LANES, 4 * LANES


@row_function
def _add(values: np.ndarray, shift: int, order: int, state: np.ndarray) -> None:
    """Add a row of values to the power sums; `shift` is the offset of the shift in the state."""
    for j in range(LANES):
        d = values[j] - state[shift + j]
        present = d == d
        state[j] += 1.0 if present else 0.0
        state[S1 + j] += d if present else 0.0
    if order >= 2:
        for j in range(LANES):
            d = values[j] - state[shift + j]
            state[S2 + j] += d * d if d == d else 0.0
    if order >= 3:
        for j in range(LANES):
            d = values[j] - state[shift + j]
            square = d * d if d == d else 0.0
            state[S3 + j] += square * d if d == d else 0.0
            state[S4 + j] += square * square


@row_function
def _mean(suffix: np.ndarray, state: np.ndarray, is_sum: bool, minimum: float, out: np.ndarray) -> None:
    """A row of Mean or Sum."""
    for j in range(LANES):
        shift = state[PREFIX_SHIFT + j] if state[j] > 0.0 else state[SUFFIX_SHIFT + j]
        e = state[SUFFIX_SHIFT + j] - shift
        n = state[j] + suffix[j]
        value = shift + (state[S1 + j] + (suffix[S1 + j] + suffix[j] * e)) / n
        value = value * n if is_sum else value
        out[j] = value if (n >= minimum) & (abs(value) < inf) else nan


@row_function
def _variance(
    suffix: np.ndarray, state: np.ndarray, low: float, root: bool, minimum: float, out: np.ndarray
) -> None:
    """A row of Var or Std; `low` is the first row of the window."""
    for j in range(LANES):
        shift = state[PREFIX_SHIFT + j] if state[j] > 0.0 else state[SUFFIX_SHIFT + j]
        e = state[SUFFIX_SHIFT + j] - shift
        m, b1 = suffix[j], suffix[S1 + j]
        n = state[j] + m
        s1 = state[S1 + j] + (b1 + m * e)
        s2 = state[S2 + j] + (suffix[S2 + j] + e * (2.0 * b1 + m * e))
        value = (s2 - s1 / n * s1) / (n - 1.0)
        value = 0.0 if (value < 0.0) | (state[DIFFERS + j] < low) else value
        value = sqrt(value) if root else value
        out[j] = value if (n >= minimum) & (abs(value) < inf) else nan


@row_function
def _shape(
    suffix: np.ndarray, state: np.ndarray, low: float, fourth: bool, minimum: float, out: np.ndarray
) -> None:
    """A row of Skew or Kurt; `low` is the first row of the window."""
    for j in range(LANES):
        shift = state[PREFIX_SHIFT + j] if state[j] > 0.0 else state[SUFFIX_SHIFT + j]
        e = state[SUFFIX_SHIFT + j] - shift
        m, b1, b2, b3 = suffix[j], suffix[S1 + j], suffix[S2 + j], suffix[S3 + j]
        n = state[j] + m
        s1 = state[S1 + j] + (b1 + m * e)
        s2 = state[S2 + j] + (b2 + e * (2.0 * b1 + m * e))
        s3 = state[S3 + j] + (b3 + e * (3.0 * b2 + e * (3.0 * b1 + m * e)))
        moved = suffix[S4 + j] + e * (4.0 * b3 + e * (6.0 * b2 + e * (4.0 * b1 + m * e)))
        s4 = state[S4 + j] + moved
        mean = s1 / n
        square = mean * mean
        variance = (s2 - mean * s1) / (n - 1.0)
        m3 = s3 - 3.0 * mean * s2 + 2.0 * n * square * mean
        m4 = s4 - 4.0 * mean * s3 + 6.0 * square * s2 - 3.0 * n * square * square
        pairs = (n - 1.0) * (n - 2.0)
        skew = n / pairs * m3 / (variance * sqrt(variance))
        kurt = n * (n + 1.0) / (pairs * (n - 3.0)) * m4 / (variance * variance)
        kurt -= 3.0 * (n - 1.0) * (n - 1.0) / ((n - 2.0) * (n - 3.0))
        value = kurt if fourth else skew
        out[j] = value if (n >= minimum) & (state[DIFFERS + j] >= low) & (abs(value) < inf) else nan


@jit
def rolling_moment(
    x: np.ndarray,
    out: np.ndarray,
    statistic: int,
    window: int,
    minimum: int,
    plan: np.ndarray,
    scratch: np.ndarray,
) -> None:
    """Write a rolling moment of x (R, LANES) to out (R, LANES).

    Args:
        statistic: MEAN … KURT.
        minimum: present values that a window needs, at least the statistic's own number.
        plan: `block_plan` of the tile.
        scratch: `suffix_rows` · SUMS float64 or more.
    """
    order = 1 if statistic <= SUM else 2 if statistic <= STD else 4
    used = (order + 1) * LANES
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
        for r in range(low, high):
            suffix = suffixes[r + 1 - first]
            start = float(r + 1 - window)
            _add(x[r], PREFIX_SHIFT, order, state)
            if order == 1:
                _mean(suffix, state, statistic == SUM, minimum, out[r])
            else:
                track_constancy(x[r], float(r), state)
                if order == 2:
                    _variance(suffix, state, start, statistic == STD, minimum, out[r])
                else:
                    _shape(suffix, state, start, statistic == KURT, minimum, out[r])
        if high == first + window:
            fill(state[:SUMS], 0.0)
            take_shift(x, high - 1, low - 1, -1, state, SUFFIX_SHIFT)
            for r in range(high - 1, low - 1, -1):
                _add(x[r], SUFFIX_SHIFT, order, state)
                copy(state[:used], suffixes[r - first])
