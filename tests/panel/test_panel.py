import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlgen.config import SplitsConfig, UniverseConfig
from rlgen.errors import ConfigError, DataError
from rlgen.panel import ForwardReturn, Panel
from rlgen.panel.forward_return import compute_forward_return
from tests.panel.panels import random_sessions, same_panel, slow_forward_return, small_frame

NAN = np.nan
CLOSE = ForwardReturn(2, price="close")
SPLITS = {
    "train": ("2024-01-02", "2024-01-03"),
    "valid": ("2024-01-04", "2024-01-04"),
    "test": ("2024-01-08", "2024-01-31"),
}


def test_attributes():
    frame = small_frame(n_days=3, n_bars=6)
    panel = Panel.from_frame(frame, CLOSE, windows="session", min_periods=0.25)
    assert panel.shape == (18, 3)
    assert list(panel.fields) == ["open", "high", "low", "close", "volume", "amount", "vwap"]
    for values in panel.fields.values():
        assert values.dtype == np.float32 and values.shape == panel.shape and values.flags.c_contiguous
    assert panel.bars.dtype == "datetime64[ms]" and panel.bars[0] == np.datetime64("2024-01-02T09:31")
    assert panel.symbols.tolist() == ["000001", "000002", "600000"]
    assert panel.session.dtype == panel.bar_of_session.dtype == np.int32
    assert panel.session_starts.tolist() == [0, 6, 12, 18]
    assert panel.universe.dtype == bool and panel.universe.all()
    assert panel.forward_return.dtype == np.float32
    assert (panel.horizon, panel.lag, panel.windows, panel.min_periods) == (2, 1, "session", 0.25)
    assert panel.base is panel and (panel.start, panel.stop) == (0, 18)
    assert panel.groups is None and panel.bar_label == "right"
    assert Panel.from_frame(frame, bar_label="left").split_names == ()
    assert Panel.from_frame(frame, bar_label="left").bar_label == "left"
    close = frame.close.to_numpy().reshape(3, 18).T
    np.testing.assert_array_equal(panel.fields["close"], close.astype(np.float32))
    np.testing.assert_array_equal(
        panel.forward_return, slow_forward_return(close, panel.session, 2, 1, False).astype(np.float32)
    )
    assert repr(panel) == "<Panel 7 fields × 18 bars × 3 stocks>"


def test_nothing_can_be_written_to():
    panel = Panel.from_frame(small_frame(n_days=5), CLOSE, splits=SPLITS)
    for one in (panel, panel.split("train"), panel.cut(7), panel.with_fields({"x": np.ones(panel.shape)})):
        arrays = [
            *one.fields.values(), one.bars, one.symbols, one.session, one.session_dates, one.session_starts,
            one.bar_of_session, one.universe, one.forward_return,
        ]  # fmt: skip
        for array in arrays:
            assert not array.flags.writeable
        with pytest.raises(TypeError):
            one.fields["x"] = 1


def test_rows_in_any_order_index_or_arrow_give_the_same_panel():
    frame = small_frame()
    panel = Panel.from_frame(frame, CLOSE)
    shuffled = frame.sample(frac=1, random_state=1)
    for other in (
        shuffled,
        shuffled.set_index(["datetime", "symbol"]),
        shuffled.set_index("datetime"),
        pd.concat([frame, frame.iloc[:4]]),
        pa.Table.from_pandas(shuffled),
        frame.astype({"symbol": "category"}),
    ):
        built = Panel.from_frame(other, CLOSE)
        same_panel(built, panel)
        assert built.fingerprint == panel.fingerprint


def test_grid_is_the_union_of_bars():
    frame = small_frame(n_days=1, n_bars=4, symbols=("A", "B"))
    # A lacks the second bar, B the third; both lack the last.
    frame = frame[~((frame.symbol == "A") & (frame.datetime == frame.datetime[1]))]
    frame = frame[~((frame.symbol == "B") & (frame.datetime == frame.datetime[2]))]
    frame = frame[frame.datetime != frame.datetime[3]]
    panel = Panel.from_frame(frame)
    assert panel.shape == (3, 2)
    assert np.isnan(panel.fields["close"]).tolist() == [[False, False], [True, False], [False, True]]
    assert panel.universe.tolist() == [[True, True], [False, True], [True, False]]
    assert panel.report.absent == pytest.approx(2 / 6)


