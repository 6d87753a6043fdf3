"""The members' z-scores in memory, and the sums over cells that the pool needs.

Slot 0 of a `Values` holds the forward return that weights are fitted to, z-scored; each member and
the candidate under trial has a slot of its own. `CpuValues` runs on numba kernels, `GpuValues` (in
`gpu`) on torch; the pool does not see the difference. Only measured bars are held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from rlgen.alphapool import kernels
from rlgen.memory import Memory
from rlgen.metrics import Target, zscore
from rlgen.metrics.arrays import Array, Float64s, as_mask, as_numpy, is_tensor
from rlgen.metrics.threads import over_blocks

FEW = 16
"""Up to 1/FEW of a bar's cells missing are treated one by one."""


@dataclass(frozen=True)
class Products:
    """A candidate's relation to the members, the forward return and itself."""

    gram: Float64s
    """(K + 1,) mean over labelled cells of z_c z_k, zeros kept; the last is the candidate's own."""
    cross: float
    """Mean over labelled cells of z_c y."""
    mutual_ic: Float64s
    """(K,) pooled correlation with each member over the cells that both have; 0 if there are none."""


class Values(Protocol):
    """z-scores by slot."""

    def place(self, factor: Array) -> int:
        """z-score a factor (T, S), measured bars only, into a free slot; returns the slot."""

    def release(self, slot: int) -> None:
        """Make a slot free."""

    def products(self, slot: int, members: Sequence[int]) -> Products:
        """The candidate in `slot` against the members' slots."""

    def combine(self, slots: Sequence[int], weights: Float64s) -> Any:
        """The signal (T, S) float32 of a weighting."""


def fit_target(
    target: Target, ic_weight: float, rank_ic_weight: float, out: Any = None, scratch: Any = None
) -> Any:
    """What weights are fitted to, (T, S) float32: the blend of the forward return's z-scores and its
    ranks' z-scores that the objective's weights state; NaN where a cell cannot be measured.

    Args:
        out, scratch: (T, S) to write the result and the ranks' part to; None: new arrays.
    """
    share = rank_ic_weight / (ic_weight + rank_ic_weight)
    blend = target.zscores(out=out)
    if share > 0.0:
        ranks = target.zscores(rank=True, out=scratch)
        blend *= 1.0 - share
        ranks *= share
        blend += ranks
    short = np.flatnonzero(target.labelled < target.min_names)
    blend[torch.from_numpy(short).to(blend.device) if is_tensor(blend) else short] = np.nan
    return blend


