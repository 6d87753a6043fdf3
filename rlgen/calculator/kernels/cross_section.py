"""CSRank and CSZscore: one bar at a time, over its universe members that are present.

Rank sorts each bar once (numpy's vectorised sort; missing values and outsiders end up last); runs of
equal values share the mean of their ranks. The z-score takes the mean first and then the mean square
of the deviations (two passes, float64); a bar whose members are all equal has none.

Both read a bar before they write it, so that operand and result may be the same array.
"""

from __future__ import annotations

from math import inf, nan, sqrt

import numpy as np

from rlgen.calculator.kernels.blocks import fill, jit


@jit
def _percentiles(values: np.ndarray, order: np.ndarray, out: np.ndarray) -> None:
    """Write average percentile ranks of values (R, S), sorted by order (R, S), to out (R, padded S)."""
    for r in range(values.shape[0]):
        fill(out[r], nan)
        n = values.shape[1]
        while n > 0 and values[r, order[r, n - 1]] != values[r, order[r, n - 1]]:
            n -= 1
        i = 0
        while i < n:
            value = values[r, order[r, i]]
            k = i + 1
            while k < n and values[r, order[r, k]] == value:
                k += 1
            percentile = (i + 0.5 * (k - i + 1)) / n
            for m in range(i, k):
                out[r, order[r, m]] = percentile
            i = k


def rank(x: np.ndarray, universe: np.ndarray, out: np.ndarray, low: int, high: int) -> None:
    """Write the percentile among members of the bars [low, high) of x (T, padded S) to out.

    Names outside the universe (T, S) and the padding columns are missing in the result.
    """
    members = np.where(universe[low:high], x[low:high, : universe.shape[1]], nan)
    _percentiles(members, np.argsort(members, axis=1), out[low:high])


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
def zscore(x: np.ndarray, universe: np.ndarray, out: np.ndarray, low: int, high: int) -> None:
    """Write the z-score among members of the bars [low, high) of x (T, padded S) to out.

    Names outside the universe (T, S) and the padding columns are missing in the result.
    """
    n_stocks = universe.shape[1]
    values = np.empty(n_stocks)
    place = np.empty(n_stocks, np.int64)
    for t in range(low, high):
        n = 0
        for s in range(n_stocks):
            if universe[t, s] and x[t, s] == x[t, s]:
                values[n] = x[t, s]
                place[n] = s
                n += 1
        fill(out[t], nan)
        _zscore_bar(values, place, n, out[t])