def test_ready_made_return():
    frame = small_frame()
    frame["ret"] = np.arange(len(frame), dtype=float)
    panel = Panel.from_frame(frame, "ret")
    assert (panel.horizon, panel.lag) == (1, 1)
    assert "ret" not in panel.fields
    np.testing.assert_array_equal(panel.forward_return, frame.ret.to_numpy().reshape(3, 18).T)
    stated = Panel.from_frame(frame, ForwardReturn(5, lag=2, column="ret"), splits={"train": SPLITS["train"]})
    assert (stated.horizon, stated.lag) == (5, 2)
    view = stated.split("train")
    assert np.isnan(view.forward_return).all(axis=1).tolist() == [False] * 5 + [True] * 7
    cut = stated.cut(10)
    assert np.isnan(cut.forward_return).all(axis=1).tolist() == [False] * 3 + [True] * 7


def test_splits_need_a_stated_horizon():
    frame = small_frame()
    frame["ret"] = 0.0
    with pytest.raises(ConfigError, match="how far a label looks: give ForwardReturn"):
        Panel.from_frame(frame, "ret", splits={"train": SPLITS["train"]})


def test_without_a_target():
    panel = Panel.from_frame(small_frame(), splits={"train": SPLITS["train"]})
    assert np.isnan(panel.forward_return).all() and panel.target is None
    assert (panel.horizon, panel.lag) == (1, 1)
    assert panel.split("train").shape == (12, 3)


# -- splits ---------------------------------------------------------------------------------------


def test_splits_are_views_with_cut_labels():
    # 2024-01-05 is in no split, 2024-01-08 is the last day.
    panel = Panel.from_frame(small_frame(n_days=5, n_bars=6), ForwardReturn(2, price="close"), splits=SPLITS)
    assert panel.split_names == ("train", "valid", "test")
    expected = {"train": (0, 12), "valid": (12, 18), "test": (24, 30)}
    for name, (start, stop) in expected.items():
        view = panel.split(name)
        assert (view.start, view.stop, view.shape) == (start, stop, (stop - start, 3))
        assert view.base is panel and view.is_view
        assert np.shares_memory(view.fields["close"], panel.fields["close"])
        np.testing.assert_array_equal(view.bars, panel.bars[start:stop])
        np.testing.assert_array_equal(view.session, panel.session[start:stop])
        np.testing.assert_array_equal(view.session_starts, panel.session_starts)
        np.testing.assert_array_equal(view.universe, panel.universe[start:stop])
        labels = panel.forward_return[start:stop].copy()
        labels[-3:] = NAN
        np.testing.assert_array_equal(view.forward_return, labels)
        assert view.split(name).start == start and view.split("train").base is panel
    assert repr(panel.split("valid")) == "<Panel 7 fields × 6 bars × 3 stocks, bars 12 to 18 of 30>"


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 2), st.integers(0, 5), st.booleans())
def test_no_label_of_a_split_looks_beyond_it(seed, horizon, lag, embargo, across):
    rng = np.random.default_rng(seed)
    close = rng.uniform(5, 15, (60, 2))
    session = np.repeat(np.arange(6), 10)
    target = ForwardReturn(horizon, lag=lag, price="close", across_sessions=across)
    splits = {
        "train": ("2024-01-02", "2024-01-04"),
        "valid": ("2024-01-05", "2024-01-07"),
        "embargo": embargo,
    }
    panel = Panel.from_arrays({"close": close}, target, session=session, splits=splits)
    train = panel.split("train")
    assert train.shape[0] == 30
    full = slow_forward_return(close, session, horizon, lag, across).astype(np.float32)[:30]
    for t in range(30):
        if t + lag + horizon + embargo <= 29:
            np.testing.assert_array_equal(train.forward_return[t], full[t])
        else:
            assert np.isnan(train.forward_return[t]).all()
    # Whatever happens after the split, its labels stay.
    other = close.copy()
    other[30:] = 1e15
    changed = Panel.from_arrays({"close": other}, target, session=session, splits=splits)
    np.testing.assert_array_equal(changed.split("train").forward_return, train.forward_return)
    same_panel(panel.with_fields({"close": other}).base.cut(30), panel.cut(30))


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        (
            {"train": ("2023-01-02", "2023-02-02")},
            "splits.train: no bars from 2023-01-02 .* the data has 2024-01-02",
        ),
        ({"train": ("2024-01-06", "2024-01-07")}, "splits.train: no bars"),
        (
            {"train": SPLITS["train"], "embargo": 9},
            "splits.train: 12 bars .* leave no forward return.* embargo takes 9",
        ),
        ({"train": SPLITS["train"], "valid": SPLITS["train"]}, "splits must not overlap"),
        ({"train": SPLITS["valid"], "valid": SPLITS["train"]}, "splits must not overlap"),
        ({"train": ("2024-01-03", "2024-01-02")}, "train ends before it starts"),
        ({"valid": SPLITS["train"]}, "train: must be stated"),
        ({"train": SPLITS["train"], "tests": SPLITS["test"]}, "tests: unknown key"),
    ],
)
def test_splits_refused(splits, message):
    with pytest.raises(ConfigError, match=message):
        Panel.from_frame(small_frame(n_days=5), ForwardReturn(2, price="close"), splits=splits)


