"""The registry: one row per operator, and everything else derives from it.

Vocabulary, masks, parser, documentation and exporters read these rows; the calculator's kernels are
keyed by the same names. A new operator is a row here, a kernel, and its reference twin.

1. A row's *family* says what the operator takes: `unary` and `binary` work on single cells,
   `rolling` and `rolling_pair` on a window of one or two series, `cross_section` on a whole bar.
2. Rows of `unary` and `binary` carry the operator on plain numbers (`number`): they alone take
   constants as operands, and formulas of constants are folded with it.
3. `find_operator` finds a row by its name in any letter case.

Missing values: elementwise operators are missing where an operand is; window statistics are over the
present values among the last w bars, the current one included, and missing where fewer than
`minimum_periods` are present. A result that is undefined or infinite is missing.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from rlgen.errors import ExpressionError

Family = Literal["unary", "binary", "rolling", "rolling_pair", "cross_section"]
LookbackRule = Literal["none", "window", "shift"]
UnitRule = Literal["same", "none", "square", "product", "quotient", "equal", "pure"]


@dataclass(frozen=True)
class Operator:
    """One row of the registry.

    `latex` is the operator's notation, with `<x>`, `<y>` for the operands and `<w>` for the window.
    """

    name: str
    family: Family
    definition: str
    """One line, in words."""
    formula: str
    """The value at bar t, as text."""
    latex: str
    unit: UnitRule
    """The result's unit: the operand's (`same`), `none`, its `square`, the operands' `product` or
    `quotient`; `equal`: the operands' common one; `pure`: none, and the operands may have none."""
    minimum: int = 1
    """Present values that the statistic needs; no window may be smaller."""
    commutative: bool = False
    lookback_rule: LookbackRule = "none"
    """Bars read beyond the current one: none, the window less one, or (`shift`) the window itself."""
    number: Callable[..., float] | None = None
    """The operator on plain numbers; NaN, or an arithmetic error, where it is undefined."""

    # Cached, since they are read for every node of every tree.

    @cached_property
    def arity(self) -> int:
        """Series operands, the window not counted."""
        return 2 if self.family in ("binary", "rolling_pair") else 1

    @cached_property
    def has_window(self) -> bool:
        """Whether the last argument is a window."""
        return self.family in ("rolling", "rolling_pair")

    @cached_property
    def takes_constants(self) -> bool:
        """Whether an operand may be a constant; in a token game at least one must be a series."""
        return self.number is not None

    def lookback(self, window: int | None) -> int:
        """Bars before the current one that the operator itself reads."""
        if window is None or self.lookback_rule == "none":
            return 0
        return window if self.lookback_rule == "shift" else window - 1


def minimum_periods(operator: Operator, window: int, fraction: float) -> int:
    """Present values that a window needs: max(the statistic's minimum, ceil(fraction · window)).

    The 1e-9 keeps 0.1 · 30 = 3.0000000000000004 at 3.
    """
    return max(operator.minimum, math.ceil(fraction * window - 1e-9))


def _unary(
    name: str, number: Callable[..., float], unit: UnitRule, definition: str, formula: str, latex: str
) -> Operator:
    return Operator(name, "unary", definition, formula, latex, unit, number=number)


def _binary(
    name: str,
    number: Callable[..., float],
    unit: UnitRule,
    definition: str,
    formula: str,
    latex: str,
    commutative: bool = False,
) -> Operator:
    return Operator(name, "binary", definition, formula, latex, unit, commutative=commutative, number=number)


def _rolling(
    name: str,
    unit: UnitRule,
    definition: str,
    formula: str,
    minimum: int = 1,
    lookback_rule: LookbackRule = "window",
) -> Operator:
    latex = rf"\operatorname{{{name}}}_{{<w>}}\left(<x>\right)"
    return Operator(
        name, "rolling", definition, formula, latex, unit, minimum=minimum, lookback_rule=lookback_rule
    )


def _rolling_pair(
    name: str, unit: UnitRule, definition: str, formula: str, minimum: int, commutative: bool
) -> Operator:
    latex = rf"\operatorname{{{name}}}_{{<w>}}\left(<x>,<y>\right)"
    return Operator(
        name, "rolling_pair", definition, formula, latex, unit, minimum, commutative, lookback_rule="window"
    )


def _cross_section(name: str, definition: str, formula: str) -> Operator:
    latex = rf"\operatorname{{{name}}}\left(<x>\right)"
    return Operator(name, "cross_section", definition, formula, latex, "none")


