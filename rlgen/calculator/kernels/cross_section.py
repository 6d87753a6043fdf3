"""CSRank and CSZscore: one bar at a time, over its universe members that are present.

Rank sorts the bar's present values once; runs of equal values share the mean of their ranks. The
z-score takes the mean first and then the mean square of the deviations (two passes, float64); a bar
whose members are all equal has none.
"""

from __future__ import annotations

from math import inf, nan, sqrt

import numpy as np

from rlgen.calculator.kernels.blocks import fill, jit

CSRANK, CSZSCORE = range(2)


@jit
def _sort(values: np.ndarray, n: int, keys: np.ndarray, order: np.ndarray, counts: np.ndarray) -> int:
    """Sort values[:n]: radix sort, least significant byte first, on order-preserving integers.

    Args:
        keys: (2, S) uint64 and order: (2, S) int64, overwritten.
        counts: (8, 256) int64, overwritten.

    Returns:
        Which row of `keys` and `order` holds the result.
    """
    for b in range(8):
        for k in range(256):
            counts[b, k] = 0
    bits = values.view(np.uint64)
    sign = np.uint64(1) << np.uint64(63)
    low_byte = np.uint64(255)
    for i in range(n):
        # Negative floats sort backwards as integers: flip all their bits, else only the sign.
        key = ~bits[i] if bits[i] & sign else bits[i] | sign
        keys[0, i] = key
        order[0, i] = i
        for b in range(8):
            counts[b, (key >> np.uint64(8 * b)) & low_byte] += 1
    source = 0
    for b in range(8):
        shift = np.uint64(8 * b)
        if counts[b, (keys[source, 0] >> shift) & low_byte] == n:
            continue  # all share this byte
        total = 0
        for k in range(256):
            count = counts[b, k]
            counts[b, k] = total
            total += count
        for i in range(n):
            key = keys[source, i]
            byte = (key >> shift) & low_byte
            to = counts[b, byte]
            counts[b, byte] = to + 1
            keys[1 - source, to] = key
            order[1 - source, to] = order[source, i]
        source = 1 - source
    return source


@jit
def _rank_bar(
    values: np.ndarray,
    place: np.ndarray,
    n: int,
    keys: np.ndarray,
    order: np.ndarray,
    counts: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write average percentile ranks of values[:n], which stand at columns place[:n], to out."""
    if n == 0:
        return
    row = _sort(values, n, keys, order, counts)
    i = 0
    while i < n:
        key = keys[row, i]
        k = i + 1
        while k < n and keys[row, k] == key:
            k += 1
        percentile = (i + 0.5 * (k - i + 1)) / n
        for m in range(i, k):
            out[place[order[row, m]]] = percentile
        i = k


@jit
def _zscore_bar(values: np.ndarray, place: np.ndarray, n: int, out: np.ndarray) -> None:
    """Write z-scores (population) of values[:n], which stand at columns place[:n], to out."""
    low, high, total = inf, -inf, 0.0
    for i in range(n):
        low = min(low, values[i])
        high = max(high, values[i])
    if not low < high:
        return
    # Sums of deviations from a member lose nothing where the values are large and close together.
    for i in range(n):
        total += values[i] - low
    mean = total / n
    square = 0.0
    for i in range(n):
        d = (values[i] - low) - mean
        square += d * d
    spread = sqrt(square / n)
    for i in range(n):
        value = ((values[i] - low) - mean) / spread
        out[place[i]] = value if abs(value) < inf else nan


@jit
def cross_section(
    x: np.ndarray, universe: np.ndarray, out: np.ndarray, statistic: int, low: int, high: int
) -> None:
    """Write CSRank or CSZscore of the bars [low, high) of x (T, S) to out (T, S).

    Columns of x and out beyond the universe's S are padding; they and the names outside the universe
    (T, S) are missing in the result.
    """
    n_stocks = universe.shape[1]
    values = np.empty(n_stocks)
    place = np.empty(n_stocks, np.int64)
    keys = np.empty((2, n_stocks), np.uint64)
    order = np.empty((2, n_stocks), np.int64)
    counts = np.empty((8, 256), np.int64)
    for t in range(low, high):
        fill(out[t], nan)
        n = 0
        for s in range(n_stocks):
            if universe[t, s] and x[t, s] == x[t, s]:
                values[n] = x[t, s] + 0.0  # -0 becomes 0: they tie
                place[n] = s
                n += 1
        if statistic == CSRANK:
            _rank_bar(values, place, n, keys, order, counts, out[t])
        else:
            _zscore_bar(values, place, n, out[t])
