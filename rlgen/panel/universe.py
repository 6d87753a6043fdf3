"""The universe: which cells (bar, stock) count.

1. A cell is *present* if its close is there (`presence`). Only present cells are in the universe.
2. A boolean column of the data, or a membership table (symbol, from, to), narrows it.
3. The rules narrow it further, one answer per stock and session, each from sessions before that
   session alone, so that nothing in a session, not even its first bar, can move them.

Rules, for a stock in session s:

- `minimum_price`: its last close in session s-1 is at least this; no close there: out.
- `minimum_median_amount`: the median over the last `median_sessions` sessions before s, of the
  amount traded in each, is at least this. Sessions before its first bar do not count; later ones
  without a bar count as 0; none at all: out.
- `minimum_sessions`: it had a bar in at least this many sessions before s.
- `exclude_halted`: out if it traded no volume in the whole of session s-1. The data's first
  session has none before it, and nobody is out.

Amount is the field `amount`, else close × volume.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from rlgen.config import UniverseConfig
from rlgen.errors import ConfigError, DataError
from rlgen.panel.sessions import Calendar

Array = npt.NDArray[Any]


def needed_fields(config: UniverseConfig, available: list[str]) -> list[str]:
    """The fields that the rules read, besides `close`. Raises ConfigError if one is absent."""
    needed: list[str] = []
    if config.minimum_median_amount is not None:
        needed += ["amount"] if "amount" in available else ["close", "volume"]
    if config.exclude_halted:
        needed.append("volume")
    if config.minimum_price is not None:
        needed.append("close")
    for name in needed:
        if name not in available:
            raise ConfigError(f"data.universe: a rule needs the column {name}, which the data lacks")
    return list(dict.fromkeys(needed))


def presence(columns: Mapping[str, Array]) -> Array:
    """(T, S) bool: cells whose close is there; without a close, cells where any field is."""
    if "close" in columns:
        return np.isfinite(columns["close"])
    result: Array | None = None
    for values in columns.values():
        finite = np.isfinite(values)
        result = finite if result is None else np.logical_or(result, finite, out=result)
    if result is None:
        raise DataError("a panel needs at least one field")
    return result


def build_universe(
    columns: Mapping[str, Array],
    calendar: Calendar,
    config: UniverseConfig,
    given: Array | None = None,
    members: Array | None = None,
) -> Array:
    """(T, S) bool universe.

    Args:
        columns: (T, S) float32 arrays by name: the fields, and what the rules read.
        calendar: the grid.
        config: the rules.
        given: (T, S) bool, the configured column.
        members: (n, S) bool, the membership table by session.
    """
    universe = presence(columns)
    sessions = session_rules(columns, universe, calendar, config)
    if members is not None:
        sessions = members if sessions is None else sessions & members
    if sessions is not None:
        starts = calendar.session_starts
        for s in range(calendar.n_sessions):
            universe[starts[s] : starts[s + 1]] &= sessions[s]
    if given is not None:
        universe &= given
    return universe


def session_rules(
    columns: Mapping[str, Array], present: Array, calendar: Calendar, config: UniverseConfig
) -> Array | None:
    """(n, S) bool: the rules' answer for each session; None if there are no rules."""
    n, n_stocks = calendar.n_sessions, present.shape[1]
    rules: list[Array] = []

    def by_session(reduce: Any) -> Array:
        """(n, S) of `reduce(rows)` over each session's rows."""
        starts = calendar.session_starts
        return np.array([reduce(slice(starts[s], starts[s + 1])) for s in range(n)]).reshape(n, n_stocks)

    def shifted(values: Array, first: Any) -> Array:
        """(n, S) of the session before, `first` for the first session."""
        return np.concatenate([np.full((1, n_stocks), first, dtype=values.dtype), values[:-1]])

    if config.minimum_price is not None:
        close = columns["close"]
        last = by_session(lambda rows: _last_present(close[rows]))
        rules.append(shifted(last, np.nan) >= config.minimum_price)
    if config.minimum_median_amount is not None:
        traded = by_session(lambda rows: _amount(columns, rows))
        had_bar = by_session(lambda rows: present[rows].any(axis=0))
        listed = np.maximum.accumulate(had_bar, axis=0)
        traded[~listed] = np.nan
        median = np.full((n, n_stocks), np.nan)
        for s in range(1, n):
            median[s] = _median(traded[max(0, s - config.median_sessions) : s])
        rules.append(median >= config.minimum_median_amount)
    if config.minimum_sessions is not None:
        had_bar = by_session(lambda rows: present[rows].any(axis=0))
        before = shifted(np.cumsum(had_bar, axis=0), 0)
        rules.append(before >= config.minimum_sessions)
    if config.exclude_halted:
        volume = columns["volume"]
        active = by_session(lambda rows: (volume[rows] > 0).any(axis=0))
        rules.append(shifted(active, True))
    return np.logical_and.reduce(rules) if rules else None


