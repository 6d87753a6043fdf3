"""CPU kernels of the pool: numba loops over bars [start, stop), without the GIL.

z-scores are float32, bar after bar. **Missing is −0**: it counts as 0 in every
sum without a branch, and its sign tells it from a z-score of zero, which is +0.

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

CHUNK = np.uint64(512)
"""Cells that are summed in float32 before the sum goes into a float64: z-scores are of size 1, so
the error stays near 1e-7, and eight lanes run at a time."""

STRIP = 4096
"""Cells of one member that are read in a row: a few bars at a time, since memory is read faster in
long runs than in one row of each member after the other (8 instead of 14 ms a pass at 4,800 × 300
and 20 members)."""

MINIMUM_VARIANCE = 1e-5
"""Variance of z-scores over common cells below which they count as constant: rounding in float32
leaves about 1e-7."""

MISSING = np.float32(-0.0)
_SIGN = np.uint32(0x8000_0000)  # the bits of −0


def _kernel(**options: Any) -> Any:
    return numba.njit(nogil=True, cache=True, error_model="numpy", **options)


# Sums may be reordered into SIMD lanes; the code is the same for every bar, so the bits are too.
# "nsz" is not among the flags: the sign of zero is a meaning here.
_REORDER = {"reassoc", "contract"}


@_kernel(fastmath=_REORDER)
def _common_sums(a, a_bits, row, b, b_bits, slot, t, low, high):  # type: ignore[no-untyped-def]
    """n, Σa, Σb, Σa², Σb², Σab over the cells [low, high) that both have."""
    n = sum_a = sum_b = aa = bb = ab = np.float32(0.0)
    for s in range(low, high):
        both = (a_bits[row, s] != _SIGN) & (b_bits[slot, t, s] != _SIGN)
        x = a[row, s] if both else np.float32(0.0)
        y = b[slot, t, s] if both else np.float32(0.0)
        n += np.float32(1.0) if both else np.float32(0.0)
        sum_a += x
        sum_b += y
        aa += x * x
        bb += y * y
        ab += x * y
    return n, sum_a, sum_b, aa, bb, ab


@_kernel()
def _pair(a, a_bits, row, b, b_bits, slot, t):  # type: ignore[no-untyped-def]
    """Row `row` of a (R, S) with bar t of b (slots, T, S): Σab, n, and the correlation over the n
    common cells; NaN if n is 0 or one side is constant there."""
    n = sum_a = sum_b = aa = bb = ab = 0.0
    n_stocks = np.uint64(a.shape[1])
    for low in range(np.uint64(0), n_stocks, CHUNK):
        high = min(low + CHUNK, n_stocks)
        part = _common_sums(a, a_bits, row, b, b_bits, slot, t, low, high)
        n += part[0]
        sum_a += part[1]
        sum_b += part[2]
        aa += part[3]
        bb += part[4]
        ab += part[5]
    inverse = 1.0 / n
    variance_a = aa - sum_a * sum_a * inverse
    variance_b = bb - sum_b * sum_b * inverse
    if variance_a > MINIMUM_VARIANCE * n and variance_b > MINIMUM_VARIANCE * n:
        return ab, n, (ab - sum_a * sum_b * inverse) / np.sqrt(variance_a * variance_b)
    return ab, n, np.nan


@_kernel()
def pair_sums(  # type: ignore[no-untyped-def]
    start, stop, zscores, slot, others, min_names, product, count, weighted
):
    """A candidate against others, over the labelled cells.

    Args:
        start, stop: bars to do.
        zscores: (slots, T, S) float32; slot 0 is the forward return, −0 where there is no label.
        slot: the candidate's.
        others: (J,) int64 slots to compare with.
        min_names: common cells that a bar needs to have a correlation.
        product: (J, T) float64, written: Σ z_c z_j.
        count: (J, T) float64, written: common cells n of a bar with a correlation, else 0.
        weighted: (J, T) float64, written: n times the correlation, else 0.
    """
    n_stocks = zscores.shape[2]
    bits = zscores.view(np.uint32)
    rows = max(1, STRIP // n_stocks)
    candidate = np.empty((rows, n_stocks), np.float32)
    candidate_bits = candidate.view(np.uint32)
    for first in range(start, stop, rows):
        last = min(first + rows, stop)
        for t in range(first, last):
            for s in range(n_stocks):
                labelled = bits[0, t, s] != _SIGN
                candidate[t - first, s] = zscores[slot, t, s] if labelled else MISSING
        for j in range(others.shape[0]):
            other = others[j]
            for t in range(first, last):
                ab, n, correlation = _pair(candidate, candidate_bits, t - first, zscores, bits, other, t)
                usable = n >= min_names and correlation == correlation
                product[j, t] = ab
                count[j, t] = n if usable else 0.0
                weighted[j, t] = n * correlation if usable else 0.0


@_kernel()
def _add(total, seen, zscores, bits, weight):  # type: ignore[no-untyped-def]
    for i in range(total.shape[0]):
        total[i] += weight * np.float64(zscores[i])
        seen[i] |= bits[i] ^ _SIGN


@_kernel()
def finish(total, seen, out):  # type: ignore[no-untyped-def]
    """Write what has been added up: (N,) float32, NaN where no member has a value."""
    for i in range(total.shape[0]):
        out[i] = total[i] if seen[i] != 0 else np.nan


@_kernel()
def combine(start, stop, n_stocks, zscores, slots, weights, out):  # type: ignore[no-untyped-def]
    """The signal of a weighting.

    Args:
        start, stop: bars to do.
        n_stocks: S.
        zscores: (slots, T·S) float32.
        slots: (K,) int64, in member order.
        weights: (K,) float64.
        out: (T·S,) float32, written: NaN where no member has a value.
    """
    bits = zscores.view(np.uint32)
    cells = max(1, STRIP // n_stocks) * n_stocks
    total = np.empty(cells)
    seen = np.empty(cells, np.uint32)
    for low in range(start * n_stocks, stop * n_stocks, cells):
        high = min(low + cells, stop * n_stocks)
        n = high - low
        total[:] = 0.0
        seen[:] = 0
        for k in range(slots.shape[0]):
            row = slots[k]
            _add(total[:n], seen[:n], zscores[row, low:high], bits[row, low:high], weights[k])
        finish(total[:n], seen[:n], out[low:high])


@_kernel()
def accumulate(zscores, weight, total, seen):  # type: ignore[no-untyped-def]
    """Add one member to a signal.

    Args:
        zscores: (N,) float32.
        weight: the member's.
        total: (N,) float64, added to.
        seen: (N,) uint32, changed to non-zero where the member has a value.
    """
    _add(total, seen, zscores, zscores.view(np.uint32), weight)
