import importlib.util
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlgen.config import SessionConfig
from rlgen.errors import ConfigError, DataError
from rlgen.panel.sessions import Calendar, assign_sessions, cut_dates, parse_clock, within_hours
from tests.panel.panels import minutes

FUTURES = Path(__file__).parents[2] / "../shared/data/cn_futures_5min_2023_night/panel.parquet"
HOURS = (("09:30", "11:30"), ("13:00", "15:00"))


def stamps(*texts):
    return np.array(texts, dtype="datetime64[ms]")


def dates_of(bars, config, bar_label="right", labels=None):
    kept, calendar = assign_sessions(bars, config, bar_label, labels)
    assert len(calendar.bars) == kept.sum()
    return [str(date) for date in calendar.session_dates[calendar.session]]


def test_calendar_counts_sessions_and_bars():
    bars = np.concatenate([minutes("2024-01-02", "09:31", "09:33"), minutes("2024-01-03", "09:31", "09:32")])
    kept, calendar = assign_sessions(bars, SessionConfig(), "right")
    assert kept.all()
    assert calendar.session.tolist() == [0, 0, 0, 1, 1]
    assert calendar.bar_of_session.tolist() == [0, 1, 2, 0, 1]
    assert calendar.session_starts.tolist() == [0, 3, 5]
    assert calendar.session_dates.astype(str).tolist() == ["2024-01-02", "2024-01-03"]
    head = calendar.head(4)
    assert head.session_starts.tolist() == [0, 3, 4]
    with pytest.raises(ValueError, match="read-only"):
        calendar.session[0] = 7


@pytest.mark.parametrize(
    ("bars", "session", "message"),
    [
        (["2024-01-02", "2024-01-02"], [0, 0], "must increase"),
        (["2024-01-02", "2024-01-03"], [0, 2], "rise by 0 or 1"),
        (["2024-01-02", "2024-01-03"], [1, 1], "start at 0"),
        (["2024-01-02", "2024-01-03"], [0, 1], "1 session dates"),
        ([], [], "T > 0"),
    ],
)
def test_calendar_refuses_disorder(bars, session, message):
    with pytest.raises(DataError, match=message):
        Calendar.from_sessions(stamps(*bars), np.array(session), stamps("2024-01-02").astype("datetime64[D]"))


@pytest.mark.parametrize(
    ("bar_label", "first", "last"), [("right", "09:31", "15:00"), ("left", "09:30", "14:59")]
)
def test_hours_by_label(bar_label, first, last):
    bars = minutes("2024-01-02", "09:00", "15:30")
    inside = bars[within_hours(bars, HOURS, bar_label)]
    assert len(inside) == 240
    assert inside[0] == np.datetime64(f"2024-01-02T{first}")
    assert inside[-1] == np.datetime64(f"2024-01-02T{last}")


def test_hours_across_midnight():
    bars = stamps("2024-01-02T21:00", "2024-01-02T21:05", "2024-01-03T02:30", "2024-01-03T02:35")
    assert within_hours(bars, (("21:00", "02:30"),), "right").tolist() == [False, True, True, False]
    assert within_hours(bars, (("21:00", "02:30"),), "left").tolist() == [True, True, False, False]
    whole = within_hours(minutes("2024-01-02", "00:00", "23:59"), (("00:00", "24:00"),), "left")
    assert whole.all()


def test_hours_that_no_bar_fits():
    with pytest.raises(DataError, match=r"none of the 2 bars, 2024-01-02T09:31.* lies in the trading hours"):
        assign_sessions(
            minutes("2024-01-02", "09:31", "09:32"), SessionConfig(hours=(("13:00", "15:00"),)), "right"
        )


@pytest.mark.parametrize("text", ["9", "25:00", "09:60", "24:01", "ab:cd", "09:30:00", "-1:00", "09:²0"])
def test_clock_refused(text):
    with pytest.raises(ConfigError, match=f"must be a time HH:MM, was '{text}'"):
        parse_clock(text, "data.session.cut")


def test_empty_pair_refused():
    with pytest.raises(ConfigError, match="must not be empty"):
        within_hours(minutes("2024-01-02", "09:31", "09:32"), (("09:30", "09:30"),), "right")


