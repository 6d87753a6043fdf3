"""From per-bar numbers to the numbers that are printed.

Every sum over bars is a sum within each session, in the order of its bars, and then over sessions
in their order: whoever computes a session's part, the total has the same bits.

Conventions: `ic` and `rank_ic` are (T,) float64 with NaN where a bar has none; `session` is (T,)
int64, 0, 0, …, 1, 1, …; a number that is undefined (no bars, one bar, no spread) is NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from rlgen.errors import DataError
from rlgen.metrics.arrays import Float64s, Integers


def session_numbers(session: npt.ArrayLike | None, n_bars: int) -> Integers:
    """Session labels per bar (T,) as 0, 0, …, 1, 1, …; None: all bars are one session.

    Raises:
        DataError: the number of labels is not the number of bars.
    """
    if session is None:
        return np.zeros(n_bars, dtype=np.int64)
    labels = np.asarray(session)
    if labels.shape != (n_bars,):
        raise DataError(f"session must have one label per bar, its shape was {labels.shape}, bars {n_bars}")
    numbers = np.zeros(n_bars, dtype=np.int64)
    np.cumsum(labels[1:] != labels[:-1], out=numbers[1:])
    return numbers


def session_sums(values: npt.NDArray[Any], session: Integers) -> Float64s:
    """Sums of `values` (T,) within each session, bar after bar; NaN counts as 0."""
    if values.size == 0:
        return np.zeros(0)
    sums = np.bincount(session, weights=np.where(np.isnan(values), 0.0, values))
    return np.asarray(sums, np.float64)


def total(partial: Float64s) -> float:
    """Sum of per-session sums, session after session."""
    # cumsum adds in order; sum() adds pairwise.
    return float(np.cumsum(partial)[-1]) if partial.size else 0.0


def sum_over_bars(values: Float64s, session: Integers) -> float:
    """Sum of `values` (T,) in session order; NaN counts as 0."""
    return total(session_sums(values, session))


def pooled(ic: Float64s, count: Integers, session: Integers) -> float:
    """Σ n_t·ic[t] / Σ n_t over the bars with an IC."""
    with_ic = np.isfinite(ic)
    cells = int(count[with_ic].sum())
    return sum_over_bars(count * ic, session) / cells if cells else math.nan


def mean(ic: Float64s, session: Integers) -> float:
    """Mean over the bars with an IC."""
    n = int(np.isfinite(ic).sum())
    return sum_over_bars(ic, session) / n if n else math.nan


def information_ratio(ic: Float64s, session: Integers) -> float:
    """Mean over standard deviation (ddof 1) of the bars with an IC; not annualised."""
    values = ic[np.isfinite(ic)]
    if values.size < 2 or values.min() == values.max():
        return math.nan
    centre = mean(ic, session)
    variance = sum_over_bars((ic - centre) ** 2, session) / (values.size - 1)
    return centre / math.sqrt(variance)


def newey_west_t(ic: Float64s, session: Integers, horizon: int) -> float:
    """t-statistic of the mean IC under autocorrelation (Newey and West 1987).

    With n bars that have an IC, e[t] = ic[t] − mean and L = max(horizon, floor(4 (n/100)^(2/9))):
    t = mean / sqrt(V / n), V = γ_0 + 2 Σ_{l=1..L} (1 − l/(L+1)) γ_l, γ_l = (1/n) Σ e[t] e[t−l] over
    pairs of bars that are l bars apart, both have an IC and lie in one session.
    """
    with_ic = np.isfinite(ic)
    n = int(with_ic.sum())
    if n < 2 or ic[with_ic].min() == ic[with_ic].max():
        return math.nan
    centre = mean(ic, session)
    e = np.where(with_ic, ic - centre, 0.0)
    lags = max(horizon, math.floor(4.0 * (n / 100.0) ** (2.0 / 9.0)))
    variance = sum_over_bars(e * e, session) / n
    for lag in range(1, min(lags, e.size - 1) + 1):
        product = np.where(session[lag:] == session[:-lag], e[lag:] * e[:-lag], 0.0)
        weight = 1.0 - lag / (lags + 1.0)
        variance += 2.0 * weight * sum_over_bars(product, session[lag:]) / n
    return centre / math.sqrt(variance / n) if variance > 0.0 else math.nan


def raw_pooled(ic: Float64s, count: Integers, moments: Float64s, session: Integers) -> float:
    """Pearson over all cells of the bars with an IC, nothing standardised.

    Merges per-bar means and central sums (Chan, Golub, LeVeque 1983): a cell's deviation from the
    grand mean is its deviation from the bar's mean plus the bar's from the grand mean.

    Args:
        ic: (T,) NaN where a bar does not take part.
        count: (T,) cells per bar.
        moments: (5, T) means of factor and target, central sums xx, yy, xy.
        session: (T,).
    """
    bars = np.isfinite(ic)
    if not bars.any():
        return math.nan
    n = count[bars].astype(np.float64)
    mean_x, mean_y, xx, yy, xy = moments[:, bars]
    numbers = session[bars]
    cells = n.sum()
    # About the first bar's mean, for means that are large against their spread.
    dx = mean_x - mean_x[0]
    dy = mean_y - mean_y[0]
    dx = dx - sum_over_bars(n * dx, numbers) / cells
    dy = dy - sum_over_bars(n * dy, numbers) / cells
    total_xx = sum_over_bars(xx + n * dx * dx, numbers)
    total_yy = sum_over_bars(yy + n * dy * dy, numbers)
    total_xy = sum_over_bars(xy + n * dx * dy, numbers)
    if not (total_xx > 0.0 and total_yy > 0.0):
        return math.nan
    return min(1.0, max(-1.0, total_xy / (math.sqrt(total_xx) * math.sqrt(total_yy))))
