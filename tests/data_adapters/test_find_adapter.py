"""Finding adapters by name."""

import datetime as dt
import inspect
import sys

import pytest

from data_adapters import BUILT_IN, find_adapter
from data_adapters.csv import Csv
from data_adapters.parquet import Parquet
from data_adapters.synthetic import SyntheticMarket
from rlgen.errors import ConfigError, DataError

GOOD = """
class Vendor:
    def __init__(self, folder, *, retries=3):
        if retries < 0:
            raise ValueError("retries below zero")
        self.folder = folder
    def bars(self, start, end, fields, symbols): ...
    def describe(self): return {}
class Lame:
    def describe(self): ...
class Odd(Vendor):
    per_call = "week"
class BySymbol(Vendor):
    per_call = "symbol"
class Strict(Vendor):
    def __init__(self):
        from rlgen.errors import DataError
        raise DataError("the licence has run out")
function = len
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes modules into a folder that is the working directory but not on Python's path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in ("", str(tmp_path))])
    before = set(sys.modules)

    def write(text, name="my_desk"):
        (tmp_path / f"{name}.py").write_text(text)
        return name

    yield write
    for name in set(sys.modules) - before:
        if name.startswith("my_"):
            del sys.modules[name]


def message(name, options=None):
    with pytest.raises(ConfigError) as raised:
        find_adapter(name, options)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_built_in_ones(tmp_path):
    assert isinstance(find_adapter("parquet", {"path": tmp_path}), Parquet)
    assert isinstance(find_adapter("csv", {"path": tmp_path}), Csv)
    assert isinstance(find_adapter("synthetic"), SyntheticMarket)
    assert set(BUILT_IN) == {"parquet", "csv", "day_files", "synthetic"}


def test_a_private_one_from_the_working_directory(module):
    module(GOOD)
    path = list(sys.path)
    adapter = find_adapter("my_desk:Vendor", {"folder": "x"})
    assert adapter.folder == "x" and sys.path == path


@pytest.mark.parametrize("name", ["parket", "my_desk", "my_desk:", ":Vendor", ""])
def test_no_such_name(name):
    assert message(name) == (
        f"data.adapter: must be one of parquet, csv, day_files, synthetic, or `module:Class`; was {name!r}"
    )


def test_what_may_be_wrong_with_a_module(module):
    assert message("my_absent:Vendor") == "data.adapter 'my_absent:Vendor': there is no module my_absent"
    assert "there is no module my_absent" in message("my_absent.sub:Vendor")
    module("import my_other_absent", "my_needy")
    assert message("my_needy:Vendor").startswith(
        "data.adapter 'my_needy:Vendor': importing my_needy failed: ModuleNotFoundError: No module"
    )
    module("class Vendor:\n  def bars(self\n", "my_broken")
    assert "importing my_broken failed: SyntaxError" in message("my_broken:Vendor")
    module("raise RuntimeError('no licence')", "my_angry")
    assert "importing my_angry failed: RuntimeError: no licence" in message("my_angry:Vendor")


def test_what_may_be_wrong_with_a_class(module):
    module(GOOD)
    assert message("my_desk:Nobody") == "data.adapter 'my_desk:Nobody': module my_desk has no class Nobody"
    assert "has no class function" in message("my_desk:function")
    assert "the class lacks the method bars" in message("my_desk:Lame")
    assert "per_call must be range, day or symbol, was 'week'" in message("my_desk:Odd", {"folder": "x"})
    assert "must have a method symbols()" in message("my_desk:BySymbol", {"folder": "x"})


def test_what_may_be_wrong_with_options(module):
    module(GOOD)
    text = message("my_desk:Vendor", {"folder": "x", "retires": 1})
    assert text == (
        "data.options of adapter 'my_desk:Vendor': got an unexpected keyword argument 'retires';"
        " options are folder, retries"
    )
    assert "missing a required argument: 'folder'" in message("my_desk:Vendor")
    text = message("my_desk:Vendor", {"folder": "x", "retries": -1})
    assert text == "data.options of adapter 'my_desk:Vendor': ValueError: retries below zero"
    with pytest.raises(DataError, match="the licence has run out"):
        find_adapter("my_desk:Strict")
    assert "options are path, columns, symbol_pattern" in message("parquet", {"file": "x"})
    text = message("csv", {"path": "x", "delimiter": "::"})
    assert text == "data.options of adapter 'csv': delimiter must be one character, was '::'"


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("path", "", "path must be text, was ''"),
        ("path", None, "path must be text, was None"),
        ("path", ["a"], "path must be text, was ['a']"),
        ("symbol_width", "six", "symbol_width must be a whole number of digits above 0, was 'six'"),
        ("symbol_width", 2.5, "symbol_width must be a whole number of digits above 0, was 2.5"),
        ("symbol_width", -6, "symbol_width must be a whole number of digits above 0, was -6"),
        ("symbol_width", True, "symbol_width must be a whole number of digits above 0, was True"),
        ("datetime_format", 5, "datetime_format must be text, was 5"),
        ("columns", "close", "columns must map names to names in the file, was 'close'"),
        ("columns", ["close"], "columns must map names to names in the file, was ['close']"),
    ],
)
@pytest.mark.parametrize("name", ["parquet", "csv"])
def test_options_of_a_wrong_type(name, option, value, expected):
    text = message(name, {"path": "x", option: value})
    assert text == f"data.options of adapter {name!r}: {expected}"


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("delimiter", 1, "delimiter must be one character, was 1"),
        ("encoding", 5, "encoding must be text, was 5"),
        ("header", "close", "header must be a list of the columns' names, was 'close'"),
    ],
)
def test_options_of_csv_of_a_wrong_type(option, value, expected):
    assert message("csv", {"path": "x", option: value}) == f"data.options of adapter 'csv': {expected}"


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_ones_keep_the_protocol(name):
    options = {"path": "x/{date:%Y%m%d}.parquet"} if name != "synthetic" else {}
    adapter = find_adapter(name, options)
    assert list(inspect.signature(adapter.bars).parameters) == ["start", "end", "fields", "symbols"]
    assert adapter.per_call == ("day" if name == "day_files" else "range")
    if name == "synthetic":
        assert adapter.describe() == find_adapter(name, {"start": dt.date(2024, 1, 2)}).describe()
