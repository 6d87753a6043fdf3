"""CPU kernels of the metrics: numba loops over bars [start, stop), without the GIL.

1. `bar_moments`: deviations of factor and target from the bar's first present cell, and central
   second moments of them in units of their mean size, so that neither 1e-30 nor 1e30 nor a spread
   of 1e-6 loses digits. Missing cells are masked, not skipped: the loops run in SIMD lanes.
2. `pack_keys`: a float32's bits become an unsigned integer that sorts as the number does; key and
   stock number together fill the mantissa of a float64 in [1, 2), so that numpy's vectorised sort
   orders a bar and carries the stock along. Measured on 4,800 × 300 and two threads: 5 ms, against
   15 ms for a 4×8-bit radix sort.
3. `target_ranks` and `rank_correlation` walk the sorted keys, give ties their average rank and
   correlate ranks. Twice a rank is a whole number, so these sums are exact in any order.
4. `zscore_rows`, `stock_correlations`: z-scores across a bar, correlations along a stock.

Helpers get whole arrays and a bar's number, not a view of the bar: a view counts references to its
array atomically, and two threads that count on one array wait for each other.
Missing is NaN or infinite. Zero spread (max == min) is tested as: no cell differs from the first.
One bar is one thread's work, in a fixed order; nothing is summed across bars here.
"""

from __future__ import annotations

import numpy as np

from rlgen.compiling import kernel

MAXIMUM_NAMES = 2**20 - 1
"""Stocks that a sort key has room for."""

_ONE = np.uint64(0x3FF0_0000_0000_0000)  # the bits of 1.0
_INDEX_BITS = np.uint64(20)
_INDEX_MASK = np.uint64(MAXIMUM_NAMES)
_EXPONENT = np.uint32(0x7F80_0000)
_SIGN = np.uint32(0x8000_0000)

# Sums over a row may be reordered into SIMD lanes. The code is the same for every bar, thread and
# block, so the bits are too. NaN keeps its meaning.
_REORDER = {"reassoc", "contract", "nsz"}


@kernel(fastmath=_REORDER)
def _deviations(x, y, t, x0, y0, dx, dy, present):  # type: ignore[no-untyped-def]
    """Bar t's deviations from (x0, y0), 0 where missing; their sums and the sums of their sizes."""
    n = sum_x = sum_y = size_x = size_y = 0.0
    for s in range(x.shape[1]):
        a = np.float64(x[t, s])
        b = np.float64(y[t, s])
        ok = (abs(a) < np.inf) & (b == b)
        p = a - x0 if ok else 0.0
        q = b - y0 if ok else 0.0
        w = 1.0 if ok else 0.0
        dx[s] = p
        dy[s] = q
        present[s] = w
        n += w
        sum_x += p
        sum_y += q
        size_x += abs(p)
        size_y += abs(q)
    return n, sum_x, sum_y, size_x, size_y


@kernel(fastmath=_REORDER)
def _products(dx, dy, present, mean_x, mean_y, unit_x, unit_y):  # type: ignore[no-untyped-def]
    """Central second moments of deviations, in units of 1/unit_x and 1/unit_y."""
    xx = yy = xy = 0.0
    for s in range(dx.shape[0]):
        p = (dx[s] - mean_x) * present[s] * unit_x
        q = (dy[s] - mean_y) * present[s] * unit_y
        xx += p * p
        yy += q * q
        xy += p * q
    return xx, yy, xy


@kernel()
def bar_moments(start, stop, factor, target, min_names, count, ic, moments):  # type: ignore[no-untyped-def]
    """Pearson correlation per bar, and what pooling over bars needs.

    Args:
        start, stop: bars to do.
        factor, target: (T, S) float32 or float64; the target is NaN outside the universe.
        min_names: present cells that a bar needs.
        count: (T,) int64, written: cells present in both.
        ic: (T,) float64, written: NaN where there is none.
        moments: (5, T) float64, written where there is an IC: means of factor and target, central
            sums xx, yy, xy.
    """
    n_stocks = factor.shape[1]
    dx = np.empty(n_stocks)
    dy = np.empty(n_stocks)
    present = np.empty(n_stocks)
    for t in range(start, stop):
        x0 = y0 = 0.0
        for s in range(n_stocks):
            a = np.float64(factor[t, s])
            b = np.float64(target[t, s])
            if (abs(a) < np.inf) & (b == b):
                x0 = a
                y0 = b
                break
        n, sum_x, sum_y, size_x, size_y = _deviations(factor, target, t, x0, y0, dx, dy, present)
        count[t] = n
        ic[t] = np.nan
        if n < min_names or size_x == 0.0 or size_y == 0.0:
            continue
        size_x /= n
        size_y /= n
        xx, yy, xy = _products(dx, dy, present, sum_x / n, sum_y / n, 1.0 / size_x, 1.0 / size_y)
        if not (xx > 0.0 and yy > 0.0):  # a float64 spread beyond 1e308 or below 1e-308
            continue
        ic[t] = min(1.0, max(-1.0, xy / np.sqrt(xx * yy)))
        moments[0, t] = x0 + sum_x / n
        moments[1, t] = y0 + sum_y / n
        moments[2, t] = xx * size_x * size_x
        moments[3, t] = yy * size_y * size_y
        moments[4, t] = xy * size_x * size_y