_ROWS = (
    _unary("Abs", abs, "same", "Absolute value", "|x|", r"\left\lvert <x> \right\rvert"),
    _unary(
        "Sign",
        lambda x: float((x > 0) - (x < 0)),
        "none",
        "Sign: −1, 0 or 1",
        "−1 if x < 0, 0 if x = 0, 1 if x > 0",
        r"\operatorname{Sign}\left(<x>\right)",
    ),
    _unary(
        "Log",
        math.log,
        "none",
        "Natural logarithm; missing for x ≤ 0",
        "ln x",
        r"\ln\left(<x>\right)",
    ),
    _cross_section(
        "CSRank",
        "Ascending percentile of the stock among the bar's present universe members, average ties, in (0,1]",
        "rank(x) / n",
    ),
    _cross_section(
        "CSZscore",
        "Population z-score across the bar's present universe members; missing if all are equal",
        "(x − mean) / std, ddof 0",
    ),
    _binary(
        "Add", lambda x, y: x + y, "equal", "Sum of two", "x + y", r"\left(<x> + <y>\right)", commutative=True
    ),
    _binary("Sub", lambda x, y: x - y, "equal", "Difference", "x − y", r"\left(<x> - <y>\right)"),
    _binary(
        "Mul",
        lambda x, y: x * y,
        "product",
        "Product",
        "x · y",
        r"\left(<x> \cdot <y>\right)",
        commutative=True,
    ),
    _binary(
        "Div", lambda x, y: x / y, "quotient", "Quotient; missing for y = 0", "x / y", r"\frac{<x>}{<y>}"
    ),
    _binary(
        "Pow",
        math.pow,
        "pure",
        "Power; missing where undefined or infinite, such as a fractional power of a negative number",
        "x^y",
        r"\left(<x>\right)^{<y>}",
    ),
    _binary(
        "Greater",
        max,
        "equal",
        "The larger of the two; missing if either is",
        "max(x, y)",
        r"\max\left(<x>,<y>\right)",
        commutative=True,
    ),
    _binary(
        "Less",
        min,
        "equal",
        "The smaller of the two; missing if either is",
        "min(x, y)",
        r"\min\left(<x>,<y>\right)",
        commutative=True,
    ),
    _rolling("Ref", "same", "Value w bars ago; missing if that bar is", "x[t−w]", lookback_rule="shift"),
    _rolling("Mean", "same", "Mean", "Σx / n"),
    _rolling("Sum", "same", "Sum of the present values", "Σx"),
    _rolling("Std", "same", "Standard deviation, ddof 1", "√(Σ(x − x̄)² / (n−1))", 2),
    _rolling("Var", "square", "Variance, ddof 1", "Σ(x − x̄)² / (n−1)", 2),
    _rolling(
        "Skew",
        "none",
        "Skewness, bias-corrected; missing if constant",
        "n / ((n−1)(n−2)) · Σ(x − x̄)³ / s³, s = Std",
        3,
    ),
    _rolling(
        "Kurt",
        "none",
        "Excess kurtosis, bias-corrected; missing if constant",
        "n(n+1) / ((n−1)(n−2)(n−3)) · Σ(x − x̄)⁴ / s⁴ − 3(n−1)² / ((n−2)(n−3)), s = Std",
        4,
    ),
    _rolling("Max", "same", "Largest value", "max x"),
    _rolling("Min", "same", "Smallest value", "min x"),
    _rolling("Med", "same", "Median, the mean of the two middle values when n is even", "median x"),
    _rolling("Mad", "same", "Mean absolute deviation from the window's mean", "Σ|x − x̄| / n", 2),
    _rolling(
        "Rank",
        "none",
        "Ascending percentile of the current value in its window, average ties, in (0,1]; "
        "missing if the current value is",
        "(#{x < x[t]} + (#{x = x[t]} + 1) / 2) / n",
    ),
    _rolling(
        "Delta",
        "same",
        "Change over w bars; missing if either bar is",
        "x[t] − x[t−w]",
        lookback_rule="shift",
    ),
    _rolling(
        "WMA",
        "same",
        "Linearly weighted mean: weights 1 … w, the newest heaviest, renormalised over the present bars",
        "Σ(w − age) · x / Σ(w − age)",
    ),
    _rolling(
        "EMA",
        "same",
        "Exponentially weighted mean over the window's w bars, renormalised over the present ones",
        "Σ a^age · x / Σ a^age, a = 1 − 2 / (w+1)",
    ),
    _rolling(
        "ArgMax",
        "none",
        "Bars since the largest value, 0 = now; the most recent one in a tie",
        "min{age : x[t−age] = max x}",
    ),
    _rolling(
        "ArgMin",
        "none",
        "Bars since the smallest value, 0 = now; the most recent one in a tie",
        "min{age : x[t−age] = min x}",
    ),
    _rolling_pair(
        "Cov",
        "product",
        "Covariance over the bars where both are present, ddof 1",
        "Σ(x − x̄)(y − ȳ) / (n−1)",
        2,
        commutative=True,
    ),
    _rolling_pair(
        "Corr",
        "none",
        "Pearson correlation over the bars where both are present; missing if either is constant",
        "Σ(x − x̄)(y − ȳ) / √(Σ(x − x̄)² Σ(y − ȳ)²)",
        2,
        commutative=True,
    ),
)

OPERATORS: Mapping[str, Operator] = {row.name: row for row in _ROWS}
"""All operators by name, in the order of the documentation and the vocabulary."""

_BY_LOWER_NAME = {name.lower(): row for name, row in OPERATORS.items()}


def find_operator(name: str) -> Operator:
    """The row of that name, in any letter case.

    Raises:
        ExpressionError: there is none; names close ones.
    """
    operator = OPERATORS.get(name) or _BY_LOWER_NAME.get(name.lower())
    if operator is None:
        close = difflib.get_close_matches(name.lower(), _BY_LOWER_NAME, n=3)
        names = [_BY_LOWER_NAME[key].name for key in close] or list(OPERATORS)
        listed = ", ".join(names)
        hint = f"did you mean {listed}?" if close else f"operators are {listed}"
        raise ExpressionError(f"unknown operator {name}: {hint}")
    return operator