def test_cut_night_goes_to_the_next_date_with_a_day_bar():
    # 2024-01-05 is a Friday, 2024-01-08 a Monday, which is a holiday here.
    bars = stamps(
        "2024-01-04T21:05", "2024-01-05T00:30", "2024-01-05T09:05", "2024-01-05T18:00",
        "2024-01-05T21:05", "2024-01-06T02:30", "2024-01-09T09:05", "2024-01-09T15:00",
    )  # fmt: skip
    config = SessionConfig(rule="cut", cut="18:00")
    assert dates_of(bars, config) == ["2024-01-05"] * 4 + ["2024-01-09"] * 4
    # A bar labelled by its start at the cut belongs to the night.
    assert dates_of(bars, config, "left") == ["2024-01-05"] * 3 + ["2024-01-09"] * 5


@pytest.mark.parametrize(
    ("night", "date"),
    [
        ("2024-01-04T21:05", "2024-01-05"),
        ("2024-01-05T21:05", "2024-01-08"),
        ("2024-01-06T01:00", "2024-01-08"),
    ],
)
def test_cut_last_night_gets_the_next_weekday(night, date):
    bars = stamps("2024-01-03T10:00", night)
    assert dates_of(bars, SessionConfig(rule="cut", cut="18:00")) == ["2024-01-03", date]
    assert dates_of(stamps(night), SessionConfig(rule="cut", cut="18:00")) == [date]


def test_cut_hours_decide_what_a_day_bar_is():
    # A stray print on Saturday at 16:00 is outside the hours: Friday's night still goes to Monday.
    bars = stamps("2024-01-05T21:05", "2024-01-06T16:00", "2024-01-08T09:05")
    config = SessionConfig(rule="cut", cut="18:00", hours=(("09:00", "15:00"), ("21:00", "02:30")))
    assert dates_of(bars, config) == ["2024-01-08", "2024-01-08"]


@given(st.lists(st.integers(0, 60 * 24 * 20), min_size=1, max_size=60, unique=True), st.integers(0, 47))
def test_cut_sessions_are_in_order(offsets, half_hours):
    bars = np.datetime64("2024-01-01T00:00", "ms") + np.sort(offsets) * np.timedelta64(60_000, "ms")
    dates = cut_dates(bars, half_hours * 1_800_000, "right")
    assert np.all(np.diff(dates).astype(int) >= 0)
    # The date of a bar before the cut is never before its own, and nobody waits but for a day bar.
    assert np.all(dates >= (bars - np.timedelta64(1, "ms")).astype("datetime64[D]"))


@pytest.mark.skipif(not FUTURES.exists(), reason=f"{FUTURES.parent.name} is not there")
def test_cut_on_chinese_futures():
    frame = pd.read_parquet(FUTURES)
    bars = np.unique(frame.datetime.to_numpy()).astype("datetime64[ms]")
    _, calendar = assign_sessions(bars, SessionConfig(rule="cut", cut="18:00"), "right")
    stamp = pd.DatetimeIndex(calendar.bars)
    date = pd.DatetimeIndex(calendar.session_dates[calendar.session])
    day = (stamp.hour >= 9) & (stamp.hour <= 15)
    assert (date[day] == stamp[day].normalize()).all()
    # Nights: the next of the dates with a day bar, found one by one.
    day_dates = sorted(set(stamp[day].normalize()))
    for moment, found in zip(stamp[~day], date[~day], strict=True):
        earliest = moment.normalize() + pd.Timedelta(days=1 if moment.hour >= 18 else 0)
        assert found == next(candidate for candidate in day_dates if candidate >= earliest)
    friday_night = (stamp.day_of_week == 4) & (stamp.hour >= 21)
    saturday = stamp.day_of_week == 5
    assert friday_night.sum() == 94 and saturday.sum() == 60
    assert set(date[friday_night | saturday].day_of_week) == {0}


