"""Count what the load report says about a panel (`rlgen.panel.report` holds and prints it)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rlgen.panel.arrays import Arrays
from rlgen.panel.forward_return import ForwardReturn, possible_labels
from rlgen.panel.panel import Panel
from rlgen.panel.report import LoadReport
from rlgen.panel.sessions import Calendar
from rlgen.panel.universe import presence

Array = npt.NDArray[Any]


@dataclass
class Tally:
    """What is counted while a panel is built."""

    rows: int
    outside: Mapping[str, int] = field(default_factory=dict)
    missing_days: Collection[dt.date] = ()
    overflow: dict[str, int] = field(default_factory=dict)
    unknown_members: list[str] = field(default_factory=list)


def summarise(
    panel: Panel,
    arrays: Arrays,
    source: str,
    reading: tuple[str, ...],
    unused: Mapping[str, str],
    tally: Tally,
) -> LoadReport:
    """The load report of a freshly built panel."""
    calendar = arrays.calendar
    n_cells = panel.shape[0] * panel.shape[1]
    present = presence(arrays.columns)
    lengths = np.diff(calendar.session_starts)
    usual = float(np.median(lengths))
    missing = {
        name: 1.0 - int(np.count_nonzero(~np.isnan(values))) / max(tally.rows, 1)
        for name, values in panel.fields.items()
    }
    late, early = life_spans(present, panel.symbols, calendar)
    inside = panel.universe.any(axis=0)
    n_present = int(np.count_nonzero(present))
    del present
    labels: dict[str, Any] = {}
    if panel.target is not None:
        labels = count_labels(panel, panel.target)
    return LoadReport(
        source=source,
        reading=reading,
        rows=tally.rows,
        symbols=len(panel.symbols),
        bars=len(panel.bars),
        sessions=calendar.n_sessions,
        first=clock(panel.bars[0]),
        last=clock(panel.bars[-1]),
        bars_per_session=(int(lengths.min()), int(usual), int(lengths.max())),
        fields=tuple(panel.fields),
        unused=dict(unused),
        absent=1.0 - tally.rows / n_cells,
        missing=missing,
        overflow=dict(tally.overflow),
        outside=dict(tally.outside),
        short_sessions={
            str(calendar.session_dates[s]): int(lengths[s]) for s in np.flatnonzero(lengths < usual / 2)
        },
        empty_weekdays=empty_weekdays(calendar.session_dates, tally.missing_days),
        late=late,
        early=early,
        universe=int(np.count_nonzero(panel.universe)) / max(n_present, 1),
        outsiders=tuple(str(name) for name in panel.symbols[~inside]),
        unknown_members=tuple(tally.unknown_members),
        **labels,
    )


def clock(bar: np.datetime64) -> str:
    """A time stamp to the minute."""
    return str(bar.astype("datetime64[m]")).replace("T", " ")


def life_spans(present: Array, symbols: Array, calendar: Calendar) -> tuple[dict[str, str], dict[str, str]]:
    """By symbol: date of the first bar, if after the first session; of the last, if before the last."""
    n_bars = len(present)
    first = np.argmax(present, axis=0)
    last = n_bars - 1 - np.argmax(present[::-1], axis=0)
    ever = np.asarray(present.any(axis=0))
    late, early = {}, {}
    for s, name in enumerate(symbols):
        if not ever[s]:
            late[str(name)] = "never"
            continue
        if calendar.session[first[s]] > 0:
            late[str(name)] = str(calendar.session_dates[calendar.session[first[s]]])
        if calendar.session[last[s]] < calendar.n_sessions - 1:
            early[str(name)] = str(calendar.session_dates[calendar.session[last[s]]])
    return late, early


def empty_weekdays(dates: Array, known: Collection[dt.date]) -> tuple[str, ...]:
    """Mondays to Fridays between the first and the last date that are neither in `dates` nor `known`."""
    days = np.arange(dates[0], dates[-1] + 1)
    weekdays = days[np.is_busday(days)]
    return tuple(str(day) for day in np.setdiff1d(weekdays, dates) if day.item() not in known)


def count_labels(panel: Panel, target: ForwardReturn) -> dict[str, Any]:
    """The report's label entries: labels, labels out of reach, share lost by symbol."""
    have = ~np.isnan(panel.forward_return)
    have &= panel.universe
    labels = np.count_nonzero(have, axis=0)
    if target.price is not None:
        allowed = possible_labels(panel.session, target)
        possible = np.count_nonzero(panel.universe[allowed], axis=0)
    else:
        possible = np.count_nonzero(panel.universe, axis=0)
    lost = possible - labels
    share = lost / np.maximum(possible, 1)
    return {
        "target": describe_target(target),
        "labels": int(labels.sum()),
        "labels_beyond": int(np.count_nonzero(panel.universe)) - int(possible.sum()),
        "labels_lost": {str(name): float(share[s]) for s, name in enumerate(panel.symbols)},
        "labels_lost_in_all": float(lost.sum() / max(int(possible.sum()), 1)),
    }


def describe_target(target: ForwardReturn) -> str:
    """The forward return in words."""
    if target.price is not None:
        text = f"{target.price}[t+{target.reach}] / {target.price}[t+{target.lag}] - 1"
        text += ", across sessions" if target.across_sessions else ", within the session"
    else:
        text = f"column {target.column}, horizon {target.horizon}, lag {target.lag}"
    return text if target.transform == "none" else f"{text}, {target.transform}"


def split_lines(panel: Panel) -> tuple[str, ...]:
    """One line a split. Raises ConfigError for a split without bars or without a label."""
    return tuple(split_line(name, panel.split(name)) for name in panel.split_names)


def split_line(name: str, view: Panel) -> str:
    """One line about a split; nothing here reads the panel's values."""
    first, last = view.session_dates[view.session[0]], view.session_dates[view.session[-1]]
    n_sessions = view.session[-1] - view.session[0] + 1
    sessions = "session" if n_sessions == 1 else "sessions"
    text = f"{name}: {first} to {last}, {view.shape[0]:,} bars in {n_sessions:,} {sessions}"
    return (
        f"{text}, labels up to {clock(view.bars[view.label_limit - 1])}" if view.target is not None else text
    )
