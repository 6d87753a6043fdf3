"""Cleaning a bar table, on tables small enough to check by hand, and against pandas on random ones."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from rlgen.errors import DataError
from rlgen.panel.clean import ProbableSplit, clean_bars
from rlgen.schema import with_place
from tests.bar_tables import FIRST, bar_table, rows_of, stamps

NAN = float("nan")


def one_symbol(n=3, **columns):
    return pa.table({"datetime": pa.array(stamps(n), pa.timestamp("ms")), "symbol": ["a"] * n} | columns)


def cleaned(table, **options):
    return clean_bars(table, "bars", **options)


def message(table, **options):
    with pytest.raises(DataError) as error:
        cleaned(table, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_the_promised_types_and_order():
    table = bar_table(symbols=("b", "a"), days=2).append_column("flag", pa.array([True, None] * 6))
    shuffled = table.take(pa.array(np.random.default_rng(0).permutation(12)))
    result, counts = cleaned(shuffled)
    symbol = result["symbol"]
    assert symbol.num_chunks == 1 and symbol.type == pa.dictionary(pa.int32(), pa.string())
    assert symbol.chunk(0).dictionary.to_pylist() == ["a", "b"]
    assert symbol.chunk(0).indices.to_pylist() == [0] * 6 + [1] * 6
    assert result["datetime"].type == pa.timestamp("ms")
    assert result["datetime"].to_pylist()[:6] == sorted(result["datetime"].to_pylist()[:6])
    assert result["volume"].type == pa.float64()
    assert all(column.null_count == 0 for column in result.columns)
    expected = table.set_column(7, "flag", table["flag"].fill_null(False))
    expected = expected.set_column(6, "volume", expected["volume"].cast(pa.float64()))
    assert rows_of(result) == rows_of(expected)
    assert (counts.rows_given, counts.rows, counts.duplicates, counts.lines()) == (12, 12, 0, [])


def test_symbols_without_rows_do_not_stay():
    table = bar_table(symbols=("a", "b", "c"))
    coded = table.set_column(1, "symbol", table["symbol"].dictionary_encode()).slice(6, 6)
    assert cleaned(coded)[0]["symbol"].chunk(0).dictionary.to_pylist() == ["b"]


# --------------------------------------------------------------------------------------- duplicates


def test_identical_rows_are_dropped_and_counted():
    table = bar_table()
    twice = pa.concat_tables([table, table.slice(3, 2), table.slice(3, 1)])
    result, counts = cleaned(twice)
    assert counts.duplicates == 3 and counts.rows == 12
    assert result.equals(cleaned(table)[0])
    assert counts.lines() == ["3 identical duplicate rows dropped"]


def test_missing_values_are_identical_to_each_other():
    columns = {"close": [NAN, NAN, None], "label": ["x", None, None], "flag": [True] * 3}
    same = one_symbol(**columns).set_column(0, "datetime", pa.array([FIRST] * 3))
    assert "label was x and None" in message(same, keep=["label"])
    assert cleaned(same)[1].duplicates == 2


@pytest.mark.parametrize(
    ("column", "values", "shown"),
    [
        ("close", [10.0, 10.5], "close was 10.0 and 10.5"),
        ("close", [10.0, NAN], "close was 10.0 and nan"),
        ("volume", [100, 200], "volume was 100.0 and 200.0"),
        ("flag", [True, False], "flag was True and False"),
        ("label", ["x", "y"], "label was x and y"),
    ],
)
def test_conflicting_rows_name_file_symbol_bar_and_values(column, values, shown):
    table = pa.table({"datetime": [FIRST] * 2, "symbol": ["600000"] * 2, column: values})
    text = message(table, keep=["label"] if column == "label" else [])
    assert "two different rows for symbol 600000, bar 2024-01-02 09:31:00" in text
    assert shown in text
    assert text.startswith("bars, row 1 and bars, row 2: ")
    files = pa.concat_tables(
        [
            with_place(table.slice(0, 1), "a.csv", np.array([5])),
            with_place(table.slice(1), "b.csv", np.array([9])),
        ]
    )
    assert message(files, keep=["label"] if column == "label" else []).startswith(
        "a.csv, row 5 and b.csv, row 9: "
    )


def test_conflicts_are_found_far_apart_and_among_identical_ones():
    table = bar_table(days=3)
    other = table.slice(4, 1).set_column(5, "close", pa.array([99.0]))
    assert "close was 11.1 and 99.0" in message(pa.concat_tables([table, table.slice(4, 1), other]))


# ----------------------------------------------------------------------- prices, infinities, factors


def test_prices_not_above_zero_are_missing_but_returns_may_be_negative():
    table = one_symbol(
        open=[0.0, -1.0, 5.0], close=[1.0, 2.0, -0.0], ret=[-0.01, 0.0, 0.01], volume=[0, -5, 1]
    )
    result, counts = cleaned(table)
    np.testing.assert_array_equal(result["open"], [NAN, NAN, 5.0])
    np.testing.assert_array_equal(result["close"], [1.0, 2.0, NAN])
    assert result["ret"].to_pylist() == [-0.01, 0.0, 0.01]
    assert result["volume"].to_pylist() == [0.0, -5.0, 1.0]
    assert counts.nonpositive_prices == {"open": 2, "close": 1}
    assert counts.lines() == ["3 prices not above zero made missing: open 2, close 1"]


def test_a_named_price_must_be_above_zero_too():
    table = one_symbol(mid=[1.0, 0.0, -2.0])
    np.testing.assert_array_equal(cleaned(table, prices=["mid"])[0]["mid"], [1.0, NAN, NAN])


def test_infinities_are_missing():
    table = one_symbol(close=[np.inf, 1.0, -np.inf], ret=[np.inf, NAN, 0.0])
    result, counts = cleaned(table)
    np.testing.assert_array_equal(result["close"], [NAN, 1.0, NAN])
    np.testing.assert_array_equal(result["ret"], [NAN, NAN, 0.0])
    assert counts.infinities == {"close": 2, "ret": 1} and counts.nonpositive_prices == {}


def test_adjust_factor_multiplies_prices_and_divides_volume():
    table = one_symbol(
        close=[100.0, 100.0, 10.0],
        volume=[1000, 1000, 10_000],
        amount=[99_000.0, 99_000.0, 101_000.0],
        ret=[0.1, 0.2, 0.3],
        adjust_factor=[0.1, 0.1, 1.0],
    )
    result, counts = cleaned(table)
    assert result["close"].to_pylist() == [10.0, 10.0, 10.0]
    assert result["volume"].to_pylist() == [10_000.0, 10_000.0, 10_000.0]
    assert result["amount"].to_pylist() == [99_000.0, 99_000.0, 101_000.0]
    assert result["vwap"].to_pylist() == [9.9, 9.9, 10.1]
    assert result["ret"].to_pylist() == [0.1, 0.2, 0.3]
    assert counts.adjusted and counts.bad_adjust_factors == 0 and "adjust_factor" not in result.column_names
    assert "adjust_factor" in cleaned(table, fields=["adjust_factor"])[0].column_names


def test_an_unusable_adjust_factor_makes_its_row_missing():
    table = one_symbol(4, close=[1.0] * 4, volume=[1] * 4, adjust_factor=[1.0, 0.0, None, -1.0])
    result, counts = cleaned(table)
    np.testing.assert_array_equal(result["close"], [1.0, NAN, NAN, NAN])
    np.testing.assert_array_equal(result["volume"], [1.0, NAN, NAN, NAN])
    assert counts.bad_adjust_factors == 3


def test_vwap_is_derived_only_where_it_is_absent_and_wanted():
    table = one_symbol(amount=[100.0, 0.0, 30.0], volume=[10, 0, 0])
    result, counts = cleaned(table)
    np.testing.assert_array_equal(result["vwap"], [10.0, NAN, NAN])
    assert counts.derived_vwap and counts.lines() == ["vwap computed as amount / volume"]
    given, counts = cleaned(table.append_column("vwap", pa.array([7.0, 8.0, 9.0])))
    assert given["vwap"].to_pylist() == [7.0, 8.0, 9.0] and not counts.derived_vwap
    assert cleaned(table, fields=["volume"])[0].column_names == ["datetime", "symbol", "volume"]
    assert cleaned(table, fields=["vwap"])[0].column_names == ["datetime", "symbol", "vwap"]
    assert "no column `vwap`" in message(table.drop(["amount"]), fields=["vwap"])


# ------------------------------------------------------------------------------------------- splits


def daily(prices, opens=None):
    """One bar a day from Tuesday 2024-01-02 on."""
    days = [dt.datetime(2024, 1, 2) + dt.timedelta(days=k) for k in range(len(prices))]
    columns = {"datetime": days, "symbol": ["a"] * len(days), "close": prices}
    return pa.table(columns | ({"open": opens} if opens else {}))


@pytest.mark.parametrize("ratio", [2, 3, 10, 20, 1.5, 1 / 2, 1 / 10, 2 / 3, 2.03, 0.1 * 0.985])
def test_probable_splits(ratio):
    (split,) = cleaned(daily([10.0, 10.1, 10.1 * ratio, 10.1 * ratio]))[1].probable_splits
    assert (split.symbol, split.date) == ("a", dt.date(2024, 1, 4))
    assert split.ratio == pytest.approx(ratio)


@pytest.mark.parametrize("ratio", [1.0, 1.1, 0.7, 1.3, 1.45, 2.1, 0.45, 40])
def test_no_splits(ratio):
    assert cleaned(daily([10.0, 10.0 * ratio]))[1].probable_splits == ()


def test_splits_look_at_the_open_across_gaps_and_not_within_a_day_or_between_symbols():
    opens = [10.0, 5.0, NAN, 5.2]
    table = daily([10.0, 5.3, NAN, 5.2], opens)
    counts = cleaned(table)[1]
    assert counts.probable_splits == (ProbableSplit("a", dt.date(2024, 1, 3), 0.5),)
    assert counts.lines() == ["probable splits not adjusted for: a 2024-01-03 (price × 0.5)"]
    across = daily([10.0, NAN, NAN, 1.0])
    assert [split.date for split in cleaned(across)[1].probable_splits] == [dt.date(2024, 1, 5)]
    assert cleaned(one_symbol(close=[10.0, 5.0, 1.0]))[1].probable_splits == ()
    two = pa.table(
        {"datetime": [FIRST, FIRST + dt.timedelta(days=1)], "symbol": ["a", "b"], "close": [10.0, 5.0]}
    )
    assert cleaned(two)[1].probable_splits == ()


def test_an_adjusted_split_is_none():
    table = daily([10.0, 1.0]).append_column("adjust_factor", pa.array([0.1, 1.0]))
    assert cleaned(table)[1].probable_splits == ()


def test_many_splits_are_shortened_in_the_report():
    lines = cleaned(daily([1.0, 2.0] * 8))[1].lines()
    assert lines[0].endswith("(15 in all)") and lines[0].count("price ×") == 10


# --------------------------------------------------------------------------------- columns and rows


def test_columns_that_must_be_there():
    table = bar_table()
    for option in ("fields", "numbers", "keep", "booleans"):
        text = message(table, **{option: ["nothing"]})
        assert (
            text == "bars: no column `nothing`; columns were datetime, symbol, open, high, low, close, volume"
        )
    result = cleaned(table, fields=["volume"], numbers=["close"], optional=["low", "absent"])[0]
    assert result.column_names == ["datetime", "symbol", "low", "close", "volume"]


def test_what_is_left_out_is_said():
    counts = cleaned(bar_table(note=pa.array(["x"] * 12)))[1]
    assert counts.left_out == ("note",)
    assert counts.lines() == ["columns that are no numbers left out: note"]


def test_a_table_without_rows():
    assert message(bar_table().slice(0, 0)) == "bars: there are no bars"


def test_the_longest_span_and_very_many_symbols():
    far = [dt.datetime(1700, 1, 1), dt.datetime(2249, 12, 31)]
    table = pa.table(
        {
            "datetime": pa.array(far * 10_000, pa.timestamp("ms")),
            "symbol": [f"{k // 2:05d}" for k in reversed(range(20_000))],
            "close": np.arange(20_000.0) + 1,
        }
    )
    result, counts = cleaned(table)
    expected = table.sort_by([("symbol", "ascending"), ("datetime", "ascending")])
    assert counts.duplicates == 0
    assert result["close"].to_pylist() == expected["close"].to_pylist()


@pytest.mark.parametrize("seed", range(5))
def test_random_tables_against_pandas(seed):
    rng = np.random.default_rng(seed)
    n = 400
    frame = pd.DataFrame(
        {
            "datetime": pd.Timestamp("2024-01-02") + pd.to_timedelta(rng.integers(0, 3000, n), unit="min"),
            "symbol": rng.choice(["a", "b", "c", "d"], n),
            "close": rng.normal(5, 4, n).round(2),
            "volume": rng.choice([0.0, 100.0, np.inf, np.nan], n),
            "amount": rng.normal(900, 300, n),
        }
    ).drop_duplicates(["symbol", "datetime"])
    repeated = pd.concat([frame, frame.sample(50, random_state=seed)]).sample(frac=1, random_state=seed)
    result, counts = cleaned(repeated)
    expected = frame.sort_values(["symbol", "datetime"]).reset_index(drop=True)
    expected["close"] = expected["close"].where(expected["close"] > 0)
    expected["volume"] = expected["volume"].replace(np.inf, np.nan)
    vwap = (expected["amount"] / expected["volume"]).replace([np.inf, -np.inf], np.nan)
    expected["vwap"] = vwap.where(vwap > 0)
    assert counts.duplicates == 50
    got = result.to_pandas()
    assert got["symbol"].astype(str).tolist() == expected["symbol"].tolist()
    assert (got["datetime"] == expected["datetime"]).all()
    for name in ("close", "volume", "amount", "vwap"):
        np.testing.assert_array_equal(got[name], expected[name])
