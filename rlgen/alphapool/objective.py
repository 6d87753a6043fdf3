"""What a signal is worth: the exact metric, with missing coverage counted as zero.

A(ic) = Σ n_t·ic[t] / Σ N_t, N_t = universe cells with a finite forward return. Pooling over present
cells alone (Σ n_t below the line) would pay for missing values: a factor kept only where its z-score
is beyond ±1.2 has nearly twice the pooled IC, and less of A. The objective is
`ic_weight` · A(ic) + `rank_ic_weight` · A(rank_ic) + `raw_ic_weight` · A(raw), where the raw pooled IC,
one number for all bars, is multiplied by its coverage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rlgen.config import PoolConfig
from rlgen.metrics import Target, sum_over_bars
from rlgen.metrics.arrays import Array, Float64s, Integers
from rlgen.metrics.summary import raw_pooled


@dataclass(frozen=True)
class Worth:
    """What a signal is worth on the bars that are measured."""

    objective: float
    """The weighted sum of the three covered ICs; 0 without any IC."""
    ic: float
    """Pooled IC: over present cells; NaN if no bar has one."""
    rank_ic: float
    """Pooled rank IC."""
    covered_ic: float
    """A(ic)."""
    covered_rank_ic: float
    """A(rank_ic)."""
    raw_ic: float
    """Raw pooled IC: Pearson over all cells of the bars with an IC."""
    covered_raw_ic: float
    """The same times its coverage."""


NOTHING = Worth(0.0, float("nan"), float("nan"), 0.0, 0.0, float("nan"), 0.0)
"""The worth of a pool without factors."""


def covered(per_bar: Float64s, count: Integers, target: Target) -> float:
    """A: Σ n_t·ic[t] over the bars with an IC, divided by Σ N_t over all bars; 0 if there is none."""
    if target.n_labelled == 0:
        return 0.0
    return sum_over_bars(count * per_bar, target.session) / target.n_labelled


def worth(target: Target, signal: Array, config: PoolConfig) -> Worth:
    """The worth of a signal (T, S) against `target`."""
    bars = target.bars(signal)
    covered_ic = covered(bars.ic, bars.count, target)
    covered_rank_ic = covered(bars.rank_ic, bars.count, target)
    raw_ic = raw_pooled(bars.ic, bars.count, bars.moments, target.session)
    covered_raw_ic = 0.0 if math.isnan(raw_ic) else raw_ic * target.coverage(bars.count[np.isfinite(bars.ic)])
    return Worth(
        objective=config.ic_weight * covered_ic
        + config.rank_ic_weight * covered_rank_ic
        + config.raw_ic_weight * covered_raw_ic,
        ic=target.pooled(bars.ic, bars.count),
        rank_ic=target.pooled(bars.rank_ic, bars.count),
        covered_ic=covered_ic,
        covered_rank_ic=covered_rank_ic,
        raw_ic=raw_ic,
        covered_raw_ic=covered_raw_ic,
    )
