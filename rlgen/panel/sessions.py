"""Sessions: which trading day each bar belongs to, and which bars count at all.

1. `within_hours` says which bars lie in the trading hours (`hours`, or the exchange calendar's).
2. `assign_sessions` gives each remaining bar a session by the configured rule; the result is
   checked to be a calendar: a session is one unbroken run of bars.
3. `Calendar` holds the outcome as arrays: bars, session numbers, dates, starts.

Bars are the grid's: the union over symbols, sorted, without repetition. All times are naive and
exchange-local. A bar labelled `right` is stamped with its end, so that its interval is
(…, stamp]; labelled `left` it is [stamp, …).

Rule `cut` with cut c: the session of date D covers what lies between c on D-1 and c on D. Its
*day bars* are those of the last twelve hours before c on D; the rest is the night that opens it.
A night whose own date has no day bar (Friday night, the eve of a holiday) belongs to the next
date that has one. A night at the very end of the data, with no later day bar, gets the next
weekday as its date.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rlgen.config import SessionConfig
from rlgen.errors import ConfigError, DataError

Array = npt.NDArray[Any]

MINUTE = 60_000
DAY = 86_400_000


@dataclass(frozen=True, eq=False)
class Calendar:
    """The grid of a panel: T bars in n sessions."""

    bars: Array
    """(T,) datetime64[ms], strictly increasing."""
    session: Array
    """(T,) int32, 0-based session number, never decreasing."""
    session_dates: Array
    """(n,) datetime64[D], the trading day of each session."""
    session_starts: Array
    """(n+1,) int64, the bar at which each session starts, closed by T."""
    bar_of_session: Array
    """(T,) int32, 0-based number of the bar within its session."""

    @classmethod
    def from_sessions(cls, bars: Array, session: Array, session_dates: Array) -> Calendar:
        """The calendar of bars (T,) whose session numbers (T,) are 0…n-1, in order.

        Raises:
            DataError: bars or session numbers are not in order, or a number is skipped.
        """
        bars = np.ascontiguousarray(bars, dtype="datetime64[ms]")
        session = np.ascontiguousarray(session, dtype=np.int32)
        if bars.ndim != 1 or session.shape != bars.shape or not len(bars):
            raise DataError(f"bars and sessions must be (T,) with T > 0, were {bars.shape}, {session.shape}")
        if np.any(bars[1:] <= bars[:-1]):
            raise DataError(f"bars must increase, {bars[1:][bars[1:] <= bars[:-1]][0]} does not")
        steps = np.diff(session)
        if session[0] != 0 or np.any((steps != 0) & (steps != 1)):
            raise DataError("session numbers must start at 0 and rise by 0 or 1 from bar to bar")
        starts = np.concatenate([[0], np.flatnonzero(steps) + 1, [len(bars)]]).astype(np.int64)
        if len(session_dates) != len(starts) - 1:
            raise DataError(f"there are {len(starts) - 1} sessions but {len(session_dates)} session dates")
        bar_of_session = (np.arange(len(bars)) - starts[session]).astype(np.int32)
        dates = np.ascontiguousarray(session_dates, dtype="datetime64[D]")
        calendar = cls(bars, session, dates, starts, bar_of_session)
        for array in (calendar.bars, calendar.session, dates, starts, bar_of_session):
            array.flags.writeable = False
        return calendar

    @property
    def n_sessions(self) -> int:
        """Number of sessions."""
        return len(self.session_dates)

    def head(self, stop: int) -> Calendar:
        """The calendar of bars [0, stop)."""
        n = int(self.session[stop - 1]) + 1
        return Calendar.from_sessions(
            self.bars[:stop].copy(), self.session[:stop].copy(), self.session_dates[:n].copy()
        )


def parse_clock(text: str, key: str) -> int:
    """`HH:MM` as milliseconds since midnight; `24:00` is a day's end. `key` is named in errors."""
    parts = text.split(":")
    if len(parts) == 2 and all(part.isascii() and part.isdigit() for part in parts):
        hour, minute = int(parts[0]), int(parts[1])
        if (hour < 24 and minute < 60) or (hour == 24 and minute == 0):
            return (hour * 60 + minute) * MINUTE
    raise ConfigError(f"{key}: must be a time HH:MM, was {text!r}")


def within_hours(bars: Array, hours: Sequence[tuple[str, str]], bar_label: str) -> Array:
    """(T,) bool: which bars lie in the trading hours.

    A pair is [from, to) for bars labelled `left`, (from, to] for `right`. A pair whose end is
    before its start runs across midnight, as `["21:00", "02:30"]`.
    """
    clock = bars.astype("datetime64[ms]").astype(np.int64) % DAY
    inside = np.zeros(len(bars), dtype=bool)
    for first, last in hours:
        begin, end = parse_clock(first, "data.session.hours"), parse_clock(last, "data.session.hours")
        if begin == end:
            raise ConfigError(f"data.session.hours: a pair must not be empty, was [{first}, {last}]")
        length = (end - begin) % DAY or DAY
        offset = (clock - begin) % DAY
        if bar_label == "left":
            inside |= offset < length
        else:
            # A bar stamped at the opening itself ended there: offset 0 counts as a full day.
            offset[offset == 0] = DAY
            inside |= offset <= length
    return inside