@pytest.mark.parametrize(
    ("universe", "close", "message"),
    [
        ({"minimum_price": 1e9}, 10.0, "have no forward return in the universe, which has 0 of"),
        ({"minimum_sessions": 2}, 10.0, "splits.train: 12 bars .* in the universe, which has 0 of"),
        (None, 0.0, "splits.train: 12 bars .* have no forward return: prices `close` must have values"),
    ],
)
def test_splits_without_a_label_say_why(universe, close, message):
    frame = small_frame(n_days=5).assign(close=close)
    with pytest.raises(ConfigError, match=message):
        Panel.from_frame(frame, CLOSE, splits=SPLITS, universe=universe)


@pytest.mark.parametrize(
    "session", [{"rule": "cut", "cut": "18h"}, {"hours": [["9", "10:00"]]}, {"hours": []}]
)
def test_times_of_day_are_refused_before_data_is_read(session):
    with pytest.raises(ConfigError, match=r"data\.session\.(cut|hours): must"):
        Panel.from_frame("no frame", CLOSE, session=session)


@pytest.mark.parametrize("zone", ["Mars/X", "", "../../etc/passwd"])
def test_an_unknown_time_zone_is_refused_even_where_stamps_have_none(zone):
    with pytest.raises(ConfigError, match=f"data.timezone: must be a known time zone.* was '{zone}'"):
        Panel.from_frame(small_frame(), CLOSE, timezone=zone)


def test_unknown_split():
    panel = Panel.from_frame(small_frame(n_days=5), CLOSE, splits=SplitsConfig(train=SPLITS["train"]))
    with pytest.raises(ConfigError, match="there is no split 'test'; there are train"):
        panel.split("test")
    with pytest.raises(ConfigError, match="there are none"):
        Panel.from_frame(small_frame()).split("train")


def test_between():
    panel = Panel.from_frame(small_frame(n_days=5), CLOSE)
    view = panel.between(dt.date(2024, 1, 3), dt.date(2024, 1, 5), embargo=1)
    assert (view.start, view.stop) == (6, 24)
    assert np.isnan(view.forward_return[-4:]).all() and not np.isnan(view.forward_return[12:14]).any()
    assert np.isnan(panel.between(dt.date(2024, 1, 3), dt.date(2024, 1, 3), embargo=6).forward_return).all()
    with pytest.raises(ConfigError, match="dates: no bars from 2025-01-01 to 2025-01-02"):
        panel.between(dt.date(2025, 1, 1), dt.date(2025, 1, 2))


def test_labels_that_no_session_can_hold():
    frame = small_frame(n_bars=3)
    with pytest.raises(ConfigError, match=r"longest session has 3 bars.* lag \+ horizon = 3 later ones"):
        Panel.from_frame(frame, ForwardReturn(2, price="close"))
    panel = Panel.from_frame(frame, ForwardReturn(2, price="close", across_sessions=True))
    assert np.isfinite(panel.forward_return[:-3]).all() and np.isnan(panel.forward_return[-3:]).all()


