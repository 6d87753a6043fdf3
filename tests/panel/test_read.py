"""Reading through adapters of every kind, real and pretended."""

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlgen.config import DataConfig
from rlgen.errors import ConfigError, DataError
from rlgen.panel.read import read_bars
from tests.bar_tables import FIRST, bar_table, rows_of

DAY = dt.timedelta(days=1)
TUESDAY = FIRST.date()


class Pretended:
    """Bars of five days from Tuesday 2024-01-02 on; remembers what it was asked."""

    per_call = "range"
    table = bar_table(days=5)

    def __init__(self, label="x"):
        type(self).asked = []
        self.label = label

    def bars(self, start, end, fields, symbols):
        self.asked.append((start, end, fields, symbols))
        return self.table

    def describe(self):
        return {"label": self.label}


class ByDay(Pretended):
    per_call = "day"
    nothing = "raise"

    def bars(self, start, end, fields, symbols):
        self.asked.append((start, end, fields, symbols))
        table = self.table.filter(
            pa.compute.equal(self.table["datetime"].cast(pa.date32()), pa.scalar(start))
        )
        if table.num_rows or self.nothing == "empty":
            return table
        if self.nothing == "none":
            return None
        raise FileNotFoundError(start)


class ByDayKnown(ByDay):
    def days(self):
        return [TUESDAY + 2 * DAY, TUESDAY, TUESDAY + DAY]


class BySymbol(Pretended):
    per_call = "symbol"

    def symbols(self):
        return ["600000", "000001"]

    def bars(self, start, end, fields, symbols):
        self.asked.append((start, end, fields, symbols))
        return self.table.filter(pa.compute.equal(self.table["symbol"], symbols[0]))


def config(adapter=Pretended, **data):
    name = adapter if isinstance(adapter, str) else f"{__name__}:{adapter.__name__}"
    data = {"forward_return": {"price": "close", "horizon": 2, "lag": 1}} | data
    return DataConfig.model_validate({"adapter": name} | data)


def message(error=DataError, **data):
    with pytest.raises(error) as raised:
        read_bars(config(**data))
    assert "\n" not in str(raised.value)
    return str(raised.value)


def dates_of(table):
    return sorted({stamp.date() for stamp in table["datetime"].to_pylist()})


@pytest.fixture
def tables(monkeypatch):
    """Sets what the pretended adapters give."""

    def give(table):
        monkeypatch.setattr(Pretended, "table", table)

    return give


# -------------------------------------------------------------------------------------------- range


@pytest.mark.parametrize("adapter", [Pretended, ByDay, BySymbol])
def test_both_ends_are_inclusive(adapter):
    table, report = read_bars(config(adapter, start=TUESDAY + DAY, end=TUESDAY + 2 * DAY))
    assert dates_of(table) == [TUESDAY + DAY, TUESDAY + 2 * DAY]
    assert table.num_rows == 12 and report.counts.rows == 12
    assert report.first == FIRST + DAY and report.last == FIRST + 2 * DAY + dt.timedelta(minutes=2)


def test_bounds_far_away(tmp_path):
    pq.write_table(Pretended.table, tmp_path / "x.parquet")
    for adapter, options in ((Pretended, {}), ("parquet", {"path": str(tmp_path)})):
        assert (
            read_bars(config(adapter, options=options, start="0001-01-01", end="2024-12-31"))[0].num_rows
            == 30
        )
        assert (
            read_bars(config(adapter, options=options, start="2024-01-02", end="9999-12-31"))[0].num_rows
            == 30
        )


def test_a_range_adapter_is_asked_once():
    read_bars(config(start=TUESDAY, symbols=["000001"]))
    assert Pretended.asked == [(TUESDAY, None, None, ["000001"])]


def test_a_day_adapter_is_asked_day_by_day_weekends_included():
    start, end = TUESDAY + 3 * DAY, TUESDAY + 6 * DAY  # Friday to Monday.
    read_bars(config(ByDay, start=start, end=end))
    assert [call[:2] for call in ByDay.asked] == [(start + k * DAY,) * 2 for k in range(4)]


def test_a_symbol_adapter_is_asked_symbol_by_symbol():
    read_bars(config(BySymbol))
    assert [call[3] for call in BySymbol.asked] == [["600000"], ["000001"]]
    table, report = read_bars(config(BySymbol, symbols=["000001", "300001"]))
    assert [call[3] for call in BySymbol.asked] == [["000001"], ["300001"]]
    assert table["symbol"].chunk(0).dictionary.to_pylist() == ["000001"]
    assert report.missing_symbols == ("300001",)


