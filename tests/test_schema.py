"""Any table an adapter returns gets known types, or an error that says where and what."""

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from rlgen.errors import ConfigError, DataError
from rlgen.schema import canonical, concatenate, listed, with_place
from tests.bar_tables import FIRST, bar_table


def replaced(name, values):
    table = bar_table(symbols=("000001",), days=1)
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, values)
    return table.append_column(name, values)


def message(table, **options):
    with pytest.raises(DataError) as error:
        canonical(table, "bars.parquet", **options)
    assert "\n" not in str(error.value)
    return str(error.value)


# ---------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2, None], pa.int64()),
        pa.array([1, 2, None], pa.uint8()),
        pa.array([1, 2, None], pa.float32()),
        pa.array([decimal.Decimal("1.00"), decimal.Decimal("2.00"), None]),
        pa.array(["1", " 2.0 ", "n/a"]),
        pa.array(["1", "2", ""]).dictionary_encode(),
        pa.array(["1", "2", "null"], pa.large_string()),
        pa.array(["1", "2", None], pa.string_view()),
        pa.array([1, 2, None], pa.float64()).dictionary_encode(),
    ],
    ids=[
        "int64",
        "uint8",
        "float32",
        "decimal",
        "text",
        "coded text",
        "large text",
        "text view",
        "coded numbers",
    ],
)
def test_numbers_become_float64(values):
    column = canonical(replaced("close", values), "x")["close"]
    assert column.type == pa.float64()
    assert column.to_pylist() == [1.0, 2.0, None]


@pytest.mark.parametrize("text", ["12,5", "1.2.3", "ten", "True", "1_000", "0x10", "--"])
def test_text_in_a_price_names_file_row_column_and_text(text):
    table = replaced("close", pa.array(["10.5", "nan", text]))
    assert message(table) == f"bars.parquet, row 3, column `close`: was {text!r}, must be a number"
    placed = with_place(table, "2024.csv", np.array([12, 13, 17]))
    assert message(placed).startswith(f"2024.csv, row 17, column `close`: was {text!r}")
    assert message(with_place(table, "2024.csv")).startswith(
        "2024.csv, 000001 at 2024-01-02 09:33:00, column"
    )


def test_a_column_that_the_configuration_calls_a_number_must_be_one():
    table = replaced("pe", pa.array(["1.5", "x", None]))
    assert "pe" not in canonical(table, "bars").column_names
    assert "row 2, column `pe`: was 'x'" in message(table, numbers=["pe"])
    dates = replaced("pe", pa.array([dt.date(2024, 1, 2)] * 3))
    assert message(dates, numbers=["pe"]) == "bars.parquet: column `pe` must hold numbers, was date32[day]"


def test_the_first_bad_text_is_found_among_many():
    values = ["1"] * 100_000
    values[70_001] = values[90_000] = "bad"
    table = pa.table(
        {
            "datetime": [FIRST] * 100_000,
            "symbol": ["a"] * 100_000,
            "close": pa.chunked_array([values[:7], values[7:]]),
        }
    )
    assert "row 70002," in message(table)


def test_what_is_kept():
    extra = {
        "alpha_101": pa.array([1, 2, 3]),
        "limit_up": pa.array([True, None, False]),
        "industry": pa.array(["bank", "bank", None]),
        "trading_day": pa.array([dt.date(2024, 1, 2)] * 3),
        "nothing": pa.nulls(3),
        "curve": pa.array([[1.0], [2.0], [3.0]]),
    }
    table = pa.table({**columns_of(bar_table(("a",), 1)), **extra})
    result = canonical(table, "x", keep=["trading_day", "industry"])
    kinds = {field.name: field.type for field in result.schema}
    assert kinds["alpha_101"] == kinds["nothing"] == pa.float64()
    assert result["limit_up"].to_pylist() == [True, False, False]
    assert kinds["industry"] == pa.string() and kinds["trading_day"] == pa.date32()
    assert "curve" not in kinds
    assert not {"industry", "trading_day"} & set(canonical(table, "x").column_names)


def columns_of(table):
    return dict(zip(table.column_names, table.columns, strict=True))


# ------------------------------------------------------------------------------------------- flags


@pytest.mark.parametrize(
    "values", [[True, False, None], [1, 0, None], [1.0, 0.0, None], ["True", "false", ""], ["1", "0", None]]
)
def test_booleans(values):
    result = canonical(replaced("member", pa.array(values)), "x", booleans=["member"])
    assert result["member"].to_pylist() == [True, False, False]


