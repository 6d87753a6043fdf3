"""The members' algebra: Gram matrix, fits, and trials of a candidate.

1. A candidate's products with the members extend G and c by one row: one pass over cells.
2. A trial fits weights with the candidate in. If that is one factor too many, the weakest leaves:
   the one with the least contribution |w_k|·√G_kk, its share of the signal's spread. The candidate
   itself stays for the trial even if it is the weakest, so that every trial values the pool *with*
   the candidate, at the pool's capacity; the trial notes it.
3. The trial's worth is measured on its combined signal.
4. `accept` makes a trial the new state.
5. `room_cost` is what a member's place costs: the objective that is lost with the weakest of a full
   pool, and with it what a useless candidate's trial loses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rlgen.alphapool.objective import NOTHING, Worth, worth
from rlgen.alphapool.values import Products, Values
from rlgen.alphapool.weights import fit
from rlgen.config import PoolConfig
from rlgen.expression import Expression
from rlgen.metrics import Target
from rlgen.metrics.arrays import Float64s


@dataclass(frozen=True)
class Trial:
    """The pool as it would be with a candidate in. Index K is the candidate, others are members."""

    keep: list[int]
    """Indices that stay, in order."""
    dropped: int | None
    """The member that leaves, or None while there is room."""
    candidate_weakest: bool
    """Whether the candidate contributed least of all K + 1, when one had to leave."""
    weights: Float64s
    """(len(keep),) refitted."""
    gram: Float64s
    """(K + 1, K + 1)."""
    cross: Float64s
    """(K + 1,)."""
    worth: Worth
    """Of the combined signal."""


class Members:
    """Formulas, their slots in `values`, G, c, weights and worth."""

    def __init__(self, values: Values, target: Target, config: PoolConfig) -> None:
        self.values = values
        self.config = config
        self._target = target
        self.expressions: list[Expression] = []
        self.slots: list[int] = []
        self.gram = np.zeros((0, 0))
        self.cross = np.zeros(0)
        self.weights = np.zeros(0)
        self.worth: Worth = NOTHING
        self._room_cost: float | None = None

    def __len__(self) -> int:
        return len(self.expressions)

    def products(self, slot: int) -> Products:
        """The candidate in `slot` against the members."""
        return self.values.products(slot, self.slots)

    def trial(self, slot: int, products: Products) -> Trial:
        """The pool with the candidate in `slot`; nothing changes yet."""
        size = len(self)
        gram, cross = self._extended(products)
        keep = list(range(size + 1))
        dropped, candidate_weakest = None, False
        if size == self.config.capacity:
            contribution = _contributions(self._fit(gram, cross), gram)
            candidate_weakest = int(contribution.argmin()) == size
            dropped = int(contribution[:size].argmin())
            keep.remove(dropped)
        weights = self._fit(gram[np.ix_(keep, keep)], cross[keep])
        slots = [*self.slots, slot]
        measured = self._measure([slots[i] for i in keep], weights)
        return Trial(keep, dropped, candidate_weakest, weights, gram, cross, measured)

    def accept(self, trial: Trial, expression: Expression, slot: int) -> Expression | None:
        """Make the trial the new state; returns the member that left."""
        expressions, slots = [*self.expressions, expression], [*self.slots, slot]
        left = None
        if trial.dropped is not None:
            left = self.expressions[trial.dropped]
            self.values.release(self.slots[trial.dropped])
        self.expressions = [expressions[i] for i in trial.keep]
        self.slots = [slots[i] for i in trial.keep]
        self.gram = trial.gram[np.ix_(trial.keep, trial.keep)]
        self.cross = trial.cross[trial.keep]
        self.weights = trial.weights
        self.worth = trial.worth
        self._room_cost = None
        return left

    def room_cost(self) -> float:
        """The objective less that of the pool without its weakest member; 0 while there is room.

        Measured once for each set of members, when it is first asked for.
        """
        if self._room_cost is None:
            self._room_cost = 0.0
            if len(self) >= self.config.capacity:
                rest = list(range(len(self)))
                rest.remove(int(_contributions(self.weights, self.gram).argmin()))
                weights = self._fit(self.gram[np.ix_(rest, rest)], self.cross[rest])
                slots = [self.slots[i] for i in rest]
                left = self._measure(slots, weights) if rest else NOTHING
                self._room_cost = self.worth.objective - left.objective
        return self._room_cost

    def seat(self, expression: Expression, factor: Any) -> None:
        """Add a formula without a trial, its weight 0; `factor` (T, S) on the measured bars."""
        slot = self.values.place(factor)
        self.gram, self.cross = self._extended(self.products(slot))
        self.expressions.append(expression)
        self.slots.append(slot)
        self.weights = np.append(self.weights, 0.0)
        self._room_cost = None

    def weigh(self, weights: Float64s) -> None:
        """Set weights, and measure what the signal is worth with them."""
        self.weights = weights
        self.worth = self._measure(self.slots, weights) if len(self) else NOTHING
        self._room_cost = None

    def _extended(self, products: Products) -> tuple[Float64s, Float64s]:
        size = len(self)
        gram = np.empty((size + 1, size + 1))
        gram[:size, :size] = self.gram
        gram[size] = gram[:, size] = products.gram
        return gram, np.append(self.cross, products.cross)

    def _fit(self, gram: Float64s, cross: Float64s) -> Float64s:
        return fit(gram, cross, self.config.weighting, self.config.penalty)

    def _measure(self, slots: list[int], weights: Float64s) -> Worth:
        signal = self.values.combine(slots, weights)
        return worth(self._target, signal, self.config)


def _contributions(weights: Float64s, gram: Float64s) -> Float64s:
    """(K,) |w_k|·√G_kk: each factor's share of the signal's spread."""
    return np.abs(weights) * np.sqrt(gram.diagonal())
