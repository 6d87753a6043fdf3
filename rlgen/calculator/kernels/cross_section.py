"""CSRank and CSZscore: one bar at a time, over its universe members that are present.

**Rank** sorts a bar once, by numpy's vectorised sort of float64. Each member becomes one number in [1, 2)
whose mantissa holds the bits of its float32 value, turned so that they sort as the numbers do, and
the column. Rounding to float32 keeps the order; what it makes equal is a run of neighbours
afterwards, which is put in order by the float64 values if they differ. Runs of equal values share the
mean of their ranks.

The **z-score** takes the mean first and then the mean square of the deviations (two passes, float64);
a bar whose members are all equal has none.

Both read a cell before they write it, so that operand and result may be the same array.
"""

from __future__ import annotations

from math import inf, nan, sqrt

import numpy as np

from rlgen.calculator.kernels.blocks import LANES, fill, jit

BARS_TOGETHER = 32
"""Bars whose sort keys fit the cache together."""
ONE = np.uint64(0x3FF0_0000_0000_0000)  # the bits of 1.0
COLUMN_BITS = np.uint64(20)
COLUMN_MASK = np.uint64(2**20 - 1)
SIGN = np.uint32(0x8000_0000)
LAST = np.uint32(0xFFFF_FFFF)


@jit
def _make_keys(
    x: np.ndarray, universe: np.ndarray, low: int, rounded: np.ndarray, bits: np.ndarray, keys: np.ndarray
) -> None:
    """Sort keys of the bars from `low` of x (T, padded S) into keys (R, S); missing cells come last.

    `rounded` (S,) float32 and `bits`, the same memory as uint32, are scratch.
    """
    n_stocks = keys.shape[1]
    for r in range(keys.shape[0]):
        values, members, target = x[low + r], universe[low + r], keys[r]
        for s in range(n_stocks):
            rounded[s] = values[s]
        for s in range(n_stocks):
            u = bits[s]
            key = ~u if u & SIGN else u | SIGN
            key = SIGN if u == SIGN else key  # −0 is 0
            key = key if members[s] & (values[s] == values[s]) else LAST
            target[s] = ONE | (np.uint64(key) << COLUMN_BITS) | np.uint64(s)


@jit
def _order_run(values: np.ndarray, run: np.ndarray) -> None:
    """Order a run of keys by their columns' values (Shell's sort); equal ones need not move."""
    gap = 1
    while gap < run.shape[0] // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, run.shape[0]):
            key = run[i]
            value = values[key & COLUMN_MASK]
            k = i
            while k >= gap and values[run[k - gap] & COLUMN_MASK] > value:
                run[k] = run[k - gap]
                k -= gap
            run[k] = key
        gap //= 3


@jit
def _percentiles(keys: np.ndarray, x: np.ndarray, out: np.ndarray, low: int) -> None:
    """Write average percentile ranks to the bars from `low` of out (T, padded S), from sorted keys (R, S)."""
    for r in range(keys.shape[0]):
        row, values, target = keys[r], x[low + r], out[low + r]
        n = row.shape[0]
        while n > 0 and (row[n - 1] >> COLUMN_BITS) & np.uint64(LAST) == np.uint64(LAST):
            target[row[n - 1] & COLUMN_MASK] = nan
            n -= 1
        fill(target[row.shape[0] :], nan)
        i = 0
        while i < n:
            k = i + 1
            while k < n and row[k] >> COLUMN_BITS == row[i] >> COLUMN_BITS:
                k += 1
            if k - i > 1:
                _order_run(values, row[i:k])
            while i < k:
                value = values[row[i] & COLUMN_MASK]
                end = i + 1
                while end < k and values[row[end] & COLUMN_MASK] == value:
                    end += 1
                percentile = (i + 0.5 * (end - i + 1)) / n
                for m in range(i, end):
                    target[row[m] & COLUMN_MASK] = percentile
                i = end


def rank(x: np.ndarray, universe: np.ndarray, out: np.ndarray, low: int, high: int) -> None:
    """Write the percentile among members of the bars [low, high) of x (T, padded S) to out.

    Names outside the universe (T, S) and the padding columns are missing in the result.
    """
    n_stocks = universe.shape[1]
    keys = np.empty((min(BARS_TOGETHER, high - low), n_stocks), np.uint64)
    rounded = np.empty(n_stocks, np.float32)
    for first in range(low, high, BARS_TOGETHER):
        some = keys[: high - first]
        _make_keys(x, universe, first, rounded, rounded.view(np.uint32), some)
        some.view(np.float64).sort(axis=1)
        _percentiles(some, x, out, first)


@jit
def _deviate(values: np.ndarray, members: np.ndarray, present: np.ndarray, deviation: np.ndarray) -> bool:
    """Mark the members that have a value, and take their deviations from the first; whether any differs."""
    first = nan
    for s in range(members.shape[0]):
        if members[s] & (values[s] == values[s]):
            first = values[s]
            break
    for s in range(members.shape[0]):
        ok = members[s] & (values[s] == values[s])
        present[s] = 1.0 if ok else 0.0
        deviation[s] = values[s] - first if ok else 0.0
    different = 0
    for s in range(members.shape[0]):
        different += 1 if deviation[s] != 0.0 else 0
    return different > 0


@jit
def _sum(values: np.ndarray, lanes: np.ndarray) -> float:
    """The sum of a row whose length is a multiple of LANES: by lanes first, which is SIMD code."""
    fill(lanes, 0.0)
    for s in range(0, values.shape[0], LANES):
        for j in range(LANES):
            lanes[j] += values[s + j]
    total = 0.0
    for j in range(LANES):
        total += lanes[j]
    return total


@jit
def zscore(x: np.ndarray, universe: np.ndarray, out: np.ndarray, low: int, high: int) -> None:
    """Write the z-score among members of the bars [low, high) of x (T, padded S) to out.

    Names outside the universe (T, S) and the padding columns are missing in the result.
    """
    n_stocks, padded = universe.shape[1], x.shape[1]
    present, deviation, square = np.zeros(padded), np.zeros(padded), np.zeros(padded)
    lanes = np.empty(LANES)
    for t in range(low, high):
        target = out[t]
        differs = _deviate(x[t], universe[t], present[:n_stocks], deviation[:n_stocks])
        n = _sum(present, lanes)
        # Sums of deviations from a member lose nothing where the values are large and close together.
        mean = _sum(deviation, lanes) / n
        for s in range(padded):
            d = deviation[s] - mean
            deviation[s] = d
            square[s] = d * d if present[s] > 0.0 else 0.0
        spread = sqrt(_sum(square, lanes) / n)
        for s in range(padded):
            value = deviation[s] / spread
            target[s] = value if differs & (present[s] > 0.0) & (abs(value) < inf) else nan
        fill(deviation[n_stocks:], 0.0)
