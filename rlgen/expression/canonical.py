"""The canonical form: one tree for all spellings that give the same bits and the same missing cells.

From the leaves up, a call is rewritten by these rules and no others:

1. constant with constant: a call of constants becomes its number;
2. `Abs(Abs(x))` becomes `Abs(x)`;
3. operands of commutative operators are put in order (constants, fields, calls; then by text);
4. a pair of negations, `Mul(-1,Mul(-1,x))`, becomes `x`.

Rewrites that hold for real numbers but not for rounded ones, such as `x − x = 0` or
`2·(3·x) = 6·x`, are left alone: the canonical tree is what is evaluated, stored and exported, and it
must give what the formula says.
"""

from __future__ import annotations

from rlgen.expression.operators import OPERATORS
from rlgen.expression.tree import Call, Constant, Expression

_MINUS_ONE = Constant(-1.0)


def canonical(expression: Expression) -> Expression:
    """The canonical form of a tree; idempotent."""
    if not isinstance(expression, Call):
        return expression
    if expression.constant is not None:
        return Constant(expression.constant)
    operands = tuple(canonical(operand) for operand in expression.operands)
    if OPERATORS[expression.operator].commutative:
        operands = tuple(sorted(operands))
    if expression.operator == "Abs":
        (inner,) = operands
        if isinstance(inner, Call) and inner.operator == "Abs":
            return inner
    elif expression.operator == "Mul":
        once = _negated(operands)
        if isinstance(once, Call) and once.operator == "Mul":
            twice = _negated(once.operands)
            if twice is not None:
                return twice
    if operands == expression.operands:
        return expression
    return Call(expression.operator, operands, expression.window)


def _negated(operands: tuple[Expression, ...]) -> Expression | None:
    """x, if the ordered operands of a `Mul` say −1 · x."""
    return operands[1] if operands[0] == _MINUS_ONE else None
