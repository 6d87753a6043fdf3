"""The pool: keeps and weighs the formulas that together predict the forward return.

An offer, in steps:

1. The canonical text of a member is a `duplicate`. A candidate that was refused on its own account
   before, or by exactly the present members, gets the same answer again, unevaluated.
2. The candidate is evaluated and measured alone: coverage after its warm-up, IC, rank IC. This is
   remembered by canonical text, for good.
3. Its z-scores are set against every member's: |mutual IC| above the limit is `correlated`.
4. Trial: weights are fitted again with the candidate in; of one factor too many the weakest leaves
   (`members`). The trial's objective is the exact metric of its combined signal (`objective`).
5. The candidate is in, with the trial's weights, if its own |IC| reaches `minimum_ic`, it was not
   itself the weakest of a full pool, and the objective rises by at least `minimum_gain`.

Rewards. `level`: the trial's objective, for every candidate that came to a trial, admitted or not.
A candidate that came to none (duplicate, correlated, low coverage, no dispersion, evaluation failed)
earns 0, what an empty pool is worth. `gain`: the trial's objective less the one before the offer; a
candidate that came to no trial earns −`REFUSED` times the objective before, or, where the weakest
member of a full pool is worth nearly that or more, −(1 + `REFUSED`) times what it is worth: a little
worse than what a useless candidate does by taking its place, so that to be refused never pays. (Were
it the whole objective, refusals would drown the small differences between trials, and the policy
would learn to write what is never refused: very short formulas.)

Signal_t = float32 of the float64 sum Σ_k w_k z_k in member order, z_k the factor's z-scores across
the bar's universe, missing z counted as 0; missing where no member has a value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from rlgen.alphapool import storage
from rlgen.alphapool.gpu import GpuSignal, GpuValues
from rlgen.alphapool.ledger import Ledger, ledger_line
from rlgen.alphapool.members import Members
from rlgen.alphapool.objective import Worth
from rlgen.alphapool.offer import Candidate, Member, Offer, Reason
from rlgen.alphapool.screen import Screen
from rlgen.alphapool.values import CpuSignal, CpuValues
from rlgen.config import PoolConfig, validate
from rlgen.errors import CheckpointError, ConfigError, RlgenError
from rlgen.expression import Expression, parse
from rlgen.metrics import BarScores, Scores, Target
from rlgen.metrics.arrays import Float64s

if TYPE_CHECKING:
    from rlgen.calculator import Calculator

REFUSED = 0.1
"""Share of the objective that a candidate without a trial costs under the reward `gain`, at least."""

FAILURES = (RlgenError, ArithmeticError, MemoryError, torch.cuda.OutOfMemoryError)
"""What one candidate may fail with, without ending the search."""


class AlphaPool:
    """A weighted set of formulas.

    Args:
        calculator: evaluates formulas on the training split.
        capacity: formulas kept at most.
        ledger: records every distinct candidate; None: no record.
        engine: `numba` or `torch`; None: torch for tensors that are not on the CPU.
        settings: the other keys of `PoolConfig`, where they are explained.

    Raises:
        ConfigError: a setting is unknown or out of range, or all parts of the objective weigh 0.
    """

    def __init__(
        self,
        calculator: Calculator,
        capacity: int = 10,
        *,
        ledger: Ledger | None = None,
        engine: Literal["numba", "torch"] | None = None,
        **settings: Any,
    ) -> None:
        self.config: PoolConfig = validate(PoolConfig, {"capacity": capacity, **settings}, "pool")
        if self.config.ic_weight + self.config.rank_ic_weight + self.config.raw_ic_weight <= 0.0:
            raise ConfigError(
                "pool: one of ic_weight, rank_ic_weight and raw_ic_weight must be above 0, all were 0"
            )
        self.calculator = calculator
        self.ledger = ledger
        self.offers = 0
        """Offers so far, repeated ones included."""
        panel = calculator.panel
        self._measured = slice(None, None, self.config.bar_stride)
        universe = calculator.universe[self._measured]
        self._target = Target(
            calculator.forward_return[self._measured],
            universe,
            self.config.min_names,
            session=np.asarray(panel.session)[self._measured],
            horizon=panel.horizon,
            engine=engine,
            empty=calculator.memory.keep,
        )
        self._on_cpu = engine == "numba" or (engine is None and universe.device.type == "cpu")
        self._screen = Screen(panel, self._target, self._measured, self.config.minimum_coverage)
        self._memo: dict[str, Candidate] = {}
        self._answers: dict[str, Offer] = {}
        """Refusals by the present members; emptied when they change."""
        self._members = self._seated([], self._memo)

    @property
    def factors(self) -> list[Member]:
        """The members, in the order in which the signal adds them."""
        members = self._members
        own = [self._memo[str(expression)] for expression in members.expressions]
        return [
            Member(expression, float(weight), candidate.ic, candidate.rank_ic)
            for expression, weight, candidate in zip(members.expressions, members.weights, own, strict=True)
        ]

    @property
    def weights(self) -> Float64s:
        """(K,) float64, in member order."""
        return self._members.weights.copy()

    @property
    def worth(self) -> Worth:
        """Objective, IC and rank IC of the pool's signal on the measured bars."""
        return self._members.worth

    @property
    def objective(self) -> float:
        """The objective of the pool's signal; 0 for an empty pool."""
        return self._members.worth.objective

    @property
    def evaluations(self) -> int:
        """Distinct candidates scored so far."""
        return len(self._memo)

    def __len__(self) -> int:
        return len(self._members)

    def offer(self, expression: Expression | str, step: int | None = None) -> Offer:
        """Offer a candidate.

        Args:
            expression: the candidate; text is parsed.
            step: recorded in the ledger; None: the number of offers before this one.

        Raises:
            ExpressionError: a text does not parse. A formula that cannot be evaluated is answered
                with the reason `evaluation_failed` instead.
        """
        return self._offer(_read(expression), step, {})

    def offer_batch(
        self, expressions: Iterable[Expression | str], steps: Sequence[int] | None = None
    ) -> list[Offer]:
        """Offer candidates in order; the same answers as from `offer` one by one.

        Values are computed together, as many candidates at a time as fit a quarter of the
        calculator's memory budget, so that shared subexpressions are computed once.
        """
        candidates = [_read(expression) for expression in expressions]
        numbers = [None] * len(candidates) if steps is None else list(steps)
        bytes_each = 4 * max(1, math.prod(self.calculator.forward_return.shape))
        size = max(1, self.calculator.memory_budget // 4 // bytes_each)
        offers: list[Offer] = []
        for low in range(0, len(candidates), size):
            chunk = candidates[low : low + size]
            values = self._evaluate(chunk)
            for candidate, step in zip(chunk, numbers[low : low + size], strict=True):
                offers.append(self._offer(candidate, step, values))
        return offers

    def signal(self, calculator: Calculator | None = None) -> Tensor:
        """The combined signal on every bar.

        Args:
            calculator: whose panel to compute it on, for example a test split's; None: the pool's.

        Returns:
            (T, S) float32 tensor on the calculator's device; NaN outside the universe and where no
            member has a value.
        """
        calculator = calculator or self.calculator
        on_cpu = self._on_cpu and calculator.universe.device.type == "cpu"
        universe = calculator.universe
        total = CpuSignal(universe, calculator.memory) if on_cpu else GpuSignal(universe)
        values = calculator.evaluate_batch(self._members.expressions)
        for factor, weight in zip(values, self._members.weights, strict=True):
            total.add(factor, float(weight))
        return torch.as_tensor(total.result())

    def scores(self, calculator: Calculator | None = None) -> Scores:
        """Every metric of the combined signal, on every bar of the calculator's panel."""
        calculator = calculator or self.calculator
        target = Target(
            calculator.forward_return,
            calculator.universe,
            self.config.min_names,
            session=calculator.panel.session,
            horizon=calculator.panel.horizon,
            empty=calculator.memory.keep,
        )
        return target.score(self.signal(calculator))

    def save(self, path: str | Path) -> None:
        """Write `pool.json`, in one step."""
        storage.write_pool(path, self.factors, self.objective, self.config)

    @classmethod
    def load(cls, path: str | Path, calculator: Calculator, **settings: Any) -> AlphaPool:
        """A pool from `pool.json`, with the file's formulas and weights.

        ICs and objective are measured on `calculator`. `settings` replace those of the file; the
        capacity is at least the number of formulas.

        Raises:
            CheckpointError: the file is no pool (see `storage.read_pool`).
            ExpressionError: a formula does not parse or uses a field that the panel lacks.
        """
        stored = storage.read_pool(path)
        merged: dict[str, Any] = {"capacity": 10, **stored.settings, **settings}
        merged["capacity"] = max(merged["capacity"], len(stored.expressions))
        expressions = [parse(text, calculator.panel.fields).canonical() for text in stored.expressions]
        if len(set(expressions)) < len(expressions):
            raise CheckpointError(f"{path}: factors must differ, were {', '.join(map(str, expressions))}")
        return cls.of(expressions, stored.weights, calculator, **merged)

    @classmethod
    def of(
        cls,
        expressions: Sequence[Expression],
        weights: Sequence[float],
        calculator: Calculator,
        **settings: Any,
    ) -> AlphaPool:
        """A pool of these distinct canonical formulas with these weights, measured on `calculator`."""
        pool = cls(calculator, **settings)
        pool._members = pool._seated(expressions, pool._memo)
        pool._members.weigh(np.array(weights))
        return pool

    def state(self) -> dict[str, Any]:
        """Everything that further answers depend on, as JSON's kinds; numbers keep all their bits."""
        members = self._members
        return {
            "settings": self.config.model_dump(mode="json"),
            "members": [str(expression) for expression in members.expressions],
            "weights": members.weights.tolist(),
            "gram": members.gram.tolist(),
            "cross": members.cross.tolist(),
            "offers": self.offers,
            "memo": [[text, *candidate.to_json()] for text, candidate in self._memo.items()],
            "ledger_position": None if self.ledger is None else self.ledger.position,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Become the pool that `state()` described; offers from here on get the same answers.

        The ledger is not touched: open it at `state["ledger_position"]`.

        Raises:
            CheckpointError: the state was taken with other settings, or lacks a part.
        """
        try:
            if state["settings"] != self.config.model_dump(mode="json"):
                raise CheckpointError(f"pool settings must be the checkpoint's, {state['settings']}")
            memo = {text: Candidate.from_json(fields) for text, *fields in state["memo"]}
            members = self._seated([parse(text) for text in state["members"]], memo)
            size = len(members)
            members.gram = np.array(state["gram"], dtype=np.float64).reshape(size, size)
            members.cross = np.array(state["cross"], dtype=np.float64).reshape(size)
            members.weigh(np.array(state["weights"], dtype=np.float64).reshape(size))
            offers = int(state["offers"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"pool state of a checkpoint: {type(error).__name__}: {error}") from None
        self._members, self._memo, self._answers, self.offers = members, memo, {}, offers

    def _offer(self, expression: Expression, step: int | None, values: dict[str, Tensor]) -> Offer:
        text = str(expression)
        number = self.offers if step is None else step
        self.offers += 1
        if expression in self._members.expressions:
            return self._refusal(text, self._memo[text], Reason.DUPLICATE)
        if text in self._answers:
            return self._answers[text]
        factor, bars = None, None
        candidate = self._memo.get(text)
        if candidate is None:
            candidate, factor, bars = self._examine(expression, values)
        if candidate.verdict is not None:
            offer = self._refusal(text, candidate, candidate.verdict)
        else:
            if factor is None:
                factor = self._value(expression, values)
            offer = self._try(expression, candidate, factor)
        if text not in self._memo:
            self._memo[text] = candidate
            if self.ledger is not None:
                self.ledger.append(ledger_line(offer, number, bars, self._target.session))
        if not offer.admitted:
            self._answers[text] = offer
        return offer

    def _examine(
        self, expression: Expression, values: dict[str, Tensor]
    ) -> tuple[Candidate, Tensor | None, BarScores | None]:
        """A new candidate on its own, its values and per-bar scores."""
        try:
            factor = self._value(expression, values)
        except FAILURES as error:
            return Candidate(math.nan, math.nan, 0.0, Reason.EVALUATION_FAILED, str(error)), None, None
        candidate, bars = self._screen.candidate(expression, factor)
        return candidate, factor, bars

    def _try(self, expression: Expression, candidate: Candidate, factor: Tensor) -> Offer:
        """The offer of a candidate that has nothing against it on its own."""
        text = str(expression)
        members, config = self._members, self.config
        slot = members.values.place(factor)
        products = members.products(slot)
        if (np.abs(products.mutual_ic) > config.maximum_correlation).any():
            members.values.release(slot)
            return self._refusal(text, candidate, Reason.CORRELATED)
        trial = members.trial(slot, products)
        objective, before = trial.worth.objective, self.objective
        if abs(candidate.ic) < config.minimum_ic:
            reason = Reason.BELOW_THRESHOLD
        elif trial.candidate_weakest:
            reason = Reason.EVICTED_ITSELF
        elif not objective >= before + config.minimum_gain:
            reason = Reason.BELOW_THRESHOLD
        else:
            reason = Reason.ADMITTED
        evicted = None
        if reason is Reason.ADMITTED:
            evicted = members.accept(trial, expression, slot)
            self._answers = {}
        else:
            members.values.release(slot)
        return Offer(
            expression=text,
            reward=self._reward(objective, before),
            admitted=reason is Reason.ADMITTED,
            reason=reason,
            ic=candidate.ic,
            rank_ic=candidate.rank_ic,
            coverage=candidate.coverage,
            objective=objective,
            evicted=None if evicted is None else str(evicted),
        )

    def _refusal(self, text: str, candidate: Candidate, reason: Reason) -> Offer:
        """The offer of a candidate that comes to no trial."""
        return Offer(
            expression=text,
            reward=self._refused_reward(),
            admitted=False,
            reason=reason,
            ic=candidate.ic,
            rank_ic=candidate.rank_ic,
            coverage=candidate.coverage,
            objective=0.0,
            message=candidate.message,
        )

    def _refused_reward(self) -> float:
        """What a candidate without a trial earns."""
        if self.config.reward == "level":
            return 0.0
        # A loaded pool may be worth less than nothing on these bars: no refusal pays even then.
        return -max(REFUSED * abs(self.objective), (1.0 + REFUSED) * self._members.room_cost())

    def _reward(self, objective: float, before: float) -> float:
        return objective if self.config.reward == "level" else objective - before

    def _value(self, expression: Expression, values: dict[str, Tensor]) -> Tensor:
        """The candidate's values on the measured bars."""
        value = values.get(str(expression))
        return (self.calculator.evaluate(expression) if value is None else value)[self._measured]

    def _evaluate(self, candidates: Sequence[Expression]) -> dict[str, Tensor]:
        """Values by text of those candidates that will need them, as far as is known now."""
        wanted: dict[str, Expression] = {}
        for expression in candidates:
            text = str(expression)
            known = self._memo.get(text)
            refused = known is not None and known.verdict is not None
            if not (refused or text in self._answers or expression in self._members.expressions):
                wanted[text] = expression
        try:
            return dict(zip(wanted, self.calculator.evaluate_batch(list(wanted.values())), strict=True))
        except FAILURES:
            # Each is evaluated alone in its turn, and the failure then finds its formula.
            return {}

    def _seated(self, expressions: Sequence[Expression], memo: dict[str, Candidate]) -> Members:
        """Members of these formulas, weights 0; those that `memo` lacks are added to it."""
        config = self.config
        given = (
            self._target,
            self.calculator.universe[self._measured],
            config.ic_weight + config.raw_ic_weight,
            config.rank_ic_weight,
            config.capacity + 1,
        )
        values = CpuValues(*given, self.calculator.memory) if self._on_cpu else GpuValues(*given)
        members = Members(values, self._target, config)
        factors = self.calculator.evaluate_batch(expressions)
        for expression, factor in zip(expressions, factors, strict=True):
            if str(expression) not in memo:
                memo[str(expression)] = self._screen.candidate(expression, factor[self._measured])[0]
            members.seat(expression, factor[self._measured])
        return members


def _read(expression: Expression | str) -> Expression:
    return (parse(expression) if isinstance(expression, str) else expression).canonical()
