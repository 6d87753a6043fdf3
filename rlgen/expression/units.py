"""Units of formulas, as exponents of price and volume: what keeps volume from being added to price.

`$close` has the unit (1, 0), `$volume` (0, 1), `$amount` (1, 1); any other field and every constant
has none, (0, 0). An operator's registry row says what becomes of them: `Add`, `Sub`, `Greater` and
`Less` need equal ones, `Mul` and `Cov` add the exponents, `Div` subtracts them, `Pow` needs none.
"""

from __future__ import annotations

from rlgen.errors import ExpressionError
from rlgen.expression.operators import OPERATORS, Operator
from rlgen.expression.tree import Call, Expression, Field

Unit = tuple[int, int]
"""Exponents of price and volume."""

NO_UNIT: Unit = (0, 0)
FIELD_UNITS: dict[str, Unit] = {
    **dict.fromkeys(("open", "high", "low", "close", "vwap"), (1, 0)),
    "volume": (0, 1),
    "amount": (1, 1),
}
"""Fields with a unit; any other has none."""


def result_unit(operator: Operator, units: tuple[Unit, ...]) -> Unit | None:
    """The unit of the operator's result for operands of these units; None if they do not go together."""
    first, last = units[0], units[-1]
    if operator.unit == "same":
        return first
    if operator.unit == "none":
        return NO_UNIT
    if operator.unit in ("square", "product"):
        return first[0] + last[0], first[1] + last[1]
    if operator.unit == "quotient":
        return first[0] - last[0], first[1] - last[1]
    if operator.unit == "equal":
        return first if first == last else None
    return NO_UNIT if first == last == NO_UNIT else None


def unit_of(expression: Expression) -> Unit:
    """The unit of a formula.

    Raises:
        ExpressionError: operands whose units do not go together; names the call and the units.
    """
    if isinstance(expression, Field):
        return FIELD_UNITS.get(expression.name, NO_UNIT)
    if not isinstance(expression, Call):
        return NO_UNIT
    units = tuple(unit_of(operand) for operand in expression.operands)
    unit = result_unit(OPERATORS[expression.operator], units)
    if unit is None:
        described = " and ".join(describe_unit(unit) for unit in units)
        raise ExpressionError(f"{expression}: the operands' units do not go together, were {described}")
    return unit


def describe_unit(unit: Unit) -> str:
    """For example `price`, `price·volume^-1`, `no unit`."""
    parts = [
        name if exponent == 1 else f"{name}^{exponent}"
        for name, exponent in zip(("price", "volume"), unit, strict=True)
        if exponent
    ]
    return "·".join(parts) or "no unit"
