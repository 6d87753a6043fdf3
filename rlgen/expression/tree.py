"""Expressions as immutable trees: fields, constants, and operators applied to them.

1. A tree is checked when it is made: a `Call` that exists has the operands and the window that its
   operator's registry row asks for, reads nothing after the current bar, and can be put in
   canonical form.
2. Its text, `str(expression)`, identifies it: two expressions are equal exactly if their texts are,
   and `parse` reads the text back to an equal tree.
3. Trees are ordered, constants before fields before calls, then by text: an order that depends on
   nothing but the formula.

Trees are at most `MAX_DEPTH` levels and `MAX_TOKENS` tokens large, so that walking one by recursion
is always safe.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import total_ordering
from typing import Any, ClassVar

import numpy as np

from rlgen.errors import ExpressionError
from rlgen.expression.operators import OPERATORS, Operator

MAX_DEPTH = 100
"""Levels of a tree."""
MAX_TOKENS = 1000
"""Tokens of a tree."""
MAX_WINDOW = 1_000_000
"""Bars of a window."""
MAX_NAME = 200
"""Characters of a field's name."""

_PLAIN_NAME = re.compile(r"\w+")
_FORBIDDEN_IN_NAME = re.compile(r"[{}\x00-\x1f\x7f\x85\u2028\u2029]")


@total_ordering
class Expression:
    """A formula: one number per bar and stock. See `Field`, `Constant`, `Call`."""

    text: str
    """The text form; `parse` is its inverse."""
    n_tokens: int
    """Tokens of the postfix form: fields, constants, windows and operators."""
    depth: int
    """Levels of the tree."""
    lookback: int
    """Past bars that are read beyond the current one."""
    fields: frozenset[str]
    """Names of the fields that are read."""
    constant: float | None
    """The number that a formula without fields stands for; None if there are fields."""
    _kind: ClassVar[int]

    def _set(self, **attributes: Any) -> None:
        """Set attributes of a tree that is being made: it is frozen afterwards."""
        # Past `__setattr__`, which a frozen dataclass refuses.
        self.__dict__.update(attributes)

    def canonical(self) -> Expression:
        """The representative of all spellings that give the same bits; see `rlgen.expression.canonical`."""
        # Imported here since that module builds on this one.
        from rlgen.expression.canonical import canonical

        return canonical(self)

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Expression) and self.text == other.text)

    def __lt__(self, other: Expression) -> bool:
        if not isinstance(other, Expression):
            return NotImplemented
        return (self._kind, self.text) < (other._kind, other.text)

    def __hash__(self) -> int:
        return hash(self.text)


@dataclass(frozen=True, eq=False)
class Constant(Expression):
    """A finite number. Negative zero becomes zero, so that equal constants have one text.

    Raises:
        ExpressionError: the value is infinite or not a number.
    """

    value: float

    _kind: ClassVar[int] = 0

    def __post_init__(self) -> None:
        value = float(self.value) + 0.0
        if not math.isfinite(value):
            raise ExpressionError(f"a constant must be a finite number, was {value}")
        self._set(value=value, text=repr(value), constant=value)
        self._set(n_tokens=1, depth=1, lookback=0, fields=frozenset())

    def __reduce__(self) -> tuple[Any, ...]:
        return Constant, (self.value,)


