import copy
import pickle

import numpy as np
import pytest
from hypothesis import given

from rlgen.errors import ExpressionError
from rlgen.expression import Call, Constant, Expression, Field
from rlgen.expression.tree import MAX_DEPTH, MAX_NAME, MAX_TOKENS, MAX_WINDOW
from tests.expression.strategies import expressions

CLOSE = Field("close")


def deep(levels: int) -> Expression:
    node: Expression = CLOSE
    for _ in range(levels - 1):
        node = Call("Abs", (node,))
    return node


def test_attributes_by_hand():
    tree = Call("Corr", (Call("Mean", (CLOSE,), 20), Call("Add", (Field("volume"), Constant(1)))), 60)
    assert str(tree) == "Corr(Mean($close,20),Add($volume,1.0),60)"
    assert tree.fields == {"close", "volume"}
    assert tree.n_tokens == 8  # $close 20 Mean $volume 1.0 Add 60 Corr
    assert tree.depth == 3
    assert tree.lookback == 59 + 19
    assert Call("Ref", (Call("Delta", (CLOSE,), 3),), 10).lookback == 13
    assert Call("Sub", (CLOSE, Call("Ref", (CLOSE,), 5))).lookback == 5
    assert CLOSE.lookback == 0


def test_text_of_names_and_numbers():
    assert [str(Field(n)) for n in ("close", "名", "5m", "mid price", "a.b")] == [
        "$close",
        "$名",
        "$5m",
        "${mid price}",
        "${a.b}",
    ]
    assert [str(Constant(v)) for v in (1, -0.5, 1e-5, 1e16, -0.0)] == ["1.0", "-0.5", "1e-05", "1e+16", "0.0"]


@given(expressions(), expressions())
def test_equal_trees_are_interchangeable(a, b):
    for twin in (pickle.loads(pickle.dumps(a)), copy.deepcopy(a)):
        assert twin == a and hash(twin) == hash(a) and type(twin) is type(a)
    assert (a == b) == (str(a) == str(b))
    assert (a < b) + (b < a) + (a == b) == 1


def test_order_is_constants_fields_calls():
    nodes = [Call("Abs", (CLOSE,)), Field("volume"), CLOSE, Constant(2), Constant(-1)]
    assert [str(x) for x in sorted(nodes)] == ["-1.0", "2.0", "$close", "$volume", "Abs($close)"]


def test_trees_are_frozen():
    with pytest.raises(AttributeError):
        CLOSE.name = "open"


def test_a_numpy_window_becomes_an_int():
    assert type(Call("Mean", (CLOSE,), np.int64(5)).window) is int


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Call("Ref", (CLOSE,), -1), "Ref by -1 reads the future"),
        (lambda: Call("Delta", (CLOSE,), -3), "Delta by -3 reads the future"),
        (lambda: Call("Ref", (CLOSE,), 0), "Ref: the window was 0"),
        (lambda: Call("Mean", (CLOSE,), -1), "Mean: the window was -1"),
        (lambda: Call("Mean", (CLOSE,), 2.5), "Mean: the window was 2.5"),
        (lambda: Call("Mean", (CLOSE,), True), "Mean: the window was True"),
        (lambda: Call("Mean", (CLOSE,), None), "Mean: the window was None"),
        (lambda: Call("Mean", (CLOSE,), MAX_WINDOW + 1), "from 1 to 1000000"),
        (lambda: Call("Std", (CLOSE,), 1), "Std: the window was 1; it must be at least the 2 values"),
        (lambda: Call("Kurt", (CLOSE,), 3), "Kurt: the window was 3; it must be at least the 4 values"),
        (lambda: Call("Abs", (CLOSE,), 5), r"Abs\(x\) has no window, was 5"),
        (lambda: Call("Add", (CLOSE,)), r"Add\(x,y\) takes 2 operands, was 1"),
        (lambda: Call("Meen", (CLOSE,), 5), "unknown operator Meen"),
        (lambda: Call("Mean", (Constant(5),), 5), "the operand needs a field, was 5.0"),
        (lambda: Call("CSRank", (Call("Add", (Constant(5), Constant(1))),)), "needs a field"),
        (lambda: Call("Corr", (CLOSE, Constant(5)), 5), "needs a field, was 5.0"),
        (lambda: Call("Div", (Constant(5), Constant(0))), r"Div\(5.0,0.0\) is no finite number"),
        (lambda: Call("Pow", (Constant(-8), Constant(0.5))), "no finite number"),
        (lambda: Call("Pow", (Constant(1e300), Constant(2))), "no finite number"),
        (lambda: Call("Mul", (Constant(1e300), Constant(1e300))), "no finite number"),
        (lambda: Call("Log", (Constant(0),)), "no finite number"),
        (lambda: Constant(float("inf")), "finite number, was inf"),
        (lambda: Constant(float("nan")), "finite number, was nan"),
        (lambda: Field(""), "a field's name"),
        (lambda: Field(" x"), "a field's name"),
        (lambda: Field("a}b"), "a field's name"),
        (lambda: Field("a\nb"), "a field's name"),
        (lambda: Field("a" * (MAX_NAME + 1)), "1 to 200 characters"),
        (lambda: deep(MAX_DEPTH + 1), "100 levels and 1000 tokens, was 101 levels"),
    ],
)
def test_refusals_name_what_is_wrong(make, message):
    with pytest.raises(ExpressionError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_size_is_bounded():
    node: Expression = CLOSE
    with pytest.raises(ExpressionError, match=f"{MAX_TOKENS} tokens"):
        for _ in range(20):
            node = Call("Add", (node, node))
    assert deep(MAX_DEPTH).depth == MAX_DEPTH
