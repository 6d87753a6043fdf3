"""Bars from wherever the configuration says, as one clean table, and a report of how they came.

1. The adapter is found by its name; what to ask it for follows from the configuration: the fields,
   and the columns that sessions, universe and forward return need.
2. It is called once for the range, once per day or once per symbol, whichever it can do.
3. Each table gets known types (`rlgen.schema.canonical`), so that an error names where it is, and
   is cut to the dates and symbols asked for: adapters may give more.
4. The tables become one, which is cleaned (`rlgen.panel.clean`).

Dates are those of the stamps in exchange-local time, both ends inclusive. What an adapter gives for
one day belongs to that day whatever its stamps say, a night session's of the evening before included.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import difflib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_adapters import find_adapter
from rlgen.config import DataConfig
from rlgen.errors import ConfigError, DataError
from rlgen.panel.clean import CleanCounts, ProbableSplit, clean_bars, left_out, symbol_numbers
from rlgen.schema import (
    ADJUST_FACTOR,
    DATETIME,
    PRICES,
    SYMBOL,
    Adapter,
    canonical,
    check_timezone,
    concatenate,
    listed,
    to_table,
)

__all__ = ["CleanCounts", "ProbableSplit", "ReadReport", "clean_bars", "read_bars"]


@dataclasses.dataclass(frozen=True)
class ReadReport:
    """What was read, from where, and what cleaning did to it."""

    adapter: str
    """The adapter's name in the configuration."""
    source: str
    """Where the bars are, in words."""
    first: dt.datetime
    last: dt.datetime
    n_symbols: int
    missing_days: tuple[dt.date, ...]
    """Weekdays in the range (from the first to the last seen where it is open) without bars."""
    missing_symbols: tuple[str, ...]
    """Symbols asked for of which there are no bars."""
    counts: CleanCounts
    description: dict[str, Any]
    """What `adapter.describe()` says: changes whenever the source does."""

    def lines(self) -> list[str]:
        """The report as text, one fact a line."""
        lines = [
            f"{self.counts.rows:,} bars of {self.n_symbols:,} symbols, {self.first:%Y-%m-%d %H:%M} to"
            f" {self.last:%Y-%m-%d %H:%M}, by the adapter {self.adapter}"
        ]
        if self.missing_days:
            days = ", ".join(day.isoformat() for day in self.missing_days[:10])
            more = " …" if len(self.missing_days) > 10 else ""
            lines.append(f"{len(self.missing_days):,} weekdays without bars: {days}{more}")
        if self.missing_symbols:
            lines.append(
                f"{len(self.missing_symbols)} symbols without bars: {listed(self.missing_symbols, 10)}"
            )
        return lines + self.counts.lines()


@dataclasses.dataclass(frozen=True)
class Request:
    """What a configuration needs of the bar table, by the key that asks for it."""

    fields: dict[str, str]
    numbers: dict[str, str]
    keep: dict[str, str]
    booleans: dict[str, str]
    optional: tuple[str, ...]

    @classmethod
    def from_config(cls, data: DataConfig) -> Request:
        """The columns that `data` names: {column: key of the configuration}."""
        target, session, universe = data.forward_return, data.session, data.universe
        optional = {"close", ADJUST_FACTOR}
        if "vwap" in (data.fields or ()) or universe.minimum_median_amount is not None:
            optional |= {"amount", "volume"}
        if universe.exclude_halted:
            optional.add("volume")

        def named(**columns: str | None) -> dict[str, str]:
            return {
                name: f"data.{key.replace('__', '.')}" for key, name in columns.items() if name is not None
            }

        return cls(
            fields=dict.fromkeys(data.fields or (), "data.fields"),
            numbers=named(forward_return__column=target.column, forward_return__price=target.price),
            keep=named(session__column=session.column, forward_return__group_column=target.group_column),
            booleans=named(universe__column=universe.column),
            optional=tuple(sorted(optional)),
        )

    @property
    def columns(self) -> dict[str, str]:
        """All columns that must be there, with their keys."""
        return self.booleans | self.keep | self.numbers | self.fields


