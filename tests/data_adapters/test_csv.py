"""CSV files, good and bad."""

import gzip

import pyarrow as pa
import pytest

from data_adapters.csv import Csv
from rlgen.errors import ConfigError, DataError
from rlgen.schema import canonical
from tests.bar_tables import FIRST

HEADER = "datetime,symbol,open,high,low,close,volume\n"


def line(minute=31, symbol="000001", close="10.0", volume="100"):
    return f"2024-01-02 09:{minute}:00,{symbol},9.9,10.2,9.8,{close},{volume}\n"


def read(path, fields=None, symbols=None, **options):
    return canonical(Csv(path, **options).bars(None, None, fields, symbols), str(path))


@pytest.fixture
def write(tmp_path):
    def write(text, name="bars.csv"):
        path = tmp_path / name
        data = text if isinstance(text, bytes) else text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


def message(path, error=DataError, **options):
    with pytest.raises(error) as raised:
        read(path, **options)
    text = str(raised.value)
    assert "\n" not in text and text.startswith(str(path)) == (error is DataError)
    return text.removeprefix(str(path))


# ---------------------------------------------------------------------------------------- good files


def test_one_file_newest_first(write):
    table = read(write(HEADER + line(33) + line(32, close="") + line(31, "600000")))
    assert [stamp.minute for stamp in table["datetime"].to_pylist()] == [33, 32, 31]
    assert table["symbol"].to_pylist() == ["000001", "000001", "600000"]
    assert table["close"].to_pylist() == [10.0, None, 10.0]
    assert table["volume"].type == pa.float64()
    assert table["__row__"].to_pylist() == [2, 3, 4]


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_one_file_per_symbol(write, ending):
    for symbol in ("000001", "AAPL"):
        write("Date,Close\n2024-01-02 09:31,1.5\n", f"{symbol}_1min.{ending}")
    write("nothing to see", "readme.txt")
    path = write("", "x.csv").parent
    options = {
        "symbol_pattern": "{symbol}_1min." + ending,
        "columns": {"datetime": "Date", "close": "Close"},
    }
    table = read(path, **options)
    assert table["symbol"].to_pylist() == ["000001", "AAPL"]
    assert table["datetime"].to_pylist() == [FIRST, FIRST]
    assert table["__file__"].to_pylist() == [
        str(path / f"{symbol}_1min.{ending}") for symbol in ("000001", "AAPL")
    ]
    assert read(path, symbols=["AAPL"], **options)["symbol"].to_pylist() == ["AAPL"]


def test_only_the_columns_asked_for(write):
    path = write(HEADER + line())
    assert read(path, fields=["close", "amount"]).column_names == [
        "datetime",
        "symbol",
        "close",
        "__file__",
        "__row__",
    ]


@pytest.mark.parametrize("symbol", ["000001", "NA", "NULL", "TRUE", "1e5", "nan", "0.50"])
def test_symbols_are_text_whatever_they_look_like(write, symbol):
    path = write(HEADER + line(symbol=symbol))
    assert read(path)["symbol"].to_pylist() == [symbol]
    assert read(path, symbol_width=6)["symbol"].to_pylist()[0] in (symbol, symbol.zfill(6))


def test_line_ends_marks_and_index_columns(write):
    for text in (
        (HEADER + line()).replace("\n", "\r\n"),
        b"\xef\xbb\xbf" + (HEADER + line()).encode(),
        "," + HEADER + "0," + line(),
        "Unnamed: 0," + HEADER + "0," + line(),
        (HEADER + line()).rstrip("\n"),
        HEADER + line() + "\n\n",
        '"datetime","symbol","open","high","low","close","volume"\n'
        '"2024-01-02 09:31:00","000001",1,1,1,1,"100"\n',
    ):
        table = read(write(text))
        assert table.num_rows == 1 and table["volume"].to_pylist() == [100.0]
        assert table.column_names[:7] == HEADER.strip().split(",")


def test_other_dialects(write):
    path = write("02.01.2024 09:31;000001;10.0\n", "a.csv")
    options = {
        "header": ["datetime", "symbol", "close"],
        "delimiter": ";",
        "datetime_format": "%d.%m.%Y %H:%M",
    }
    table = read(path, **options)
    assert table["datetime"].to_pylist() == [FIRST] and table["__row__"].to_pylist() == [1]
    path = write("时间,代码,收盘\n2024-01-02 09:31,000001,10.0\n".encode("gbk"), "gbk.csv")
    names = {"datetime": "时间", "symbol": "代码", "close": "收盘"}
    assert read(path, columns=names, encoding="gbk")["close"].to_pylist() == [10.0]
    assert "row 1: not utf-8 text, byte was 0xbc; state `encoding`" in message(path, columns=names)


@pytest.mark.parametrize("missing", ["", "NaN", "nan", "NA", "N/A", "null", "NULL", "None", "#N/A"])
def test_missing_numbers(write, missing):
    assert read(write(HEADER + line(close=missing)))["close"].to_pylist() == [None]


def test_a_column_whose_kind_changes_far_down(write):
    """Arrow guesses kinds from the first megabyte."""
    rows = [f"2024-01-02 09:31:00,s{k},1,{k}\n" for k in range(50_000)]
    rows[45_000] = "2024-01-02 09:31:00,s45000,1,0.5\n"
    table = read(write("datetime,symbol,close,pe\n" + "".join(rows)))
    assert table["pe"][45_000].as_py() == 0.5 and table["pe"][0].as_py() == 0.0
    rows[45_000] = "2024-01-02 09:31:00,s45000,1,loss\n"
    path = write("datetime,symbol,close,pe\n" + "".join(rows))
    assert "pe" not in read(path).column_names
    table = Csv(path).bars(None, None, None, None)
    with pytest.raises(DataError, match="row 45002, column `pe`: was 'loss', must be a number"):
        canonical(table, "x", numbers=["pe"])


