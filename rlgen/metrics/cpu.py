"""The CPU engine: numba kernels over blocks of bars, on all threads.

1. The forward return is masked by the universe and ranked within each bar, once.
2. A block of bars of a factor: moments and Pearson, keys, numpy's sort, ranks and Spearman. Where
   the factor lacks some of the target's cells, the target's cached order is walked again and its
   ranks close up, so that Spearman is always over the cells that both have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rlgen.errors import DataError
from rlgen.metrics import kernels
from rlgen.metrics.arrays import (
    Array,
    Float64s,
    Integers,
    as_float32_order,
    as_mask,
    as_numpy,
    same_shape,
)
from rlgen.metrics.bars import MINIMUM_BARS, BarScores
from rlgen.metrics.threads import over_blocks


class CpuEngine:
    """Per-bar numbers of numpy arrays and CPU tensors (see `bars.Engine`).

    Args:
        forward_return: (T, S), NaN or infinite where missing.
        universe: (T, S) bool, or None for every cell.
        min_names: cells that a bar needs.
        empty: makes the arrays that are kept, as `np.empty` does.
    """

    def __init__(
        self,
        forward_return: Array,
        universe: Array | None,
        min_names: int,
        empty: Callable[..., npt.NDArray[Any]] = np.empty,
    ) -> None:
        values = as_numpy(forward_return, "forward_return")
        present = np.isfinite(values)
        if universe is not None:
            mask = as_mask(universe, "universe")
            same_shape(values.shape, "forward_return", mask.shape, "universe")
            present &= mask
        self.shape: tuple[int, int] = (values.shape[0], values.shape[1])
        n_bars, n_stocks = self.shape
        if n_stocks > kernels.MAXIMUM_NAMES:
            raise DataError(f"at most {kernels.MAXIMUM_NAMES} stocks can be ranked, were {n_stocks}")
        self.labelled: Integers = present.sum(axis=1, dtype=np.int64)
        self._min_names = min_names
        self._target = empty(values.shape, values.dtype)
        self._target[...] = values
        self._target[~present] = np.nan
        self._target64 = self._target if values.dtype == np.float64 else None
        self._to_rank = as_float32_order(self._target)
        self._order = empty(values.shape, np.uint32)
        self._rank = empty(values.shape, np.float32)
        self._tied = np.empty(n_bars, np.bool_)
        over_blocks(self._rank_target, n_bars, n_stocks)

    def prepare(self, factor: Array) -> npt.NDArray[Any]:
        """`factor` as a contiguous float32 or float64 array."""
        return as_numpy(factor, "factor")

    def bars(self, factor: npt.NDArray[Any]) -> BarScores:
        """Per-bar numbers of a prepared factor (T, S)."""
        n_bars, n_stocks = self.shape
        factor, target = self._one_type(factor)
        bits = as_float32_order(factor).view(np.uint32)
        count = np.zeros(n_bars, np.int64)
        ic = np.empty(n_bars)
        rank_ic = np.empty(n_bars)
        moments = np.zeros((5, n_bars))
        own_ranks = (self.labelled, self._order, self._rank, self._tied)

        def work(start: int, stop: int) -> None:
            kernels.bar_moments(start, stop, factor, target, self._min_names, count, ic, moments)
            keys = self._sorted_keys(start, stop, bits)
            kernels.rank_correlation(start, stop, keys, count, ic, *own_ranks, rank_ic)

        over_blocks(work, n_bars, n_stocks)
        return BarScores(count, ic, rank_ic, moments)

    def stock_correlations(self, factor: npt.NDArray[Any]) -> Float64s:
        """(S,) correlations over time; NaN for stocks with under `MINIMUM_BARS` bars."""
        n_bars, n_stocks = self.shape
        factor, target = self._one_type(factor)
        out = np.empty(n_stocks)

        def work(start: int, stop: int) -> None:
            kernels.stock_correlations(start, stop, factor, target, MINIMUM_BARS, out)

        over_blocks(work, n_stocks, n_bars)
        return out

    def zscores(self, rank: bool, out: npt.NDArray[np.float32] | None = None) -> npt.NDArray[np.float32]:
        """The forward return (T, S), or its ranks, z-scored within each bar; NaN where missing."""
        if rank:
            return zscore(self._rank, self._rank > 0, out)
        return zscore(self._target, out=out)

    def _one_type(self, factor: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Factor and target, both float32 or both float64: two compiled variants are enough."""
        if factor.dtype == self._target.dtype:
            return factor, self._target
        if self._target64 is None:
            self._target64 = self._target.astype(np.float64)
        return factor.astype(np.float64, copy=False), self._target64

    def _sorted_keys(self, start: int, stop: int, bits: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
        keys = np.empty((stop - start, self.shape[1]), np.uint64)
        kernels.pack_keys(start, stop, bits, self._to_rank, keys)
        keys.view(np.float64).sort(axis=1)
        return keys

    def _rank_target(self, start: int, stop: int) -> None:
        keys = self._sorted_keys(start, stop, self._to_rank.view(np.uint32))
        kernels.target_ranks(start, stop, keys, self.labelled, self._order, self._rank, self._tied)


def zscore(
    factor: Array,
    universe: Array | None = None,
    out: npt.NDArray[np.float32] | None = None,
    missing: float = np.nan,
) -> npt.NDArray[np.float32]:
    """z-scores across each bar's universe, on the CPU.

    Args:
        factor: (T, S).
        universe: (T, S) bool; None: every cell.
        out: (T, S) to write into; None: a new array.
        missing: what stands where the factor is missing or outside the universe.

    Returns:
        (T, S) float32, population spread; 0 in a bar without spread.
    """
    values = as_numpy(factor, "factor")
    mask = np.ones(values.shape, np.bool_) if universe is None else as_mask(universe, "universe")
    same_shape(values.shape, "factor", mask.shape, "universe")
    result = np.empty(values.shape, np.float32) if out is None else out

    fill = np.float32(missing)

    def work(start: int, stop: int) -> None:
        kernels.zscore_rows(start, stop, values, mask, fill, result)

    over_blocks(work, *values.shape)
    return result