def read_bars(data: DataConfig) -> tuple[pa.Table, ReadReport]:
    """The clean bar table (see `rlgen.panel.clean`) that a configuration describes, and a report.

    Raises:
        ConfigError: no such adapter, or options that it does not take.
        DataError: the data cannot be read or cleaned, a column is missing, the range has no bars.
    """
    check_timezone(data.timezone)
    adapter = find_adapter(data.adapter, data.options)
    source = str(getattr(adapter, "path", f"adapter {data.adapter}"))
    request = Request.from_config(data)
    asked = None if data.fields is None else [*request.columns, *request.optional]
    try:
        found = gather(adapter, data, request, asked, source)
        if not found.tables:
            raise DataError(no_bars_message(adapter, data, request, source))
        table = concatenate(found.tables, source)
        found.tables.clear()
        check_columns(adapter, request, table, source)
        table, counts = clean_bars(
            table,
            source,
            fields=data.fields,
            numbers=list(request.numbers),
            keep=list(request.keep),
            booleans=list(request.booleans),
            optional=[name for name in request.optional if name != ADJUST_FACTOR],
            prices={*PRICES, *([data.forward_return.price] if data.forward_return.price else [])},
        )
        description = adapter.describe()
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise DataError(f"{source}: {type(error).__name__}: {' '.join(str(error).split())}") from error
    limits = pc.min_max(table[DATETIME]).as_py()
    symbols = table[SYMBOL].chunk(0).dictionary.to_pylist()
    report = ReadReport(
        adapter=data.adapter,
        source=source,
        first=limits["min"],
        last=limits["max"],
        n_symbols=len(symbols),
        missing_days=missing_weekdays(found.days, data.start, data.end),
        missing_symbols=tuple(sorted(set(data.symbols or ()) - set(symbols))),
        counts=dataclasses.replace(counts, left_out=tuple(sorted(found.left_out))),
        description=description,
    )
    return table, report


@dataclasses.dataclass
class Found:
    """What the adapter's calls gave."""

    tables: list[pa.Table]
    """Canonical, cut to the dates and symbols asked for, none empty."""
    days: set[dt.date]
    """Days with bars."""
    left_out: set[str]
    """Columns that are neither numbers nor flags nor asked for."""


def gather(
    adapter: Adapter, data: DataConfig, request: Request, asked: Sequence[str] | None, source: str
) -> Found:
    """Call the adapter as often as it takes; `asked` are the columns to ask it for (None: all)."""
    found = Found([], set(), set())
    for day, given in calls(adapter, data, asked):
        where = source if day is None else f"{source}, {day}"
        given = None if given is None else to_table(given, where)
        if given is None or given.num_rows == 0:
            continue
        table = canonical(
            given,
            where,
            numbers=[*request.fields, *request.numbers],
            keep=request.keep,
            booleans=request.booleans,
            timezone=data.timezone,
            symbol_width=getattr(adapter, "symbol_width", None),
        )
        found.left_out.update(left_out(given, table))
        if day is None:
            table = cut_dates(table, data.start, data.end)
        table = cut_symbols(table, data.symbols)
        if table.num_rows:
            found.tables.append(table)
            dates = pc.unique(pc.cast(table[DATETIME], pa.date32(), safe=False))
            found.days.update(dates.to_pylist() if day is None else [day])
    return found


def calls(
    adapter: Adapter, data: DataConfig, fields: Sequence[str] | None
) -> Iterator[tuple[dt.date | None, Any]]:
    """What the adapter gives, call by call; with the day, where it gives one day a call."""
    symbols = None if data.symbols is None else list(data.symbols)
    per_call = getattr(adapter, "per_call", "range")
    if per_call == "range":
        yield None, adapter.bars(data.start, data.end, fields, symbols)
    elif per_call == "symbol":
        for symbol in symbols if symbols is not None else adapter.symbols():  # type: ignore[attr-defined]
            yield None, adapter.bars(data.start, data.end, fields, [symbol])
    else:
        for day in days_to_ask(adapter, data):
            try:
                given = adapter.bars(day, day, fields, symbols)
            except FileNotFoundError:
                continue
            yield day, given


