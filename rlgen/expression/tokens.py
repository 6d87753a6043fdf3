"""Tokens: a formula in postfix order as whole numbers, and back.

Ids are given in this order: padding 0, begin 1, end 2, then fields, constants, windows and operators
as they were listed. Padding is no token of any formula. `Corr(Mean($close,20),$volume,60)` reads

    $close 20 Mean $volume 60 Corr
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rlgen.errors import ConfigError, ExpressionError
from rlgen.expression.operators import OPERATORS, Operator, find_operator
from rlgen.expression.tree import MAX_WINDOW, Call, Constant, Expression, Field

PAD, BEGIN, END = 0, 1, 2
_SPECIAL = ("<pad>", "<begin>", "<end>")


class Vocabulary:
    """The tokens that formulas are written with.

    Args:
        fields: names of fields, at least one.
        operators: names of operators, in any letter case; None: all.
        windows: windows in bars.
        constants: numbers.

    Raises:
        ConfigError: no fields, an unknown operator, a window that is no positive whole number, a
            constant that is not finite, or anything listed twice.
    """

    fields: tuple[str, ...]
    operators: tuple[str, ...]
    windows: tuple[int, ...]
    constants: tuple[float, ...]
    tokens: tuple[str, ...]
    """Text of each token, by id."""

    def __init__(
        self,
        fields: Iterable[str],
        operators: Iterable[str] | None = None,
        windows: Iterable[int] = (),
        constants: Iterable[float] = (),
    ) -> None:
        try:
            field_nodes = [Field(name) for name in fields]
            constant_nodes = [Constant(value) for value in constants]
            rows = [find_operator(name) for name in (OPERATORS if operators is None else operators)]
        except ExpressionError as error:
            raise ConfigError(f"grammar: {error}") from None
        if not field_nodes:
            raise ConfigError("grammar.fields: a formula needs at least one field, was empty")
        self.windows = tuple(_checked_window(window) for window in windows)
        self.fields = tuple(node.name for node in field_nodes)
        self.constants = tuple(node.value for node in constant_nodes)
        self.operators = tuple(row.name for row in rows)
        for key in ("fields", "operators", "windows", "constants"):
            listed = getattr(self, key)
            twice = sorted({str(x) for x in listed if listed.count(x) > 1})
            if twice:
                raise ConfigError(f"grammar.{key}: listed twice: {', '.join(twice)}")
        self._items: tuple[Expression | int | Operator | None, ...] = (
            *(None for _ in _SPECIAL),
            *field_nodes,
            *constant_nodes,
            *self.windows,
            *rows,
        )
        self.tokens = (
            *_SPECIAL,
            *(str(node) for node in (*field_nodes, *constant_nodes)),
            *(str(window) for window in self.windows),
            *self.operators,
        )
        # No two kinds share a text: fields begin with $, constants have a point or an exponent.
        self._ids = {text: i for i, text in enumerate(self.tokens)}

    @property
    def size(self) -> int:
        """Tokens, V."""
        return len(self.tokens)

    def item(self, token: int) -> Expression | int | Operator | None:
        """What a token stands for: a field or constant, a window, an operator; None: nothing in a formula."""
        return self._items[token]

    def to_ids(self, expression: Expression) -> list[int]:
        """The formula's ids in postfix order, without begin and end.

        Raises:
            ExpressionError: a field, constant, window or operator that the vocabulary lacks.
        """
        ids: list[int] = []

        def add(text: str) -> None:
            if text not in self._ids:
                raise ExpressionError(f"{expression}: the vocabulary has no token {text}")
            ids.append(self._ids[text])

        def walk(node: Expression) -> None:
            if not isinstance(node, Call):
                add(node.text)
                return
            for operand in node.operands:
                walk(operand)
            if node.window is not None:
                add(str(node.window))
            add(node.operator)

        walk(expression)
        return ids

    def to_expression(self, ids: Sequence[int]) -> Expression:
        """The formula that ids in postfix order spell.

        Raises:
            ExpressionError: they do not spell one formula; names the place and the token.
        """
        stack: list[Expression | int] = []
        for place, token in enumerate(ids, 1):
            item = self._items[token] if 0 <= token < self.size else None
            if item is None:
                raise ExpressionError(f"token {place} of {len(ids)}: {token} is no token of a formula")
            if isinstance(item, Expression | int):
                stack.append(item)
                continue
            n = item.arity + item.has_window
            taken = stack[-n:]
            window = taken.pop() if item.has_window and taken else None
            operands = [x for x in taken if isinstance(x, Expression)]
            if len(operands) != item.arity or item.has_window != isinstance(window, int):
                raise ExpressionError(f"token {place} of {len(ids)}: {item.name} lacks its operands")
            del stack[-n:]
            stack.append(Call(item.name, tuple(operands), window if isinstance(window, int) else None))
        if len(stack) != 1 or not isinstance(stack[0], Expression) or not stack[0].fields:
            raise ExpressionError(f"{self.to_text(ids)}: the tokens do not spell one formula with a field")
        return stack[0]

    def to_text(self, ids: Iterable[int]) -> str:
        """The tokens' texts, for messages."""
        return " ".join(self.tokens[i] for i in ids)

    def describe(self) -> dict[str, Any]:
        """What the ids mean, as plain data: a policy fits only a vocabulary that describes itself equally."""
        return {
            "fields": list(self.fields),
            "constants": list(self.constants),
            "windows": list(self.windows),
            "operators": list(self.operators),
        }


def _checked_window(window: int) -> int:
    whole = isinstance(window, int | np.integer) and not isinstance(window, bool)
    if not whole or not 1 <= window <= MAX_WINDOW:
        raise ConfigError(
            f"grammar.windows: a window is a whole number of bars from 1 to {MAX_WINDOW}, was {window}"
        )
    return int(window)