class CpuValues:
    """z-scores as one numpy array (see `Values`).

    Args:
        target: the forward return of the measured bars.
        universe: (T, S) bool of the measured bars.
        ic_weight, rank_ic_weight: the objective's weights.
        n_slots: factors held at one time.
        memory: where the z-scores lie.
    """

    def __init__(
        self,
        target: Target,
        universe: Array,
        ic_weight: float,
        rank_ic_weight: float,
        n_slots: int,
        memory: Memory,
    ) -> None:
        self._target = target
        self._universe = as_mask(universe, "universe")
        self._memory = memory
        self._zscores = memory.keep((n_slots + 1, *target.shape), np.float32)
        self._free = list(range(n_slots, 0, -1))
        fitted = fit_target(target, ic_weight, rank_ic_weight, self._zscores[0], self._zscores[1])
        fitted += np.float32(0.0)  # leaves −0 to the missing cells
        fitted[np.isnan(fitted)] = kernels.MISSING
        n_bars, n_stocks = target.shape
        self._sums = np.empty((n_slots + 1, 3, n_bars))
        self._gaps = np.empty((n_slots + 1, n_bars), np.int64)
        self._missing = memory.keep((n_slots + 1, n_bars, n_stocks // FEW), np.uint32)
        self._describe(0)

    def place(self, factor: Array) -> int:
        """z-score a factor (T, S), measured bars only, into a free slot; returns the slot."""
        slot = self._free.pop()
        zscore(as_numpy(factor, "factor"), self._universe, self._zscores[slot], float(kernels.MISSING))
        self._describe(slot)
        return slot

    def _describe(self, slot: int) -> None:
        found = self._sums, self._gaps, self._missing

        def work(start: int, stop: int) -> None:
            kernels.describe(start, stop, self._zscores, slot, *found)

        over_blocks(work, *self._target.shape)

    def release(self, slot: int) -> None:
        """Make a slot free."""
        self._free.append(slot)

    def products(self, slot: int, members: Sequence[int]) -> Products:
        """The candidate in `slot` against the members' slots."""
        others = np.array([*members, slot, 0], np.int64)
        n_bars, n_stocks = self._target.shape
        product, count, weighted = (np.empty((others.size, n_bars)) for _ in range(3))
        known, found = (self._sums, self._gaps, self._missing), (product, count, weighted)
        min_names = self._target.min_names

        def work(start: int, stop: int) -> None:
            kernels.pair_sums(start, stop, self._zscores, slot, others, min_names, *known, *found)

        over_blocks(work, n_bars, n_stocks)
        return from_pair_sums(*found, self._target)

    def combine(self, slots: Sequence[int], weights: Float64s) -> npt.NDArray[np.float32]:
        """The signal (T, S) float32 of a weighting; NaN where no member has a value."""
        n_bars, n_stocks = self._target.shape
        out = self._memory.empty(n_bars * n_stocks, np.float32)
        order, flat = np.array(slots, np.int64), self._zscores.reshape(len(self._zscores), -1)

        def work(start: int, stop: int) -> None:
            kernels.combine(start, stop, n_stocks, flat, order, weights, out)

        over_blocks(work, n_bars, n_stocks)
        return out.reshape(n_bars, n_stocks)


def from_pair_sums(product: Float64s, count: Float64s, weighted: Float64s, target: Target) -> Products:
    """`Products` from per-bar sums (K + 2, T): the members', the candidate's own, the return's."""
    session = target.session
    starts = np.flatnonzero(np.diff(session, prepend=-1))

    def over_bars(rows: Float64s) -> Float64s:
        # Within each session, then over sessions in order.
        return np.cumsum(np.add.reduceat(rows, starts, axis=1), axis=1)[:, -1]

    if session.size == 0:
        return Products(np.zeros(len(product) - 1), 0.0, np.zeros(len(product) - 2))
    means = over_bars(product) / max(target.n_labelled, 1)
    common = over_bars(count[:-2])
    mutual = np.divide(over_bars(weighted[:-2]), common, out=np.zeros_like(common), where=common > 0)
    return Products(gram=means[:-1], cross=float(means[-1]), mutual_ic=mutual)


class CpuSignal:
    """A signal built member by member, for bars beyond those that a pool measures.

    Args:
        universe: (T, S) bool.
        memory: where it lies.
    """

    def __init__(self, universe: Array, memory: Memory) -> None:
        self._universe = as_mask(universe, "universe")
        self._memory = memory
        self._total = memory.empty(self._universe.size, np.float64)
        self._seen = memory.empty(self._universe.size, np.uint32)
        self._total[:] = 0.0
        self._seen[:] = 0

    def add(self, factor: Array, weight: float) -> None:
        """Add `weight` times the z-scores of a factor (T, S)."""
        out = self._memory.empty(self._universe.shape, np.float32)
        zscores = zscore(as_numpy(factor, "factor"), self._universe, out, float(kernels.MISSING))
        flat, total, seen = zscores.reshape(-1), self._total, self._seen

        def work(start: int, stop: int) -> None:
            kernels.accumulate(flat[start:stop], weight, total[start:stop], seen[start:stop])

        over_blocks(work, flat.size, 1)

    def result(self) -> npt.NDArray[np.float32]:
        """(T, S) float32; NaN where no member has a value."""
        out = self._memory.empty(self._total.size, np.float32)
        kernels.finish(self._total, self._seen, out)
        return out.reshape(self._universe.shape)
