"""The plain method of common open-source code: a view of all windows (T, S, w), reduced with torch.

Written from that method's idea, not for speed: float32 throughout, a missing value anywhere in a window
makes it missing, no common subexpressions. Windows are reduced a chunk of bars at a time so that large
panels survive, which the usual code does not. It does less than rlgen: no missing values inside
windows, no universe, float32 sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from rlgen.expression import Call, Constant, Expression, Field
from rlgen.panel import Panel

CHUNK_BYTES = 2**28
"""Bytes of windows that are reduced at one time."""


def _centred(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)


def _weights(x: Tensor, weights: Tensor) -> Tensor:
    return (x * (weights / weights.sum())).sum(-1)


def _moment(x: Tensor, order: int) -> Tensor:
    centred = _centred(x)
    spread = x.std(-1, keepdim=True)
    return (centred / spread).pow(order).mean(-1)


def _decay(w: int) -> Tensor:
    return (1 - 2 / (w + 1)) ** torch.arange(w - 1, -1, -1, dtype=torch.float32)


def _correlation(x: Tensor, y: Tensor) -> Tensor:
    return (_centred(x) * _centred(y)).mean(-1) / (x.std(-1, correction=0) * y.std(-1, correction=0))


WINDOWS: Mapping[str, Callable[..., Tensor]] = {
    "Ref": lambda x: x[..., 0],
    "Delta": lambda x: x[..., -1] - x[..., 0],
    "Mean": lambda x: x.mean(-1),
    "Sum": lambda x: x.sum(-1),
    "Std": lambda x: x.std(-1),
    "Var": lambda x: x.var(-1),
    "Skew": lambda x: _moment(x, 3),
    "Kurt": lambda x: _moment(x, 4) - 3,
    "Max": lambda x: x.amax(-1),
    "Min": lambda x: x.amin(-1),
    "Med": lambda x: x.median(-1).values,
    "Mad": lambda x: _centred(x).abs().mean(-1),
    "Rank": lambda x: (x <= x[..., -1:]).float().mean(-1),
    "WMA": lambda x: _weights(x, torch.arange(1.0, x.shape[-1] + 1)),
    "EMA": lambda x: _weights(x, _decay(x.shape[-1])),
    "ArgMax": lambda x: x.argmax(-1).float(),
    "ArgMin": lambda x: x.argmin(-1).float(),
    "Cov": lambda x, y: (_centred(x) * _centred(y)).sum(-1) / (x.shape[-1] - 1),
    "Corr": _correlation,
}
CELLS: Mapping[str, Callable[..., Tensor]] = {
    "Abs": torch.abs,
    "Sign": torch.sign,
    "Log": torch.log,
    "Add": torch.add,
    "Sub": torch.sub,
    "Mul": torch.mul,
    "Div": torch.div,
    "Pow": torch.pow,
    "Greater": torch.maximum,
    "Less": torch.minimum,
    "CSRank": lambda x: x.argsort(1).argsort(1) / x.shape[1],
    "CSZscore": lambda x: (
        (x - x.nanmean(1, keepdim=True))
        / (x - x.nanmean(1, keepdim=True)).square().nanmean(1, keepdim=True).sqrt()
    ),
}


class Unfold:
    """Evaluates expressions over a panel by the plain method."""

    def __init__(self, panel: Panel) -> None:
        self.fields = {name: torch.from_numpy(np.array(values)) for name, values in panel.fields.items()}

    def evaluate(self, expression: Expression) -> Tensor:
        """The values (T, S)."""
        if isinstance(expression, Field):
            return self.fields[expression.name]
        if isinstance(expression, Constant):
            return torch.tensor(expression.value, dtype=torch.float32)
        assert isinstance(expression, Call)
        inputs = [self.evaluate(operand) for operand in expression.operands]
        if expression.window is None:
            return CELLS[expression.operator](*inputs)
        # Ref and Delta read d bars back: a window of d + 1.
        back = expression.operator in ("Ref", "Delta")
        return roll(WINDOWS[expression.operator], expression.window + back, *inputs)


def roll(reduce: Callable[..., Tensor], window: int, *inputs: Tensor) -> Tensor:
    """Reduce all windows of the inputs (T, S); the first window − 1 bars are missing."""
    n_bars, n_stocks = inputs[0].shape
    out = torch.full((n_bars, n_stocks), float("nan"))
    step = max(1, CHUNK_BYTES // (4 * n_stocks * window))
    for low in range(0, n_bars - window + 1, step):
        high = min(low + step, n_bars - window + 1)
        windows = (x[low : high + window - 1].unfold(0, window, 1) for x in inputs)
        out[low + window - 1 : high + window - 1] = reduce(*windows)
    return out
