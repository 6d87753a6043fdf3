"""One file per day."""

import datetime as dt

import pyarrow.csv as arrow_csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from data_adapters import find_adapter
from data_adapters.day_files import DayFiles
from rlgen.errors import ConfigError, DataError
from tests.bar_tables import FIRST, bar_table

TUESDAY = FIRST.date()
DAY = dt.timedelta(days=1)
WRITERS = {"parquet": pq.write_table, "feather": feather.write_feather, "csv": arrow_csv.write_csv}


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize(
    "pattern", ["{date:%Y%m%d}", "{date:%Y}/{date:%m}/bars-{date:%Y-%m-%d}", "{date:%y%j}"]
)
def test_days_and_bars(tmp_path, ending, pattern):
    path = f"{tmp_path}/{pattern}.{ending}"
    for k in (0, 1, 3):
        file = DayFiles(path).file_of(TUESDAY + k * DAY)
        file.parent.mkdir(parents=True, exist_ok=True)
        WRITERS[ending](bar_table(days=1, first=FIRST + k * DAY), str(file))
    for noise in ("99999999", "2024010", "x"):
        (tmp_path / f"{noise}.{ending}").write_text("no bars")
    adapter = DayFiles(path)
    assert adapter.days() == [TUESDAY, TUESDAY + DAY, TUESDAY + 3 * DAY]
    table = adapter.bars(TUESDAY + DAY, TUESDAY + DAY, ["close"], None)
    assert table.num_rows == 6 and "open" not in table.column_names
    with pytest.raises(FileNotFoundError):
        adapter.bars(TUESDAY + 2 * DAY, TUESDAY + 2 * DAY, None, None)
    assert len(adapter.describe()["files"]) == 3
    assert adapter.column_names()[:3] == ["datetime", "symbol", "open"]
    with pytest.raises(ValueError, match="one day per call"):
        adapter.bars(TUESDAY, TUESDAY + DAY, None, None)


def test_options_go_to_the_reader_of_the_files(tmp_path):
    (tmp_path / "20240102.csv").write_text("2024-01-02 09:31;1;10\n")
    options = {"header": ["datetime", "symbol", "close"], "delimiter": ";", "symbol_width": 6}
    adapter = find_adapter("day_files", {"path": f"{tmp_path}/{{date:%Y%m%d}}.csv", **options})
    assert adapter.symbol_width == 6
    assert adapter.bars(TUESDAY, TUESDAY, None, None)["close"].to_pylist() == [10.0]


def test_a_damaged_day_is_named(tmp_path):
    (tmp_path / "20240102.parquet").write_text("")
    with pytest.raises(DataError, match=r"20240102\.parquet: not a complete parquet file \(size 0 bytes\)"):
        DayFiles(f"{tmp_path}/{{date:%Y%m%d}}.parquet").bars(TUESDAY, TUESDAY, None, None)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"path": "bars/20240102.parquet"}, "must name the day by the directives"),
        ({"path": "bars/{date:%Y%m}.parquet"}, "must name the day by the directives"),
        ({"path": "bars/{date:%Y%b%d}.parquet"}, "must name the day by the directives"),
        ({"path": "bars/{day:%Y%m%d}.parquet"}, "only the date in braces"),
        ({"path": "bars/{date:%Y%m%d}.h5"}, "path must end in one of .parquet"),
        ({"path": "bars/{date:%Y%m%d}.parquet", "delimiter": ";"}, "unexpected keyword argument 'delimiter'"),
        ({"path": "bars/{date:%Y%m%d}.csv", "colums": {}}, "unexpected keyword argument 'colums'"),
        ({}, "missing a required argument: 'path'"),
    ],
)
def test_refused_options(options, expected):
    with pytest.raises(ConfigError) as raised:
        find_adapter("day_files", options)
    assert expected in str(raised.value) and "\n" not in str(raised.value)