@pytest.mark.parametrize("nothing", ["raise", "none", "empty"])
def test_missing_days_are_named_weekends_are_not(nothing, monkeypatch):
    monkeypatch.setattr(ByDay, "nothing", nothing)
    start, end = TUESDAY - 2 * DAY, TUESDAY + 8 * DAY  # Sunday to Wednesday of next week.
    report = read_bars(config(ByDay, start=start, end=end))[1]
    # The data has Tuesday to Saturday.
    expected = ("2024-01-01", "2024-01-08", "2024-01-09", "2024-01-10")
    assert tuple(str(day) for day in report.missing_days) == expected
    assert "4 weekdays without bars: 2024-01-01, 2024-01-08, 2024-01-09, 2024-01-10" in report.lines()
    assert read_bars(config(start=start, end=end))[1].missing_days == report.missing_days


def test_missing_days_of_an_open_range_lie_between_the_first_and_the_last_seen(tables):
    tables(bar_table(days=1).cast(Pretended.table.schema))
    assert read_bars(config())[1].missing_days == ()
    later = bar_table(days=1, first=FIRST + 6 * DAY)
    tables(pa.concat_tables([bar_table(days=1), later]))
    days = read_bars(config())[1].missing_days
    assert [str(day) for day in days] == ["2024-01-03", "2024-01-04", "2024-01-05"]


def test_open_ranges_of_day_adapters():
    assert read_bars(config(ByDayKnown))[0].num_rows == 18
    assert dates_of(read_bars(config(ByDayKnown, start=TUESDAY + DAY))[0]) == [
        TUESDAY + DAY,
        TUESDAY + 2 * DAY,
    ]
    text = message(ConfigError, adapter=ByDay, start=TUESDAY)
    assert text.startswith("data.start and data.end must be stated") and "end was None" in text


def test_a_day_is_taken_whole():
    """A night session's stamps lie on the evening before the day they belong to."""

    table, report = read_bars(config(Night, start=TUESDAY, end=TUESDAY))
    assert table["datetime"].to_pylist() == [FIRST.replace(day=1, hour=21), FIRST]
    assert report.missing_days == ()


class Night(ByDay):
    def bars(self, start, end, fields, symbols):
        return pa.table(
            {
                "datetime": [FIRST.replace(day=1, hour=21), FIRST],
                "symbol": ["AU", "AU"],
                "close": [400.0, 401.0],
            }
        )


@pytest.mark.parametrize("adapter", [Pretended, BySymbol, ByDayKnown])
def test_a_range_without_bars_names_the_range_there_is(adapter):
    text = message(adapter=adapter, start="2025-03-03", end="2025-03-07")
    last = "2024-01-04" if adapter is ByDayKnown else "2024-01-06"
    assert "no bars from 2025-03-03 to 2025-03-07; the data has bars from 2024-01-02 to " + last in text


def test_other_ways_to_find_nothing(tables):
    assert "no bars from the first to the last of AAPL; the data has bars" in message(symbols=["AAPL"])
    assert "of 000001, 600000" in message(symbols=["AAPL"])
    text = message(adapter=ByDay, start="2025-03-03", end="2025-03-07")
    assert "no bars from 2025-03-03 to 2025-03-07; every day was empty" in text
    tables(bar_table().slice(0, 0))
    assert "there are no bars at all" in message()


def test_the_range_is_in_exchange_local_time(tables):
    """21:00 UTC on Tuesday is Wednesday morning in Shanghai."""
    stamps = [dt.datetime(2024, 1, 2, hour) for hour in (3, 15, 16, 21)]
    tables(
        pa.table(
            {"datetime": pa.array(stamps, pa.timestamp("ms", "UTC")), "symbol": ["a"] * 4, "close": [1.0] * 4}
        )
    )
    table = read_bars(config(timezone="Asia/Shanghai", start="2024-01-03", end="2024-01-03"))[0]
    assert table["datetime"].to_pylist() == [dt.datetime(2024, 1, 3, 0), dt.datetime(2024, 1, 3, 5)]
    assert "state the exchange's as `timezone`" in message()


# ------------------------------------------------------------------------------------------ columns


