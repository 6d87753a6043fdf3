"""CPU kernels of the pool: numba loops over bars [start, stop), without the GIL.

z-scores are float32, bar after bar. **Missing is −0**: it counts as 0 in every
sum without a branch, and its sign tells it from a z-score of zero, which is +0.

1. `describe`: a slot's sums and gaps per bar, once when it is filled.
   `pair_sums`: one pass of a candidate over the members, the forward return and itself. Per bar it
   gives Σ z_c z_k, for the Gram matrix, and the correlation over the cells that both have, for the
   mutual IC.
2. `combine`: Σ_k w_k z_k in member order; `accumulate` adds one member, for signals that are built
   member by member. Both add the same way, product and sum each rounded, so their bits agree.
"""

from __future__ import annotations

import numpy as np

from rlgen.compiling import kernel

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


# Sums may be reordered into SIMD lanes; the code is the same for every bar, so the bits are too.
# "nsz" is not among the flags: the sign of zero is a meaning here.
_REORDER = {"reassoc", "contract"}


@kernel(fastmath=_REORDER)
def _common_sums(a, a_bits, row, b, b_bits, slot, t, low, high):  # type: ignore[no-untyped-def]
    """n, Σa, Σb, Σa², Σb² over the cells [low, high) that both have."""
    n = sum_a = sum_b = aa = bb = np.float32(0.0)
    for s in range(low, high):
        both = (a_bits[row, s] != _SIGN) & (b_bits[slot, t, s] != _SIGN)
        x = a[row, s] if both else np.float32(0.0)
        y = b[slot, t, s] if both else np.float32(0.0)
        n += np.float32(1.0) if both else np.float32(0.0)
        sum_a += x
        sum_b += y
        aa += x * x
        bb += y * y
    return n, sum_a, sum_b, aa, bb


@kernel(fastmath=_REORDER)
def _dot(a, row, b, slot, t, low, high):  # type: ignore[no-untyped-def]
    """Σab over the cells [low, high)."""
    total = np.float32(0.0)
    for s in range(low, high):
        total += a[row, s] * b[slot, t, s]
    return total


@kernel()
def describe(start, stop, zscores, slot, sums, count, missing):  # type: ignore[no-untyped-def]
    """What `pair_sums` wants to know of a slot, over each bar's labelled cells.

    Args:
        start, stop: bars to do.
        zscores: (slots, T, S) float32; slot 0 is the forward return.
        sums: (slots, 3, T) float64, written: n, Σz, Σz².
        count: (slots, T) int64, written: labelled cells without a z-score.
        missing: (slots, T, M) uint32, written: the first M of these cells.
    """
    bits = zscores.view(np.uint32)
    for t in range(start, stop):
        n = gaps = 0
        first = second = 0.0
        for s in range(zscores.shape[2]):
            if bits[0, t, s] == _SIGN:
                continue
            if bits[slot, t, s] == _SIGN:
                if gaps < missing.shape[2]:
                    missing[slot, t, gaps] = s
                gaps += 1
            else:
                z = np.float64(zscores[slot, t, s])
                n += 1
                first += z
                second += z * z
        sums[slot, 0, t] = n
        sums[slot, 1, t] = first
        sums[slot, 2, t] = second
        count[slot, t] = gaps


@kernel(forceinline=True)
def _without(z, bits, slot, t, gaps, other, n_gaps, sums):  # type: ignore[no-untyped-def]
    """n, Σz, Σz² of a slot over the labelled cells that another has, too."""
    n, first, second = sums[slot, 0, t], sums[slot, 1, t], sums[slot, 2, t]
    for i in range(n_gaps):
        s = gaps[other, t, i]
        value = np.float64(z[slot, t, s])
        n -= 1.0 if bits[slot, t, s] != _SIGN else 0.0
        first -= value
        second -= value * value
    return n, first, second


