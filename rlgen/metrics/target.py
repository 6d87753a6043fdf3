"""A forward return prepared once, against which many factors are measured.

1. `Target` masks the forward return by the universe and ranks it within each bar.
2. `bars(factor)` gives the per-bar numbers: cells, IC, rank IC, moments.
3. `score(factor)` sums them up into every metric of docs/metrics.md.

CPU arrays go through numba (`cpu`), tensors on other devices through torch (`gpu`); both hold to
one definition and agree to the last few bits. Every IC that rlgen prints, rewards or reports comes
from here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rlgen.errors import DataError
from rlgen.metrics import summary
from rlgen.metrics.arrays import Array, Float64s, Integers, device_of, same_shape
from rlgen.metrics.bars import BarScores, Engine
from rlgen.metrics.cpu import CpuEngine


def default_min_names(n_stocks: int) -> int:
    """Cells that a bar needs to have an IC: min(10, max(3, ceil(S/2)))."""
    return min(10, max(3, math.ceil(n_stocks / 2)))


@dataclass(frozen=True)
class Scores:
    """Every metric of one factor, as docs/metrics.md defines them; NaN where one is undefined."""

    pooled_ic: float
    pooled_rank_ic: float
    mean_ic: float
    icir: float
    t_stat: float
    mean_rank_ic: float
    rank_icir: float
    raw_pooled_ic: float
    by_stock_ic: float
    coverage: float
    n_bars: int
    """Bars with an IC."""
    n_cells: int
    """Cells of those bars."""

    def as_dict(self) -> dict[str, float | int]:
        """Plain numbers by name; an undefined one is a float NaN."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"pooled IC {self.pooled_ic:.4f} (raw {self.raw_pooled_ic:.4f}), pooled rank IC "
            f"{self.pooled_rank_ic:.4f}, mean IC {self.mean_ic:.4f}, ICIR {self.icir:.3f}, "
            f"t {self.t_stat:.2f}, coverage {self.coverage:.1%}, {self.n_bars} bars"
        )


class Target:
    """A forward return (T, S) that factors are measured against.

    Args:
        forward_return: (T, S) numpy array or torch tensor; NaN or infinite is missing.
        universe: (T, S) bool; None: every cell.
        min_names: cells that a bar needs to have an IC; None: `default_min_names(S)`.
        session: (T,) a label per bar, for sums and for `t_stat`; None: one session.
        horizon: length of the forward return in bars, for `t_stat`.
        engine: `numba` or `torch`; None: torch for tensors that are not on the CPU.
        empty: makes the arrays that the numba engine keeps, as `np.empty` does.

    Attributes:
        shape: (T, S).
        labelled: (T,) int64, N_t: universe cells with a finite forward return.
        n_labelled: their sum.
        session: (T,) int64, sessions numbered from 0.
        min_names: as it is used.

    Raises:
        DataError: shapes differ, or an input is not an array of numbers.
    """

    def __init__(
        self,
        forward_return: Array,
        universe: Array | None = None,
        min_names: int | None = None,
        *,
        session: npt.ArrayLike | None = None,
        horizon: int = 1,
        engine: Literal["numba", "torch"] | None = None,
        empty: Callable[..., npt.NDArray[Any]] = np.empty,
    ) -> None:
        if min_names is not None and min_names < 1:
            raise DataError(f"min_names must be at least 1, was {min_names}")
        if min_names is None:
            shape = np.shape(forward_return)
            min_names = default_min_names(shape[1] if len(shape) == 2 else 0)
        self.min_names = int(min_names)
        self._engine = _engine(forward_return, universe, self.min_names, engine, empty)
        self.shape = self._engine.shape
        self.session = summary.session_numbers(session, self.shape[0])
        self.horizon = horizon
        self.labelled = self._engine.labelled
        self.n_labelled = int(self.labelled.sum())

    def bars(self, factor: Array) -> BarScores:
        """Per-bar cells, IC, rank IC and moments of `factor` (T, S)."""
        same_shape(np.shape(factor), "factor", self.shape, "forward_return")
        return self._engine.bars(self._engine.prepare(factor))

    def zscores(self, rank: bool = False, out: Any = None) -> Any:
        """The forward return, or its ranks, z-scored within each bar.

        Args:
            rank: the ranks.
            out: (T, S) to write to; None: a new array.

        Returns:
            (T, S) float32 of the engine's kind (numpy array or tensor), population spread; NaN where
            there is no label, 0 in a bar without spread.
        """
        return self._engine.zscores(rank, out)

    def pooled(self, ic: Float64s, count: Integers) -> float:
        """Σ n_t·ic[t] / Σ n_t over the bars with an IC."""
        return summary.pooled(ic, count, self.session)

    def coverage(self, count: Integers) -> float:
        """Σ n_t / Σ N_t; NaN if no cell is labelled."""
        return int(count.sum()) / self.n_labelled if self.n_labelled else math.nan

    def by_stock_ic(self, factor: Array) -> float:
        """Mean over stocks with at least `bars.MINIMUM_BARS` bars of the correlation over time."""
        same_shape(np.shape(factor), "factor", self.shape, "forward_return")
        by_stock = self._engine.stock_correlations(self._engine.prepare(factor))
        by_stock = by_stock[np.isfinite(by_stock)]
        return float(by_stock.mean()) if by_stock.size else math.nan

    def score(self, factor: Array) -> Scores:
        """Every metric of `factor` (T, S)."""
        bars = self.bars(factor)
        with_ic = np.isfinite(bars.ic)
        return Scores(
            pooled_ic=self.pooled(bars.ic, bars.count),
            pooled_rank_ic=self.pooled(bars.rank_ic, bars.count),
            mean_ic=summary.mean(bars.ic, self.session),
            icir=summary.information_ratio(bars.ic, self.session),
            t_stat=summary.newey_west_t(bars.ic, self.session, self.horizon),
            mean_rank_ic=summary.mean(bars.rank_ic, self.session),
            rank_icir=summary.information_ratio(bars.rank_ic, self.session),
            raw_pooled_ic=summary.raw_pooled(bars.ic, bars.count, bars.moments, self.session),
            by_stock_ic=self.by_stock_ic(factor),
            coverage=self.coverage(bars.count),
            n_bars=int(with_ic.sum()),
            n_cells=int(bars.count[with_ic].sum()),
        )


def _engine(
    forward_return: Array,
    universe: Array | None,
    min_names: int,
    name: str | None,
    empty: Callable[..., npt.NDArray[Any]],
) -> Engine:
    if name is None:
        name = "numba" if device_of(forward_return, universe) is None else "torch"
    if name == "numba":
        return CpuEngine(forward_return, universe, min_names, empty)
    # Torch takes a second to import: only those who bring tensors pay it.
    from rlgen.metrics.gpu import TorchEngine

    return TorchEngine(forward_return, universe, min_names)
