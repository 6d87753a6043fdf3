"""From a clean bar table, or dense arrays, to a panel.

1. Choose the fields (`rlgen.panel.plan` says which columns can be one).
2. Lay the rows out on the grid, drop bars outside the hours, number the sessions.
3. Scatter each column into (T, S) float32; what overflows float32 is missing and counted.
4. Compute the forward return from the source's float64 prices, or take the ready-made column.
5. Read the membership table, derive universe and target, check every split, write the report.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rlgen.config import SessionConfig, SplitsConfig, UniverseConfig
from rlgen.errors import ConfigError, DataError
from rlgen.panel.arrays import Array, Arrays, BarLabel, Settings, Windows
from rlgen.panel.forward_return import ForwardReturn, compute_forward_return
from rlgen.panel.grid import Grid, numbers, one_chunk, to_field
from rlgen.panel.panel import Panel
from rlgen.panel.plan import (
    Plan,
    check_number,
    check_windows,
    choose_fields,
    given,
    session_config,
    splits_config,
    universe_config,
)
from rlgen.panel.read import clean_bars
from rlgen.panel.sessions import Calendar, assign_sessions
from rlgen.panel.summary import Tally, split_lines, summarise
from rlgen.panel.universe import needed_fields, presence, read_membership
from rlgen.schema import PRICES

MINUTE = np.timedelta64(60_000, "ms")


def panel_from_frame(
    frame: Any,
    forward_return: str | ForwardReturn | None,
    *,
    windows: Windows,
    min_periods: float,
    session: SessionConfig | Mapping[str, Any] | str,
    hours: Sequence[Sequence[str]] | None,
    bar_label: BarLabel,
    timezone: str | None,
    universe: UniverseConfig | Mapping[str, Any] | str | None,
    splits: SplitsConfig | Mapping[str, Any] | None,
    fields: Sequence[str] | None,
) -> Panel:
    """`Panel.from_frame`, which documents the arguments."""
    if isinstance(forward_return, str) and splits is not None:
        raise ConfigError(
            f"splits need to know how far a label looks: give ForwardReturn(column={forward_return!r}, "
            "horizon=…, lag=…)"
        )
    plan = Plan(
        ForwardReturn(1, column=forward_return) if isinstance(forward_return, str) else forward_return,
        session_config(session, hours),
        universe_config(universe),
        splits_config(splits),
        tuple(fields) if fields is not None else None,
        bar_label,
        windows,
        min_periods,
    )
    prices = {*PRICES, *given([plan.target.price if plan.target is not None else None])}
    table, counts = clean_bars(frame, "the frame", prices=prices, timezone=timezone, **plan.wanted())
    return build_panel(table, plan, "a frame", tuple(counts.lines()))


def build_panel(
    table: pa.Table,
    plan: Plan,
    source: str,
    reading: tuple[str, ...] = (),
    missing_days: Collection[dt.date] = (),
) -> Panel:
    """A panel of a clean bar table.

    Args:
        table: as `rlgen.panel.read` makes it.
        plan: how.
        source: where the bars came from, for the report.
        reading: the reader's lines, for the report.
        missing_days: weekdays without bars that these lines name already.

    Raises:
        DataError: the table cannot be used as it is.
        ConfigError: the plan contradicts the table.
    """
    names, unused = choose_fields(table, plan)
    hidden = [
        name
        for name in ["close", *needed_fields(plan.universe, table.column_names)]
        if name in table.column_names and name not in names
    ]
    target = plan.target
    if target is not None and target.price is not None and target.price not in [*names, *hidden]:
        check_number(table, target.price, "data.forward_return.price")

    def calendar_of(bars: Array, row_bar: Array) -> tuple[Array, Calendar]:
        labels = None
        if plan.session.column is not None:
            labels = bar_labels(table, plan.session.column, bars, row_bar)
        return assign_sessions(bars, plan.session, plan.bar_label, labels)

    grid = Grid(table, calendar_of)
    check_reach(grid.calendar, target)
    columns: dict[str, Array] = {}
    tally = Tally(grid.n_rows, grid.outside, missing_days)
    for name in dict.fromkeys([*names, *hidden]):
        values, overflow = to_field(numbers(table, name))
        columns[name] = grid.dense(values, np.nan, np.float32)
        if overflow:
            tally.overflow[name] = overflow
    raw = None
    if target is not None and target.price is not None:
        price = grid.dense(numbers(table, target.price), np.nan, np.float64)
        raw = compute_forward_return(price, grid.calendar.session, target)
        del price
    elif target is not None and target.column is not None:
        check_number(table, target.column, "data.forward_return.column")
        raw = grid.dense(to_field(numbers(table, target.column))[0], np.nan, np.float32)
    chosen = None
    if plan.universe.column is not None:
        chosen = grid.dense(
            one_chunk(table, plan.universe.column).to_numpy(zero_copy_only=False), False, bool
        )
    members = None
    if plan.universe.membership is not None:
        dates = grid.calendar.session_dates
        members, tally.unknown_members = read_membership(plan.universe.membership, grid.symbols, dates)
    groups = {}
    if target is not None and target.group_column is not None:
        groups[target.group_column] = grid.dense(group_codes(table, target.group_column), -1, np.int32)
    arrays = Arrays(grid.calendar, grid.symbols, columns, raw, chosen, members, groups)
    return finish(arrays, plan.settings(names), source, reading, unused, tally)


def panel_from_arrays(
    fields: Mapping[str, npt.ArrayLike],
    forward_return: npt.ArrayLike | ForwardReturn | None,
    *,
    horizon: int,
    lag: int,
    universe: npt.ArrayLike | None,
    bars: npt.ArrayLike | None,
    symbols: Sequence[str] | None,
    session: npt.ArrayLike | None,
    windows: Windows,
    min_periods: float,
    splits: SplitsConfig | Mapping[str, Any] | None,
) -> Panel:
    """`Panel.from_arrays`, which documents the arguments."""
    check_windows(windows, min_periods)
    if not fields:
        raise DataError("a panel needs at least one field")
    shape = np.shape(next(iter(fields.values())))
    if len(shape) != 2 or 0 in shape:
        raise DataError(f"fields must be (T, S), neither of them 0, was {shape}")

    def dense(values: npt.ArrayLike, dtype: npt.DTypeLike, name: str) -> Array:
        array = np.asarray(values)
        if array.shape != shape:
            raise DataError(f"{name}: must have the shape {shape} of the first field, was {array.shape}")
        return to_field(array)[0] if dtype == np.float32 else np.array(array, dtype=dtype, order="C")

    calendar = make_calendar(shape[0], bars, session)
    names = np.asarray(
        symbols if symbols is not None else [f"S{s:03d}" for s in range(shape[1])], dtype=np.str_
    )
    if names.shape != (shape[1],) or len(np.unique(names)) != len(names):
        raise DataError(f"symbols: must be {shape[1]} different names, were {names.tolist()}")
    columns = {name: dense(values, np.float32, f"field {name}") for name, values in fields.items()}
    target: ForwardReturn | None = None
    raw: Array | None = None
    if isinstance(forward_return, ForwardReturn):
        target = forward_return
        if target.price not in columns:
            raise ConfigError(f"forward return: the price must be one of the fields, was {target.price}")
        if target.group_column is not None:
            raise ConfigError("forward return: arrays have no group column")
        raw = compute_forward_return(np.asarray(fields[target.price]), calendar.session, target)
    elif forward_return is not None:
        target = ForwardReturn(horizon, lag, column="forward_return")
        raw = dense(forward_return, np.float32, "forward_return")
    chosen = dense(universe, np.bool_, "universe") if universe is not None else None
    arrays = Arrays(calendar, names, columns, raw, chosen)
    settings = Settings(
        tuple(columns), target, windows=windows, min_periods=min_periods, splits=splits_config(splits)
    )
    n_rows = int(np.count_nonzero(presence(columns)))
    return finish(arrays, settings, "arrays", (), {}, Tally(n_rows))


def finish(
    arrays: Arrays,
    settings: Settings,
    source: str,
    reading: tuple[str, ...],
    unused: Mapping[str, str],
    tally: Tally,
) -> Panel:
    """The panel with its report, every split checked."""
    panel = Panel(arrays, settings)
    lines = split_lines(panel)
    panel.report = replace(summarise(panel, arrays, source, reading, unused, tally), splits=lines)
    return panel


def make_calendar(n_bars: int, bars: npt.ArrayLike | None, session: npt.ArrayLike | None) -> Calendar:
    """The calendar of dense arrays; `Panel.from_arrays` says what is made up."""
    if bars is None:
        number = np.zeros(n_bars, dtype=np.int32) if session is None else np.asarray(session)
        if number.shape != (n_bars,):
            raise DataError(f"session: must have the shape {(n_bars,)}, was {number.shape}")
        starts = np.flatnonzero(np.diff(number, prepend=number[0] - 1))
        minute = np.arange(n_bars) - np.repeat(starts, np.diff(starts, append=n_bars))
        first = np.datetime64("2024-01-02T09:31", "ms")
        # A session longer than a day's minutes pushes the later ones on.
        apart = -(-int(minute.max(initial=0) + 1) // 1440)
        time = first + number * np.timedelta64(apart * 86_400_000, "ms") + minute * MINUTE
        return Calendar.from_sessions(time, number, time[starts].astype("datetime64[D]"))
    time = np.asarray(bars, dtype="datetime64[ms]")
    if session is None:
        return assign_sessions(time, SessionConfig(), "right")[1]
    number = np.asarray(session)
    starts = np.flatnonzero(np.diff(number, prepend=number[0] - 1)) if len(number) else np.zeros(0, dtype=int)
    return Calendar.from_sessions(time, number, time[starts].astype("datetime64[D]"))


def check_reach(calendar: Calendar, target: ForwardReturn | None) -> None:
    """Raise ConfigError where no bar at all can have a price-based label."""
    if target is None or target.price is None:
        return
    longest = int(np.diff(calendar.session_starts).max())
    if not target.across_sessions and longest <= target.reach:
        raise ConfigError(
            f"forward return: the longest session has {longest} bars, a label within it needs "
            f"lag + horizon = {target.reach} later ones; shorten it or set across_sessions"
        )


def bar_labels(table: pa.Table, column: str, bars: Array, row_bar: Array) -> Array:
    """(T',) the session column's value at each bar; DataError where symbols disagree."""
    values = one_chunk(table, column)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    found = values.to_numpy(zero_copy_only=False)
    result = np.empty(len(bars), dtype=found.dtype)
    result[row_bar] = found
    wrong = np.flatnonzero(result[row_bar] != found)
    if len(wrong):
        row, bar = wrong[0], row_bar[wrong[0]]
        raise DataError(
            f"column {column}: all symbols' sessions must agree at a bar, was {found[row]} and {result[bar]} "
            f"at {bars[bar]}"
        )
    return result


def group_codes(table: pa.Table, column: str) -> Array:
    """(N,) int32 codes of the column's values in sorted order, -1 where missing."""
    values = table.column(column).combine_chunks()
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    names = values.dictionary.to_pylist()
    rank = np.full(len(names) + 1, -1, dtype=np.int32)
    rank[np.array(sorted(range(len(names)), key=lambda i: str(names[i])), dtype=np.int64)] = np.arange(
        len(names)
    )
    return rank[values.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)]
