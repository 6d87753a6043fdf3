"""What a signal is worth: the exact metric, with missing coverage counted as zero.

A(ic) = Σ n_t·ic[t] / Σ N_t, N_t = universe cells with a finite forward return. Pooling over present
cells alone (Σ n_t below the line) would pay for missing values: a factor kept only where its z-score
is beyond ±1.2 has nearly twice the pooled IC, and less of A. The objective is
`ic_weight` · A(ic) + `rank_ic_weight` · A(rank_ic).
"""

from __future__ import annotations

from dataclasses import dataclass

from rlgen.metrics import Target, sum_over_bars
from rlgen.metrics.arrays import Array, Float64s, Integers


@dataclass(frozen=True)
class Worth:
    """What a signal is worth on the bars that are measured."""

    objective: float
    """`ic_weight` · `covered_ic` + `rank_ic_weight` · `covered_rank_ic`; 0 without any IC."""
    ic: float
    """Pooled IC: over present cells; NaN if no bar has one."""
    rank_ic: float
    """Pooled rank IC."""
    covered_ic: float
    """A(ic)."""
    covered_rank_ic: float
    """A(rank_ic)."""


NOTHING = Worth(0.0, float("nan"), float("nan"), 0.0, 0.0)
"""The worth of a pool without factors."""


def covered(per_bar: Float64s, count: Integers, target: Target) -> float:
    """A: Σ n_t·ic[t] over the bars with an IC, divided by Σ N_t over all bars; 0 if there is none."""
    if target.n_labelled == 0:
        return 0.0
    return sum_over_bars(count * per_bar, target.session) / target.n_labelled


def worth(target: Target, signal: Array, ic_weight: float, rank_ic_weight: float) -> Worth:
    """The worth of a signal (T, S) against `target`."""
    bars = target.bars(signal)
    covered_ic = covered(bars.ic, bars.count, target)
    covered_rank_ic = covered(bars.rank_ic, bars.count, target)
    return Worth(
        objective=ic_weight * covered_ic + rank_ic_weight * covered_rank_ic,
        ic=target.pooled(bars.ic, bars.count),
        rank_ic=target.pooled(bars.rank_ic, bars.count),
        covered_ic=covered_ic,
        covered_rank_ic=covered_rank_ic,
    )
