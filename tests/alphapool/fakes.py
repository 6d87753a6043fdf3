"""A calculator that looks values up by formula text, so that tests state every number themselves."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch

from rlgen.errors import ExpressionError
from rlgen.expression import parse
from rlgen.memory import Memory


class FakeCalculator:
    """`values` maps the text of a formula to its (T, S) array; counts what it is asked for."""

    def __init__(self, values, forward_return, universe=None, session=None, windows="continuous", start=0):
        n_bars, n_stocks = forward_return.shape
        self.values = {
            str(parse(text).canonical()): torch.from_numpy(np.asarray(value, np.float32))
            for text, value in values.items()
        }
        self.forward_return = torch.from_numpy(np.asarray(forward_return, np.float32))
        universe = np.ones((n_bars, n_stocks), bool) if universe is None else universe
        self.universe = torch.from_numpy(universe)
        self.device = torch.device("cpu")
        self.memory_budget = 2**31
        self.memory = Memory(self.memory_budget)
        session = np.arange(n_bars) // 50 if session is None else session
        first = np.searchsorted(session, session)
        fields = {name: None for text in values for name in parse(text).fields}
        self.panel = SimpleNamespace(
            session=session,
            bar_of_session=np.arange(n_bars) - first,
            start=start,
            bars=np.arange(n_bars),
            windows=windows,
            horizon=2,
            fields=fields,
        )
        self.evaluated = []

    def evaluate(self, expression):
        return next(self.evaluate_batch([expression]))

    def evaluate_batch(self, expressions):
        canonical = [x.canonical() for x in expressions]
        for expression in canonical:
            if str(expression) not in self.values:
                raise ExpressionError(f"{expression}: unknown here")
        for expression in canonical:
            self.evaluated.append(str(expression))
            yield self.values[str(expression)]


NOISE = 1e-3


def market(seed=0, n_bars=300, n_stocks=40, n_factors=8, strength=0.1, missing=0.03):
    """Forward return, universe, and fields $f0, $f1, …, of falling strength, with a shared part."""
    random = np.random.default_rng(seed)
    shape = n_bars, n_stocks
    common = random.standard_normal(shape)
    values = {}
    forward_return = random.standard_normal(shape)
    for k in range(n_factors):
        factor = random.standard_normal(shape) + 0.3 * common
        forward_return += strength * 0.8**k * factor
        values[f"$f{k}"] = np.where(random.random(shape) < missing, np.nan, factor)
    universe = random.random(shape) > 0.05
    forward_return = np.where(random.random(shape) < missing, np.nan, forward_return)
    return values, NOISE * forward_return, universe


def fake(seed=0, more=None, **options):
    """A calculator on `market`, with more formulas given as functions of its values."""
    kinds = {key: options.pop(key) for key in ("session", "windows", "start") if key in options}
    values, forward_return, universe = market(seed, **options)
    for text, function in (more or {}).items():
        values[text] = function(values)
    return FakeCalculator(values, forward_return, universe, **kinds)
