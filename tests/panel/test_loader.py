"""Whole loads: real bars where they are there, and what a large panel costs."""

import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from rlgen.config import Config
from rlgen.panel import ForwardReturn, Panel, load_panel
from rlgen.panel.build import build_panel
from rlgen.panel.plan import Plan
from tests.panel.panels import minutes

DATA = Path(__file__).parents[2] / "../shared/data"
US, CRYPTO, DAILY = DATA / "us_1min_2019_eqker", DATA / "crypto_perp_1min_2025", DATA / "us_daily_stocknet88"


def needs(folder):
    return pytest.mark.skipif(not folder.exists(), reason=f"{folder.name} is not there")


@needs(US)
def test_us_minutes_from_raw_csv(tmp_path):
    config = Config(
        data={
            "adapter": "csv",
            "options": {"path": str(US / "raw"), "symbol_pattern": "{symbol}_1min.csv.gz"},
            "session": {"hours": [("09:30", "16:00")]},
            "universe": {"exclude_halted": True},
            "forward_return": {"price": "close", "horizon": 5, "lag": 1},
            "store": tmp_path / "us",
        },
        splits={
            "train": ("2019-02-11", "2019-02-13"), "valid": ("2019-02-14", "2019-02-14"),
            "test": ("2019-02-15", "2019-02-15"), "embargo": 5,
        },
    )  # fmt: skip
    panel = load_panel(config)
    assert panel.shape == (1950, 24) and panel.report.rows == 43164
    assert panel.session_starts.tolist() == [0, 390, 780, 1170, 1560, 1950]
    tidy = pd.read_parquet(US / "panel.parquet").pivot(index="datetime", columns="symbol", values="close")
    assert panel.symbols.tolist() == tidy.columns.tolist()
    np.testing.assert_array_equal(panel.fields["close"], tidy.to_numpy(dtype=np.float32))
    # The index has no volume: halted from the second session on.
    vix = panel.symbols.tolist().index("VIX")
    assert panel.universe[:390, vix].any() and not panel.universe[390:, vix].any()
    assert panel.report.labels_lost["UGA"] > 0.9 > 0.2 > panel.report.labels_lost["SLV"] > 0.1
    price = tidy.to_numpy()
    for t, s in ((0, 0), (383, 3), (400, 20), (1943, 5)):
        np.testing.assert_allclose(
            panel.forward_return[t, s], price[t + 6, s] / price[t + 1, s] - 1, rtol=1e-5
        )
    assert np.isnan(panel.forward_return[384:390]).all()
    test = panel.split("test")
    assert test.shape == (390, 24) and np.isnan(test.forward_return[-11:]).all()
    assert np.isfinite(test.forward_return[-12]).any()


@needs(CRYPTO)
@pytest.mark.parametrize(("lag", "expected"), [(0, 0.0176), (1, 0.0044)])
def test_crypto_reversal_loses_its_bounce_to_the_lag(lag, expected):
    """The figures of the data's README, computed there with pandas: IC of 5-bar reversal."""
    config = Config(
        data={
            "options": {"path": str(CRYPTO / "panel.parquet")},
            "bar_label": "left",
            "forward_return": {"price": "close", "horizon": 5, "lag": lag, "across_sessions": True},
        },
        splits={"train": ("2025-05-14", "2025-05-25")},
    )
    panel = load_panel(config)
    assert panel.shape == (29732, 16) and panel.session_starts[1] == 1440
    close = pd.DataFrame(panel.fields["close"].astype(float))
    factor = (1 - close / close.shift(5)).iloc[5::5].rank(axis=1)
    target = pd.DataFrame(panel.forward_return).iloc[5::5].rank(axis=1)
    assert factor.corrwith(target, axis=1).mean() == pytest.approx(expected, abs=5e-5)


@needs(DAILY)
def test_daily_bars():
    frame = pd.read_parquet(DAILY / "panel.parquet")
    panel = Panel.from_frame(frame, ForwardReturn(1, price="adj_close", across_sessions=True))
    assert panel.shape == (1258, 88) and len(panel.session_dates) == 1258
    assert panel.report.late["GMRE"] > "2016" and set(panel.report.late) >= {"AGFS", "BABA", "ABBV"}
    adjusted = frame.pivot(index="datetime", columns="symbol", values="adj_close").to_numpy()
    np.testing.assert_allclose(
        panel.forward_return[:-2], adjusted[2:] / adjusted[1:-1] - 1, rtol=1e-5, atol=1e-7
    )


def test_memory_beside_the_table():
    """Building needs at most twice the panel's own size on top of the table, so 4 times in all."""
    days = pd.bdate_range("2024-01-02", periods=10)
    bars = np.concatenate([minutes(day.date(), "09:31", "13:30") for day in days])
    n_stocks, rng = 150, np.random.default_rng(0)
    symbols = pa.array([f"{s:06d}" for s in range(n_stocks)])
    codes = pa.array(np.repeat(np.arange(n_stocks, dtype=np.int32), len(bars)))
    columns = {
        "datetime": pa.array(np.tile(bars, n_stocks)),
        "symbol": pa.DictionaryArray.from_arrays(codes, symbols),
    }
    for name in ("open", "high", "low", "close", "volume", "amount", "vwap"):
        columns[name] = pa.array(rng.random(len(codes)) + 10)
    table, plan = pa.table(columns), Plan(ForwardReturn(5, price="close"))
    tracemalloc.start()
    panel = build_panel(table, plan, "a table")
    panel.fingerprint  # noqa: B018
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = sum(values.nbytes for values in panel.fields.values())
    size += panel.universe.nbytes + panel.forward_return.nbytes
    assert peak < 2 * size
