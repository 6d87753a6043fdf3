"""Sessions out of an exchange calendar (optional package exchange_calendars).

1. Ask the calendar for its sessions from a week before the first bar to a week after the last.
2. Turn each session's open, break and close into exchange-local naive times, as the bars are.
3. A bar belongs to the session whose open and close it lies between; bars in a break or outside
   every session belong to none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rlgen.errors import ConfigError

Array = npt.NDArray[Any]
WEEK = np.timedelta64(7, "D")


def exchange_sessions(bars: Array, name: str, bar_label: str) -> Array:
    """(T,) datetime64[D]: the session of each bar by the exchange calendar `name`, NaT for none.

    Args:
        bars: (T,) datetime64[ms], increasing, naive and exchange-local.
        name: for example `XSHG`.
        bar_label: `left`: a session is [open, close); `right`: (open, close].

    Raises:
        ConfigError: the package is not installed, the calendar unknown, or its data do not cover
            the bars.
    """
    dates, spans = _spans(name, bars[0].astype("datetime64[D]"), bars[-1].astype("datetime64[D]"))
    # A right label marks the bar's end: one millisecond earlier it lies in the same [from, to).
    time = bars - np.timedelta64(1, "ms") if bar_label == "right" else bars
    result = np.full(len(bars), np.datetime64("NaT"), dtype="datetime64[D]")
    for begin, end in spans:
        index = np.searchsorted(begin, time, side="right") - 1
        inside = (index >= 0) & (time < end[np.maximum(index, 0)])
        result[inside] = dates[index[inside]]
    return result


def _spans(name: str, first: Any, last: Any) -> tuple[Array, list[tuple[Array, Array]]]:
    """The sessions' dates (n,), and one or two pairs of begins and ends (n,), in local time."""
    try:
        import exchange_calendars
        from exchange_calendars.errors import CalendarError, NoSessionsError
    except ImportError:
        raise ConfigError(
            f"data.session.calendar {name}: needs the package exchange_calendars; install it with "
            "`pip install exchange_calendars`, or use another session rule"
        ) from None
    calendar = None
    refused = ""
    # The week after the last bar matters only for sessions that open the evening before.
    for start, end in ((first - WEEK, last + WEEK), (first - WEEK, last), (first, last)):
        try:
            calendar = exchange_calendars.get_calendar(name, start=str(start), end=str(end))
            break
        except NoSessionsError:
            raise ConfigError(
                f"data.session.calendar: {name} has no session from {first} to {last}"
            ) from None
        except CalendarError as error:
            raise ConfigError(f"data.session.calendar: {' '.join(str(error).split())}") from None
        except ValueError as error:
            refused = " ".join(str(error).split())
    if calendar is None:
        raise ConfigError(
            f"data.session.calendar: the data of {name} do not cover the bars, {first} to {last}: {refused} "
            "A newer exchange_calendars may; else use another session rule"
        )
    schedule = calendar.schedule
    dates = schedule.index.to_numpy().astype("datetime64[D]")
    local = {
        column: schedule[column]
        .dt.tz_convert(calendar.tz)
        .dt.tz_localize(None)
        .to_numpy()
        .astype("datetime64[ms]")
        for column in ("open", "break_start", "break_end", "close")
    }
    broken = ~np.isnat(local["break_start"])
    morning_end = np.where(broken, local["break_start"], local["close"])
    spans = [(local["open"], morning_end)]
    if broken.any():
        # Without a break the afternoon is empty: it begins where the session ends.
        spans.append((np.where(broken, local["break_end"], local["close"]), local["close"]))
    return dates, spans
