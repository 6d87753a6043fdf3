"""The CPU kernels, by operator name.

One table per kind of operator: `ELEMENTWISE` functions take float64 arrays or a number; `ROLLING` ones
take float64 tiles (see `blocks`) and a window laid over their rows; `CROSS_SECTION` ones take whole
bars. All write to `out`. Adding an operator's kernel is one line here and its function in the module
of its family.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlgen.calculator.kernels import (
    cross_section,
    elementwise,
    extremes,
    moments,
    order,
    pairs,
    shift,
    weighted,
)
from rlgen.calculator.kernels.blocks import LANES, SUMS, block_plan, suffix_rows, window_starts

__all__ = ["CROSS_SECTION", "ELEMENTWISE", "LANES", "ROLLING", "Span", "make_span", "scratch_size"]


@dataclass(frozen=True)
class Span:
    """A rolling window laid over a tile's rows."""

    window: int
    minimum: int
    """Present values that a window needs."""
    starts: np.ndarray
    """First rows of the segments that no window crosses, closed by the number of rows."""
    plan: np.ndarray
    """`blocks.block_plan`."""
    first: np.ndarray
    """`blocks.window_starts`."""


def make_span(starts: np.ndarray, window: int, minimum: int) -> Span:
    """Lay a window over segments (see `blocks.block_plan` for `starts`)."""
    return Span(window, minimum, starts, block_plan(starts, window), window_starts(starts, window))


def scratch_size(rows: int, window: int) -> int:
    """float64 numbers of scratch that any kernel needs for a tile of `rows` bars."""
    return 2 * suffix_rows(window, rows) * SUMS + 2 * rows * LANES


Rolling = Callable[[Sequence[np.ndarray], np.ndarray, Span, np.ndarray], None]


def _walk(function: Callable[..., None], statistic: int) -> Rolling:
    """A kernel of a family that walks over blocks, for one of its statistics."""

    def kernel(inputs: Sequence[np.ndarray], out: np.ndarray, span: Span, scratch: np.ndarray) -> None:
        function(*inputs, out, statistic, span.window, span.minimum, span.plan, scratch)

    return kernel


def _shift(statistic: int) -> Rolling:
    def kernel(inputs: Sequence[np.ndarray], out: np.ndarray, span: Span, scratch: np.ndarray) -> None:
        shift.rolling_shift(inputs[0], out, statistic, span.window, span.starts)

    return kernel


def _rank(inputs: Sequence[np.ndarray], out: np.ndarray, span: Span, scratch: np.ndarray) -> None:
    order.rolling_rank(inputs[0], out, span.minimum, span.first)


def _median(inputs: Sequence[np.ndarray], out: np.ndarray, span: Span, scratch: np.ndarray) -> None:
    order.rolling_median(inputs[0], out, span.minimum, span.first, scratch)


def _mad(inputs: Sequence[np.ndarray], out: np.ndarray, span: Span, scratch: np.ndarray) -> None:
    ROLLING["Mean"](inputs, out, span, scratch)
    order.rolling_mad(inputs[0], out, span.first)


ELEMENTWISE: Mapping[str, Callable[..., Any]] = {
    "Abs": elementwise.absolute,
    "Sign": elementwise.sign,
    "Log": elementwise.logarithm,
    "Add": elementwise.add,
    "Sub": elementwise.subtract,
    "Mul": elementwise.multiply,
    "Div": elementwise.divide,
    "Pow": elementwise.power,
    "Greater": elementwise.greater,
    "Less": elementwise.less,
}

ROLLING: Mapping[str, Rolling] = {
    "Ref": _shift(shift.REF),
    "Delta": _shift(shift.DELTA),
    "Mean": _walk(moments.rolling_moment, moments.MEAN),
    "Sum": _walk(moments.rolling_moment, moments.SUM),
    "Var": _walk(moments.rolling_moment, moments.VAR),
    "Std": _walk(moments.rolling_moment, moments.STD),
    "Skew": _walk(moments.rolling_moment, moments.SKEW),
    "Kurt": _walk(moments.rolling_moment, moments.KURT),
    "Max": _walk(extremes.rolling_extreme, extremes.MAX),
    "Min": _walk(extremes.rolling_extreme, extremes.MIN),
    "ArgMax": _walk(extremes.rolling_extreme, extremes.ARGMAX),
    "ArgMin": _walk(extremes.rolling_extreme, extremes.ARGMIN),
    "Rank": _rank,
    "Med": _median,
    "Mad": _mad,
    "WMA": _walk(weighted.rolling_weighted, weighted.WMA),
    "EMA": _walk(weighted.rolling_weighted, weighted.EMA),
    "Cov": _walk(pairs.rolling_pair, pairs.COV),
    "Corr": _walk(pairs.rolling_pair, pairs.CORR),
}

CROSS_SECTION: Mapping[str, Callable[..., None]] = {
    "CSRank": cross_section.rank,
    "CSZscore": cross_section.zscore,
}