@kernel()
def pair_sums(  # type: ignore[no-untyped-def]
    start, stop, zscores, slot, others, min_names, sums, gaps, missing, product, common, weighted
):
    """A candidate against others, over the labelled cells.

    Few cells are missing as a rule: then the sums over the common cells are each one's own sums less
    what stands where the other has a gap, and only Σ z_c z_j takes a pass over the bar. Where gaps
    are many, so does the rest.

    Args:
        start, stop: bars to do.
        zscores: (slots, T, S) float32; slot 0 is the forward return, −0 where there is no label.
        slot: the candidate's.
        others: (J,) int64 slots to compare with.
        min_names: common cells that a bar needs to have a correlation.
        sums, gaps, missing: of all these slots, from `describe`.
        product: (J, T) float64, written: Σ z_c z_j.
        common: (J, T) float64, written: common cells n of a bar with a correlation, else 0.
        weighted: (J, T) float64, written: n times the correlation, else 0.
    """
    n_stocks = np.uint64(zscores.shape[2])
    bits = zscores.view(np.uint32)
    few = missing.shape[2]
    rows = max(1, STRIP // zscores.shape[2])
    candidate = np.empty((rows, zscores.shape[2]), np.float32)
    candidate_bits = candidate.view(np.uint32)
    for begin in range(start, stop, rows):
        end = min(begin + rows, stop)
        for t in range(begin, end):
            for s in range(zscores.shape[2]):
                labelled = bits[0, t, s] != _SIGN
                candidate[t - begin, s] = zscores[slot, t, s] if labelled else MISSING
        for j in range(others.shape[0]):
            other = others[j]
            for t in range(begin, end):
                row = t - begin
                ab = 0.0
                for low in range(np.uint64(0), n_stocks, CHUNK):
                    ab += _dot(candidate, row, zscores, other, t, low, min(low + CHUNK, n_stocks))
                if gaps[slot, t] <= few and gaps[other, t] <= few:
                    n, sum_a, aa = _without(zscores, bits, slot, t, missing, other, gaps[other, t], sums)
                    n, sum_b, bb = _without(zscores, bits, other, t, missing, slot, gaps[slot, t], sums)
                else:
                    n = sum_a = sum_b = aa = bb = 0.0
                    for low in range(np.uint64(0), n_stocks, CHUNK):
                        high = min(low + CHUNK, n_stocks)
                        part = _common_sums(
                            candidate, candidate_bits, row, zscores, bits, other, t, low, high
                        )
                        n += part[0]
                        sum_a += part[1]
                        sum_b += part[2]
                        aa += part[3]
                        bb += part[4]
                product[j, t] = ab
                common[j, t] = 0.0
                weighted[j, t] = 0.0
                if n >= max(min_names, 1):
                    variance_a = aa * n - sum_a * sum_a
                    variance_b = bb * n - sum_b * sum_b
                    least = MINIMUM_VARIANCE * n * n
                    if variance_a > least and variance_b > least:
                        common[j, t] = n
                        weighted[j, t] = n * (ab * n - sum_a * sum_b) / np.sqrt(variance_a * variance_b)


@kernel()
def _add(total, seen, zscores, bits, weight):  # type: ignore[no-untyped-def]
    for i in range(total.shape[0]):
        total[i] += weight * np.float64(zscores[i])
        seen[i] |= bits[i] ^ _SIGN


@kernel()
def _add_four(total, seen, z, bits, rows, weights, low):  # type: ignore[no-untyped-def]
    """Four members in one pass, in the order and with the rounding of `_add`."""
    a, b, c, d = z[rows[0]], z[rows[1]], z[rows[2]], z[rows[3]]
    p, q, r, s = bits[rows[0]], bits[rows[1]], bits[rows[2]], bits[rows[3]]
    u, v, x, y = weights[0], weights[1], weights[2], weights[3]
    for i in range(total.shape[0]):
        k = low + np.uint64(i)
        value = total[i] + u * np.float64(a[k])
        value = value + v * np.float64(b[k])
        value = value + x * np.float64(c[k])
        total[i] = value + y * np.float64(d[k])
        seen[i] |= ((p[k] ^ _SIGN) | (q[k] ^ _SIGN)) | ((r[k] ^ _SIGN) | (s[k] ^ _SIGN))


@kernel()
def finish(total, seen, out):  # type: ignore[no-untyped-def]
    """Write what has been added up: (N,) float32, NaN where no member has a value."""
    for i in range(total.shape[0]):
        out[i] = total[i] if seen[i] != 0 else np.nan


@kernel()
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
        k = 0
        while k + 4 <= slots.shape[0]:
            _add_four(
                total[:n], seen[:n], zscores, bits, slots[k : k + 4], weights[k : k + 4], np.uint64(low)
            )
            k += 4
        while k < slots.shape[0]:
            row = slots[k]
            _add(total[:n], seen[:n], zscores[row, low:high], bits[row, low:high], weights[k])
            k += 1
        finish(total[:n], seen[:n], out[low:high])


@kernel()
def accumulate(zscores, weight, total, seen):  # type: ignore[no-untyped-def]
    """Add one member to a signal.

    Args:
        zscores: (N,) float32.
        weight: the member's.
        total: (N,) float64, added to.
        seen: (N,) uint32, changed to non-zero where the member has a value.
    """
    _add(total, seen, zscores, zscores.view(np.uint32), weight)
