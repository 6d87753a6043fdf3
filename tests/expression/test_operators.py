import math

import pytest

from rlgen.errors import ExpressionError
from rlgen.expression import OPERATORS, find_operator, minimum_periods

WINDOWLESS = [
    "Abs",
    "Sign",
    "Log",
    "CSRank",
    "CSZscore",
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Pow",
    "Greater",
    "Less",
]
ROLLING = ["Ref", "Mean", "Sum", "Std", "Var", "Skew", "Kurt", "Max", "Min", "Med", "Mad", "Rank", "Delta"]
ROLLING += ["WMA", "EMA", "ArgMax", "ArgMin", "Cov", "Corr"]


def test_the_registry_holds_the_operators_of_the_design():
    assert list(OPERATORS) == WINDOWLESS + ROLLING
    assert all(row.name == name for name, row in OPERATORS.items())


def test_traits_by_operator():
    def names(condition):
        return {row.name for row in OPERATORS.values() if condition(row)}

    two = {"Add", "Sub", "Mul", "Div", "Pow", "Greater", "Less", "Cov", "Corr"}
    assert names(lambda r: r.commutative) == {"Add", "Mul", "Greater", "Less", "Cov", "Corr"}
    assert names(lambda r: r.arity == 2) == two
    assert names(lambda r: r.takes_constants) == {"Abs", "Sign", "Log"} | two - {"Cov", "Corr"}
    assert names(lambda r: r.has_window) == set(ROLLING)
    assert names(lambda r: r.minimum == 2) == {"Std", "Var", "Mad", "Cov", "Corr"}
    assert names(lambda r: r.minimum == 3) == {"Skew"}
    assert names(lambda r: r.minimum == 4) == {"Kurt"}
    assert names(lambda r: r.family == "cross_section") == {"CSRank", "CSZscore"}
    assert names(lambda r: r.lookback(7) == 7) == {"Ref", "Delta"}
    assert names(lambda r: r.lookback(7) == 6) == set(ROLLING) - {"Ref", "Delta"}
    assert names(lambda r: r.lookback(None) == 0) == set(OPERATORS)


@pytest.mark.parametrize(
    ("name", "window", "fraction", "expected"),
    [
        ("Mean", 5, 0.5, 3),
        ("Mean", 4, 0.5, 2),
        ("Mean", 30, 0.1, 3),  # 0.1 · 30 is 3.0000000000000004
        ("Mean", 10, 0.0, 1),
        ("Mean", 10, 1.0, 10),
        ("Std", 2, 0.5, 2),
        ("Skew", 4, 0.5, 3),
        ("Kurt", 6, 0.5, 4),
        ("Kurt", 20, 0.5, 10),
    ],
)
def test_minimum_periods(name, window, fraction, expected):
    assert minimum_periods(OPERATORS[name], window, fraction) == expected


def test_names_are_found_in_any_case_and_close_ones_are_named():
    assert find_operator("csRANK") is OPERATORS["CSRank"]
    with pytest.raises(ExpressionError, match=r"unknown operator Meen: did you mean Mean"):
        find_operator("Meen")
    with pytest.raises(ExpressionError, match=r"unknown operator qqq: operators are Abs, Sign, .*Corr$"):
        find_operator("qqq")


@pytest.mark.parametrize("row", OPERATORS.values(), ids=lambda row: row.name)
def test_every_row_is_complete(row):
    assert row.definition and "\n" not in row.definition and row.formula
    assert "<x>" in row.latex
    assert ("<y>" in row.latex) == (row.arity == 2)
    assert ("<w>" in row.latex) == row.has_window
    assert row.latex.count("{") == row.latex.count("}")
    if row.takes_constants:
        assert math.isfinite(row.number(*[2.0] * row.arity))