@kernel()
def pack_keys(start, stop, bits, target, keys):  # type: ignore[no-untyped-def]
    """Sortable keys of the cells that are present; missing cells sort last.

    Args:
        start, stop: bars to do.
        bits: (T, S) uint32, the float32 values' bits.
        target: (T, S) float32 or float64; a NaN makes the cell missing.
        keys: (stop - start or more, S) uint64, written.
    """
    n_stocks = bits.shape[1]
    for t in range(start, stop):
        row = t - start
        for s in range(n_stocks):
            u = bits[t, s]
            y = target[t, s]
            key = ~u if u & _SIGN else u | _SIGN
            key = _SIGN if u == _SIGN else key  # -0 is +0
            present = ((u & _EXPONENT) != _EXPONENT) & (y == y)
            key = key if present else np.uint32(0xFFFF_FFFF)
            keys[row, s] = _ONE | (np.uint64(key) << _INDEX_BITS) | np.uint64(s)


@kernel()
def target_ranks(start, stop, keys, count, order, rank, tied):  # type: ignore[no-untyped-def]
    """Average ranks of the target, from sorted keys.

    Args:
        start, stop: bars to do.
        keys: (stop - start or more, S) uint64, each row sorted.
        count: (T,) int64: present cells.
        order: (T, S) uint32, written: stock numbers, ascending by value; the first count[t] count.
        rank: (T, S) float32, written: twice the average rank, 1-based; 0 where missing.
        tied: (T,) bool, written: whether any two values are equal.
    """
    for t in range(start, stop):
        row = keys[t - start]
        n = count[t]
        order[t, :] = 0
        rank[t, :] = 0.0
        tied[t] = False
        first = 0
        while first < n:
            last = first + 1
            while last < n and row[last] >> _INDEX_BITS == row[first] >> _INDEX_BITS:
                last += 1
            for i in range(first, last):
                s = row[i] & _INDEX_MASK
                order[t, i] = s
                rank[t, s] = first + last + 1
            tied[t] |= last - first > 1
            first = last


@kernel()
def _ranks_within(order, rank, t, n_target, tied, present, within):  # type: ignore[no-untyped-def]
    """Twice the average ranks of bar t's target among its present cells only."""
    placed = 0
    if not tied:
        for i in range(n_target):
            s = order[t, i]
            placed += present[s]
            within[s] = 2 * placed
        return
    first = 0
    while first < n_target:
        value = rank[t, order[t, first]]
        last = first
        group = 0
        while last < n_target and rank[t, order[t, last]] == value:
            group += present[order[t, last]]
            last += 1
        for i in range(first, last):
            within[order[t, i]] = 2 * placed + group + 1
        placed += group
        first = last


@kernel()
def rank_correlation(start, stop, keys, count, ic, n_target, order, rank, tied, rank_ic):  # type: ignore[no-untyped-def]
    """Spearman correlation per bar, average ties.

    Args:
        start, stop: bars to do.
        keys: (stop - start or more, S) uint64: the factor's keys, each row sorted.
        count: (T,) int64: cells present in both.
        ic: (T,) float64: NaN where the bar has no IC.
        n_target: (T,) int64: the target's present cells.
        order, rank, tied: the target's, from `target_ranks`.
        rank_ic: (T,) float64, written: NaN where there is none.
    """
    n_stocks = keys.shape[1]
    present = np.zeros(n_stocks, np.int64)
    within = np.empty(n_stocks, np.float32)
    for t in range(start, stop):
        rank_ic[t] = np.nan
        if np.isnan(ic[t]):
            continue
        row = keys[t - start]
        n = count[t]
        if n < n_target[t]:  # the factor lacks some of the target's cells: its ranks close up
            present[:] = 0
            for i in range(n):
                present[row[i] & _INDEX_MASK] = 1
            _ranks_within(order, rank, t, n_target[t], tied[t], present, within)
        else:
            for s in range(n_stocks):
                within[s] = rank[t, s]
        mean = n + 1.0  # of twice the ranks
        xx = yy = xy = 0.0
        first = 0
        while first < n:
            last = first
            key = row[first] >> _INDEX_BITS
            group = 0.0
            while last < n and row[last] >> _INDEX_BITS == key:
                dy = within[row[last] & _INDEX_MASK] - mean
                group += dy
                yy += dy * dy
                last += 1
            dx = first + last + 1.0 - mean
            xy += dx * group
            xx += (last - first) * dx * dx
            first = last
        rank_ic[t] = min(1.0, max(-1.0, xy / np.sqrt(xx * yy)))


