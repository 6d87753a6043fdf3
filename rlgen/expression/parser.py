"""Text to tree, the inverse of `str(expression)`.

    formula := product (("+" | "-") product)*
    product := operand (("*" | "/") operand)*
    operand := "-" operand | number | field | "(" formula ")" | operator "(" arguments ")"
    field   := "$" word | "${" any name "}"

1. One regular expression cuts the text into tokens with their positions; a character that begins
   none is refused there. Nothing is ever evaluated as code.
2. Precedence climbing builds the tree from the bottom up. Infix signs become `Add Sub Mul Div`; a
   minus before a number belongs to the number, before anything else it is `Mul(-1,…)`.
3. Operators are read in any letter case. A window is the last argument; its suffix (`20d`, `20m`) is
   ignored: windows are bars, always.
4. An error names the column, counted from 1, and shows the text there with a `^` before it, on one
   line.

Nesting is bounded by the trees' `MAX_DEPTH` and the length of the text by `MAX_LENGTH`, so that no
text exhausts the stack.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import NamedTuple

from rlgen.errors import ExpressionError
from rlgen.expression.operators import Operator, find_operator
from rlgen.expression.tree import (
    MAX_DEPTH,
    MAX_NAME,
    Call,
    Constant,
    Expression,
    Field,
    check_window,
    signature,
)

MAX_LENGTH = 300_000
"""Characters of a formula's text."""

_TOKEN = re.compile(
    r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:[dDmM](?!\w))?)"
    r"|(?P<field>\$(?:\w+|\{[^{}]*\}))"
    r"|(?P<name>[^\W\d]\w*)"
    r"|(?P<sign>[-+*/(),])"
    r"|(?P<space>\s+)"
)
_INFIX = {"+": (1, "Add"), "-": (1, "Sub"), "*": (2, "Mul"), "/": (2, "Div")}
_MINUS_ONE = Constant(-1.0)
# Fields recur from formula to formula; trees are immutable, so the nodes can be shared.
_make_field = lru_cache(maxsize=4096)(Field)
_EXCERPT = 40
"""Characters of the text that an error shows on either side of the place."""


class Token(NamedTuple):
    """A piece of the text; the kind `end` closes the list."""

    kind: str
    text: str
    position: int


def parse(text: str, fields: Iterable[str] | None = None) -> Expression:
    """Read a formula.

    Args:
        text: for example `Corr(Mean($close,20),$volume,60)`.
        fields: the fields that there are; None: any name is accepted.

    Raises:
        ExpressionError: the text is no formula, names an unknown operator or field, has a window
            that reads the future or is too small, or contains no field; the message marks the place.
    """
    return _Parser(text, None if fields is None else frozenset(fields)).parse()


