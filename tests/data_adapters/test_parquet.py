"""Parquet and feather files, good and bad."""

import datetime as dt
import os

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from data_adapters.parquet import Parquet
from rlgen.errors import ConfigError, DataError
from rlgen.schema import canonical
from tests.bar_tables import FIRST, bar_table, rows_of

TUESDAY = FIRST.date()
DAY = dt.timedelta(days=1)


def read(path, start=None, end=None, fields=None, symbols=None, **options):
    return Parquet(path, **options).bars(start, end, fields, symbols)


def plain(table):
    """Without the columns that say where a row came from."""
    return rows_of(table.select([name for name in table.column_names if not name.startswith("__")]))


def message(path, error=DataError, **options):
    with pytest.raises(error) as raised:
        canonical(read(path, **options), str(path))
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.fixture
def table():
    return bar_table(days=4)


@pytest.fixture
def file(table, tmp_path):
    pq.write_table(table, tmp_path / "bars.parquet", row_group_size=3)
    return tmp_path / "bars.parquet"


# ---------------------------------------------------------------------------------------- good files


def test_one_file(table, file):
    assert plain(read(file)) == plain(table)
    assert read(file)["__row__"].to_pylist() == list(range(1, 25))
    assert set(read(file)["__file__"].to_pylist()) == {str(file)}


def test_dates_and_symbols_are_cut(table, file):
    result = read(file, TUESDAY + DAY, TUESDAY + 2 * DAY, None, ["600000"])
    expected = [
        row
        for row in table.to_pylist()
        if row["symbol"] == "600000" and row["datetime"].date() in (TUESDAY + DAY, TUESDAY + 2 * DAY)
    ]
    assert plain(result) == sorted(map(str, expected))


def test_only_the_columns_asked_for_come(file):
    names = read(file, fields=["close", "amount"]).column_names
    assert names == ["datetime", "symbol", "close", "__file__", "__row__"]
    assert read(file, fields=[]).column_names[:2] == ["datetime", "symbol"]


def damage(file, group, column):
    """Overwrite one column of one row group."""
    part = pq.ParquetFile(file).metadata.row_group(group).column(column)
    data = bytearray(file.read_bytes())
    at = part.dictionary_page_offset or part.data_page_offset
    data[at : at + part.total_compressed_size] = b"\xff" * part.total_compressed_size
    file.write_bytes(data)


def test_columns_and_row_groups_not_asked_for_are_not_read(file):
    damage(file, group=0, column=6)
    assert "not a complete parquet file" in message(file)
    assert read(file, fields=["close"]).num_rows == 24
    assert read(file, TUESDAY + 2 * DAY, None).num_rows == 12  # The damage is on Tuesday.
    assert read(file, symbols=["600000"]).num_rows == 12
    assert "not a complete parquet file" in message(file, start=TUESDAY)


def test_a_folder_to_the_bottom(table, tmp_path):
    (tmp_path / "2024" / "q1").mkdir(parents=True)
    pq.write_table(table.slice(0, 10), tmp_path / "2024" / "q1" / "a.parquet")
    pq.write_table(table.slice(10), tmp_path / "b.pq")
    (tmp_path / "readme.txt").write_text("not bars")
    (tmp_path / ".hidden.parquet").write_text("not bars")
    (tmp_path / "_metadata.parquet").write_text("not bars")
    assert plain(read(tmp_path)) == plain(table)
    assert plain(read(f"{tmp_path}/**/*.parquet")) == plain(table.slice(0, 10))


@pytest.mark.parametrize("key", ["date", "symbol"])
def test_partitions_are_text(table, tmp_path, key):
    table = table.append_column(
        "date", pa.array([str(stamp.date()) for stamp in table["datetime"].to_pylist()])
    )
    ds.write_dataset(table, tmp_path, format="parquet", partitioning=[key], partitioning_flavor="hive")
    result = read(tmp_path)
    assert plain(result.select(table.column_names)) == plain(table)
    assert set(canonical(result, "x")["symbol"].to_pylist()) == {"000001", "600000"}
    some = read(tmp_path, TUESDAY + DAY, TUESDAY + DAY, ["close"], ["000001"])
    keys = canonical(some, "x").select(["datetime", "symbol"]).to_pylist()
    wanted = [row for row in keys if row["symbol"] == "000001" and row["datetime"].date() == TUESDAY + DAY]
    assert len(wanted) == 3