# -- other panels ---------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(1, 40), st.sampled_from(["none", "rank", "demean"]))
def test_cut_is_the_panel_of_the_shorter_data(seed, stop, transform):
    rng = np.random.default_rng(seed)
    close = rng.uniform(5, 15, (40, 3))
    close[rng.random(close.shape) < 0.2] = NAN
    session = random_sessions(rng, 40)
    target = ForwardReturn(2, price="close", across_sessions=True, transform=transform)
    bars = np.datetime64("2024-01-02T09:31", "ms") + np.arange(40) * np.timedelta64(60_000, "ms")
    panel = Panel.from_arrays({"close": close}, target, session=session, bars=bars)
    if stop <= target.reach:
        assert np.isnan(panel.cut(stop).forward_return).all()
        return
    shorter = Panel.from_arrays({"close": close[:stop]}, target, session=session[:stop], bars=bars[:stop])
    same_panel(panel.cut(stop), shorter)
    assert panel.cut(stop).fingerprint == shorter.fingerprint
    assert panel.cut(stop).base.split_names == ()
    assert np.shares_memory(panel.cut(stop).fields["close"], panel.fields["close"])


@pytest.mark.parametrize("stop", [0, -1, 19])
def test_cut_refused(stop):
    with pytest.raises(DataError, match=f"18 bars cannot be cut at bar {stop}"):
        Panel.from_frame(small_frame()).cut(stop)


def test_with_fields():
    panel = Panel.from_frame(small_frame(n_days=5), CLOSE, universe={"minimum_price": 1.0}, splits=SPLITS)
    same_panel(panel.with_fields(panel.fields), panel)
    close = panel.fields["close"].copy()
    close[20:] *= 3
    other = panel.with_fields({"close": close})
    close[:] = 0  # The panel holds its own copy.
    np.testing.assert_array_equal(other.fields["close"][:20], panel.fields["close"][:20])
    np.testing.assert_array_equal(other.fields["open"], panel.fields["open"])
    np.testing.assert_array_equal(other.forward_return[:17], panel.forward_return[:17])
    np.testing.assert_array_equal(
        other.forward_return[17:], compute_forward_return(other.fields["close"], other.session, CLOSE)[17:]
    )
    assert other.fingerprint != panel.fingerprint
    view = panel.split("valid").with_fields({"x": np.ones(panel.shape)})
    assert list(view.fields)[-1] == "x" and (view.start, view.stop) == (12, 18) and view.base is not panel
    np.testing.assert_array_equal(view.forward_return, panel.split("valid").forward_return)
    with pytest.raises(DataError, match=r"field close: must have the panel's shape \(30, 3\), was \(2, 3\)"):
        panel.with_fields({"close": np.ones((2, 3))})


def test_with_fields_keeps_infinities_out_of_labels_and_universe():
    panel = Panel.from_frame(small_frame(), CLOSE)
    close = panel.fields["close"].copy()
    close[4, 0] = np.inf
    other = panel.with_fields({"close": close})
    assert np.isinf(other.fields["close"][4, 0]) and not other.universe[4, 0]
    assert not np.isinf(other.forward_return).any()


def test_with_fields_leaves_a_ready_made_return():
    frame = small_frame()
    frame["ret"] = np.arange(len(frame), dtype=float)
    panel = Panel.from_frame(frame, ForwardReturn(1, column="ret"))
    other = panel.with_fields({"close": np.ones(panel.shape)})
    np.testing.assert_array_equal(other.forward_return, panel.forward_return)


def test_groups():
    frame = small_frame()
    frame["sector"] = frame.symbol.map({"000001": "bank", "000002": "car", "600000": "bank"})
    target = ForwardReturn(1, price="close", transform="group-neutral", group_column="sector")
    panel = Panel.from_frame(frame, target)
    assert panel.groups["sector"].tolist() == [[0, 1, 0]] * 18
    assert panel.groups["sector"].dtype == np.int32
    plain = Panel.from_frame(frame, ForwardReturn(1, price="close")).forward_return
    np.testing.assert_allclose(panel.forward_return[0], [
        (plain[0, 0] - plain[0, 2]) / 2, 0, (plain[0, 2] - plain[0, 0]) / 2,
    ], atol=1e-8)  # fmt: skip
    assert panel.cut(5).groups["sector"].shape == (5, 3)


# -- fingerprint ----------------------------------------------------------------------------------