class _Parser:
    def __init__(self, text: str, fields: Collection[str] | None) -> None:
        if not isinstance(text, str):
            raise ExpressionError(f"a formula is text, was {text!r}")
        self.text = text
        self.fields = fields
        if len(text) > MAX_LENGTH:
            raise self.error(MAX_LENGTH, f"a formula has at most {MAX_LENGTH} characters, was {len(text)}")
        self.tokens = self.split()
        self.next = 0

    def error(self, position: int, message: str) -> ExpressionError:
        """The error for a place in the text, with an excerpt, on one line."""
        low, high = max(0, position - _EXCERPT), position + _EXCERPT
        before = ("…" if low else "") + self.text[low:position]
        after = self.text[position:high] + ("…" if high < len(self.text) else "")
        # The message may quote the text as well.
        place, message = (" ".join(part.split()) for part in (f"{before}^{after}", message))
        return ExpressionError(f'at column {position + 1} of "{place}": {message}')

    def split(self) -> list[Token]:
        """The tokens, without spaces, closed by one of kind `end`."""
        tokens = []
        position, length = 0, len(self.text)
        match_at = _TOKEN.match
        while position < length:
            match = match_at(self.text, position)
            if match is None:
                character = self.text[position]
                hint = "; a field is $name, or ${any name}" if character == "$" else ""
                raise self.error(position, f"unexpected {character!r}{hint}")
            kind, end = str(match.lastgroup), match.end()
            if kind != "space":
                # The longest token is a field in braces.
                if end - position > MAX_NAME + 3:
                    raise self.error(position, f"a name or number has at most {MAX_NAME} characters")
                tokens.append(Token(kind, match.group(), position))
            position = end
        tokens.append(Token("end", "the end", length))
        return tokens

    def parse(self) -> Expression:
        """The whole text."""
        if self.tokens[0].kind == "end":
            raise self.error(0, "the formula is empty")
        expression = self.infix(1, 0)
        token = self.tokens[self.next]
        if token.kind != "end":
            raise self.error(token.position, f"expected the end or an infix sign, was {token.text}")
        if not expression.fields:
            raise self.error(0, "a formula needs at least one field, such as $close")
        return expression

    def take(self) -> Token:
        """The next token, taken."""
        token = self.tokens[self.next]
        if token.kind != "end":
            self.next += 1
        return token

    def expect(self, sign: str, after: str) -> None:
        """Take that sign or fail."""
        token = self.take()
        if token.text != sign or token.kind != "sign":
            raise self.error(token.position, f"expected {sign} {after}, was {token.text}")

    def infix(self, lowest: int, level: int) -> Expression:
        """Operands joined by infix signs of at least that precedence, from the left."""
        left = self.operand(level)
        while True:
            token = self.tokens[self.next]
            precedence, name = _INFIX.get(token.text, (0, ""))
            if precedence < lowest:
                return left
            self.next += 1
            right = self.infix(precedence + 1, level + 1)
            left = self.call(token, name, (left, right), None)

    def operand(self, level: int) -> Expression:
        """A number, a field, a formula in parentheses, a call, or the negative of one."""
        token = self.take()
        if level > MAX_DEPTH:
            raise self.error(token.position, f"a formula nests at most {MAX_DEPTH} levels")
        if token.kind == "field":
            return self.field(token)
        if token.kind == "number":
            return self.number(token)
        if token.kind == "name":
            return self.operator(token, level)
        if token.text == "(":
            inside = self.infix(1, level + 1)
            self.expect(")", "to close the parenthesis")
            return inside
        if token.text == "-":
            inside = self.operand(level + 1)
            if isinstance(inside, Constant):
                return Constant(-inside.value)
            return self.call(token, "Mul", (_MINUS_ONE, inside), None)
        raise self.error(token.position, f"expected a number, a field or an operator, was {token.text}")

    def field(self, token: Token) -> Expression:
        """A field, if there is one of that name."""
        name = token.text[2:-1] if token.text.startswith("${") else token.text[1:]
        if self.fields is not None and name not in self.fields:
            by_lower_name = {known.lower(): known for known in sorted(self.fields)}
            close = difflib.get_close_matches(name.lower(), by_lower_name, n=3)
            names = [by_lower_name[key] for key in close] or sorted(self.fields)[:20]
            listed = ", ".join("$" + known for known in names)
            hint = f"did you mean {listed}?" if close else f"fields are {listed}"
            raise self.error(token.position, f"unknown field {token.text}: {hint}")
        try:
            return _make_field(name)
        except ExpressionError as wrong:
            raise self.error(token.position, str(wrong)) from None

    def number(self, token: Token) -> Expression:
        """A number that is an operand."""
        if token.text[-1] in "dDmM":
            raise self.error(token.position, f"{token.text} is a window; here a number is expected")
        value = float(token.text)
        if not math.isfinite(value):
            raise self.error(token.position, f"a number must be finite, was {token.text}")
        return Constant(value)

    def operator(self, token: Token, level: int) -> Expression:
        """A call: the operator's name was taken."""
        if self.tokens[self.next].text != "(":
            if token.text.lower() in ("inf", "infinity", "nan"):
                raise self.error(token.position, f"a number must be finite, was {token.text}")
            raise self.error(token.position, f"{token.text} is no number; a field is written ${token.text}")
        try:
            row = find_operator(token.text)
        except ExpressionError as wrong:
            raise self.error(token.position, str(wrong)) from None
        self.next += 1
        operands = []
        for i in range(row.arity):
            if i:
                self.expect(",", f"then another operand of {signature(row)}")
            operands.append(self.infix(1, level + 1))
        window = None
        if row.has_window:
            self.expect(",", f"then the window of {signature(row)}")
            window = self.window(row)
        self.expect(")", f"to close {signature(row)}")
        return self.call(token, row.name, tuple(operands), window)

    def window(self, row: Operator) -> int:
        """A window: a whole number, its suffix ignored."""
        first = token = self.take()
        if token.text == "-":
            token = self.take()
        digits = token.text.rstrip("dDmM")
        if token.kind != "number" or not digits.isdigit():
            raise self.error(
                first.position, f"{row.name}: the window must be a whole number of bars, was {token.text}"
            )
        window = int(digits) * (1 if first is token else -1)
        try:
            check_window(row, window)
        except ExpressionError as wrong:
            raise self.error(first.position, str(wrong)) from None
        return window

    def call(
        self, token: Token, name: str, operands: tuple[Expression, ...], window: int | None
    ) -> Expression:
        """The tree of a call; what the tree refuses is reported at the operator's place."""
        try:
            return Call(name, operands, window)
        except ExpressionError as wrong:
            raise self.error(token.position, str(wrong)) from None