def test_partitions_by_day_are_not_opened_where_they_cannot_matter(tmp_path):
    for day in ("2023-06-30", "2024-01-02", "2024-01-05", "2024-06-28"):
        (tmp_path / f"date={day}").mkdir()
        pq.write_table(bar_table(days=1, first=FIRST), tmp_path / f"date={day}" / "part-0.parquet")
    for day in ("2023-06-30", "2024-06-28"):
        (tmp_path / f"date={day}" / "part-0.parquet").write_text("unreadable")
    # A folder of Friday may hold the evening of Tuesday: it is opened, and cut by stamps.
    assert read(tmp_path, TUESDAY, TUESDAY).num_rows == 12
    assert "not a complete parquet file" in message(tmp_path)


def test_symbols_in_file_names(table, tmp_path):
    for symbol in ("000001", "600000"):
        part = table.filter(pa.compute.equal(table["symbol"], symbol)).drop(["symbol"])
        pq.write_table(part, tmp_path / f"{symbol}.XSHE.parquet")
    (tmp_path / "notes.parquet").write_text("not bars")
    result = read(tmp_path, symbol_pattern="{symbol}.XSHE.parquet")
    assert plain(result.select(table.column_names)) == plain(table)
    assert set(
        read(tmp_path, symbols=["600000"], symbol_pattern="{symbol}.*.parquet")["symbol"].to_pylist()
    ) == {"600000"}
    assert "no file in this folder has a name like {symbol}.csv" in message(
        tmp_path, symbol_pattern="{symbol}.csv"
    )
    text = message(tmp_path / "notes.parquet", symbol_pattern="{symbol}.XSHE.parquet")
    assert "the name must be like {symbol}.XSHE.parquet" in text
    assert "must have {symbol} in it once" in message(tmp_path, ConfigError, symbol_pattern="bars.parquet")
    assert "no column `symbol`" in message(tmp_path / "600000.XSHE.parquet")
    assert "`symbol_pattern`" in message(tmp_path / "600000.XSHE.parquet")


def test_renamed_columns(table, tmp_path):
    foreign = table.rename_columns(["time", "code", "o", "h", "l", "close", "vol"])
    pq.write_table(foreign, tmp_path / "x.parquet")
    columns = {"datetime": "time", "symbol": "code", "open": "o", "high": "h", "low": "l", "volume": "vol"}
    result = read(tmp_path / "x.parquet", TUESDAY, TUESDAY, columns=columns)
    assert plain(result.select(table.column_names)) == plain(
        pa.concat_tables([table.slice(0, 3), table.slice(12, 3)])
    )
    text = message(tmp_path / "x.parquet", columns={**columns, "amount": "turnover"})
    assert "no column `turnover`, which `columns` maps to `amount`; columns were time, code" in text
    assert "no column `datetime`" in message(tmp_path / "x.parquet")
    assert "must map names" in message(tmp_path, ConfigError, columns={"close": 3})


def test_zoned_stamps_are_cut_with_a_margin(tmp_path):
    stamps = pa.array([dt.datetime(2024, 1, day, 16) for day in range(1, 9)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"datetime": stamps, "symbol": ["a"] * 8}), tmp_path / "z.parquet")
    days = [
        stamp.day
        for stamp in read(tmp_path / "z.parquet", dt.date(2024, 1, 4), dt.date(2024, 1, 5))[
            "datetime"
        ].to_pylist()
    ]
    assert days == [3, 4, 5, 6]


@pytest.mark.parametrize(
    ("values", "form"),
    [
        ([20240102093100, 20240102093200], "%Y%m%d%H%M%S"),
        (["02.01.2024 09:31", "02.01.2024 09:32"], "%d.%m.%Y %H:%M"),
        ([1704187860, 1704187920], "epoch_s"),
        ([1704187860000, 1704187920000], "epoch_ms"),
        ([1704187860000000000, 1704187920000000000], "epoch_ns"),
        (["1704187860", "1704187920"], "epoch_s"),
        (["2024-01-02 04:31-0500", "2024-01-02 09:32+0000"], "%Y-%m-%d %H:%M%z"),
    ],
)
def test_stamps_in_other_forms(tmp_path, values, form):
    pq.write_table(pa.table({"datetime": values, "symbol": ["a", "a"]}), tmp_path / "x.parquet")
    result = canonical(read(tmp_path / "x.parquet", datetime_format=form), "x", timezone="UTC")
    assert result["datetime"].to_pylist() == [FIRST, FIRST + dt.timedelta(minutes=1)]


def test_stamps_not_of_the_form_stated(tmp_path):
    pq.write_table(
        pa.table({"datetime": ["20240102", "20241302"], "symbol": ["a", "a"]}), tmp_path / "x.parquet"
    )
    text = message(tmp_path / "x.parquet", datetime_format="%Y%m%d")
    assert (
        "x.parquet, row 2, column `datetime`: was '20241302', must be a time stamp of the form %Y%m%d" in text
    )
    pq.write_table(pa.table({"datetime": ["soon", "later"], "symbol": ["a", "a"]}), tmp_path / "x.parquet")
    assert "must hold whole numbers" in message(tmp_path / "x.parquet", datetime_format="epoch_ms")