def test_fingerprint_tells_panels_apart():
    frame = small_frame(n_days=5)
    frame["flag"] = True

    def make(change=None, forward_return=CLOSE, **options):
        return Panel.from_frame(frame if change is None else change, forward_return, **options).fingerprint

    value = frame.copy()
    value.loc[5, "volume"] += 1
    renamed = frame.rename(columns={"volume": "turnover"})
    moved = frame.assign(datetime=frame.datetime + pd.Timedelta(minutes=1))
    found = {
        "as it is": make(),
        "one value": make(value),
        "a name": make(renamed),
        "time": make(moved),
        "horizon": make(forward_return=ForwardReturn(3, price="close")),
        "no target": make(forward_return=None),
        "windows": make(windows="session"),
        "min_periods": make(min_periods=0.6),
        "fields": make(fields=["close", "open"]),
        "order of fields": make(fields=["open", "close"]),
        "universe": make(universe={"minimum_sessions": 1}),
        "symbols": make(frame[frame.symbol != "000002"]),
    }
    assert len(set(found.values())) == len(found)
    assert make() == found["as it is"] == make(splits=SPLITS)
    panel = Panel.from_frame(frame, CLOSE, splits=SPLITS)
    views = {panel.split(name).fingerprint for name in SPLITS} | {panel.fingerprint}
    assert len(views) == 4
    assert len(panel.fingerprint) == 32
    frame["ret"] = 0.1
    ready = ForwardReturn(1, column="ret")
    assert make(forward_return=ready) != make(frame.assign(ret=0.2), forward_return=ready)


# -- from_arrays ----------------------------------------------------------------------------------


def test_from_arrays():
    close = np.arange(1.0, 13.0).reshape(6, 2)
    panel = Panel.from_arrays(
        {"close": close, "x": -close}, close / 100, horizon=3, lag=0, session=[0, 0, 0, 0, 1, 1]
    )
    assert (panel.horizon, panel.lag) == (3, 0)
    np.testing.assert_array_equal(panel.forward_return, (close / 100).astype(np.float32))
    assert panel.symbols.tolist() == ["S000", "S001"]
    assert panel.bars[[0, 3, 4]].astype(str).tolist() == [
        "2024-01-02T09:31:00.000", "2024-01-02T09:34:00.000", "2024-01-03T09:31:00.000",
    ]  # fmt: skip
    universe = np.array([[True, False]] * 6)
    bars = np.arange("2024-01-02", "2024-01-08", dtype="datetime64[D]")
    dated = Panel.from_arrays({"close": close}, universe=universe, bars=bars, symbols=["A", "B"])
    assert dated.session.tolist() == [0, 1, 2, 3, 4, 5] and dated.symbols.tolist() == ["A", "B"]
    np.testing.assert_array_equal(dated.universe, universe)
    long = Panel.from_arrays({"x": np.ones((3000, 1))}, session=np.repeat([0, 1], 1500))
    assert np.all(np.diff(long.bars) > np.timedelta64(0, "ms"))


def test_from_arrays_overflow_is_missing():
    panel = Panel.from_arrays({"close": [[1e39, np.inf, 1.0]]})
    assert np.isnan(panel.fields["close"]).tolist() == [[True, True, False]]


@pytest.mark.parametrize(
    ("fields", "options", "message"),
    [
        ({}, {}, "at least one field"),
        ({"x": [1.0, 2.0]}, {}, r"must be \(T, S\)"),
        ({"x": np.ones((0, 2))}, {}, "neither of them 0"),
        ({"x": np.ones((3, 2)), "y": np.ones((2, 2))}, {}, "field y: must have the shape"),
        ({"x": np.ones((3, 2))}, {"universe": np.ones((3, 1))}, "universe: must have the shape"),
        ({"x": np.ones((3, 2))}, {"symbols": ["A", "A"]}, "2 different names"),
        ({"x": np.ones((3, 2))}, {"session": [0, 0]}, "session: must have the shape"),
        ({"x": np.ones((3, 2))}, {"session": [0, 2, 2]}, "rise by 0 or 1"),
        ({"x": np.ones((3, 2))}, {"forward_return": np.ones((3, 1))}, "forward_return: must have the shape"),
        ({"x": np.ones((3, 2))}, {"forward_return": CLOSE}, "must be one of the fields, was close"),
        ({"x": np.ones((3, 2))}, {"windows": "daily"}, "must be continuous or session, was 'daily'"),
        ({"x": np.ones((3, 2))}, {"min_periods": 2}, r"must lie in \[0, 1\], was 2"),
    ],
)
def test_from_arrays_refusals(fields, options, message):
    with pytest.raises((DataError, ConfigError), match=message):
        Panel.from_arrays(fields, **options)


def test_universe_config_object_is_taken():
    panel = Panel.from_frame(small_frame(), universe=UniverseConfig(minimum_sessions=1))
    assert panel.universe[6:].all() and not panel.universe[:6].any()
