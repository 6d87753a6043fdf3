import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlgen.yaml_text import read_yaml, write_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3e-4", 0.0003),
        ("1E5", 100000.0),
        ("-1.5e+3", -1500.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("1_000", 1000),
        ("0", 0),
        ("-7", -7),
        ("000001", "000001"),
        ("007", "007"),
        ("13:00", "13:00"),
        ("09:30", "09:30"),
        ("NO", "NO"),
        ("on", "on"),
        ("yes", "yes"),
        ("true", True),
        ("False", False),
        ("2024-01-02", "2024-01-02"),
        ("2024-13-45", "2024-13-45"),
        ("0x1F", "0x1F"),
        ("1e", "1e"),
        ("~", None),
        ("", None),
        ("None", "None"),
        ("'5'", "5"),
    ],
)
def test_plain_words(text: str, value: Any) -> None:
    for written in (f"a: {text}", f"a: # why\n  {text}" if text else "a:"):
        (read,) = read_yaml(written).values()
        assert read == value and type(read) is type(value)


def test_infinity_and_nan_are_numbers() -> None:
    assert read_yaml("[.inf, -.inf]") == [math.inf, -math.inf]
    assert math.isnan(read_yaml(".nan"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "line 3, column 1: the key `a` stands twice, first in line 1"),
        ("x: {p: 1, p: 1}", "line 1, column 11: the key `p` stands twice, first in line 1"),
        ("a: [1", "line 1, column 6:"),
        ("\ta: 1", "line 1, column 1:"),
        ("a: !!python/object:os.system x", "line 1, column 4: could not determine a constructor"),
        ("--- 1\n--- 2", "line 2, column 1:"),
        ("a: \x00", "unacceptable character"),
        ("[" * 1500, "nested too deeply"),
        ("? [1]\n: 2", "unhashable key"),
    ],
)
def test_mistakes_have_a_place_and_one_line(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_yaml(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_merge_keys_may_be_overridden() -> None:
    tree = read_yaml("base: &base {p: 1, q: 2}\nother:\n  <<: *base\n  q: 3")
    assert tree["other"] == {"p": 1, "q": 3}


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.sampled_from(
        ["3e-4", "1e5", "09:30", "13:00", "000001", "NO", "2024-01-02", "true", "null", "<<", "="]
    )
)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(trees)
def test_what_is_written_reads_back(tree: Any) -> None:
    read = read_yaml(write_yaml(tree))
    assert read == tree
    assert repr(read) == repr(tree)  # 1 == True == 1.0
