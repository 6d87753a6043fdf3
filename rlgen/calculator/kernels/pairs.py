"""Cov, Corr over the bars where both operands are present: sums of deviations and their products.

A prefix or suffix is (n, Σa, Σb, Σab) for the covariance and Σa², Σb² besides for the correlation,
a = x − shift_x, b = y − shift_y, each shift a member of the window as in `moments`. With δ and ε the
distances between the shifts of suffix and prefix, the suffix's sums are moved by

    Σab → Σab + δ Σb + ε Σa + n δ ε,  Σa² → Σa² + 2δ Σa + n δ²

1. `mask_pairs` writes copies in which a bar lacking either operand lacks both;
2. the walk of `blocks` runs over both copies;
3. constancy is tracked for each: a constant operand has covariance 0 and no correlation.
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

COV, CORR = range(2)
# Offsets in the sums; the number of pairs comes first. x's state holds n, Σa, Σa², Σab, y's holds
# Σb, Σb² at the same places.
FIRST, SQUARE, CROSS = LANES, 2 * LANES, 3 * LANES


@row_function
def mask_pairs(x: np.ndarray, y: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Copy a row of x and y, missing in both where it is missing in either."""
    for j in range(LANES):
        both = (x[j] == x[j]) & (y[j] == y[j])
        a[j] = x[j] if both else nan
        b[j] = y[j] if both else nan


@row_function
def _add(x: np.ndarray, y: np.ndarray, shift: int, sx: np.ndarray, sy: np.ndarray) -> None:
    for j in range(LANES):
        a = x[j] - sx[shift + j]
        b = y[j] - sy[shift + j]
        present = a == a
        a = a if present else 0.0
        b = b if present else 0.0
        sx[j] += 1.0 if present else 0.0
        sx[FIRST + j] += a
        sy[FIRST + j] += b
        sx[CROSS + j] += a * b
        sx[SQUARE + j] += a * a
        sy[SQUARE + j] += b * b


@row_function
def _merge(
    px: np.ndarray,
    py: np.ndarray,
    sx: np.ndarray,
    sy: np.ndarray,
    low: float,
    correlation: bool,
    minimum: float,
    out: np.ndarray,
) -> None:
    """A row of results from the stored suffix (px, py) and the prefix's state (sx, sy)."""
    for j in range(LANES):
        own = sx[j] > 0.0
        d = sx[SUFFIX_SHIFT + j] - sx[PREFIX_SHIFT + j] if own else 0.0
        e = sy[SUFFIX_SHIFT + j] - sy[PREFIX_SHIFT + j] if own else 0.0
        m, a1, b1 = px[j], px[FIRST + j], py[FIRST + j]
        n = sx[j] + m
        a = sx[FIRST + j] + (a1 + m * d)
        b = sy[FIRST + j] + (b1 + m * e)
        aa = sx[SQUARE + j] + (px[SQUARE + j] + d * (2.0 * a1 + m * d))
        bb = sy[SQUARE + j] + (py[SQUARE + j] + e * (2.0 * b1 + m * e))
        ab = sx[CROSS + j] + (px[CROSS + j] + d * b1 + e * a1 + m * d * e)
        cross = ab - a / n * b
        constant = (sx[DIFFERS + j] < low) | (sy[DIFFERS + j] < low)
        covariance = 0.0 if constant else cross / (n - 1.0)
        ratio = cross / (sqrt(aa - a / n * a) * sqrt(bb - b / n * b))
        ratio = 1.0 if ratio > 1.0 else ratio
        ratio = -1.0 if ratio < -1.0 else ratio
        ratio = nan if constant else ratio
        value = ratio if correlation else covariance
        out[j] = value if (n >= minimum) & (abs(value) < inf) else nan


@jit
def rolling_pair(
    x: np.ndarray,
    y: np.ndarray,
    out: np.ndarray,
    statistic: int,
    window: int,
    minimum: int,
    plan: np.ndarray,
    scratch: np.ndarray,
) -> None:
    """Write the rolling covariance or correlation of x and y (R, LANES) to out (R, LANES).

    The arguments are those of `moments.rolling_moment`; statistic: COV or CORR. `scratch` holds
    suffixes and masked copies of both.
    """
    depth = suffix_rows(window, x.shape[0])
    size = depth * SUMS
    cells = x.shape[0] * LANES
    stored_x = scratch[:size].reshape((depth, SUMS))
    stored_y = scratch[size : 2 * size].reshape((depth, SUMS))
    xs = scratch[2 * size : 2 * size + cells].reshape(x.shape)
    ys = scratch[2 * size + cells : 2 * size + 2 * cells].reshape(x.shape)
    for r in range(x.shape[0]):
        mask_pairs(x[r], y[r], xs[r], ys[r])
    sx = np.empty(STATE)
    sy = np.empty(STATE)
    for i in range(plan.shape[0]):
        first, low, high = plan[i, BLOCK_FIRST], plan[i, BLOCK_LOW], plan[i, BLOCK_HIGH]
        if plan[i, BLOCK_FRESH]:
            fill(scratch[: 2 * size], 0.0)
            reset(sx)
            reset(sy)
        fill(sx[:SUMS], 0.0)
        fill(sy[:SUMS], 0.0)
        take_shift(xs, low, high, 1, sx, PREFIX_SHIFT)
        take_shift(ys, low, high, 1, sy, PREFIX_SHIFT)
        for r in range(low, high):
            _add(xs[r], ys[r], PREFIX_SHIFT, sx, sy)
            track_constancy(xs[r], float(r), sx)
            track_constancy(ys[r], float(r), sy)
            k = r + 1 - first
            start = float(r + 1 - window)
            _merge(stored_x[k], stored_y[k], sx, sy, start, statistic == CORR, minimum, out[r])
        if high == first + window:
            fill(sx[:SUMS], 0.0)
            fill(sy[:SUMS], 0.0)
            take_shift(xs, high - 1, low - 1, -1, sx, SUFFIX_SHIFT)
            take_shift(ys, high - 1, low - 1, -1, sy, SUFFIX_SHIFT)
            for r in range(high - 1, low - 1, -1):
                _add(xs[r], ys[r], SUFFIX_SHIFT, sx, sy)
                copy(sx[:SUMS], stored_x[r - first])
                copy(sy[:SUMS], stored_y[r - first])
