"""Slow, obvious twins of rlgen.metrics, written from the definitions in docs/metrics.md.

float64, one bar at a time, scipy and pandas; nothing here is shared with the package.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

Array = np.ndarray[Any, Any]


def min_names_of(n_stocks: int, min_names: int | None) -> int:
    return min(10, max(3, math.ceil(n_stocks / 2))) if min_names is None else min_names


def cells(factor: Array, forward_return: Array, universe: Array | None) -> Array:
    """v_t: in the universe, factor and forward return finite."""
    present = np.isfinite(factor) & np.isfinite(forward_return)
    return present if universe is None else present & np.asarray(universe, dtype=bool)


def bars_with_ic(
    factor: Array, forward_return: Array, universe: Array | None, min_names: int | None
) -> Array:
    least = min_names_of(factor.shape[1], min_names)
    has = []
    for x, y, v in zip(factor, forward_return, cells(factor, forward_return, universe), strict=True):
        x, y = x[v], y[v]
        has.append(v.sum() >= max(least, 1) and x.min() != x.max() and y.min() != y.max())
    return np.array(has, dtype=bool)


def per_bar(
    factor: Array, forward_return: Array, universe: Array | None, min_names: int | None, rank: bool
) -> Array:
    has = bars_with_ic(factor, forward_return, universe, min_names)
    present = cells(factor, forward_return, universe)
    out = np.full(factor.shape[0], np.nan)
    for t in np.flatnonzero(has):
        x = factor[t, present[t]].astype(np.float64)
        y = forward_return[t, present[t]].astype(np.float64)
        if rank:
            x, y = stats.rankdata(x), stats.rankdata(y)
        out[t] = pearson(x, y)
    return out


def pearson(x: Array, y: Array) -> float:
    # Centred on a value of its own and scaled first: scipy warns and loses digits on 1e9 ± 1e3.
    x, y = x - x[0], y - y[0]
    return float(stats.pearsonr(x / np.abs(x).max(), y / np.abs(y).max()).statistic)


def ic(factor: Array, forward_return: Array, universe: Any = None, min_names: int | None = None) -> Array:
    return per_bar(factor, forward_return, universe, min_names, rank=False)


def rank_ic(
    factor: Array, forward_return: Array, universe: Any = None, min_names: int | None = None
) -> Array:
    return per_bar(factor, forward_return, universe, min_names, rank=True)


def pooled_ic(
    factor: Array,
    forward_return: Array,
    universe: Any = None,
    min_names: int | None = None,
    rank: bool = False,
) -> float:
    """Literally: z-score both within each bar, then one correlation over all cells of all bars."""
    has = bars_with_ic(factor, forward_return, universe, min_names)
    present = cells(factor, forward_return, universe)
    xs, ys = [], []
    for t in np.flatnonzero(has):
        x = factor[t, present[t]].astype(np.float64)
        y = forward_return[t, present[t]].astype(np.float64)
        if rank:
            x, y = stats.rankdata(x), stats.rankdata(y)
        x, y = x - x[0], y - y[0]
        x, y = x / np.abs(x).max(), y / np.abs(y).max()
        xs.append((x - x.mean()) / x.std(ddof=0))
        ys.append((y - y.mean()) / y.std(ddof=0))
    if not xs:
        return math.nan
    return float(np.corrcoef(np.concatenate(xs), np.concatenate(ys))[0, 1])


def mean_ic(values: Array) -> float:
    return float(pd.Series(values).mean())


def icir(values: Array) -> float:
    series = pd.Series(values).dropna()
    if len(series) < 2 or series.min() == series.max():
        return math.nan
    return float(series.mean() / series.std(ddof=1))


def t_stat(values: Array, horizon: int = 1, session: Array | None = None) -> float:
    """Newey–West, Bartlett, lags in bars, pairs within one session only."""
    n_bars = len(values)
    session = np.zeros(n_bars) if session is None else session
    known = np.isfinite(values)
    n = int(known.sum())
    if n < 2 or np.nanmin(values) == np.nanmax(values):
        return math.nan
    centre = np.nanmean(values)
    lags = max(horizon, math.floor(4 * (n / 100) ** (2 / 9)))
    variance = 0.0
    for lag in range(lags + 1):
        gamma = 0.0
        for t in range(lag, n_bars):
            if known[t] and known[t - lag] and session[t] == session[t - lag]:
                gamma += (values[t] - centre) * (values[t - lag] - centre)
        variance += (1.0 if lag == 0 else 2.0 * (1 - lag / (lags + 1))) * gamma / n
    return float(centre / math.sqrt(variance / n)) if variance > 0 else math.nan


def raw_pooled_ic(
    factor: Array, forward_return: Array, universe: Any = None, min_names: int | None = None
) -> float:
    has = bars_with_ic(factor, forward_return, universe, min_names)
    present = cells(factor, forward_return, universe) & has[:, None]
    if not present.any():
        return math.nan
    return pearson(factor[present].astype(np.float64), forward_return[present].astype(np.float64))


def by_stock_ic(factor: Array, forward_return: Array, universe: Any = None) -> float:
    present = cells(factor, forward_return, universe)
    found = []
    for s in range(factor.shape[1]):
        x = factor[present[:, s], s].astype(np.float64)
        y = forward_return[present[:, s], s].astype(np.float64)
        if len(x) >= 30 and x.min() != x.max() and y.min() != y.max():
            found.append(pearson(x, y))
    return float(np.mean(found)) if found else math.nan


def coverage(factor: Array, forward_return: Array, universe: Any = None) -> float:
    labelled = cells(np.zeros_like(forward_return), forward_return, universe).sum()
    return float(cells(factor, forward_return, universe).sum() / labelled) if labelled else math.nan


def score(
    factor: Array,
    forward_return: Array,
    universe: Any = None,
    min_names: int | None = None,
    horizon: int = 1,
    session: Array | None = None,
) -> dict[str, float]:
    per_bar_ic = ic(factor, forward_return, universe, min_names)
    per_bar_rank_ic = rank_ic(factor, forward_return, universe, min_names)
    has = np.isfinite(per_bar_ic)
    return {
        "pooled_ic": pooled_ic(factor, forward_return, universe, min_names),
        "pooled_rank_ic": pooled_ic(factor, forward_return, universe, min_names, rank=True),
        "mean_ic": mean_ic(per_bar_ic),
        "icir": icir(per_bar_ic),
        "t_stat": t_stat(per_bar_ic, horizon, session),
        "mean_rank_ic": mean_ic(per_bar_rank_ic),
        "rank_icir": icir(per_bar_rank_ic),
        "raw_pooled_ic": raw_pooled_ic(factor, forward_return, universe, min_names),
        "by_stock_ic": by_stock_ic(factor, forward_return, universe),
        "coverage": coverage(factor, forward_return, universe),
        "n_bars": int(has.sum()),
        "n_cells": int(cells(factor, forward_return, universe)[has].sum()),
    }


def zscore(factor: Array, universe: Any = None) -> Array:
    """float64 z-scores across the universe where finite, 0 without spread, NaN where missing."""
    out = np.full(factor.shape, np.nan)
    for t in range(factor.shape[0]):
        v = np.isfinite(factor[t])
        if universe is not None:
            v &= np.asarray(universe[t], dtype=bool)
        if not v.any():
            continue
        x = factor[t, v].astype(np.float64)
        flat = x.min() == x.max()
        x = x - x[0]
        out[t, v] = 0.0 if flat else (x - x.mean()) / x.std(ddof=0)
    return out


def signal(zscores: list[Array], weights: list[float]) -> Array:
    """Σ w_k z_k, missing z counted as 0, NaN where no factor is present."""
    total = np.zeros(zscores[0].shape)
    for z, weight in zip(zscores, weights, strict=True):
        total += weight * np.nan_to_num(z, nan=0.0)
    return np.where(np.all([np.isnan(z) for z in zscores], axis=0), np.nan, total)
