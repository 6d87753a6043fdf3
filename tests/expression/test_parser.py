import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlgen.errors import ExpressionError
from rlgen.expression import Field, parse
from tests.expression.strategies import expressions
from tests.expression.test_tree import deep


@given(expressions())
def test_printing_and_parsing_are_inverse(expression):
    again = parse(str(expression))
    assert again == expression and repr(again) == repr(expression)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Corr(Mean($close,20),$volume,60)", "Corr(Mean($close,20),$volume,60)"),
        (" corr ( MEAN($close , 20d),\n $volume , 60m ) ", "Corr(Mean($close,20),$volume,60)"),
        ("csrank($close)", "CSRank($close)"),
        ("$a+$b*$c", "Add($a,Mul($b,$c))"),
        ("($a+$b)*$c", "Mul(Add($a,$b),$c)"),
        ("$a-$b-$c", "Sub(Sub($a,$b),$c)"),
        ("$a/$b/$c", "Div(Div($a,$b),$c)"),
        ("$a-$b+$c*2", "Add(Sub($a,$b),Mul($c,2.0))"),
        ("-$a", "Mul(-1.0,$a)"),
        ("-$a*$b", "Mul(Mul(-1.0,$a),$b)"),
        ("$a*-$b", "Mul($a,Mul(-1.0,$b))"),
        ("$a--2", "Sub($a,-2.0)"),
        ("$a*-(-3)", "Mul($a,3.0)"),
        ("-Log($a)/2", "Div(Mul(-1.0,Log($a)),2.0)"),
        ("$a*1e-05", "Mul($a,1e-05)"),
        ("$a*.5+3.", "Add(Mul($a,0.5),3.0)"),
        ("$a*2.5E+3", "Mul($a,2500.0)"),
        ("$a*(1+2)", "Mul($a,Add(1.0,2.0))"),
        ("Mean($a+$b,5)", "Mean(Add($a,$b),5)"),
        ("Mean($close,007)", "Mean($close,7)"),
        ("$名+${mid price}", "Add($名,${mid price})"),
        ("${close}", "$close"),
        ("(($close))", "$close"),
    ],
)
def test_texts_by_hand(text, expected):
    assert str(parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "the formula is empty"),
        ("1+2", 1, "at least one field"),
        ("Mean($clse,5)", 6, r"unknown field \$clse: did you mean \$close\?"),
        ("Mean($CLOSE,5)", 6, r"unknown field \$CLOSE: did you mean \$close\?"),
        ("$zzz", 1, r"fields are \$close, \$volume"),
        ("Mean(close,5)", 6, r"a field is written \$close"),
        ("2*meen($close,5)", 3, r"unknown operator meen: did you mean Mean\?"),
        ("Ref($close,-1)", 12, "Ref by -1 reads the future"),
        ("delta($close, -5d)", 15, "Delta by -5 reads the future"),
        ("Ref($close,0)", 12, "Ref: the window was 0"),
        ("$close+Std($close,1)", 19, "Std: the window was 1"),
        ("Mean($close)", 12, r"expected , then the window of Mean\(x,window\), was \)"),
        ("Mean($close,5,6)", 14, r"expected \) to close Mean\(x,window\), was ,"),
        ("Abs($close,5)", 11, r"expected \) to close Abs\(x\)"),
        ("Mean($close,2.5)", 13, "whole number of bars, was 2.5"),
        ("Mean($close,$close)", 13, r"whole number of bars, was \$close"),
        ("Mean($close,2*10)", 14, r"was \*"),
        ("Mean($close," + "9" * 50 + ")", 13, "from 1 to 1000000"),
        ("Corr($close,5)", 14, r"the window of Corr\(x,y,window\)"),
        ("Corr($close,5,10)", 1, "the operand needs a field, was 5.0"),
        ("Add($close)", 11, r"another operand of Add\(x,y\)"),
        ("$close+", 8, "expected a number, a field or an operator, was the end"),
        ("$close+*2", 8, r"was \*"),
        ("($close", 8, r"expected \) to close the parenthesis, was the end"),
        ("$close)", 7, r"was \)"),
        ("$close $volume", 8, r"was \$volume"),
        ("$close**2", 8, r"was \*"),
        ("$close^2", 7, r"unexpected '\^'"),
        ("$", 1, r"a field is \$name"),
        ("$close*inf", 8, "finite, was inf"),
        ("NaN*$close", 1, "finite, was NaN"),
        ("1e999*$close", 1, "finite, was 1e999"),
        ("Add($close,20d)", 12, "20d is a window"),
        ("Mean($close,1_000)", 14, "was _000"),
        ("1/0*$close", 2, r"Div\(1.0,0.0\) is no finite number"),
        ("__import__('os').system('x')", 12, "unexpected"),
        ("$close if $close else $volume", 8, "was if"),
        ("＄close", 1, "unexpected '＄'"),
        ("Mean(5d,$close)", 6, "5d is a window"),
        ("x" * 300, 1, "at most 200 characters"),
        ("$close+${}", 8, "unknown field"),
    ],
)
def test_errors_mark_the_place(text, column, message):
    with pytest.raises(ExpressionError, match=message) as caught:
        parse(text, fields=["close", "volume"])
    told = str(caught.value)
    assert told.startswith(f"at column {column} of ")
    assert "\n" not in told and len(told) < 400
    if text.isascii() and len(text) < 40:
        assert f'"{text[: column - 1]}^{text[column - 1 :]}"' in told


def test_a_long_text_is_shown_in_part_and_on_one_line():
    with pytest.raises(ExpressionError) as caught:
        parse("$a +\n" * 30 + "Oops($a)" + "\n+ $b" * 30)
    assert str(caught.value).startswith('at column 151 of "…')
    assert "+ ^Oops($a) +" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "$a" + ")" * 5000,
        "-" * 100_000 + "$a",
        "$a" + "+$a" * 50_000,
        "$a" + "+($a" * 5000 + ")" * 5000,
        "Abs(" * 5000 + "$a" + ")" * 5000,
        "$a*" * 5000,
        "$a " * 90_000,
        "a" * 299_999,
        "9" * 299_999,
        "x" * 10_000_000,
        "Abs(" * 20_000,
    ],
)
def test_hostile_texts_end_quickly_in_a_plain_error(text):
    start = time.perf_counter()
    with pytest.raises(ExpressionError):
        parse(text)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("text", ["1 ${a\n b}", "${a\n b}", "$close,${\n}", "Mean($close,${\u2028})"])
def test_a_line_break_in_a_name_does_not_break_the_error(text):
    with pytest.raises(ExpressionError) as error:
        parse(text, ["close"])
    assert len(str(error.value).splitlines()) == 1


def test_the_deepest_tree_can_be_read_back():
    tree = deep(100)
    assert parse(str(tree)) == tree


@given(st.text("$abMeanCorr(),0123456789.eE+-*/ {}d\n名\x00^'#", max_size=60))
def test_any_text_is_a_formula_or_a_plain_error(text):
    try:
        expression = parse(text)
    except ExpressionError as error:
        assert "\n" not in str(error)
    else:
        assert parse(str(expression)) == expression


@pytest.mark.parametrize("text", [None, 5, b"$close"])
def test_what_is_no_text_is_refused(text):
    with pytest.raises(ExpressionError, match="a formula is text"):
        parse(text)


def test_fields_may_be_any_iterable():
    assert parse("$b", iter(["a", "b"])) == Field("b")