def days_to_ask(adapter: Adapter, data: DataConfig) -> list[dt.date]:
    """Every day of the range; where it is open, of those that the adapter says it has."""
    if data.start is not None and data.end is not None:
        return [data.start + dt.timedelta(days=n) for n in range((data.end - data.start).days + 1)]
    if not callable(getattr(adapter, "days", None)):
        raise ConfigError(
            f"data.start and data.end must be stated: the adapter {data.adapter} gives one day per call and"
            f" has no method days(); start was {data.start}, end was {data.end}"
        )
    first, last = data.start or dt.date.min, data.end or dt.date.max
    return [day for day in sorted(adapter.days()) if first <= day <= last]  # type: ignore[attr-defined]


def cut_dates(table: pa.Table, start: dt.date | None, end: dt.date | None) -> pa.Table:
    """The rows whose date is in [start, end]."""
    inside = np.ones(table.num_rows, bool)
    stamps = table[DATETIME].to_numpy()
    if start is not None:
        inside &= stamps >= np.datetime64(start)
    if end is not None:
        inside &= stamps < np.datetime64(end) + np.timedelta64(1, "D")
    return table if inside.all() else table.filter(pa.array(inside))


def cut_symbols(table: pa.Table, symbols: Sequence[str] | None) -> pa.Table:
    """The rows of these symbols; None: all."""
    if symbols is None or table.num_rows == 0:
        return table
    codes, names = symbol_numbers(table)
    inside = np.isin(np.array(names, dtype=object), list(symbols))[codes]
    return table if inside.all() else table.filter(pa.array(inside))


def check_columns(adapter: Adapter, request: Request, table: pa.Table, source: str) -> None:
    """DataError, with the key and what there is, if a column that the configuration names is missing."""
    present = set(table.column_names)
    if {"amount", "volume"} <= present:
        present.add("vwap")
    for name, key in request.columns.items():
        if name not in present:
            names = getattr(adapter, "column_names", lambda: table.column_names)()
            close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
            hint = f"; did you mean `{close[0]}`?" if close else ""
            raise DataError(
                f"{source}: no column `{name}`, which {key} names; columns were {listed(names)}{hint}"
            )


def no_bars_message(adapter: Adapter, data: DataConfig, request: Request, source: str) -> str:
    """Why a range has no bars: what was asked for, and what the data has instead."""
    bare = dataclasses.replace(request, fields={}, numbers={}, keep={}, booleans={})
    whole = data.model_copy(update={"start": None, "end": None, "symbols": None})
    asked = f"{source}: no bars from {data.start or 'the first'} to {data.end or 'the last'}"
    if data.symbols is not None:
        asked += f" of {listed(data.symbols, 5)}"
    if getattr(adapter, "per_call", "range") == "day" and not callable(getattr(adapter, "days", None)):
        return f"{asked}; every day was empty"
    found = gather(adapter, whole, bare, [], source)
    if not found.tables:
        return f"{source}: there are no bars at all"
    names = sorted({name for table in found.tables for name in symbol_numbers(table)[1]})
    limits = f"{min(found.days)} to {max(found.days)}"
    return f"{asked}; the data has bars from {limits} of {listed(names, 5)}"


def missing_weekdays(days: set[dt.date], start: dt.date | None, end: dt.date | None) -> tuple[dt.date, ...]:
    """Weekdays in the range without bars; where the range is open, from the first or to the last seen."""
    first, last = start or min(days), end or max(days)
    every = np.arange(np.datetime64(first), np.datetime64(last) + np.timedelta64(1, "D"))
    seen = np.array(sorted(days), dtype="datetime64[D]")
    return tuple(every[np.is_busday(every) & ~np.isin(every, seen)].tolist())