def assign_sessions(
    bars: Array,
    config: SessionConfig,
    bar_label: str,
    labels: Array | None = None,
) -> tuple[Array, Calendar]:
    """Which of the grid's bars count, (T,) bool, and the calendar of those that do.

    Args:
        bars: (T,) datetime64[ms], strictly increasing.
        config: the rule and the hours.
        bar_label: `left` or `right`.
        labels: rule `column`: (T,) the column's value at each bar.

    Raises:
        DataError: no bar is left, or the sessions of rule `column` are not in order.
        ConfigError: the exchange calendar is not installed, unknown, or ends before the data.
    """
    bars = bars.astype("datetime64[ms]")
    kept = np.ones(len(bars), dtype=bool)
    if config.hours is not None:
        kept &= within_hours(bars, config.hours, bar_label)
    if config.rule == "calendar":
        assert config.calendar is not None
        from rlgen.panel.exchange import exchange_sessions

        dates = exchange_sessions(bars, config.calendar, bar_label)
        kept &= ~np.isnat(dates)
    elif config.rule == "cut":
        assert config.cut is not None
        # Bars outside the hours must not count as a date's day bars.
        dates = np.full(len(bars), np.datetime64("NaT"), dtype="datetime64[D]")
        dates[kept] = cut_dates(bars[kept], parse_clock(config.cut, "data.session.cut"), bar_label)
    elif config.rule == "date":
        dates = bars.astype("datetime64[D]")
    if not kept.any():
        what = "the trading hours" if config.hours is not None else f"a session of {config.calendar}"
        raise DataError(f"none of the {len(bars)} bars, {bars[0]} to {bars[-1]}, lies in {what}")
    if config.rule == "column":
        assert labels is not None
        session, session_dates = labelled_sessions(bars[kept], labels[kept], str(config.column))
    else:
        session_dates, session = np.unique(dates[kept], return_inverse=True)
    return kept, Calendar.from_sessions(bars[kept], session, session_dates)


def cut_dates(bars: Array, cut: int, bar_label: str) -> Array:
    """(T,) datetime64[D]: the trading day of each bar by rule `cut` (the module says how)."""
    time = bars.astype(np.int64) - (bar_label == "right")
    # Milliseconds since the cut that opens the bar's nominal date. A right label moves by 1 ms:
    # a bar that ends at the cut belongs before it.
    nominal, since = np.divmod(time - cut, DAY)
    nominal = nominal + 1
    day_dates = np.unique(nominal[since >= DAY // 2])
    index = np.searchsorted(day_dates, nominal)
    trailing = index == len(day_dates)
    dates = np.where(
        trailing, nominal, day_dates[np.minimum(index, len(day_dates) - 1)] if len(day_dates) else nominal
    )
    if trailing.any():
        # One night can have no later day bar; 1970-01-01 was a Thursday: (d + 3) % 7 is 0 on Mondays.
        weekday = (dates + 3) % 7
        ahead = np.where(weekday >= 5, 7 - weekday, 0)
        dates = np.where(trailing, dates + ahead, dates)
    return dates.astype("datetime64[D]")


def labelled_sessions(bars: Array, labels: Array, column: str) -> tuple[Array, Array]:
    """Session numbers (T,) and dates (n,) from a column's values at each bar.

    Labels that are dates (dates, `2024-01-02`, `20240102`) date the session; other labels are
    only told apart, and a session's date is that of its last bar.
    """
    changes = np.flatnonzero(labels[1:] != labels[:-1]) + 1
    starts = np.concatenate([[0], changes])
    found = labels[starts]
    dates = parse_dates(found)
    order = found if dates is None else dates
    for before, after, start in zip(order[:-1], order[1:], starts[1:], strict=True):
        if not after > before:
            raise DataError(
                f"column {column}: sessions must follow one another in time, was {after} "
                f"from bar {bars[start]} on, after {before}"
            )
    session = np.zeros(len(bars), dtype=np.int32)
    session[changes] = 1
    if dates is None:
        ends = np.concatenate([starts[1:], [len(bars)]]) - 1
        dates = bars[ends].astype("datetime64[D]")
    return np.cumsum(session, dtype=np.int32), dates


def parse_dates(values: Array) -> Array | None:
    """`values` as datetime64[D] if every one of them is a date, else None."""
    if np.issubdtype(values.dtype, np.datetime64):
        return values.astype("datetime64[D]")
    dates = []
    for value in values.tolist():
        if isinstance(value, dt.datetime | dt.date):
            dates.append(np.datetime64(value, "D"))
            continue
        text = str(int(value)) if isinstance(value, int | float) and float(value).is_integer() else str(value)
        try:
            dates.append(np.datetime64(dt.date.fromisoformat(text), "D"))
        except ValueError:
            return None
    return np.array(dates, dtype="datetime64[D]")
