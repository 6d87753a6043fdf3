"""CPU kernels of the pool: numba loops over bars [start, stop), without the GIL.

z-scores are float32 with NaN for missing, which counts as 0 in every sum here.

1. `pair_sums`: one pass of a candidate over the members, the forward return and itself. Per bar it
   gives Σ z_c z_k, for the Gram matrix, and the correlation over the cells that both have, for the
   mutual IC.
2. `combine`: Σ_k w_k z_k in member order; `accumulate` adds one member, for signals that are built
   member by member. Both add the same way, product and sum each rounded, so their bits agree.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

CHUNK = 512
"""Cells that are summed in float32 before the sum goes into a float64: z-scores are of size 1, so
the error stays near 1e-7, and eight lanes run at a time."""

STRIP = 4096
"""Cells of one member that are read in a row: a few bars at a time, since memory is read faster in
long runs than in one row of each member after the other (8 instead of 14 ms a pass at 4,800 × 300
and 20 members)."""

MINIMUM_VARIANCE = 1e-5
"""Variance of z-scores over common cells below which they count as constant: rounding in float32
leaves about 1e-7."""


def _kernel(**options: Any) -> Any:
    return numba.njit(nogil=True, cache=True, error_model="numpy", **options)


@_kernel(fastmath={"reassoc", "contract", "nsz"})
def _common_sums(a, b):  # type: ignore[no-untyped-def]
    """n, Σa, Σb, Σa², Σb², Σab over the cells that both have, of at most `CHUNK` cells."""
    n = sum_a = sum_b = aa = bb = ab = np.float32(0.0)
    for s in range(a.shape[0]):
        x = a[s]
        y = b[s]
        both = (x == x) & (y == y)
        x = x if both else np.float32(0.0)
        y = y if both else np.float32(0.0)
        n += np.float32(1.0) if both else np.float32(0.0)
        sum_a += x
        sum_b += y
        aa += x * x
        bb += y * y
        ab += x * y
    return n, sum_a, sum_b, aa, bb, ab


@_kernel()
def _pair(a, b):  # type: ignore[no-untyped-def]
    """Σab, n, and the correlation over the n common cells; NaN if one side is constant there."""
    n = sum_a = sum_b = aa = bb = ab = 0.0
    for low in range(0, a.shape[0], CHUNK):
        high = min(low + CHUNK, a.shape[0])
        part = _common_sums(a[low:high], b[low:high])
        n += part[0]
        sum_a += part[1]
        sum_b += part[2]
        aa += part[3]
        bb += part[4]
        ab += part[5]
    variance_a = aa - sum_a * sum_a / n
    variance_b = bb - sum_b * sum_b / n
    # With n = 0 these are NaN, and the comparisons False.
    if variance_a > MINIMUM_VARIANCE * n and variance_b > MINIMUM_VARIANCE * n:
        return ab, n, (ab - sum_a * sum_b / n) / np.sqrt(variance_a * variance_b)
    return ab, n, np.nan


@_kernel()
def pair_sums(start, stop, zscores, slot, others, min_names, product, count, weighted):  # type: ignore[no-untyped-def]
    """A candidate against others, over the labelled cells.

    Args:
        start, stop: bars to do.
        zscores: (slots, T, S) float32; slot 0 is the forward return, NaN where there is no label.
        slot: the candidate's.
        others: (J,) int64 slots to compare with.
        min_names: common cells that a bar needs to have a correlation.
        product: (J, T) float64, written: Σ z_c z_j.
        count: (J, T) float64, written: common cells n of a bar with a correlation, else 0.
        weighted: (J, T) float64, written: n times the correlation, else 0.
    """
    n_stocks = zscores.shape[2]
    rows = max(1, STRIP // n_stocks)
    candidate = np.empty((rows, n_stocks), np.float32)
    for first in range(start, stop, rows):
        last = min(first + rows, stop)
        for t in range(first, last):
            for s in range(n_stocks):
                y = zscores[0, t, s]
                candidate[t - first, s] = zscores[slot, t, s] if y == y else np.float32(np.nan)
        for j in range(others.shape[0]):
            for t in range(first, last):
                total, n, correlation = _pair(candidate[t - first], zscores[others[j], t])
                enough = n >= min_names and correlation == correlation
                product[j, t] = total
                count[j, t] = n if enough else 0.0
                weighted[j, t] = n * correlation if enough else 0.0


@_kernel()
def _add_row(total, seen, zscores, weight):  # type: ignore[no-untyped-def]
    for s in range(total.shape[0]):
        z = zscores[s]
        total[s] += weight * np.float64(z if z == z else np.float32(0.0))
        # A sum, not a branch: the loop stays in SIMD lanes.
        seen[s] += np.float32(1.0) if z == z else np.float32(0.0)


@_kernel()
def combine(start, stop, zscores, slots, weights, out):  # type: ignore[no-untyped-def]
    """The signal of a weighting.

    Args:
        start, stop: bars to do.
        zscores: (slots, T, S) float32.
        slots: (K,) int64, in member order.
        weights: (K,) float64.
        out: (T, S) float32, written: NaN where no member has a value.
    """
    n_stocks = zscores.shape[2]
    rows = max(1, STRIP // n_stocks)
    total = np.empty((rows, n_stocks))
    seen = np.empty((rows, n_stocks), np.float32)
    for first in range(start, stop, rows):
        last = min(first + rows, stop)
        total[:] = 0.0
        seen[:] = 0.0
        for k in range(slots.shape[0]):
            for t in range(first, last):
                _add_row(total[t - first], seen[t - first], zscores[slots[k], t], weights[k])
        for t in range(first, last):
            for s in range(n_stocks):
                out[t, s] = total[t - first, s] if seen[t - first, s] > 0.0 else np.nan


@_kernel()
def accumulate(start, stop, zscores, weight, total, seen):  # type: ignore[no-untyped-def]
    """Add one member to a signal.

    Args:
        start, stop: bars to do.
        zscores: (T, S) float32.
        weight: the member's.
        total: (T, S) float64, added to.
        seen: (T, S) float32, added to: members that have the cell.
    """
    for t in range(start, stop):
        _add_row(total[t], seen[t], zscores[t], weight)
