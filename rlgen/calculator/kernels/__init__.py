"""The CPU kernels, by operator name.

One table per kind of operator: `OPCODES` numbers the instructions of elementwise chains; `ROLLING` functions
take float64 tiles (see `blocks`) and a window laid over their rows; `CROSS_SECTION` ones take whole
bars. All write to `out`. Adding an operator's kernel is one line here (for an elementwise one, in
`elementwise`) and its function in the module of its family.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rlgen.calculator.kernels import (
    cross_section,
    extremes,
    moments,
    order,
    pairs,
    shift,
    weighted,
)
from rlgen.calculator.kernels.blocks import LANES, SUMS, block_plan, suffix_rows, window_starts
from rlgen.calculator.kernels.elementwise import OPCODES

__all__ = ["CROSS_SECTION", "LANES", "OPCODES", "ROLLING", "Span", "make_span", "scratch_size"]


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


def _compared(function: Callable[..., None], state: int, counters: int) -> Rolling:
    """A kernel that only compares, on float32 copies where they lose nothing.

    Args:
        state, counters: rows of LANES numbers, of the operand's type and of integers, for scratch.
    """

    def kernel(inputs: Sequence[np.ndarray], out: np.ndarray, span: Span, scratch: np.ndarray) -> None:
        x = inputs[0]
        small = scratch.view(np.float32)[: x.size].reshape(x.shape)
        exact = order.as_float32(x, small)
        integers = np.empty(counters * LANES, np.int32 if exact else np.int64)
        if exact:
            x = small
        function(x, out, span.minimum, span.first, np.empty(state * LANES, x.dtype), integers)

    return kernel


def _mad(inputs: Sequence[np.ndarray], out: np.ndarray, span: Span, scratch: np.ndarray) -> None:
    ROLLING["Mean"](inputs, out, span, scratch)
    order.rolling_mad(inputs[0], out, span.first)


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
    "Rank": _compared(order.rolling_rank, 0, 1),
    "Med": _compared(order.rolling_median, 4, 2),
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