@pytest.mark.parametrize(("values", "shown"), [([1, 2, 0], "2"), (["yes", "perhaps", "no"], "'perhaps'")])
def test_no_boolean(values, shown):
    text = message(replaced("member", pa.array(values)), booleans=["member"])
    assert text == f"bars.parquet, row 2, column `member`: was {shown}, must be true or false"


# ------------------------------------------------------------------------------------------- stamps


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["2024-01-02 09:31:00", "2024-01-02T09:31", " 2024-01-02 09:31:00.000 "]),
        pa.array([dt.datetime(2024, 1, 2, 9, 31)] * 3, pa.timestamp("ns")),
        pa.array([dt.datetime(2024, 1, 2, 9, 31)] * 3, pa.timestamp("s")),
        pa.array(["2024-01-02 09:31:00"] * 3).dictionary_encode(),
    ],
    ids=["text", "ns", "s", "coded"],
)
def test_naive_stamps_are_local_already(values):
    column = canonical(replaced("datetime", values), "x", timezone="Asia/Shanghai")["datetime"]
    assert column.type == pa.timestamp("ms")
    assert set(column.to_pylist()) == {dt.datetime(2024, 1, 2, 9, 31)}


def test_dates_are_midnight():
    column = canonical(replaced("datetime", pa.array([dt.date(2024, 1, 2)] * 3)), "x")["datetime"]
    assert column.to_pylist() == [dt.datetime(2024, 1, 2)] * 3


@pytest.mark.parametrize(
    "values",
    [
        pa.array(
            [dt.datetime(2024, 3, 8, 14, 31), dt.datetime(2024, 3, 11, 13, 31)], pa.timestamp("us", "UTC")
        ),
        pa.array(
            [dt.datetime(2024, 3, 8, 14, 31), dt.datetime(2024, 3, 11, 13, 31)],
            pa.timestamp("ns", "Asia/Tokyo"),
        ),
        pa.array(["2024-03-08 14:31:00Z", "2024-03-11 21:31:00+08:00"]),
    ],
    ids=["utc", "tokyo", "text"],
)
def test_zoned_stamps_are_converted_over_a_clock_change(values):
    table = pa.table({"datetime": values, "symbol": ["SPY", "SPY"]})
    column = canonical(table, "x", timezone="America/New_York")["datetime"]
    assert column.to_pylist() == [dt.datetime(2024, 3, 8, 9, 31), dt.datetime(2024, 3, 11, 9, 31)]
    assert column.type == pa.timestamp("ms")


def test_zoned_stamps_without_a_zone_stated():
    table = pa.table({"datetime": pa.array([FIRST], pa.timestamp("ms", "UTC")), "symbol": ["a"]})
    text = message(table)
    assert text.startswith("bars.parquet: column `datetime` has time stamps with a zone (was UTC); state")
    assert "`timezone: America/New_York`" in text
    with pytest.raises(ConfigError, match=r"data\.timezone: must be a known time zone.* was 'Mars/Base'"):
        canonical(table, "bars.parquet", timezone="Mars/Base")


@pytest.mark.parametrize("bad", ["2024-13-02 09:31:00", "yesterday", "2024-01-02 09:31:00+08:00"])
def test_text_that_is_no_stamp(bad):
    table = replaced("datetime", pa.array(["2024-01-02 09:31:00", "2024-01-02 09:32:00", bad]))
    assert message(table).startswith(
        f"bars.parquet, row 3, column `datetime`: was {bad!r}, must be a time stamp"
    )


def test_stamps_in_the_wrong_unit():
    stamps = pa.array([1704187860000] * 3, pa.timestamp("s"))
    text = message(with_place(replaced("datetime", stamps), "x.parquet"))
    assert text.startswith("x.parquet: column `datetime` must lie in the years 1700 to 2249, was 55973-")
    early = pa.array(["1699-12-31", "2024-01-01", "2024-01-01"])
    assert "was 1699-12-31T00:00:00.000" in message(replaced("datetime", early))


def test_other_stamps_are_refused():
    assert "must hold time stamps, was int64 (first value 20240102)" in message(
        replaced("datetime", pa.array([20240102] * 3))
    )
    assert "row 2: column `datetime` was empty" in message(
        replaced("datetime", pa.array([FIRST, None, FIRST]))
    )
    assert "row 2: column `datetime` was empty" in message(
        replaced("datetime", pa.array(["2024-01-02", " ", "2024-01-02"]))
    )


# ------------------------------------------------------------------------------------------ symbols