def _last_present(values: Array) -> Array:
    """(S,) last finite value of each column of (rows, S), NaN where there is none."""
    finite = np.isfinite(values)
    last = len(values) - 1 - np.argmax(finite[::-1], axis=0)
    result = values[last, np.arange(values.shape[1])].astype(np.float64)
    result[~finite.any(axis=0)] = np.nan
    return result


def _amount(columns: Mapping[str, Array], rows: slice) -> Array:
    """(S,) amount traded in `rows`, missing bars as 0."""
    if "amount" in columns:
        amount = columns["amount"][rows].astype(np.float64)
    else:
        with np.errstate(all="ignore"):
            amount = columns["close"][rows].astype(np.float64) * columns["volume"][rows]
    return np.sum(np.where(np.isfinite(amount), amount, 0.0), axis=0)


def _median(values: Array) -> Array:
    """(S,) median of the present values of each column, NaN where there is none."""
    ordered = np.sort(values, axis=0)
    count = np.count_nonzero(~np.isnan(values), axis=0)
    columns = np.arange(values.shape[1])
    lower = ordered[np.maximum(count - 1, 0) // 2, columns]
    upper = ordered[np.minimum(count // 2, len(values) - 1), columns]
    result = (lower + upper) / 2.0
    result[count == 0] = np.nan
    return result


def read_membership(path: Path, symbols: Array, session_dates: Array) -> tuple[Array, list[str]]:
    """(n, S) bool: membership by session, and the table's symbols that the panel lacks.

    The table (CSV or parquet) has the columns `symbol`, `from`, `to`: dates, both inclusive; an
    empty `from` or `to` is open. A symbol may have several rows.

    Raises:
        DataError: the file is missing or unreadable, lacks a column, holds what is not a date,
            a row ends before it starts, or no symbol is the panel's.
    """
    table = _membership_table(path)
    column_of = {str(symbol): s for s, symbol in enumerate(symbols)}
    members = np.zeros((len(session_dates), len(symbols)), dtype=bool)
    absent: dict[str, None] = {}
    rows = zip(*(table.column(name).to_pylist() for name in ("symbol", "from", "to")), strict=True)
    for number, (symbol, first, last) in enumerate(rows, start=1):
        begin = _date(first, path, number, "from", "0001-01-01")
        end = _date(last, path, number, "to", "9999-12-31")
        if end < begin:
            raise DataError(f"{path}: row {number}: `to` must not be before `from`, was {first} to {last}")
        s = column_of.get(str(symbol))
        if s is None:
            absent[str(symbol)] = None
        else:
            members[(session_dates >= begin) & (session_dates <= end), s] = True
    if not members.any():
        known = ", ".join(str(symbol) for symbol in symbols[:3])
        raise DataError(
            f"{path}: must name members on the panel's dates, {session_dates[0]} to {session_dates[-1]}, "
            f"and its symbols, such as {known}; unknown to the panel: {', '.join(list(absent)[:3]) or 'none'}"
        )
    return members, list(absent)


def _membership_table(path: Path) -> pa.Table:
    try:
        if path.suffix == ".parquet":
            table = pa.parquet.read_table(path)
        else:
            # Everything as text: a symbol 000001 keeps its zeros.
            names = pa.csv.read_csv(path).column_names
            types = pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
            table = pa.csv.read_csv(path, convert_options=types)
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"{path}: not readable as a membership table: {' '.join(str(error).split())}"
        ) from None
    for name in ("symbol", "from", "to"):
        if name not in table.column_names:
            raise DataError(
                f"{path}: a membership table needs the column {name}, was {', '.join(table.column_names)}"
            )
    return table


def _date(value: Any, path: Path, row: int, column: str, default: str) -> Any:
    """A table's date as datetime64[D], the default where it is empty."""
    if value is None or value == "":
        return np.datetime64(default, "D")
    try:
        return np.datetime64(value if not isinstance(value, str) else value.strip(), "D")
    except ValueError:
        raise DataError(
            f"{path}: row {row}, column {column}: must be a date YYYY-MM-DD, was {value!r}"
        ) from None
