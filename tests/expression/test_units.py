import pytest

from rlgen.errors import ExpressionError
from rlgen.expression import parse, unit_of


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("$close", (1, 0)),
        ("$volume", (0, 1)),
        ("$amount", (1, 1)),
        ("$spread", (0, 0)),
        ("$vwap-$close", (1, 0)),
        ("$amount/$volume-$close", (1, 0)),
        ("$close/$open-1", (0, 0)),
        ("2*$close", (1, 0)),
        ("1/$close", (-1, 0)),
        ("Var($close,5)", (2, 0)),
        ("Std($close,5)-$close", (1, 0)),
        ("Cov($close,$volume,5)-$amount", (1, 1)),
        ("Corr($close,$volume,5)+1", (0, 0)),
        ("CSRank($close)+Rank($volume,5)+ArgMax($open,5)+Skew($open,5)", (0, 0)),
        ("Pow($close/$open,2)", (0, 0)),
        ("Log($close)-Sign($volume)", (0, 0)),
    ],
)
def test_units_by_hand(text, unit):
    assert unit_of(parse(text)) == unit


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("$close+$volume", "were price and volume"),
        ("$close-1", "were price and no unit"),
        ("Greater($amount,1/$close)", r"were price·volume and price\^-1"),
        ("Mean(Less($close,$volume),5)", r"^Less\(\$close,\$volume\)"),
        ("Pow($close,2)", "were price and no unit"),
        ("Pow($spread,$close)", "were no unit and price"),
    ],
)
def test_what_does_not_go_together(text, told):
    with pytest.raises(ExpressionError, match=told):
        unit_of(parse(text))
