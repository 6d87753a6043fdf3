"""What an engine gives per bar, and what an engine is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from rlgen.metrics.arrays import Array, Float64s, Integers

MINIMUM_BARS = 30
"""Bars that a stock needs to take part in `by_stock_ic`."""


@dataclass(frozen=True)
class BarScores:
    """Per-bar numbers of one factor."""

    count: Integers
    """(T,) cells in the universe with factor and forward return both finite."""
    ic: Float64s
    """(T,) Pearson correlation; NaN where the bar has none."""
    rank_ic: Float64s
    """(T,) Spearman correlation, average ties; NaN where the bar has none."""
    moments: Float64s
    """(5, T) means of factor and forward return, central sums xx, yy, xy; 0 without an IC."""


class Engine(Protocol):
    """Per-bar numbers against one forward return, on one kind of device."""

    shape: tuple[int, int]
    """(T, S)."""
    labelled: Integers
    """(T,) universe cells with a finite forward return."""

    def prepare(self, factor: Array) -> Any:
        """`factor` as this engine's kind of array."""

    def bars(self, factor: Any) -> BarScores:
        """Per-bar numbers of a prepared factor (T, S)."""

    def stock_correlations(self, factor: Any) -> Float64s:
        """(S,) correlations over time; NaN for stocks with under `MINIMUM_BARS` bars."""

    def zscores(self, rank: bool, out: Any = None) -> Any:
        """The forward return (T, S), or its ranks, z-scored within each bar, float32."""
