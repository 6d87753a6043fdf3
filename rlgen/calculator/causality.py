"""The proof that a formula does not look ahead.

For several bars t, in the middle of kernel blocks and at their edges, at session edges and anywhere:

1. everything after bar t is replaced, by 1e15, +inf, −inf, NaN and a permutation of the bars, the
   panel is rebuilt from the changed fields, universe rules included, and the formula evaluated again;
2. the panel is cut after bar t, as if the rest had never been, and the formula evaluated again.

Universe and values up to bar t must come out bit for bit the same. The check runs the code that
training and production run, so it covers kernels, windows, sessions and the universe alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rlgen.calculator.calculator import Calculator
from rlgen.expression import Call, Expression
from rlgen.panel import Panel


@dataclass(frozen=True)
class Leak:
    """A value at or before `bar` that changed when only later bars were changed."""

    bar: int
    """Last bar that was left alone."""
    replacement: str
    """What stood in for the future."""
    first_bar: int
    """First bar that changed."""
    symbol: str
    """A stock that changed there."""
    what: str
    """`values` or `universe`."""


@dataclass(frozen=True)
class CausalityReport:
    """The outcome of `check_causality`."""

    expression: str
    bars: tuple[int, ...]
    """Bars t that were tried."""
    replacements: tuple[str, ...]
    """What the future was replaced by at each."""
    leaks: tuple[Leak, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing looked ahead."""
        return not self.leaks

    def __str__(self) -> str:
        """One line for a person."""
        tried = f"{len(self.bars)} bars × {len(self.replacements)} replacements of the future"
        if self.passed:
            return f"{self.expression}: causal ({tried}, all bits equal)"
        leak = self.leaks[0]
        return (
            f"{self.expression}: LOOKS AHEAD: with {leak.replacement} after bar {leak.bar}, the "
            f"{leak.what} of {leak.symbol} changed at bar {leak.first_bar} ({len(self.leaks)} leaks, {tried})"
        )


def _constant(value: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda future: np.full_like(future, value)


def _permute(future: np.ndarray) -> np.ndarray:
    return future[np.random.default_rng(len(future)).permutation(len(future))]


REPLACEMENTS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "1e15": _constant(1e15),
    "+inf": _constant(np.inf),
    "-inf": _constant(-np.inf),
    "NaN": _constant(np.nan),
    "a permutation": _permute,
}


def check_causality(
    expression: Expression | str,
    panel: Panel,
    bars: Sequence[int] | None = None,
    *,
    threads: int = 0,
    block_bars: int | None = None,
) -> CausalityReport:
    """Check that an expression's values up to bar t depend on nothing after bar t.

    Args:
        expression: the formula.
        panel: any panel; its whole base panel is used.
        bars: the bars t; default: a handful, see `choose_bars`.
        threads, block_bars: as for `Calculator`.

    Returns:
        A report that prints as one line and names every leak.
    """
    base = panel.base

    def evaluate(changed: Panel) -> np.ndarray:
        calculator = Calculator(changed, device="cpu", threads=threads, block_bars=block_bars)
        try:
            return calculator.evaluate(expression).numpy()
        finally:
            calculator.close()

    calculator = Calculator(base, device="cpu", threads=1)
    parsed = calculator.read(expression)
    calculator.close()
    if bars is None:
        bars = choose_bars(parsed, base)
    values = evaluate(base)
    leaks = []
    for bar in bars:
        for name, changed in _futures(base, bar):
            for what, old, new in (
                ("universe", base.universe, changed.universe),
                ("values", values, evaluate(changed)),
            ):
                cell = first_difference(old[: bar + 1], new[: bar + 1])
                if cell is not None:
                    leaks.append(Leak(bar, name, cell[0], str(base.symbols[cell[1]]), what))
    return CausalityReport(str(parsed), tuple(bars), (*REPLACEMENTS, "nothing (cut)"), tuple(leaks))


def _futures(base: Panel, bar: int) -> Iterator[tuple[str, Panel]]:
    """The base panel with everything after `bar` replaced in every way, and cut there."""
    for name, replace in REPLACEMENTS.items():
        fields = {}
        for field, values in base.fields.items():
            fields[field] = np.concatenate([values[: bar + 1], replace(np.asarray(values[bar + 1 :]))])
        yield name, base.with_fields(fields)
    yield "nothing (cut)", base.cut(bar + 1)


def first_difference(old: np.ndarray, new: np.ndarray) -> tuple[int, int] | None:
    """The first (bar, stock) at which two arrays (T, S) differ in any bit; missing equals missing."""
    if old.dtype == np.float32:
        same = (old.view(np.int32) == new.view(np.int32)) | (np.isnan(old) & np.isnan(new))
    else:
        same = old == new
    cells = np.argwhere(~same)
    return (int(cells[0, 0]), int(cells[0, 1])) if len(cells) else None


def choose_bars(expression: Expression, base: Panel) -> tuple[int, ...]:
    """Bars inside and at both edges of kernel blocks and of a session.

    They lie behind the expression's warm-up where the panel is long enough: missing values prove
    nothing.
    """
    last = len(base.bars) - 2
    warm = min(expression.lookback + 1, max(last // 2, 0))
    chosen = {warm, warm + (last - warm) // 2}
    windows = sorted(set(_windows(expression)))
    for window in windows[:1] + windows[-1:]:
        edge = -(-(warm + 1) // window) * window
        chosen |= {edge - 1, edge, edge + window // 2}
    session = int(np.searchsorted(base.session_starts, warm, side="right"))
    edge = int(base.session_starts[min(session, len(base.session_starts) - 1)])
    chosen |= {edge - 1, edge}
    return tuple(sorted(bar for bar in chosen if 0 <= bar <= last))


def _windows(expression: Expression) -> Iterator[int]:
    if isinstance(expression, Call):
        if expression.window is not None:
            yield expression.window
        for operand in expression.operands:
            yield from _windows(operand)
