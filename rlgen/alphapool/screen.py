"""The screen: what holds for a candidate on its own, whatever the pool's members are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

from rlgen.alphapool.offer import Candidate, Reason
from rlgen.expression import Expression
from rlgen.metrics import BarScores, Target


class Screen:
    """Measures candidates alone, on the bars that are measured.

    Args:
        panel: of the calculator; its calendar says which bars a formula's lookback has.
        target: the forward return of the measured bars.
        measured: the measured bars.
        minimum_coverage: least share of the labelled cells after warm-up.
    """

    def __init__(self, panel: Any, target: Target, measured: slice, minimum_coverage: float) -> None:
        self._target = target
        self._minimum_coverage = minimum_coverage
        if panel.windows == "session":
            past = np.asarray(panel.bar_of_session)
        else:
            past = panel.start + np.arange(len(panel.bars))
        self._past_bars = past[measured]

    def candidate(self, expression: Expression, factor: Tensor) -> tuple[Candidate, BarScores]:
        """A candidate's own numbers, with a verdict if it is not worth a trial.

        Args:
            expression: the formula, for its lookback.
            factor: (T, S) its values on the measured bars.
        """
        bars = self._target.bars(factor)
        ic = self._target.pooled(bars.ic, bars.count)
        verdict = None
        if self._coverage_after_warm_up(expression.lookback, bars) < self._minimum_coverage:
            verdict = Reason.LOW_COVERAGE
        elif math.isnan(ic):
            verdict = Reason.NO_DISPERSION
        coverage = self._target.coverage(bars.count)
        rank_ic = self._target.pooled(bars.rank_ic, bars.count)
        return Candidate(ic, rank_ic, 0.0 if math.isnan(coverage) else coverage, verdict), bars

    def _coverage_after_warm_up(self, lookback: int, bars: BarScores) -> float:
        """Share of labelled cells that are covered, over the bars that have the whole lookback behind
        them; over all bars where none of those has a label."""
        labelled = self._target.labelled
        settled = self._past_bars >= lookback
        if not labelled[settled].any():
            settled = np.ones_like(settled)
        cells = int(labelled[settled].sum())
        return int(bars.count[settled].sum()) / cells if cells else 0.0