def test_what_is_asked_for_follows_from_the_configuration(tables):
    tables(
        bar_table(
            days=1,
            ret=[0.0] * 6,
            member=[True] * 6,
            day=["d"] * 6,
            industry=["x"] * 6,
            other=[1.0] * 6,
            amount=[1.0] * 6,
        )
    )
    table, _ = read_bars(
        config(
            fields=["open", "vwap"],
            forward_return={
                "column": "ret",
                "horizon": 5,
                "lag": 1,
                "transform": "group-neutral",
                "group_column": "industry",
            },
            session={"rule": "column", "column": "day"},
            universe={"column": "member", "exclude_halted": True},
        )
    )
    asked = set(Pretended.asked[0][2])
    optional = {"close", "adjust_factor", "amount", "volume"}
    assert asked == {"open", "vwap", "ret", "industry", "day", "member"} | optional
    assert set(table.column_names) == {
        "datetime",
        "symbol",
        "open",
        "vwap",
        "ret",
        "industry",
        "day",
        "member",
    } | (optional - {"adjust_factor"})
    assert table.schema.field("member").type == pa.bool_()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"fields": ["open", "clsoe"]}, "no column `clsoe`, which data.fields names"),
        (
            {"forward_return": {"column": "ret", "horizon": 1, "lag": 1}},
            "which data.forward_return.column names",
        ),
        (
            {"forward_return": {"price": "mid", "horizon": 1, "lag": 1}},
            "which data.forward_return.price names",
        ),
        ({"session": {"rule": "column", "column": "day"}}, "which data.session.column names"),
        ({"universe": {"column": "member"}}, "which data.universe.column names"),
        ({"fields": ["vwap"]}, "no column `vwap`, which data.fields names"),
    ],
)
def test_a_missing_column_is_named_with_its_key(data, expected):
    text = message(**data)
    assert expected in text
    assert "columns were datetime, symbol, open, high, low, close, volume" in text
    if "clsoe" in text:
        assert text.endswith("did you mean `close`?")


def test_text_in_a_column_that_must_be_numbers(tables):
    tables(bar_table(days=1, ret=["0.1", "0.2", "-", "0.1", "0", "0"]))
    text = message(forward_return={"column": "ret", "horizon": 1, "lag": 1})
    assert "row 3, column `ret`: was '-', must be a number" in text
    assert "ret" not in read_bars(config())[0].column_names
    assert "columns that are no numbers left out: ret" in read_bars(config())[1].lines()


def test_days_with_different_columns(tables):
    tables(bar_table(days=5))
    late = bar_table(days=1, first=FIRST + 2 * DAY, amount=[5.0] * 6)
    table = read_bars(config(Growing, start=TUESDAY, end=TUESDAY + 2 * DAY))[0]
    assert table.num_rows == 18
    assert table["amount"].to_numpy()[2 * 3 : 3 * 3].tolist() == late["amount"].to_pylist()[:3]


class Growing(ByDay):
    """Gives an amount only from the third day on."""

    def bars(self, start, end, fields, symbols):
        table = super().bars(start, end, fields, symbols)
        if start < TUESDAY + 2 * DAY:
            return table
        return table.append_column("amount", pa.array([5.0] * table.num_rows))


def test_numbers_as_symbols_and_the_width_an_adapter_states(tables):
    tables(bar_table(symbols=(1, 600000)))
    assert "`symbol_width`" in message()
    table = read_bars(config(Padded, symbols=["000001"]))[0]
    assert table["symbol"].chunk(0).dictionary.to_pylist() == ["000001"]


class Padded(Pretended):
    symbol_width = 6


def test_failures_of_the_source_are_one_line():
    assert "OSError: the line is dead" in message(adapter=Dead)
    assert "was str" in message(adapter=Nonsense)


class Dead(Pretended):
    def bars(self, start, end, fields, symbols):
        raise OSError("the line\nis dead")


class Nonsense(Pretended):
    def bars(self, start, end, fields, symbols):
        return "bars"


def test_the_report():
    report = read_bars(config(options={"label": "mine"}))[1]
    assert report.description == {"label": "mine"}
    assert report.n_symbols == 2
    assert report.lines() == [
        f"30 bars of 2 symbols, 2024-01-02 09:31 to 2024-01-06 09:33, by the adapter {__name__}:Pretended"
    ]


def test_pandas_frames_from_an_adapter(tables):
    expected = read_bars(config())[0]
    tables(bar_table(days=5).to_pandas())
    assert read_bars(config())[0].equals(expected)


# --------------------------------------------------------------------------------------- real files


