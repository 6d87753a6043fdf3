import json

import pytest

from rlgen.errors import DataError, ExpressionError
from rlgen.expression import read_alphagen_pool


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_a_pool_file_of_either_age(tmp_path):
    path = write(
        tmp_path / "pool.json",
        {
            "exprs": [
                "Div(Ref($volume,20d),Sub(-30.0,$low))",
                "Rank(Add(Constant(-0.01),WMA($close,10)),40)",
                "Mul(Mean($vwap,10),1e-05)",
                "Abs(Sub(0.0,EMA($high,5d)))",
            ],
            "weights": [0.25, -0.5, 1, 0],
        },
    )
    pool = read_alphagen_pool(path)
    assert [str(x) for x in pool.expressions] == [
        "Div(Ref($volume,20),Sub(-30.0,$low))",
        "Rank(Add(-0.01,WMA($close,10)),40)",
        "Mul(Mean($vwap,10),1e-05)",
        "Abs(Sub(0.0,EMA($high,5)))",
    ]
    assert pool.weights == (0.25, -0.5, 1.0, 0.0)
    assert [line.split(": ")[1] for line in pool.warnings] == ["Rank", "WMA", "EMA"]
    assert "inverted" in pool.warnings[0]


def test_operators_that_mean_the_same_give_no_warning(tmp_path):
    path = write(tmp_path / "pool.json", {"exprs": ["Mean($close,5)", "Med($close,4)"], "weights": [1, 2]})
    pool = read_alphagen_pool(path)
    assert len(pool.warnings) == 1 and "Med" in pool.warnings[0]
    assert read_alphagen_pool(write(path, {"exprs": [], "weights": []})).expressions == ()


@pytest.mark.parametrize(
    ("content", "error", "told"),
    [
        ("{", DataError, "not readable as JSON"),
        ([], DataError, "an alphagen pool is"),
        ({"exprs": ["$close"]}, DataError, "an alphagen pool is"),
        ({"exprs": ["$close"], "weights": []}, DataError, "were 0 and 1"),
        ({"exprs": [5], "weights": [1]}, DataError, "expression 1 must be text, was 5"),
        ({"exprs": ["$close"], "weights": ["a"]}, DataError, "weight 1 must be a finite number, was 'a'"),
        ('{"exprs": ["$close"], "weights": [NaN]}', DataError, "weight 1 must be a finite number, was nan"),
        (
            {"exprs": ["$close", "Ref($close,-20d)"], "weights": [1, 1]},
            ExpressionError,
            "expression 2: at column 12 .* reads the future",
        ),
        (
            {"exprs": ["Mul(Constant(2.0),$clse)"], "weights": [1]},
            ExpressionError,
            r"expression 1: at column 19 .*unknown field \$clse",
        ),
    ],
)
def test_mistakes_are_named(tmp_path, content, error, told):
    path = write(tmp_path / "pool.json", content)
    with pytest.raises(error, match=told) as caught:
        read_alphagen_pool(path, fields=["close", "volume"])
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


def test_a_missing_file(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_alphagen_pool(tmp_path / "none.json")