@dataclass(frozen=True, eq=False)
class Field(Expression):
    """A field of the panel, written `$close`, or `${mid price}` if its name is not a plain word.

    Raises:
        ExpressionError: the name is empty or longer than `MAX_NAME`, begins or ends with a space, or
            contains a brace or a control character.
    """

    name: str

    _kind: ClassVar[int] = 1

    def __post_init__(self) -> None:
        name = self.name
        if not 0 < len(name) <= MAX_NAME or name != name.strip() or _FORBIDDEN_IN_NAME.search(name):
            raise ExpressionError(
                f"a field's name must have 1 to {MAX_NAME} characters, no space at an end, no braces and no "
                f"control characters, was {name[:MAX_NAME]!r}"
            )
        self._set(text=f"${name}" if _PLAIN_NAME.fullmatch(name) else f"${{{name}}}", constant=None)
        self._set(n_tokens=1, depth=1, lookback=0, fields=frozenset((name,)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Field, (self.name,)


@dataclass(frozen=True, eq=False)
class Call(Expression):
    """An operator applied to operands, with a window where its registry row asks for one.

    Operands of elementwise operators may be constants; those of rolling and cross-sectional ones
    must contain a field.

    Raises:
        ExpressionError: unknown operator, wrong number or kind of operands, a window that is no
            positive whole number or smaller than the statistic's minimum, constants whose value is
            not finite, or a tree that is too large.
    """

    operator: str
    operands: tuple[Expression, ...]
    window: int | None = None

    _kind: ClassVar[int] = 2

    def __post_init__(self) -> None:
        row = OPERATORS.get(self.operator)
        if row is None:
            raise ExpressionError(f"unknown operator {self.operator}: operators are {', '.join(OPERATORS)}")
        operands = tuple(self.operands)
        if len(operands) != row.arity:
            raise ExpressionError(f"{signature(row)} takes {row.arity} operands, was {len(operands)}")
        window = int(self.window) if isinstance(self.window, np.integer) else self.window
        check_window(row, window)
        depth, n_tokens, lookback, fields = 0, 1 + row.has_window, 0, frozenset[str]()
        for operand in operands:
            if not (operand.fields or row.takes_constants):
                raise ExpressionError(f"{signature(row)}: the operand needs a field, was {operand}")
            depth = max(depth, operand.depth)
            n_tokens += operand.n_tokens
            lookback = max(lookback, operand.lookback)
            fields = fields | operand.fields
        if depth >= MAX_DEPTH or n_tokens > MAX_TOKENS:
            raise ExpressionError(
                f"a formula may have {MAX_DEPTH} levels and {MAX_TOKENS} tokens, "
                f"was {depth + 1} levels, {n_tokens} tokens"
            )
        arguments = ",".join([x.text for x in operands])
        self._set(
            operands=operands,
            window=window,
            text=f"{row.name}({arguments})" if window is None else f"{row.name}({arguments},{window})",
            n_tokens=n_tokens,
            depth=depth + 1,
            lookback=lookback + row.lookback(window),
            fields=fields,
            constant=None if fields else _fold(row, operands),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Call, (self.operator, self.operands, self.window)


def signature(row: Operator) -> str:
    """How a call is written, for example `Corr(x,y,window)`."""
    return f"{row.name}({','.join('xy'[: row.arity])}{',window' if row.has_window else ''})"


def check_window(row: Operator, window: int | None) -> None:
    """Raise an `ExpressionError` unless the window is one that the operator can have."""
    if not row.has_window:
        if window is not None:
            raise ExpressionError(f"{signature(row)} has no window, was {window}")
        return
    if isinstance(window, bool) or not isinstance(window, int) or not 1 <= window <= MAX_WINDOW:
        if isinstance(window, int | float) and window < 0 and row.lookback_rule == "shift":
            wrong = f"{row.name} by {window} reads the future"
        else:
            wrong = f"{row.name}: the window was {window}"
        raise ExpressionError(f"{wrong}; it must be a whole number of bars from 1 to {MAX_WINDOW}")
    if window < row.minimum:
        raise ExpressionError(
            f"{row.name}: the window was {window}; it must be at least the {row.minimum} values that "
            f"{row.name} needs"
        )


def _fold(row: Operator, operands: tuple[Expression, ...]) -> float:
    """The number that a call of constants stands for, in float64 as the calculator would."""
    assert row.number is not None
    try:
        value = float(row.number(*[x.constant for x in operands]))
    except (ArithmeticError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ExpressionError(f"{row.name}({','.join(x.text for x in operands)}) is no finite number")
    return value + 0.0
