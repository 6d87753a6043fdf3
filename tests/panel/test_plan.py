import numpy as np
import pandas as pd
import pytest

from rlgen.config import Config
from rlgen.errors import ConfigError, DataError
from rlgen.panel import ForwardReturn, Panel
from rlgen.panel.plan import Plan
from tests.panel.panels import small_frame

CLOSE = ForwardReturn(1, price="close")


def wide_frame():
    """A bar table with columns of every kind."""
    frame = small_frame()
    frame["turnover"] = np.arange(len(frame))
    frame["limit_up"] = frame.close > 10
    frame["sector"] = "bank"
    frame["adj close"] = frame.close
    frame["__index_level_0__"] = 1
    frame["ret_5"] = 0.1
    frame["ret_10"] = 0.2
    frame["forward_return"] = 0.3
    frame["fwd_ret_30"] = 0.4
    frame["day"] = frame.datetime.dt.date
    return frame


def test_which_columns_become_fields():
    panel = Panel.from_frame(
        wide_frame(), ForwardReturn(5, column="ret_5"), session={"rule": "column", "column": "day"}
    )
    assert set(panel.fields) == {
        "open", "high", "low", "close", "volume", "amount", "vwap", "turnover", "limit_up",
    }  # fmt: skip
    assert set(np.unique(panel.fields["limit_up"])) <= {0.0, 1.0}
    assert panel.fields["turnover"][1, 0] == 1.0
    unused = panel.report.unused
    assert unused["ret_5"] == "it is the forward return: it looks ahead"
    assert unused["ret_10"] == "it looks ahead like its sibling ret_5"
    assert unused["forward_return"] == unused["fwd_ret_30"] == "its name says that it looks ahead"
    assert unused["adj close"].startswith("formulas cannot spell its name")
    assert unused["day"] == "it is the session"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ret_5", "ret_5 can be no field: it is the forward return: it looks ahead"),
        ("ret_10", "ret_10 can be no field: it looks ahead like its sibling ret_5"),
        ("forward_return", "can be no field: its name says that it looks ahead"),
        ("Fwd_Ret_30", "can be no field: its name says that it looks ahead"),
        ("adj close", "formulas cannot spell its name"),
        ("datetime", "it says which bar a row is"),
        ("closed", "the data has no column closed; did you mean close?"),
        ("sector", "no column sector"),
    ],
)
def test_fields_refused(name, message):
    with pytest.raises(ConfigError, match=message):
        Panel.from_frame(wide_frame(), ForwardReturn(5, column="ret_5"), fields=["close", name])


def test_fields_are_in_the_order_given():
    panel = Panel.from_frame(wide_frame(), CLOSE, fields=["volume", "close"])
    assert list(panel.fields) == ["volume", "close"]
    assert panel.report.unused["open"] == "not configured"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fields": []}, "must name a field"),
        ({"fields": ["open", "open"]}, "must not name a field twice, was open, open"),
        ({"bar_label": "middle"}, "must be left or right, was 'middle'"),
        ({"windows": "daily"}, "must be continuous or session, was 'daily'"),
        ({"min_periods": -0.1}, "must lie in"),
        ({"session": "cut"}, "rule cut goes with the key `cut`"),
        ({"session": {"rule": "date", "dates": 1}}, "dates: unknown key"),
        ({"hours": [["09:30"]]}, "hours"),
        ({"universe": {"minimum": 1}}, "minimum: unknown key"),
        (
            {"forward_return": ForwardReturn(1, price="fwd_return")},
            "fwd_return looks ahead; did you mean `column`",
        ),
    ],
)
def test_arguments_refused(options, message):
    options = {"forward_return": CLOSE} | options
    with pytest.raises(ConfigError, match=message):
        Panel.from_frame(wide_frame(), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"forward_return": "retx"}, "retx"),
        ({"forward_return": ForwardReturn(1, price="mid")}, "mid"),
        ({"universe": "tradable"}, "tradable"),
        ({"session": {"rule": "column", "column": "trade_date"}}, "trade_date"),
    ],
)
def test_missing_columns_are_named(options, message):
    with pytest.raises((ConfigError, DataError), match=f"no column .?{message}"):
        Panel.from_frame(wide_frame(), **options)