def test_feather(table, tmp_path):
    feather.write_feather(table, tmp_path / "x.feather")
    assert plain(read(tmp_path, file_format="feather")) == plain(table)
    assert read(tmp_path, TUESDAY, TUESDAY, ["close"], ["600000"], file_format="feather").num_rows == 3
    assert "not a complete parquet file" in message(tmp_path / "x.feather")
    assert "must be parquet or feather, was 'hdf5'" in message(tmp_path, ConfigError, file_format="hdf5")


# ----------------------------------------------------------------------------------------- bad files


def test_nothing_there(tmp_path):
    assert "no such file or folder" in message(tmp_path / "absent.parquet")
    assert "no file in this folder has the ending .parquet or .pq; files were: none" in message(tmp_path)
    assert "no file fits this pattern" in message(f"{tmp_path}/*.parquet")


def test_empty_truncated_and_foreign_files(file, tmp_path):
    data = file.read_bytes()
    for name, content in {
        "empty": b"",
        "truncated": data[:-20],
        "beheaded": data[20:],
        "csv": b"datetime,symbol,close\n2024-01-02,a,1\n",
        "text": b"x",
    }.items():
        bad = tmp_path / f"{name}.parquet"
        bad.write_bytes(content)
        assert message(bad).startswith(f"{bad}: not a complete parquet file (size {len(content)} bytes)")


def test_one_bad_file_among_good_ones_is_named(file, tmp_path):
    (tmp_path / "cut.parquet").write_bytes(file.read_bytes()[:100])
    assert message(tmp_path).startswith(f"{tmp_path / 'cut.parquet'}: not a complete parquet file")


def test_text_in_a_number_column_names_the_row_of_the_file_even_in_a_range(tmp_path):
    table = bar_table(days=4)
    text = [f"{value}" for value in table["close"].to_pylist()]
    text[16] = "halted"
    pq.write_table(table.set_column(5, "close", pa.array(text)), tmp_path / "b.parquet")
    pq.write_table(bar_table(symbols=("300001",), days=4), tmp_path / "a.parquet")
    expected = f"{tmp_path / 'b.parquet'}, row 17, column `close`: was 'halted', must be a number"
    assert message(tmp_path) == expected
    assert message(tmp_path, start=TUESDAY + DAY, end=TUESDAY + DAY, symbols=["600000"]) == expected


def test_symbols_stored_as_numbers(tmp_path):
    pq.write_table(bar_table(symbols=(1, 600000)), tmp_path / "x.parquet")
    assert message(tmp_path / "x.parquet").startswith(
        f"{tmp_path / 'x.parquet'}: column `symbol` must be text"
    )
    result = read(tmp_path / "x.parquet", None, None, None, ["000001"], symbol_width=6)
    assert set(canonical(result, "x", symbol_width=6)["symbol"].to_pylist()) == {"000001", "600000"}


def test_an_empty_stamp_is_seen_in_every_range(tmp_path):
    table = bar_table(days=1, datetime=pa.array([FIRST] * 5 + [None], pa.timestamp("ms")))
    pq.write_table(table, tmp_path / "x.parquet")
    assert "column `datetime` was empty" in message(tmp_path / "x.parquet", start=TUESDAY, end=TUESDAY)


def test_describe_changes_with_the_files(file):
    adapter = Parquet(file)
    before = adapter.describe()
    assert before == adapter.describe()
    assert before["files"][0]["path"] == str(file) and before["files"][0]["size"] == file.stat().st_size
    os.utime(file, ns=(0, 12345))
    assert adapter.describe() != before
    assert adapter.column_names()[:3] == ["datetime", "symbol", "open"]


def test_an_int32_date_column_and_types_that_differ_between_files(tmp_path):
    one = pa.table({"datetime": [TUESDAY], "symbol": ["a"], "close": pa.array([1], pa.int32())})
    two = pa.table(
        {"datetime": [TUESDAY + DAY], "symbol": ["a"], "close": pa.array([1.5]), "pe": np.array([3.0])}
    )
    pq.write_table(one, tmp_path / "1.parquet")
    pq.write_table(two, tmp_path / "2.parquet")
    result = canonical(read(tmp_path, TUESDAY, TUESDAY + DAY), "x")
    assert result["close"].to_pylist() == [1.0, 1.5] and result["pe"].to_pylist() == [None, 3.0]
    assert read(tmp_path, TUESDAY, TUESDAY).num_rows == 1
