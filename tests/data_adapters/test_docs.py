"""What docs/adapters.md shows works."""

import datetime as dt
import inspect
import re
import sys
from pathlib import Path

import pytest
import yaml

from data_adapters.csv import Csv
from data_adapters.day_files import DayFiles
from data_adapters.parquet import Parquet
from data_adapters.synthetic import SyntheticMarket
from rlgen.config import DataConfig
from rlgen.panel.read import read_bars

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "adapters.md").read_text(encoding="utf-8")


def blocks(kind, text=TEXT):
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def test_the_private_adapter(tmp_path, monkeypatch):
    """As written: the module beside, the vendor's files, the configuration."""
    (code,) = blocks("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    (tmp_path / "desk_bars.py").write_text(code)
    (tmp_path / "vendor").mkdir()
    rows = "".join(f"2024-01-02 09:3{k}:00,{1000 + k},{100 * k}\n" for k in range(1, 4))
    for symbol in ("AAPL", "MSFT"):
        (tmp_path / "vendor" / f"{symbol}.csv").write_text("time,px,qty\n" + rows)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "desk_bars", raising=False)
    data = yaml.safe_load(blocks("yaml")[-1])["data"]
    data["forward_return"] = {"price": "close", "horizon": 1, "lag": 1}
    table, report = read_bars(DataConfig.model_validate(data))
    sys.modules.pop("desk_bars")
    assert table["symbol"].to_pylist() == ["AAPL"] * 3 + ["MSFT"] * 3
    assert table["close"].to_pylist()[:3] == [10.01, 10.02, 10.03]
    assert table["datetime"].to_pylist()[0] == dt.datetime(2024, 1, 2, 9, 31)
    assert report.description.keys() == {"AAPL.csv", "MSFT.csv"}


@pytest.mark.parametrize("made", [Parquet, Csv, DayFiles, SyntheticMarket])
def test_every_option_is_shown_and_none_else(made):
    name = {Parquet: "parquet", Csv: "csv", DayFiles: "day_files", SyntheticMarket: "synthetic"}[made]
    (section,) = re.findall(rf"\n## {name}\n(.*?)\n## ", TEXT, re.DOTALL)
    shown = yaml.safe_load(blocks("yaml", section)[0])
    assert shown["adapter"] == name
    known = [p.name for p in inspect.signature(made).parameters.values() if p.kind is not p.VAR_KEYWORD]
    assert list(shown["options"]) == known
    made(**shown["options"])


def test_the_example_at_the_top_is_a_configuration():
    data = yaml.safe_load(blocks("yaml")[0])["data"]
    DataConfig.model_validate(data | {"forward_return": {"price": "close", "horizon": 1, "lag": 1}})
