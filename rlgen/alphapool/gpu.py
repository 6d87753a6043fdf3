"""The pool's values and signals in torch, for tensors on a GPU (and, in tests, on the CPU).

The same sums as `values` and `kernels`, some bars at a time; per-bar sums come back as numpy arrays
and are added up there in session order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from rlgen.alphapool.kernels import MINIMUM_VARIANCE
from rlgen.alphapool.values import Products, fit_target, from_pair_sums
from rlgen.metrics import Target
from rlgen.metrics.arrays import Array, Float64s
from rlgen.metrics.gpu import blocks, zscore_rows


class GpuValues:
    """z-scores as tensors (see `values.Values`); arguments as for `values.CpuValues`."""

    def __init__(
        self, target: Target, universe: Array, ic_weight: float, rank_ic_weight: float, n_slots: int
    ) -> None:
        self._target = target
        self._return: torch.Tensor = fit_target(target, ic_weight, rank_ic_weight)
        self._universe = torch.as_tensor(universe, device=self._return.device).bool()
        self._slots: dict[int, torch.Tensor] = {0: self._return}
        self._free = list(range(n_slots, 0, -1))

    def place(self, factor: Array) -> int:
        """z-score a factor (T, S), measured bars only, into a free slot; returns the slot."""
        slot = self._free.pop()
        self._slots[slot] = zscore_rows(torch.as_tensor(factor, device=self._return.device), self._universe)
        return slot

    def release(self, slot: int) -> None:
        """Make a slot free."""
        del self._slots[slot]
        self._free.append(slot)

    def products(self, slot: int, members: Sequence[int]) -> Products:
        """The candidate in `slot` against the members' slots."""
        others = [*members, slot, 0]
        n_bars, n_stocks = self._target.shape
        product, count, weighted = (np.empty((len(others), n_bars)) for _ in range(3))
        for bars in blocks(n_bars, n_stocks):
            labelled = torch.where(torch.isnan(self._return[bars]), torch.nan, self._slots[slot][bars])
            for j, other in enumerate(others):
                sums = self._common_sums(labelled.double(), self._slots[other][bars].double())
                product[j, bars], count[j, bars], weighted[j, bars] = sums.cpu().numpy()
        return from_pair_sums(product, count, weighted, self._target)

    def combine(self, slots: Sequence[int], weights: Float64s) -> torch.Tensor:
        """The signal (T, S) float32 of a weighting; NaN where no member has a value."""
        out = torch.empty(self._target.shape, dtype=torch.float32, device=self._return.device)
        for bars in blocks(*self._target.shape):
            signal = GpuSignal(self._universe[bars])
            for slot, weight in zip(slots, weights, strict=True):
                signal.add_zscores(self._slots[slot][bars], float(weight))
            out[bars] = signal.result()
        return out

    def _common_sums(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """(3, T): Σ ab, and n and n times the correlation over the cells that both have."""
        both = ~(a.isnan() | b.isnan())
        a, b = torch.where(both, a, 0.0), torch.where(both, b, 0.0)
        n = both.sum(1).double()
        sum_a, sum_b, product = a.sum(1), b.sum(1), (a * b).sum(1)
        variance_a = (a * a).sum(1) - sum_a**2 / n
        variance_b = (b * b).sum(1) - sum_b**2 / n
        # Comparisons with the NaN of an empty bar are False.
        usable = (variance_a > MINIMUM_VARIANCE * n) & (variance_b > MINIMUM_VARIANCE * n)
        usable &= n >= self._target.min_names
        weighted = n * (product - sum_a * sum_b / n) / (variance_a * variance_b).sqrt()
        return torch.stack([product, torch.where(usable, n, 0.0), torch.where(usable, weighted, 0.0)])


class GpuSignal:
    """A signal built member by member (see `values.CpuSignal`)."""

    def __init__(self, universe: torch.Tensor) -> None:
        self._universe = universe
        self._total = torch.zeros(universe.shape, dtype=torch.float64, device=universe.device)
        self._seen = torch.zeros_like(universe, dtype=torch.bool)

    def add(self, factor: torch.Tensor, weight: float) -> None:
        """Add `weight` times the z-scores of a factor (T, S)."""
        self.add_zscores(zscore_rows(factor, self._universe), weight)

    def add_zscores(self, zscores: torch.Tensor, weight: float) -> None:
        """Add `weight` times z-scores (T, S)."""
        present = ~zscores.isnan()
        # Product and sum each rounded, as on the CPU.
        self._total += torch.where(present, zscores, 0.0).double() * weight
        self._seen |= present

    def result(self) -> torch.Tensor:
        """(T, S) float32; NaN where no member has a value."""
        return torch.where(self._seen, self._total, torch.nan).float()
