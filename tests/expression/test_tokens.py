import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlgen.errors import ConfigError, ExpressionError
from rlgen.expression import BEGIN, END, OPERATORS, PAD, Constant, Vocabulary, parse
from tests.expression.strategies import NAMES, expressions

SMALL = Vocabulary(["close", "volume"], ["Corr", "add", "Mean"], [20, 60], [-1, 0.5])


def test_ids_in_order():
    assert (PAD, BEGIN, END) == (0, 1, 2)
    assert SMALL.tokens == (
        *("<pad>", "<begin>", "<end>", "$close", "$volume", "-1.0", "0.5", "20", "60"),
        *("Corr", "Add", "Mean"),
    )
    assert SMALL.size == 12
    assert Vocabulary(["close"]).operators == tuple(OPERATORS)


def test_postfix_by_hand():
    expression = parse("Corr(Mean($close,20),Add($volume,0.5),60)")
    ids = SMALL.to_ids(expression)
    assert SMALL.to_text(ids) == "$close 20 Mean $volume 0.5 Add 60 Corr"
    assert len(ids) == expression.n_tokens
    assert SMALL.to_expression(ids) == expression


WINDOWS = (4, 5, 20)
CONSTANTS = (-1.0, 0.5, 1e-5)
FULL = Vocabulary(NAMES, None, WINDOWS, CONSTANTS)


@given(expressions(constants=st.sampled_from(CONSTANTS).map(Constant), windows=st.sampled_from(WINDOWS)))
def test_ids_and_trees_are_inverse(expression):
    ids = FULL.to_ids(expression)
    assert len(ids) == expression.n_tokens and min(ids) > END
    assert FULL.to_expression(ids) == expression


@pytest.mark.parametrize(
    ("text", "missing"),
    [("$open", r"\$open"), ("Mean($close,5)", "5"), ("Add($close,2)", "2.0"), ("Std($close,20)", "Std")],
)
def test_a_token_that_is_not_there_is_named(text, missing):
    with pytest.raises(ExpressionError, match=f"the vocabulary has no token {missing}$"):
        SMALL.to_ids(parse(text))


@pytest.mark.parametrize(
    "ids",
    [[], [5], [3, 4], [7], [3, 7], [3, 10], [3, 3, 7, 10], [9], [3, 11], [0], [3, 2], [12], [-1], [5, 6, 10]],
)
def test_ids_that_spell_no_formula(ids):
    with pytest.raises(ExpressionError):
        SMALL.to_expression(ids)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (([],), "grammar.fields: .*at least one field"),
        ((["a b", "x}"],), "a field's name"),
        ((["a", "a"],), "grammar.fields: listed twice: a"),
        ((["a"], ["Meen"]), r"unknown operator Meen: did you mean Mean\?"),
        ((["a"], ["Mean", "mean"]), "grammar.operators: listed twice: Mean"),
        ((["a"], None, [0]), "grammar.windows: .*was 0"),
        ((["a"], None, [2.5]), "grammar.windows: .*was 2.5"),
        ((["a"], None, ["20d"]), "grammar.windows: .*was 20d"),
        ((["a"], None, [5, 5]), "grammar.windows: listed twice: 5"),
        ((["a"], None, [5], [float("nan")]), "finite number, was nan"),
        ((["a"], None, [5], [0.0, -0.0]), "grammar.constants: listed twice: 0.0"),
    ],
)
def test_what_makes_no_vocabulary(arguments, told):
    with pytest.raises(ConfigError, match=told):
        Vocabulary(*arguments)


def test_the_description_is_plain_data_and_tells_vocabularies_apart():
    description = json.loads(json.dumps(SMALL.describe()))
    assert description == SMALL.describe()
    assert Vocabulary(**description).tokens == SMALL.tokens
    assert (
        Vocabulary(["volume", "close"], ["Corr", "add", "Mean"], [20, 60], [-1, 0.5]).describe()
        != description
    )