def test_the_same_bars_through_every_file_adapter(tmp_path):
    table = bar_table(days=4)
    pq.write_table(table, tmp_path / "all.parquet")
    frame = table.to_pandas()
    for symbol, part in frame.groupby("symbol"):
        part.drop(columns="symbol").iloc[::-1].to_csv(tmp_path / f"{symbol}_bars.csv.gz", index=False)
    for day, part in frame.groupby(frame["datetime"].dt.date):
        part.to_parquet(tmp_path / f"day{day:%Y%m%d}.pq")
    choices = {
        "parquet": {"path": str(tmp_path / "all.parquet")},
        "csv": {"path": str(tmp_path), "symbol_pattern": "{symbol}_bars.csv.gz"},
        "day_files": {"path": f"{tmp_path}/day{{date:%Y%m%d}}.pq"},
    }
    for bounds in ({}, {"start": TUESDAY + DAY, "end": TUESDAY + 2 * DAY}, {"symbols": ["600000"]}):
        results = [read_bars(config(name, options=options, **bounds))[0] for name, options in choices.items()]
        assert results[0].num_rows > 0
        assert results[0].equals(results[1]) and results[0].equals(results[2])


def test_us_minutes(shared_data):
    """The raw CSV files, newest first, one per symbol, are the tidy panel beside them."""
    folder = shared_data / "us_1min_2019_eqker"
    options = {"path": str(folder / "raw"), "symbol_pattern": "{symbol}_1min.csv.gz"}
    raw, report = read_bars(config("csv", options=options))
    tidy, _ = read_bars(config("parquet", options={"path": str(folder / "panel.parquet")}))
    assert raw.equals(tidy) and raw.num_rows == 43_164
    assert report.n_symbols == 24 and report.counts.duplicates == 0 and report.missing_days == ()
    assert report.first == dt.datetime(2019, 2, 11, 9, 31) and report.last == dt.datetime(2019, 2, 15, 16)
    two = read_bars(
        config("csv", options=options, start="2019-02-12", end="2019-02-13", symbols=["SPY", "MU"])
    )[0]
    assert set(two["symbol"].to_pylist()) == {"MU", "SPY"}
    assert dates_of(two) == [dt.date(2019, 2, 12), dt.date(2019, 2, 13)]


def test_crypto_minutes(shared_data):
    folder = shared_data / "crypto_perp_1min_2025"
    tidy, report = read_bars(
        config("parquet", options={"path": str(folder / "panel.parquet")}, symbols=["LAYERUSDT"])
    )
    assert report.n_symbols == 1 and tidy.num_rows == 29_732
    options = {
        "path": str(folder / "raw" / "*-1m-futures.feather"),
        "symbol_pattern": "{symbol}_USDT_USDT-1m-futures.feather",
        "file_format": "feather",
        "columns": {"datetime": "date"},
    }
    text = message(adapter="parquet", options=options)
    assert (
        "LAYER_USDT_USDT-1m-futures.feather: column `datetime` has time stamps with a zone (was UTC)" in text
    )
    raw = read_bars(config("parquet", options=options, timezone="UTC", start="2025-05-14"))[0]
    assert raw["close"].to_pylist()[:29_732] == tidy["close"].to_pylist()


def test_futures_with_a_night_session(shared_data):
    folder = shared_data / "cn_futures_5min_2023_night"
    raw, report = read_bars(
        config("csv", options={"path": str(folder / "data.csv.gz"), "columns": {"open_interest": "hold"}})
    )
    tidy, _ = read_bars(config("parquet", options={"path": str(folder / "panel.parquet")}))
    assert raw.equals(tidy) and raw.num_rows == 20_370 and report.n_symbols == 20


def test_daily_bars(shared_data):
    folder = shared_data / "us_daily_stocknet88"
    tidy, report = read_bars(config("parquet", options={"path": str(folder / "panel.parquet")}))
    assert (report.n_symbols, tidy.num_rows) == (88, 108_592)
    names = {"Adj Close": "adj_close"} | {
        name.title(): name for name in ("open", "high", "low", "close", "volume")
    }
    raw, _ = read_bars(
        config(
            "csv",
            options={
                "path": str(folder / "raw"),
                "symbol_pattern": "{symbol}.csv.gz",
                "columns": {"datetime": "Date"} | {here: there for there, here in names.items()},
            },
        )
    )
    mine = [str(name) for name in raw["symbol"].chunk(0).dictionary]
    assert mine == ["AAPL", "AGFS", "BABA", "GMRE", "GOOG"]
    same = read_bars(config("parquet", options={"path": str(folder / "panel.parquet")}, symbols=mine))[0]
    assert rows_of(raw.select(same.column_names)) == rows_of(same)
