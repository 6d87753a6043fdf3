"""The torch engine, for tensors on a GPU (and, in tests, on the CPU).

The same definitions as `kernels`, in float64, some bars at a time so that temporaries stay small:
1. Deviations from each bar's first present cell, in units of their mean size, as on the CPU.
2. Ranks: sort a bar, mark where a new value starts, spread the mean of a group's first and last
   place over the group, scatter back.
Per-bar numbers come back as numpy arrays; sums over bars are taken by `summary`, as on the CPU.
"""

from __future__ import annotations

import numpy as np
import torch

from rlgen.errors import DataError
from rlgen.metrics.arrays import (
    Array,
    Float64s,
    Integers,
    as_mask,
    as_numpy,
    device_of,
    is_tensor,
    same_shape,
)
from rlgen.metrics.bars import MINIMUM_BARS, BarScores

BLOCK_CELLS = 2**24
"""Cells whose float64 temporaries (128 MB each) are alive at one time."""


def blocks(n_bars: int, n_stocks: int) -> list[slice]:
    """Consecutive ranges of bars of about `BLOCK_CELLS` cells; none if a panel has no cell."""
    if n_stocks == 0:
        return []
    step = max(1, BLOCK_CELLS // n_stocks)
    return [slice(start, min(start + step, n_bars)) for start in range(0, n_bars, step)]


def standardise(x: torch.Tensor, present: torch.Tensor, dim: int = 1) -> tuple[torch.Tensor, ...]:
    """Centred values in units of their mean size about the first present cell.

    Args:
        x: float32 or float64.
        present: bool, the same shape.
        dim: along the bar's stocks (1) or a stock's bars (0).

    Returns:
        Values (float64, 0 where missing), counts, means, unit (0 where there is no spread).
    """
    n = present.sum(dim, keepdim=True)
    first = present.to(torch.uint8).argmax(dim, keepdim=True)
    x = x.double()
    x0 = torch.where(n > 0, x.gather(dim, first), 0.0)
    deviation = torch.where(present, x - x0, 0.0)
    n1 = n.clamp(min=1)
    mean = deviation.sum(dim, keepdim=True) / n1
    size = deviation.abs().sum(dim, keepdim=True) / n1
    values = torch.where(present & (size > 0), (deviation - mean) / size, 0.0)
    return values, n.squeeze(dim), (x0 + mean).squeeze(dim), size.squeeze(dim)


def bar_moments(
    factor: torch.Tensor, target: torch.Tensor, min_names: int
) -> tuple[Integers, Float64s, Float64s]:
    """`count`, `ic`, `moments` as `kernels.bar_moments` defines them."""
    n_bars, n_stocks = factor.shape
    count = np.zeros(n_bars, np.int64)
    ic = np.full(n_bars, np.nan)
    moments = np.zeros((5, n_bars))
    for bars in blocks(n_bars, n_stocks):
        present = torch.isfinite(factor[bars]) & torch.isfinite(target[bars])
        x, n, mean_x, size_x = standardise(factor[bars], present)
        y, _, mean_y, size_y = standardise(target[bars], present)
        xx, yy, xy = (x * x).sum(1), (y * y).sum(1), (x * y).sum(1)
        usable = (n >= min_names) & (xx > 0) & (yy > 0)
        correlation = (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0)
        count[bars] = n.cpu().numpy()
        ic[bars] = torch.where(usable, correlation, torch.nan).cpu().numpy()
        sums = (mean_x, mean_y, xx * size_x**2, yy * size_y**2, xy * size_x * size_y)
        moments[:, bars] = torch.stack(sums).cpu().numpy()
    return count, ic, moments


def doubled_ranks(x: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """Twice the average rank of each present cell within its bar, 1-based; 0 where missing."""
    n_stocks = x.shape[1]
    # Infinity sorts missing cells last, and no present cell is infinite.
    ascending, order = torch.where(present, x, torch.inf).sort(dim=1)
    place = torch.arange(n_stocks, device=x.device).expand_as(order)
    starts = torch.ones_like(order, dtype=torch.bool)
    starts[:, 1:] = ascending[:, 1:] != ascending[:, :-1]
    ends = torch.ones_like(starts)
    ends[:, :-1] = starts[:, 1:]
    first = torch.where(starts, place, 0).cummax(1).values
    last = torch.where(ends, place, n_stocks).flip(1).cummin(1).values.flip(1)
    ranks = torch.zeros_like(order).scatter_(1, order, first + last + 2)
    return torch.where(present, ranks, 0)


def rank_correlation(factor: torch.Tensor, target: torch.Tensor, ic: Float64s) -> Float64s:
    """Spearman correlation per bar, NaN where `ic` is NaN."""
    n_bars, n_stocks = factor.shape
    rank_ic = np.full(n_bars, np.nan)
    for bars in blocks(n_bars, n_stocks):
        present = torch.isfinite(factor[bars]) & torch.isfinite(target[bars])
        centre = (present.sum(1, keepdim=True) + 1).double()
        x = torch.where(present, doubled_ranks(factor[bars], present) - centre, 0.0)
        y = torch.where(present, doubled_ranks(target[bars], present) - centre, 0.0)
        correlation = (x * y).sum(1) / ((x * x).sum(1) * (y * y).sum(1)).sqrt()
        rank_ic[bars] = correlation.clamp(-1.0, 1.0).cpu().numpy()
    return np.where(np.isfinite(ic), rank_ic, np.nan)


def zscore_rows(factor: torch.Tensor, universe: torch.Tensor) -> torch.Tensor:
    """z-scores (T, S) float32 as `kernels.zscore_rows` defines them."""
    out = torch.empty(factor.shape, dtype=torch.float32, device=factor.device)
    for bars in blocks(*factor.shape):
        present = torch.isfinite(factor[bars]) & universe[bars]
        x, n, _, size = standardise(factor[bars], present)
        variance = (x * x).sum(1) / n.clamp(min=1)
        scale = torch.where(size > 0, variance.rsqrt(), 0.0).unsqueeze(1)
        out[bars] = torch.where(present, x * scale, torch.nan).float()
    return out


def stock_correlations(factor: torch.Tensor, target: torch.Tensor, minimum_bars: int) -> Float64s:
    """Correlation over time per stock, as `kernels.stock_correlations` defines it."""
    n_bars, n_stocks = factor.shape
    out = np.full(n_stocks, np.nan)
    for stocks in blocks(n_stocks, n_bars):
        x, y = factor[:, stocks], target[:, stocks]
        present = torch.isfinite(x) & torch.isfinite(y)
        x, n, _, _ = standardise(x, present, dim=0)
        y, _, _, _ = standardise(y, present, dim=0)
        xx, yy, xy = (x * x).sum(0), (y * y).sum(0), (x * y).sum(0)
        usable = (n >= minimum_bars) & (xx > 0) & (yy > 0)
        correlation = (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0)
        out[stocks] = torch.where(usable, correlation, torch.nan).cpu().numpy()
    return out


def as_tensor(values: Array, name: str, device: torch.device | None) -> torch.Tensor:
    """A float32 or float64 tensor (T, S) on `device`."""
    if not is_tensor(values):
        values = torch.from_numpy(as_numpy(values, name))
    if values.ndim != 2:
        raise DataError(
            f"{name} must have two dimensions (bars, stocks), its shape was {tuple(values.shape)}"
        )
    if values.dtype not in (torch.float32, torch.float64):
        values = values.float() if values.dtype.is_floating_point else values.double()
    return values.to(device) if device is not None else values


class TorchEngine:
    """Per-bar numbers of tensors (see `bars.Engine`).

    Args:
        forward_return: (T, S), NaN or infinite where missing.
        universe: (T, S) bool, or None for every cell.
        min_names: cells that a bar needs.
    """

    def __init__(self, forward_return: Array, universe: Array | None, min_names: int) -> None:
        self._device = device_of(forward_return, universe)
        values = as_tensor(forward_return, "forward_return", self._device)
        present = torch.isfinite(values)
        if universe is not None:
            mask = universe if is_tensor(universe) else torch.from_numpy(as_mask(universe, "universe"))
            same_shape(values.shape, "forward_return", mask.shape, "universe")
            present &= mask.to(values.device, torch.bool)
        self.shape: tuple[int, int] = (int(values.shape[0]), int(values.shape[1]))
        self.labelled: Integers = present.sum(1).cpu().numpy()
        self._min_names = min_names
        self._target = torch.where(present, values, torch.nan)

    def prepare(self, factor: Array) -> torch.Tensor:
        """`factor` as a float32 or float64 tensor on this engine's device."""
        return as_tensor(factor, "factor", self._device)

    def bars(self, factor: torch.Tensor) -> BarScores:
        """Per-bar numbers of a prepared factor (T, S)."""
        count, ic, moments = bar_moments(factor, self._target, self._min_names)
        return BarScores(count, ic, rank_correlation(factor, self._target, ic), moments)

    def stock_correlations(self, factor: torch.Tensor) -> Float64s:
        """(S,) correlations over time; NaN for stocks with under `MINIMUM_BARS` bars."""
        return stock_correlations(factor, self._target, MINIMUM_BARS)

    def zscores(self, rank: bool, out: torch.Tensor | None = None) -> torch.Tensor:
        """The forward return (T, S), or its ranks, z-scored within each bar; NaN where missing."""
        present = torch.isfinite(self._target)
        values: torch.Tensor = self._target
        if rank:
            values = torch.zeros_like(self._target, dtype=torch.float64)
            for bars in blocks(*self.shape):
                values[bars] = doubled_ranks(self._target[bars], present[bars]).double()
        result = zscore_rows(values, present)
        return result if out is None else out.copy_(result)
