"""Hypothesis strategies: expressions of every operator, with odd field names and any finite constant."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from rlgen.errors import ExpressionError
from rlgen.expression import OPERATORS, Call, Constant, Expression, Field

NAMES = ("close", "volume", "名", "mid price", "5m", "a.b", "ret-1", "_x", "स्त")
FAMILIES = ("unary", "binary", "rolling", "rolling_pair", "cross_section")

fields = st.sampled_from(NAMES).map(Field)
constants = st.floats(allow_nan=False, allow_infinity=False).map(Constant) | st.sampled_from(
    [Constant(-1), Constant(0), Constant(0.5), Constant(1e-5), Constant(1e16)]
)
windows = st.integers(4, 300)


def expressions(
    families: Sequence[str] = FAMILIES,
    constants: st.SearchStrategy[Constant] = constants,
    fields: st.SearchStrategy[Field] = fields,
    windows: st.SearchStrategy[int] = windows,
) -> st.SearchStrategy[Expression]:
    """Expressions with at least one field."""
    rows = [row for row in OPERATORS.values() if row.family in families]

    @st.composite
    def call(draw: st.DrawFn, inner: st.SearchStrategy[Expression]) -> Expression:
        row = draw(st.sampled_from(rows))
        operands = [draw(inner) for _ in range(row.arity)]
        if not row.takes_constants:
            operands = [x if x.fields else draw(fields) for x in operands]
        window = draw(windows) if row.has_window else None
        try:
            return Call(row.name, tuple(operands), window)
        except ExpressionError:  # constants without a finite value
            return Call(row.name, tuple(draw(fields) for _ in range(row.arity)), window)

    return st.recursive(fields | constants, call, max_leaves=8).filter(lambda x: bool(x.fields))