def test_column_of_dates_and_of_labels():
    bars = minutes("2024-01-02", "23:58", "23:59").tolist() + minutes("2024-01-03", "00:01", "00:02").tolist()
    bars = np.array(bars, dtype="datetime64[ms]")
    config = SessionConfig(rule="column", column="day")
    for labels in (
        np.array(["2024-01-03", "2024-01-03", "2024-01-03", "2024-01-04"], dtype="datetime64[ms]"),
        np.array(["2024-01-03", "2024-01-03", "2024-01-03", "2024-01-04"], dtype=object),
        np.array([20240103, 20240103, 20240103, 20240104]),
    ):
        assert dates_of(bars, config, labels=labels) == ["2024-01-03"] * 3 + ["2024-01-04"]
    for labels in (np.array(["a", "a", "b", "b"], dtype=object), np.array([7, 7, 9, 9])):
        assert dates_of(bars, config, labels=labels) == ["2024-01-02"] * 2 + ["2024-01-03"] * 2


def test_column_out_of_order_is_refused():
    bars = minutes("2024-01-02", "09:31", "09:33")
    config = SessionConfig(rule="column", column="day")
    for labels in (np.array([2, 2, 1]), np.array(["a", "b", "a"], dtype=object)):
        with pytest.raises(
            DataError, match=r"column day: sessions must follow one another in time, was .*T09:33"
        ):
            assign_sessions(bars, config, "right", labels)


needs_calendars = pytest.mark.skipif(
    importlib.util.find_spec("exchange_calendars") is None, reason="exchange_calendars is not installed"
)


@needs_calendars
@pytest.mark.parametrize(
    ("bar_label", "ends"),
    [("right", ["09:31", "11:30", "13:01", "15:00"]), ("left", ["09:30", "11:29", "13:00", "14:59"])],
)
def test_exchange_calendar_knows_breaks_and_holidays(bar_label, ends):
    # Tuesday, and the Friday before the New Year holiday's Monday (2024-01-01).
    bars = np.concatenate(
        [minutes(day, "09:00", "15:30") for day in ("2023-12-29", "2024-01-01", "2024-01-02")]
    )
    kept, calendar = assign_sessions(bars, SessionConfig(rule="calendar", calendar="XSHG"), bar_label)
    assert kept.sum() == 480
    assert calendar.session_dates.astype(str).tolist() == ["2023-12-29", "2024-01-02"]
    first = calendar.bars[:240]
    assert [str(first[i])[11:16] for i in (0, 119, 120, 239)] == ends


@needs_calendars
def test_exchange_calendar_half_day_and_evening_session():
    bars = minutes("2024-07-03", "09:31", "16:00")
    kept, _ = assign_sessions(bars, SessionConfig(rule="calendar", calendar="XNYS"), "right")
    assert kept.sum() == 210 and str(bars[kept][-1]) == "2024-07-03T13:00:00.000"
    sunday = stamps("2024-07-05T15:59", "2024-07-07T17:01", "2024-07-08T12:00")
    assert dates_of(sunday, SessionConfig(rule="calendar", calendar="CMES")) == [
        "2024-07-05", "2024-07-08", "2024-07-08",
    ]  # fmt: skip


@needs_calendars
@pytest.mark.parametrize(
    ("name", "day", "message"),
    [
        ("XSHG", "2199-01-05", "the data of XSHG do not cover the bars, 2199-01-05 to 2199-01-05"),
        ("NOPE", "2024-01-05", "NOPE, does not exist"),
    ],
)
def test_exchange_calendar_refusals(name, day, message):
    with pytest.raises(ConfigError, match=message):
        assign_sessions(
            minutes(day, "09:31", "09:32"), SessionConfig(rule="calendar", calendar=name), "right"
        )


@needs_calendars
def test_exchange_calendar_no_bar_in_a_session():
    with pytest.raises(DataError, match="lies in a session of XSHG"):
        assign_sessions(
            minutes("2024-01-06", "09:31", "09:32"), SessionConfig(rule="calendar", calendar="XSHG"), "right"
        )


def test_exchange_calendar_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "exchange_calendars", None)
    with pytest.raises(ConfigError, match="XSHG: needs the package exchange_calendars; install it with"):
        assign_sessions(
            minutes("2024-01-05", "09:31", "09:32"), SessionConfig(rule="calendar", calendar="XSHG"), "right"
        )