def test_leading_zeros():
    numbers = replaced("symbol", pa.array([1, 600000, 1]))
    text = message(numbers)
    assert "column `symbol` must be text, was int64 (first value 1)" in text and "`symbol_width`" in text
    assert canonical(numbers, "x", symbol_width=6)["symbol"].to_pylist() == ["000001", "600000", "000001"]
    coded = replaced("symbol", pa.array([1, 600000, 1]).dictionary_encode())
    assert "must be text, was int64" in message(coded)
    assert canonical(coded, "x", symbol_width=6)["symbol"].to_pylist() == ["000001", "600000", "000001"]
    short = replaced("symbol", pa.array(["1", "600000", "AAPL"]))
    assert canonical(short, "x", symbol_width=6)["symbol"].to_pylist() == ["000001", "600000", "AAPL"]
    assert "must be text, was double (first value 1.0)" in message(
        replaced("symbol", pa.array([1.0, 2.0, 3.0])), symbol_width=6
    )


def test_symbols_are_trimmed_and_never_empty():
    table = replaced("symbol", pa.array(["BTCUSDT ", "BTCUSDT", "NA"]))
    assert canonical(table, "x")["symbol"].to_pylist() == ["BTCUSDT", "BTCUSDT", "NA"]
    for empty in ("", "  ", None):
        assert "row 2: column `symbol` was empty" in message(replaced("symbol", pa.array(["a", empty, "b"])))


def test_many_small_dictionaries():
    chunks = [pa.array([name]).dictionary_encode() for name in ("b", "a", "b")]
    small = pa.chunked_array(
        [pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), c.dictionary) for c in chunks]
    )
    assert canonical(replaced("symbol", small), "x")["symbol"].to_pylist() == ["b", "a", "b"]
    codes = pa.array(np.arange(128, dtype=np.int8))
    names = pa.array([f"{k:03d}" for k in range(128)])
    table = pa.table({"datetime": [FIRST] * 128, "symbol": pa.DictionaryArray.from_arrays(codes, names)})
    assert canonical(table, "x")["symbol"].to_pylist() == names.to_pylist()


# ------------------------------------------------------------------------------------------- tables


def test_columns_missing_or_repeated():
    assert message(bar_table().drop(["symbol"])) == (
        "bars.parquet: no column `symbol`; columns were datetime, open, high, low, close, volume"
    )
    assert "no column `datetime`" in message(bar_table().drop(["datetime"]))
    twice = bar_table().append_column("close", pa.array([1.0] * 12))
    assert "was repeated: close" in message(twice)
    assert "must be an Arrow table or a pandas frame, was list" in message([1, 2])


def test_pandas_frames():
    table = bar_table()
    frame = table.to_pandas()
    expected = canonical(table, "x").to_pylist()
    assert canonical(frame, "x").to_pylist() == expected
    assert canonical(frame.set_index(["datetime", "symbol"]), "x").to_pylist() == expected
    assert canonical(frame.astype({"symbol": "category"}), "x").to_pylist() == expected
    frame["close"] = frame["close"].astype(object)
    frame.loc[4, "close"] = "halt"
    assert message(frame) == "bars.parquet, row 5, column `close`: was 'halt', must be a number"
    frame["datetime"] = pd.Timestamp("2024-01-02", tz="UTC")
    assert "with a zone (was UTC)" in message(frame)


def test_an_empty_table_has_types_too():
    table = canonical(bar_table().slice(0, 0), "x")
    assert table.num_rows == 0 and table.schema.field("close").type == pa.float64()


def test_concatenate_fills_and_reconciles():
    one = with_place(bar_table(("a",), 1), "one.csv", np.arange(3))
    two = with_place(bar_table(("b",), 1, pe=pa.array(["1", "2", "n/a"])), "two.csv", np.arange(3))
    three = with_place(bar_table(("c",), 1, pe=pa.array([1, 2, 3])), "three.csv", np.arange(3))
    whole = concatenate([one, two, three], "folder")
    assert whole["pe"].to_pylist() == [None] * 3 + [1.0, 2.0, None, 1.0, 2.0, 3.0]
    bad = with_place(bar_table(("b",), 1, pe=pa.array(["1", "2", "x"])), "bad.csv", np.array([2, 3, 4]))
    with pytest.raises(DataError, match=r"bad\.csv, row 4, column `pe`: was 'x', must be a number"):
        concatenate([three, bad], "folder")
    two, dates = (bar_table(("a",), 1, label=pa.array([label] * 3)) for label in ("x", dt.date(2024, 1, 2)))
    with pytest.raises(DataError, match="folder: files do not fit together"):
        concatenate([two, dates], "folder")


def test_listed_shortens():
    assert listed(["a", "b", "__file__"]) == "a, b"
    assert listed([str(k) for k in range(25)], 3) == "0, 1, 2 … (25 in all)"
