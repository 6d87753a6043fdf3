"""Formulas: operators, trees, text, tokens, and the grammar of the token game. No torch, no panels."""

from rlgen.expression.alphagen import AlphagenPool, read_alphagen_pool
from rlgen.expression.grammar import Games, Grammar, sample_uniform, uniform_expressions
from rlgen.expression.operators import OPERATORS, Operator, find_operator, minimum_periods
from rlgen.expression.parser import parse
from rlgen.expression.tokens import BEGIN, END, PAD, Vocabulary
from rlgen.expression.tree import Call, Constant, Expression, Field
from rlgen.expression.units import unit_of

__all__ = [
    "BEGIN",
    "END",
    "OPERATORS",
    "PAD",
    "AlphagenPool",
    "Call",
    "Constant",
    "Expression",
    "Field",
    "Games",
    "Grammar",
    "Operator",
    "Vocabulary",
    "find_operator",
    "minimum_periods",
    "parse",
    "read_alphagen_pool",
    "sample_uniform",
    "uniform_expressions",
    "unit_of",
]