def test_no_column_can_be_a_field():
    frame = pd.DataFrame({"datetime": pd.to_datetime(["2024-01-02"]), "symbol": ["A"], "ret": [0.1]})
    with pytest.raises(DataError, match="no column can be a field; the columns are datetime, symbol, ret"):
        Panel.from_frame(frame, "ret")


def test_a_price_of_its_own():
    frame = small_frame()
    frame["mid"] = frame.close * 2
    frame.loc[2, "mid"] = -1.0
    panel = Panel.from_frame(frame, ForwardReturn(1, price="mid"), fields=["close"])
    assert list(panel.fields) == ["close"]
    assert np.isnan(panel.forward_return[[0, 1], 0]).all()
    assert not np.isnan(panel.forward_return[2:4, 0]).any()


def test_hours_are_dropped_and_counted():
    panel = Panel.from_frame(small_frame(n_days=2), CLOSE, hours=[["09:30", "09:34"]])
    assert panel.shape == (8, 3)
    assert panel.report.outside == {"000001": 4, "000002": 4, "600000": 4}
    assert panel.report.rows == 24
    left = Panel.from_frame(small_frame(n_days=2), CLOSE, hours=[["09:30", "09:34"]], bar_label="left")
    assert left.shape == (6, 3)
    np.testing.assert_array_equal(
        left.fields["close"], Panel.from_frame(small_frame(n_days=2)).fields["close"][[0, 1, 2, 6, 7, 8]]
    )


def test_symbols_must_agree_on_a_session_column():
    frame = small_frame(n_days=2)
    frame["day"] = frame.datetime.dt.strftime("%Y-%m-%d")
    rule = {"rule": "column", "column": "day"}
    panel = Panel.from_frame(frame, CLOSE, session=rule)
    assert panel.session_starts.tolist() == [0, 6, 12] and "day" not in panel.fields
    frame.loc[13, "day"] = "2024-01-03"
    with pytest.raises(DataError, match=r"column day: all symbols' sessions must agree .*2024-01-02T09:32"):
        Panel.from_frame(frame, CLOSE, session=rule)


def test_time_zone():
    frame = small_frame()
    zoned = frame.assign(datetime=frame.datetime.dt.tz_localize("Asia/Shanghai").dt.tz_convert("UTC"))
    panel = Panel.from_frame(zoned, CLOSE, timezone="Asia/Shanghai")
    assert panel.fingerprint == Panel.from_frame(frame, CLOSE).fingerprint


def test_overflow_is_missing_and_counted():
    frame = small_frame()
    frame.loc[[1, 2], "amount"] = 1e39
    panel = Panel.from_frame(frame, CLOSE)
    assert panel.report.overflow["amount"] == 2
    assert np.isnan(panel.fields["amount"]).sum() == 2
    assert np.isfinite(panel.fields["volume"]).all()


def test_prices_not_positive_are_missing():
    frame = small_frame()
    frame.loc[0, "close"], frame.loc[1, "open"] = 0.0, -1.0
    panel = Panel.from_frame(frame, CLOSE)
    assert np.isnan(panel.fields["close"][0, 0]) and np.isnan(panel.fields["open"][1, 0])
    assert not panel.universe[0, 0] and panel.universe[1, 0]
    assert any("not above zero" in line for line in panel.report.reading)


def test_plan_of_a_configuration():
    data = {
        "forward_return": {"column": "ret", "horizon": 5, "lag": 2},
        "windows": "session",
        "fields": ["close"],
        "bar_label": "left",
        "min_periods": 0.25,
        "universe": {"column": "tradable"},
        "session": {"rule": "column", "column": "day"},
    }
    config = Config(data=data, splits={"train": ("2024-01-02", "2024-01-03")})
    plan = Plan.from_config(config)
    assert plan.target == ForwardReturn(5, lag=2, column="ret")
    assert (plan.windows, plan.fields, plan.bar_label, plan.min_periods) == (
        "session",
        ("close",),
        "left",
        0.25,
    )
    assert plan.wanted() == {"numbers": ["ret"], "keep": ["day"], "booleans": ["tradable"]}
    assert plan.splits == config.splits
