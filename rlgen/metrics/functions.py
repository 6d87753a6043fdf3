"""The metrics as functions of arrays, each defined in docs/metrics.md.

All take `factor` and `forward_return` (T, S), numpy or torch, float32 or float64 (NaN or infinite
is missing), `universe` (T, S) bool (None: every cell) and `min_names`, the cells that a bar needs
to have an IC (None: min(10, max(3, ceil(S/2)))). They raise `DataError`, with both shapes, if
shapes differ. A number without anything to compute it from is NaN. For several metrics of one
factor use `score`, for many factors against one forward return a `Target`.
"""

from __future__ import annotations

import numpy.typing as npt

from rlgen.metrics import summary
from rlgen.metrics.arrays import Array, Float64s, device_of
from rlgen.metrics.target import Scores, Target


def ic(
    factor: Array, forward_return: Array, universe: Array | None = None, min_names: int | None = None
) -> Float64s:
    """Pearson correlation across each bar's present cells: (T,), NaN where a bar has none."""
    return _target(factor, forward_return, universe, min_names).bars(factor).ic


def rank_ic(
    factor: Array, forward_return: Array, universe: Array | None = None, min_names: int | None = None
) -> Float64s:
    """Spearman correlation (average ties) across each bar's present cells: (T,)."""
    return _target(factor, forward_return, universe, min_names).bars(factor).rank_ic


def pooled_ic(
    factor: Array, forward_return: Array, universe: Array | None = None, min_names: int | None = None
) -> float:
    """Pearson over all cells of all bars, both sides z-scored within each bar first.

    Equals Σ n_t·ic[t] / Σ n_t over the bars with an IC.
    """
    target = _target(factor, forward_return, universe, min_names)
    bars = target.bars(factor)
    return target.pooled(bars.ic, bars.count)


def pooled_rank_ic(
    factor: Array, forward_return: Array, universe: Array | None = None, min_names: int | None = None
) -> float:
    """Σ n_t·rank_ic[t] / Σ n_t over the bars with an IC."""
    target = _target(factor, forward_return, universe, min_names)
    bars = target.bars(factor)
    return target.pooled(bars.rank_ic, bars.count)


def mean_ic(
    factor: Array, forward_return: Array, universe: Array | None = None, min_names: int | None = None
) -> float:
    """Mean of `ic` over the bars with one."""
    target = _target(factor, forward_return, universe, min_names)
    return summary.mean(target.bars(factor).ic, target.session)


def icir(
    factor: Array, forward_return: Array, universe: Array | None = None, min_names: int | None = None
) -> float:
    """Mean over standard deviation (ddof 1) of `ic`, not annualised."""
    target = _target(factor, forward_return, universe, min_names)
    return summary.information_ratio(target.bars(factor).ic, target.session)


def t_stat(
    factor: Array,
    forward_return: Array,
    universe: Array | None = None,
    min_names: int | None = None,
    horizon: int = 1,
    session: npt.ArrayLike | None = None,
) -> float:
    """Newey–West t of the mean IC; `horizon` in bars, `session` (T,) a label per bar."""
    target = _target(factor, forward_return, universe, min_names, horizon, session)
    return summary.newey_west_t(target.bars(factor).ic, target.session, horizon)


def raw_pooled_ic(
    factor: Array, forward_return: Array, universe: Array | None = None, min_names: int | None = None
) -> float:
    """Pearson over all cells of the bars with an IC, nothing standardised."""
    target = _target(factor, forward_return, universe, min_names)
    bars = target.bars(factor)
    return summary.raw_pooled(bars.ic, bars.count, bars.moments, target.session)


def by_stock_ic(
    factor: Array, forward_return: Array, universe: Array | None = None, min_names: int | None = None
) -> float:
    """Mean over stocks with at least 30 bars of the correlation over time.

    `min_names` is taken so that all metrics are called alike; it plays no part here.
    """
    return _target(factor, forward_return, universe, min_names).by_stock_ic(factor)


def coverage(
    factor: Array, forward_return: Array, universe: Array | None = None, min_names: int | None = None
) -> float:
    """Σ n_t / Σ N_t: the share of the universe's labelled cells that the factor covers.

    `min_names` is taken so that all metrics are called alike; it plays no part here.
    """
    target = _target(factor, forward_return, universe, min_names)
    return target.coverage(target.bars(factor).count)


def score(
    factor: Array,
    forward_return: Array,
    universe: Array | None = None,
    min_names: int | None = None,
    horizon: int = 1,
    session: npt.ArrayLike | None = None,
) -> Scores:
    """Every metric at once; `horizon` in bars and `session` (T,) matter to `t_stat`."""
    return _target(factor, forward_return, universe, min_names, horizon, session).score(factor)


def _target(
    factor: Array,
    forward_return: Array,
    universe: Array | None,
    min_names: int | None,
    horizon: int = 1,
    session: npt.ArrayLike | None = None,
) -> Target:
    if device_of(factor) is None or device_of(forward_return) is not None:
        return Target(forward_return, universe, min_names, session=session, horizon=horizon)
    # A factor on a GPU is measured there, wherever the forward return lies.
    import torch

    moved = torch.as_tensor(forward_return).to(factor.device)
    return Target(moved, universe, min_names, session=session, horizon=horizon)