@kernel(fastmath=_REORDER)
def _universe_deviations(x, universe, t, x0, dx, present):  # type: ignore[no-untyped-def]
    """Bar t's deviations from x0, 0 where missing or outside the universe; their sum and their size."""
    n = total = size = 0.0
    for s in range(x.shape[1]):
        a = np.float64(x[t, s])
        ok = (abs(a) < np.inf) & universe[t, s]
        p = a - x0 if ok else 0.0
        w = 1.0 if ok else 0.0
        dx[s] = p
        present[s] = w
        n += w
        total += p
        size += abs(p)
    return n, total, size


@kernel(fastmath=_REORDER)
def _sum_of_squares(dx, present, mean, unit):  # type: ignore[no-untyped-def]
    """Sum of squared deviations from the mean, in units of 1/unit."""
    total = 0.0
    for s in range(dx.shape[0]):
        p = (dx[s] - mean) * present[s] * unit
        total += p * p
    return total


@kernel()
def zscore_rows(start, stop, factor, universe, missing, out):  # type: ignore[no-untyped-def]
    """z-scores across each bar's universe: population spread, 0 for a bar without spread.

    Args:
        start, stop: bars to do.
        factor: (T, S) float32 or float64.
        universe: (T, S) bool.
        missing: float32, what to write where the factor is missing or outside the universe.
        out: (T, S) float32, written; a z-score of zero is +0.
    """
    n_stocks = factor.shape[1]
    dx = np.empty(n_stocks)
    present = np.empty(n_stocks)
    for t in range(start, stop):
        x0 = 0.0
        for s in range(n_stocks):
            a = np.float64(factor[t, s])
            if (abs(a) < np.inf) & universe[t, s]:
                x0 = a
                break
        n, total, size = _universe_deviations(factor, universe, t, x0, dx, present)
        mean = unit = scale = 0.0
        if size > 0.0:
            mean = total / n
            unit = n / size
            scale = 1.0 / np.sqrt(_sum_of_squares(dx, present, mean, unit) / n)
        for s in range(n_stocks):
            # unit before scale: their product alone could overflow for a spread near 1e-308.
            value = (dx[s] - mean) * unit * scale + 0.0
            out[t, s] = value if present[s] > 0.0 else missing


@kernel()
def stock_correlations(start, stop, factor, target, minimum_bars, out):  # type: ignore[no-untyped-def]
    """Pearson correlation over time per stock.

    Args:
        start, stop: stocks to do.
        factor, target: (T, S) float32 or float64; the target is NaN outside the universe.
        minimum_bars: present bars that a stock needs.
        out: (S,) float64, written: NaN where there is none.
    """
    width = stop - start
    n = np.zeros(width)
    x0, y0 = np.zeros(width), np.zeros(width)
    sum_x, sum_y = np.zeros(width), np.zeros(width)
    size_x, size_y = np.zeros(width), np.zeros(width)
    xx, yy, xy = np.zeros(width), np.zeros(width), np.zeros(width)
    for t in range(factor.shape[0]):
        for s in range(width):
            a = np.float64(factor[t, start + s])
            b = np.float64(target[t, start + s])
            if (abs(a) < np.inf) & (b == b):
                if n[s] == 0.0:
                    x0[s] = a
                    y0[s] = b
                n[s] += 1.0
                sum_x[s] += a - x0[s]
                sum_y[s] += b - y0[s]
                size_x[s] += abs(a - x0[s])
                size_y[s] += abs(b - y0[s])
    for t in range(factor.shape[0]):
        for s in range(width):
            a = np.float64(factor[t, start + s])
            b = np.float64(target[t, start + s])
            if (abs(a) < np.inf) & (b == b):
                p = (a - x0[s] - sum_x[s] / n[s]) * (n[s] / size_x[s])
                q = (b - y0[s] - sum_y[s] / n[s]) * (n[s] / size_y[s])
                xx[s] += p * p
                yy[s] += q * q
                xy[s] += p * q
    for s in range(width):
        out[start + s] = np.nan
        if n[s] >= minimum_bars and size_x[s] > 0.0 and size_y[s] > 0.0 and xx[s] > 0.0 and yy[s] > 0.0:
            out[start + s] = min(1.0, max(-1.0, xy[s] / np.sqrt(xx[s] * yy[s])))