def test_header_only_files_have_no_bars(write):
    assert read(write(HEADER)).num_rows == 0


# ----------------------------------------------------------------------------------------- bad files


@pytest.mark.parametrize(("before", "expected"), [("", 3), ("\n", 4), ("\r\n\n", 5)])
def test_text_in_a_price_names_the_line_blank_ones_counted(write, before, expected):
    path = write(HEADER + line() + before + line(32, close="10,2".replace(",", "O")) + line(33))
    assert message(path) == f", row {expected}, column `close`: was '10O2', must be a number"


def test_text_in_a_number_that_the_configuration_names(write):
    path = write("datetime,symbol,ret\n2024-01-02 09:31,a,0.1\n2024-01-02 09:32,a,up\n")
    with pytest.raises(DataError, match="row 3, column `ret`: was 'up', must be a number"):
        canonical(Csv(path).bars(None, None, ["ret"], None), "x", numbers=["ret"])


@pytest.mark.parametrize("row", ["2024-01-02 09:33:00,000001,9.9\n", line(33).strip() + ",7\n"])
def test_lines_with_too_few_or_too_many_values(write, row):
    path = write(HEADER + line() + "\n" + row)
    text = message(path)
    values = row.count(",") + 1
    assert text == f": row 4: must have 7 values, was {values}: {row.strip()!r}"


def test_a_stray_carriage_return(write):
    text = message(write(HEADER + line() + line().replace("9.9", "9\r9")))
    assert text.startswith(": row 3: new-line character seen in unquoted field")
    assert "row" not in message(write((HEADER + line() + line(close="x")).replace("\n", "\r")))


def test_bad_stamps(write):
    path = write(HEADER + line() + line().replace("2024-01-02 09:31", "2024-01-32 09:31"))
    assert message(path).startswith(
        ", row 3, column `datetime`: was '2024-01-32 09:31:00', must be a time stamp"
    )
    path = write(HEADER + line() + line().replace("2024-01-02 09:31:00", ""))
    assert message(path).startswith(", row 3: column `datetime` was empty")
    path = write(HEADER + line() + line())
    assert "must be a time stamp of the form %d.%m.%Y" in message(path, datetime_format="%d.%m.%Y")


def test_an_empty_symbol(write):
    assert (
        message(write(HEADER + line() + line(symbol="")))
        == ", row 3: column `symbol` was empty, must name the stock"
    )


def test_files_that_are_none(write):
    assert message(write("")) == ": the file is empty (size 0 bytes)"
    assert message(write("\n\n")) == ": the file is empty (size 2 bytes)"
    assert "no column `datetime`; columns were hello; say which it is in `columns`" in message(write("hello"))
    assert "not utf-8 text" in message(write(b"PAR1\x00\xff\xfe"))
    assert "the file is empty" in message(write("", "x.csv.gz"))


def test_gzip_files_that_are_none(write, tmp_path):
    whole = gzip.compress((HEADER + line() * 1000).encode())
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(whole[: len(whole) // 2])
    assert message(cut).startswith(": the gzip file is truncated or damaged")
    cut.write_bytes(whole[:12] + b"\x00" * 20 + whole[32:])
    assert message(cut).startswith(": the gzip file is truncated or damaged")
    cut.write_bytes((HEADER + line()).encode())
    assert message(cut).startswith(": not a gzip file, its name says it is; first bytes were b'datetime'")
    plain_name = tmp_path / "packed.csv"
    plain_name.write_bytes(whole)
    assert read(plain_name).num_rows == 1000


def test_columns_missing_or_repeated(write):
    assert message(write("datetime,symbol,close,close\n2024-01-02,a,1,2\n")) == (
        ": each column name must be there once, was repeated: close"
    )
    assert "no column `symbol`" in message(write("datetime,close\n2024-01-02,1\n"))
    text = message(write(HEADER + line()), columns={"close": "Close"})
    assert text.startswith(
        ": no column `Close`, which `columns` maps to `close`; columns were datetime, symbol, open"
    )


def test_nothing_there(tmp_path):
    assert message(tmp_path / "absent.csv") == ": no such file or folder"
    assert "no file in this folder has the ending .csv or .csv.gz" in message(tmp_path)


def test_refused_options(tmp_path):
    assert "delimiter must be one character, was '||'" in message(tmp_path, ConfigError, delimiter="||")
    assert "encoding must be one that Python knows, was 'klingon'" in message(
        tmp_path, ConfigError, encoding="klingon"
    )
    assert "must have {symbol} in it once" in message(tmp_path, ConfigError, symbol_pattern="*.csv")


def test_files_of_different_columns_and_one_bad_value(write):
    write(HEADER + line(), "a.csv")
    bad = write(
        HEADER.replace("volume", "volume,pe") + line(32).strip() + ",x\n" + line(33).strip() + ",3\n", "b.csv"
    )
    write(HEADER.replace("volume", "volume,pe") + line(34).strip() + ",12\n", "c.csv")
    with pytest.raises(DataError) as raised:
        read(bad.parent)
    assert str(raised.value) == f"{bad}, row 2, column `pe`: was 'x', must be a number"


def test_describe_and_names(write):
    path = write(HEADER + line())
    adapter = Csv(path, columns={"last": "close"})
    assert adapter.describe()["files"][0]["size"] == path.stat().st_size
    assert adapter.column_names() == ["datetime", "symbol", "open", "high", "low", "volume", "last"]
