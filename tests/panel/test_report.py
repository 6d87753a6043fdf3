import json

import numpy as np
import pandas as pd
import pytest

from rlgen.panel import ForwardReturn, LoadReport, Panel
from rlgen.panel.report import listed, percent
from tests.panel.panels import small_frame

NAN = np.nan


def test_everything_that_can_be_said():
    frame = small_frame(n_days=5, n_bars=6, symbols=("A", "B", "C", "D"))
    date = frame.datetime.dt.strftime("%m-%d")
    # B starts on the second day and ends on the fourth; C lacks two closes; the third day is short.
    frame = frame[~((frame.symbol == "B") & date.isin(["01-02", "01-08"]))]
    frame = frame[~((frame.datetime.dt.day == 4) & (frame.datetime.dt.minute > 32))]
    frame.loc[
        (frame.symbol == "C") & (frame.datetime.dt.minute == 33) & (frame.datetime.dt.day == 2), "close"
    ] = NAN
    frame = frame[frame.datetime.dt.date != pd.Timestamp("2024-01-05").date()]
    early = frame[(frame.symbol == "D")].head(1).assign(datetime=pd.Timestamp("2024-01-02 08:00"))
    frame = pd.concat([frame, early, frame.iloc[[0]]])
    frame.loc[frame.symbol == "A", "amount"] = 1e39
    frame["industry"] = "x"
    frame["fwd_ret"] = 1.0
    panel = Panel.from_frame(
        frame,
        ForwardReturn(1, price="close"),
        hours=[["09:30", "15:00"]],
        universe={"minimum_sessions": 1},
        splits={"train": ("2024-01-02", "2024-01-03"), "embargo": 1},
        fields=["close", "amount"],
    )
    report = panel.report
    assert (report.bars, report.symbols, report.sessions) == (20, 4, 4)
    assert report.rows == 20 * 4 - 12
    assert report.absent == pytest.approx(12 / 80)
    assert report.bars_per_session == (2, 6, 6)
    assert report.missing["close"] == pytest.approx(1 / 68)
    assert report.outside == {"D": 1}
    assert report.short_sessions == {"2024-01-04": 2}
    assert report.empty_weekdays == ("2024-01-05",)
    assert report.late == {"B": "2024-01-03"} and report.early == {"B": "2024-01-04"}
    # First session out; B's own first session too.
    assert report.universe == pytest.approx((6 * 3 + 2 * 4 + 6 * 3) / 67)
    assert report.labels == 4 * 3 + 4 * 3
    assert report.labels_beyond == (2 * 3) + (2 * 4) + (2 * 3)
    assert report.labels_lost_in_all == 0
    assert panel.report.overflow == {"amount": int((frame.symbol == "A").sum()) - 1}
    text = str(report)
    for line in (
        "20 bars × 4 symbols, 4 sessions (2 to 6, median 6 bars each), 2024-01-02 09:31 to 2024-01-08 09:36",
        "68 rows; 15.0 % of the cells have none",
        "fields: close, amount",
        "no field: fwd_ret (its name says that it looks ahead)",
        "outside the trading hours, dropped: 1 rows: D 1",
        "short sessions: 2024-01-04 2 bars",
        "weekdays without a session: 2024-01-05",
        "start late: B 2024-01-03",
        "end early: B 2024-01-04",
        "forward return: close[t+2] / close[t+1] - 1, within the session",
        "train: 2024-01-02 to 2024-01-03, 12 bars in 2 sessions, labels up to 2024-01-03 09:33",
    ):
        assert line in text.splitlines()
    assert "1 identical duplicate rows dropped" in text
    assert "too large for float32, now missing: amount 20" in text
    assert LoadReport.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_labels_lost_by_symbol():
    frame = small_frame(n_days=1, n_bars=6, symbols=("A", "B"))
    frame.loc[2, "close"] = NAN
    report = Panel.from_frame(frame, ForwardReturn(1, price="close")).report
    # A's labels at bars 0 and 1 need bar 2, which itself is not in the universe: 2 of 3.
    assert report.labels_lost == {"A": pytest.approx(2 / 3), "B": 0.0}
    assert report.labels_lost_in_all == pytest.approx(2 / 7)
    assert "labels lost by symbol: A 66.7 %" in str(report)
    assert "labels: 5; 28.6 % of those possible are lost to missing values, 4 more" in str(report)


def test_ready_made_labels_lost():
    frame = small_frame(n_days=1, n_bars=4, symbols=("A", "B"))
    frame["ret"] = [0.1, NAN, NAN, NAN, 0.1, 0.2, 0.3, NAN]
    report = Panel.from_frame(frame, ForwardReturn(2, lag=0, column="ret", transform="rank")).report
    assert report.target == "column ret, horizon 2, lag 0, rank"
    assert report.labels_lost == {"A": 0.75, "B": 0.25} and report.labels == 4


def test_a_symbol_without_any_bar_in_hours():
    frame = small_frame(n_days=1, symbols=("A", "B"))
    frame.loc[frame.symbol == "B", "datetime"] += pd.Timedelta(hours=12)
    report = Panel.from_frame(frame, hours=[["09:30", "15:00"]]).report
    assert report.late == {"B": "never"} and report.outside == {"B": 6} and report.outsiders == ("B",)


def test_short_sessions_have_less_than_half_the_usual_bars():
    frame = small_frame(n_days=4)
    day, minute = frame.datetime.dt.day, frame.datetime.dt.minute
    frame = frame[((day != 3) | (minute < 34)) & ((day != 4) | (minute < 33))]
    assert Panel.from_frame(frame).report.short_sessions == {"2024-01-04": 2}


def test_words():
    assert percent(0) == "0.0 %" and percent(1e-9) == "under 0.1 %" and percent(0.1234) == "12.3 %"
    assert listed([str(i) for i in range(8)]) == "0, 1, 2, 3, 4, 5, and 2 more"
    assert str(LoadReport()).startswith("panel\n")
