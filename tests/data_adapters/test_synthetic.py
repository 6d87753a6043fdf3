"""The synthetic market looks like one, and its forward return holds what was planted."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_adapters import synthetic
from data_adapters.parquet import Parquet
from data_adapters.synthetic import SyntheticMarket, generate_bars, plant_forward_return
from rlgen.errors import ConfigError, DataError

M, DAYS, STOCKS = 240, 5, 60


@pytest.fixture(scope="module")
def market():
    return generate_bars(seed=3, n_stocks=STOCKS, n_sessions=DAYS)


@pytest.fixture(scope="module")
def frame(market):
    frame = market.to_pandas()
    frame["date"] = frame["datetime"].dt.date
    frame["ret"] = frame.groupby(["symbol", "date"])["close"].pct_change(fill_method=None)
    frame["minute"] = frame.groupby(["symbol", "date"]).cumcount()
    return frame


def grid(frame, column):
    return frame.pivot(index="datetime", columns="symbol", values=column)


def pooled_ic(signal, target):
    """From the definition, bar by bar."""
    total = cells = 0.0
    for x, y in zip(signal, target, strict=True):
        both = np.isfinite(x) & np.isfinite(y)
        if both.sum() >= 3 and np.ptp(x[both]) > 0 and np.ptp(y[both]) > 0:
            total += both.sum() * np.corrcoef(x[both], y[both])[0, 1]
            cells += both.sum()
    return total / cells


# ------------------------------------------------------------------------------------- the market


def test_the_bar_table(market, frame):
    assert market.column_names == ["datetime", "symbol", "open", "high", "low", "close", "volume", "amount"]
    assert market.schema.field("datetime").type == pa.timestamp("ms")
    assert sorted(frame["symbol"].unique()) == [f"{k:06d}" for k in range(1, STOCKS + 1)]
    assert not frame.isna().drop(columns="ret").any().any()
    body = frame[["open", "close"]]
    assert (frame["low"] <= body.min(axis=1)).all() and (frame["high"] >= body.max(axis=1)).all()
    assert frame["low"].min() > 0
    for name in ("open", "high", "low", "close"):
        assert (frame[name] == (frame[name] * 100).round() / 100).all()
    assert (frame["volume"] % 100 == 0).all() and (frame["volume"] >= 0).all()
    vwap = (frame["amount"] / frame["volume"])[frame["volume"] > 0]
    assert ((vwap >= frame["low"][vwap.index] - 1e-4) & (vwap <= frame["high"][vwap.index] + 1e-4)).all()
    assert frame.equals(frame.sort_values(["symbol", "datetime"]))


def test_the_calendar(frame):
    times = sorted(frame["datetime"].dt.strftime("%H:%M").unique())
    assert len(times) == M and frame["datetime"].nunique() == M * DAYS
    assert (times[0], times[119], times[120], times[-1]) == ("09:31", "11:30", "13:01", "15:00")
    days = [pd.Timestamp(day) for day in sorted(frame["date"].unique())]
    assert days == list(pd.bdate_range("2024-01-02", periods=DAYS))


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [(1, ["09:31"]), (5, ["09:31", "09:32", "09:33", "13:01", "13:02"]), (390, None), (720, None)],
)
def test_other_session_lengths_and_starts(minutes, expected):
    table = generate_bars(
        n_stocks=3,
        n_sessions=3,
        session_minutes=minutes,
        start=dt.date(2024, 3, 9),
        halted=0,
        late_listed=0,
        missing=0,
    )
    stamps = np.unique(table["datetime"].to_numpy())
    assert len(stamps) == 3 * minutes and table.num_rows == 9 * minutes
    days = np.unique(stamps.astype("datetime64[D]")).astype(str).tolist()
    assert days == ["2024-03-11", "2024-03-12", "2024-03-13"]
    if expected is not None:
        assert [str(stamp)[11:16] for stamp in stamps[:minutes]] == expected


def test_shares_of_what_is_absent(frame):
    assert 0.003 < 1 - len(frame) / (M * DAYS * STOCKS) < 0.1
    table = generate_bars(
        n_stocks=50, n_sessions=20, halted=0.1, late_listed=0.2, missing=0, zero_volume=0.05
    ).to_pandas()
    days = table.groupby(["symbol", table["datetime"].dt.date]).size().unstack()
    first = days.notna().to_numpy().argmax(axis=1)
    assert (days.stack().dropna() == M).all()
    assert 6 <= (first > 0).sum() <= 18  # Ten list late, about five are halted on the first day.
    inside = days.isna().to_numpy()[first == 0]
    assert 0.06 < inside.mean() < 0.14
    assert (table["volume"] == 0).mean() == pytest.approx(0.05, abs=0.005)


def test_bars_without_volume_repeat_the_last_price(frame):
    quiet = frame["volume"] == 0
    assert quiet.mean() == pytest.approx(0.01, abs=0.003)
    before = frame.groupby("symbol")["close"].shift()
    same = frame[quiet & before.notna()]
    assert len(same) == quiet.sum()  # Never a stock's first bar.
    for name in ("open", "high", "low", "close"):
        assert (same[name] == before[same.index]).all()
    assert (same["amount"] == 0).all()


def test_it_looks_like_a_market(frame):
    by_minute = frame.groupby("minute")
    size = by_minute["ret"].std()
    assert size.iloc[1:10].mean() > 1.8 * size.iloc[80:160].mean() < size.iloc[-10:-2].mean() * 1.8
    volume = by_minute["volume"].mean()
    assert volume.iloc[:10].mean() > 1.8 * volume.iloc[80:160].mean() < volume.iloc[-10:-2].mean() * 1.8
    assert 3e-4 < frame["ret"].std() < 2e-3
    assert frame["ret"].kurt() > 3  # Fat tails.
    by_stock = frame.groupby("symbol")
    assert -0.25 < by_stock["ret"].apply(lambda r: r.autocorr(1)).mean() < -0.02  # The bounce.
    assert by_stock["ret"].apply(lambda r: r.abs().autocorr(1)).mean() > 0.05  # Clusters.
    assert by_stock["volume"].apply(lambda v: np.log1p(v[v > 0]).autocorr(1)).mean() > 0.2
    moved = by_stock[["ret", "volume"]].apply(
        lambda g: g["ret"].abs().corr(np.log1p(g["volume"]), method="spearman")
    )
    assert moved.mean() > 0.15
    correlation = grid(frame, "ret").corr().to_numpy()
    assert 0.03 < correlation[~np.eye(STOCKS, dtype=bool)].mean() < 0.5  # A common factor.
    last = by_stock["close"].shift()
    night = (frame["open"] / last - 1)[frame["date"] != by_stock["date"].shift()]
    assert night.std() > 4 * (frame["open"] / last - 1)[frame["minute"] > 0].std()


def test_one_seed_one_market(market):
    assert generate_bars(seed=3, n_stocks=STOCKS, n_sessions=DAYS).equals(market)
    assert not generate_bars(seed=4, n_stocks=STOCKS, n_sessions=DAYS).equals(market)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"n_stocks": 0}, "n_stocks must be above zero, was 0"),
        ({"session_minutes": 721}, "session_minutes must be 720 or less, was 721"),
        ({"missing": 1.5}, "missing must be a share from 0 to 1, was 1.5"),
    ],
)
def test_refused_settings(settings, expected):
    with pytest.raises(ConfigError, match=expected):
        generate_bars(**settings)


def test_as_an_adapter():
    small = {"n_stocks": 2, "n_sessions": 2, "session_minutes": 10}
    adapter = SyntheticMarket(**small, start="2024-01-02")
    assert adapter.bars(None, None, None, None).equals(generate_bars(**small))
    assert adapter.describe() == SyntheticMarket(**small).describe() != SyntheticMarket().describe()


# ------------------------------------------------------------------------------------- the planting


def planted(market, signal, ic=0.05, horizon=5, lag=1):
    stamps = np.unique(market["datetime"].to_numpy())
    symbols = sorted(set(market["symbol"].to_pylist()))
    table = plant_forward_return(
        market, stamps, symbols, signal, information_coefficient=ic, horizon=horizon, lag=lag
    )
    return grid(table.to_pandas(), "forward_return")


@pytest.fixture(scope="module")
def signal(frame):
    """Log volume against its own past, with the holes that rolling windows leave."""
    volume = np.log1p(grid(frame, "volume"))
    return (volume - volume.rolling(20).mean()).to_numpy()


@pytest.mark.parametrize("ic", [0.03, 0.08, 0.5])
def test_the_oracle_reaches_the_stated_ic(market, signal, ic):
    target = planted(market, signal, ic).to_numpy()
    assert pooled_ic(signal, target) == pytest.approx(ic, abs=2e-4)
    # On parts it differs by chance, as a real factor does.
    parts = [pooled_ic(signal[part], target[part]) for part in np.array_split(np.arange(len(signal)), 4)]
    assert np.ptp(parts) > 1e-4 and max(abs(part - ic) for part in parts) < 0.05


def test_with_nothing_and_with_everything_planted(market, signal):
    assert abs(pooled_ic(signal, planted(market, signal, 0.0).to_numpy())) < 1e-3
    assert pooled_ic(signal, planted(market, signal, 1.0).to_numpy()) > 0.99
    nothing = planted(market, np.full_like(signal, np.nan)).to_numpy()
    assert np.isfinite(nothing).mean() > 0.9


def test_a_random_factor_finds_nothing(market, signal):
    target = planted(market, signal).to_numpy()
    noise = np.random.default_rng(0).normal(size=target.shape)
    assert abs(pooled_ic(noise, target)) < 0.012


def test_the_column_looks_like_returns(market, frame, signal):
    close = grid(frame, "close")
    actual = (close.shift(-6) / close.shift(-1) - 1).to_numpy()
    target = planted(market, signal).to_numpy()
    dates = close.index.normalize().to_numpy()
    inside = np.r_[dates[6:] == dates[:-6], np.zeros(6, bool)][:, None]
    present = close.notna().to_numpy()
    np.testing.assert_array_equal(np.isfinite(target), np.isfinite(actual) & inside & present)
    both = np.isfinite(target)
    assert np.corrcoef(target[both], actual[both])[0, 1] > 0.98
    assert np.std(target[both]) == pytest.approx(np.std(actual[both]), rel=0.02)
    assert 5e-4 < np.std(target[both]) < 5e-3


@pytest.mark.parametrize(("horizon", "lag"), [(1, 0), (10, 2), (239, 0), (240, 0), (5000, 1)])
def test_horizon_and_lag(market, signal, horizon, lag):
    target = planted(market, signal, horizon=horizon, lag=lag).to_numpy()
    bars = np.flatnonzero(np.isfinite(target).any(axis=1)) % M
    assert (bars.max(initial=-1)) == (M - 1 - horizon - lag if horizon + lag < M else -1)


def test_signals_that_do_not_fit(market):
    with pytest.raises(DataError, match=r"must have the shape \(1200, 60\), was \(2, 2\)"):
        planted(market, np.zeros((2, 2)))
    with pytest.raises(DataError, match="time stamps or symbols that the signal lacks"):
        plant_forward_return(
            market,
            np.unique(market["datetime"].to_numpy()),
            ["a"] * STOCKS,
            np.zeros((M * DAYS, STOCKS)),
            information_coefficient=0.05,
            horizon=5,
            lag=1,
        )


# ------------------------------------------------------------------------------------- the file


def test_writing_and_knowing_what_was_written(tmp_path, market):
    path = tmp_path / "demo" / "bars.parquet"
    settings = {"seed": 3, "start": dt.date(2024, 1, 2), "plants": [{"expression": "$close"}]}
    assert not synthetic.is_current(path, settings)
    synthetic.write(market, path, settings)
    assert synthetic.is_current(path, settings)
    assert not synthetic.is_current(path, settings | {"seed": 4})
    assert [file.name for file in path.parent.iterdir()] == ["bars.parquet"]
    again = Parquet(path).bars(None, None, None, None)
    assert again["close"].equals(market["close"]) and again.num_rows == market.num_rows
    first = path.read_bytes()
    synthetic.write(market, path, settings)
    assert path.read_bytes() == first
    path.write_bytes(first[:-10])
    assert not synthetic.is_current(path, settings)
    pq.write_table(market, path)
    assert not synthetic.is_current(path, settings)


def test_another_generator_makes_files_anew(tmp_path, market, monkeypatch):
    synthetic.write(market, tmp_path / "x.parquet", {})
    monkeypatch.setattr(synthetic, "VERSION", synthetic.VERSION + 1)
    assert not synthetic.is_current(tmp_path / "x.parquet", {})
