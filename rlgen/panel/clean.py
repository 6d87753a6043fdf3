"""Any bar table to a clean one: sorted, without duplicates, prices adjusted, nothing infinite.

1. `rlgen.schema.canonical` gives known types.
2. Rows are sorted by symbol, then time. Of identical rows one stays; two different rows for one
   symbol and bar are an error.
3. Prices that are not positive, and infinities, become missing.
4. `adjust_factor`, where there is one, multiplies prices and divides volume.
5. `vwap = amount / volume` is added where it is absent and the two are there.
6. Overnight price ratios that look like an unadjusted split are listed.

The result: `datetime` timestamp[ms], naive, no nulls; `symbol` dictionary<int32, string> in one
chunk, its dictionary sorted and without unused entries, so that its indices are a stock's number;
numbers float64 without nulls (NaN = missing); flags bool without nulls; columns of `keep` in their
own type. `adjust_factor` is left out unless it is asked for by name.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlgen.errors import DataError
from rlgen.schema import (
    ADJUST_FACTOR,
    DATETIME,
    FILE,
    PRICES,
    ROW,
    STAMP,
    SYMBOL,
    UNNAMED,
    canonical,
    listed,
    one_chunk,
    place,
    to_table,
)

DAY = 86_400_000  # ms
SPLIT_RATIOS = np.array([*range(2, 21), 1.5])
SPLIT_TOLERANCE = 0.02


@dataclass(frozen=True)
class ProbableSplit:
    """An overnight price ratio near a small whole number, 3/2, or the inverse of one."""

    symbol: str
    date: dt.date
    """Date of the first bar after the jump."""
    ratio: float
    """First price after it, relative to the last one before."""


@dataclass(frozen=True)
class CleanCounts:
    """What `clean_bars` found and did."""

    rows_given: int
    rows: int
    """Rows that are left."""
    duplicates: int
    """Identical rows dropped."""
    nonpositive_prices: Mapping[str, int]
    """By column: prices not above zero, now missing."""
    infinities: Mapping[str, int]
    """By column: infinite values, now missing."""
    adjusted: bool
    """Whether an adjust_factor was applied."""
    bad_adjust_factors: int
    """Rows whose adjust_factor was missing or not positive: their prices and volume are missing."""
    derived_vwap: bool
    """Whether vwap was computed as amount / volume."""
    probable_splits: tuple[ProbableSplit, ...]
    left_out: tuple[str, ...] = ()
    """Columns left out since they are neither numbers nor flags nor asked for."""

    def lines(self) -> list[str]:
        """The counts as text, one fact a line, facts that do not apply left out."""
        lines = []
        if self.duplicates:
            lines.append(f"{self.duplicates:,} identical duplicate rows dropped")
        for what, counts in (
            ("prices not above zero made missing", self.nonpositive_prices),
            ("infinite values made missing", self.infinities),
        ):
            if counts:
                parts = ", ".join(f"{name} {count:,}" for name, count in counts.items())
                lines.append(f"{sum(counts.values()):,} {what}: {parts}")
        if self.adjusted:
            lines.append("prices multiplied and volume divided by adjust_factor")
        if self.bad_adjust_factors:
            lines.append(
                f"{self.bad_adjust_factors:,} rows with adjust_factor missing or not above zero: prices and"
                " volume made missing"
            )
        if self.derived_vwap:
            lines.append("vwap computed as amount / volume")
        if self.left_out:
            lines.append(f"columns that are no numbers left out: {listed(self.left_out)}")
        if self.probable_splits:
            shown = ", ".join(
                f"{split.symbol} {split.date} (price × {split.ratio:.3g})"
                for split in self.probable_splits[:10]
            )
            more = f" … ({len(self.probable_splits)} in all)" if len(self.probable_splits) > 10 else ""
            lines.append(f"probable splits not adjusted for: {shown}{more}")
        return lines


def clean_bars(
    table: Any,
    source: str,
    *,
    fields: Sequence[str] | None = None,
    numbers: Sequence[str] = (),
    keep: Sequence[str] = (),
    booleans: Sequence[str] = (),
    optional: Sequence[str] = (),
    prices: Collection[str] = PRICES,
    timezone: str | None = None,
    symbol_width: int | None = None,
) -> tuple[pa.Table, CleanCounts]:
    """A clean bar table, as the module's docstring says, and what was done to get it.

    Args:
        table: an Arrow table or pandas frame with `datetime` and `symbol`, in any order.
        source: what messages call it.
        fields: numeric columns wanted; None: every one.
        numbers: further columns that must be there and be numbers (the return's column or price).
        keep: columns that must be there, kept in their own type (session, group).
        booleans: columns that must be there and be true/false (universe).
        optional: numeric columns kept if they are there, where `fields` names some.
        prices: columns whose values must be above zero. Those of `PRICES` are also adjusted.
        timezone: the exchange's zone, for stamps with one.
        symbol_width: digits that symbols are padded to.

    Raises:
        DataError: a column is missing or of the wrong kind, a row lacks time or symbol, two
            different rows for one symbol and bar, no rows at all.
    """
    given = to_table(table, source)
    must = [*(fields or ()), *numbers]
    typed = canonical(
        given,
        source,
        numbers=must,
        keep=keep,
        booleans=booleans,
        timezone=timezone,
        symbol_width=symbol_width,
    )
    derivable = {"vwap"} if {"amount", "volume"} <= set(typed.column_names) else set()
    for name in [*must, *keep, *booleans]:
        if name not in typed.column_names and name not in derivable:
            raise DataError(f"{source}: no column `{name}`; columns were {listed(given.column_names)}")
    if typed.num_rows == 0:
        raise DataError(f"{source}: there are no bars")

    codes, symbols = symbol_numbers(typed)
    stamps = typed[DATETIME].to_numpy().astype("datetime64[ms]").astype(np.int64)
    order, repeats = sorted_rows(codes, stamps)
    values = {
        field.name: typed[field.name].to_numpy()
        for field in typed.schema
        if pa.types.is_floating(field.type) and field.name not in keep and field.name != ROW
    }
    others = [
        name
        for name in typed.column_names
        if name not in values and name not in (DATETIME, SYMBOL, FILE, ROW)
    ]
    if repeats is not None and order is not None:
        refuse_conflicts(typed, values, others, order, repeats, source)
        order = order[~repeats]
    if order is not None:
        codes, stamps = codes[order], stamps[order]
        values = {name: value[order] for name, value in values.items()}
    columns = {name: typed[name] if order is None else typed[name].take(pa.array(order)) for name in others}

    infinities = replace(values, np.isinf, values)
    nonpositive = replace(values, lambda value: value <= 0, [name for name in prices if name in values])
    bad_factors = adjust(values)
    derived = "vwap" not in values and {"amount", "volume"} <= values.keys()
    if derived and (fields is None or "vwap" in fields):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            vwap = values["amount"] / values["volume"]
        values["vwap"] = np.where(np.isfinite(vwap) & (vwap > 0), vwap, np.nan)
    else:
        derived = False
    wanted = values.keys() - {ADJUST_FACTOR} if fields is None else {*must, *optional}
    counts = CleanCounts(
        rows_given=given.num_rows,
        rows=len(stamps),
        duplicates=given.num_rows - len(stamps),
        nonpositive_prices=nonpositive,
        infinities=infinities,
        adjusted=bad_factors is not None,
        bad_adjust_factors=bad_factors or 0,
        derived_vwap=derived,
        probable_splits=probable_splits(values, codes, stamps, symbols),
        left_out=tuple(left_out(given, typed)),
    )
    result: dict[str, Any] = {
        DATETIME: pa.array(stamps, pa.int64()).cast(STAMP),
        SYMBOL: pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(symbols, pa.string())),
    }
    result |= {name: pa.array(value) for name, value in values.items() if name in wanted}
    return pa.table(result | columns), counts


def left_out(before: pa.Table, after: pa.Table) -> list[str]:
    """Columns that `canonical` dropped."""
    gone = [name for name in before.column_names if name not in after.column_names]
    return [name for name in gone if not UNNAMED.fullmatch(name)]


def symbol_numbers(table: pa.Table) -> tuple[np.ndarray, list[str]]:
    """(rows,) int32 number of each row's symbol, and the symbols that occur, sorted."""
    column = one_chunk(table[SYMBOL].unify_dictionaries())
    names = np.array(column.dictionary.to_pylist(), dtype=object)
    codes = column.indices.to_numpy()
    used = np.flatnonzero(np.bincount(codes, minlength=len(names)))
    used = used[np.argsort(names[used])]
    number = np.zeros(len(names), np.int32)
    number[used] = np.arange(len(used), dtype=np.int32)
    return number[codes], [str(name) for name in names[used]]


def sorted_rows(codes: np.ndarray, stamps: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The rows' order by symbol, then time (None: as they are), and which repeat the one before.

    Both are (rows,); the second is None where nothing repeats. Stable: repeats keep their order.
    """
    first = int(stamps.min())
    span = int(stamps.max()) - first + 1
    key = codes.astype(np.int64) * span + (stamps - first)  # 550 years × 500,000 symbols fit.
    if bool((key[1:] > key[:-1]).all()):
        return None, None
    order = np.argsort(key, kind="stable")
    same = np.diff(key[order]) == 0
    return order, np.concatenate([[False], same]) if same.any() else None


def refuse_conflicts(
    table: pa.Table,
    values: Mapping[str, np.ndarray],
    others: Sequence[str],
    order: np.ndarray,
    repeats: np.ndarray,
    source: str,
) -> None:
    """Raise DataError if a row that repeats the key of the one before it has another value."""
    second = np.flatnonzero(repeats)
    rows, before = order[second], order[second - 1]
    for name in [*values, *others]:
        if name in values:
            here, there = values[name][rows], values[name][before]
            differ = (here != there) & ~(np.isnan(here) & np.isnan(there))
        else:
            left, right = table[name].take(pa.array(rows)), table[name].take(pa.array(before))
            equal = pc.or_(pc.equal(left, right).fill_null(False), pc.and_(left.is_null(), right.is_null()))
            differ = ~equal.to_numpy()
        if differ.any():
            at = int(np.argmax(differ))
            one, two = int(before[at]), int(rows[at])
            places = dict.fromkeys([place(table, one, source), place(table, two, source)])
            raise DataError(
                f"{' and '.join(places)}: two different rows for symbol {table[SYMBOL][one].as_py()}, bar"
                f" {table[DATETIME][one].as_py()}: {name} was {table[name][one].as_py()} and"
                f" {table[name][two].as_py()}; there must be one"
            )


def replace(values: dict[str, np.ndarray], test: Any, names: Collection[str]) -> dict[str, int]:
    """Set to NaN, in place of the arrays in `values`, what passes `test`; how many by column."""
    counts = {}
    for name in list(names):
        with np.errstate(invalid="ignore"):
            bad = test(values[name])
        count = int(np.count_nonzero(bad))
        if count:
            values[name] = np.where(bad, np.nan, values[name])
            counts[name] = count
    return counts


def adjust(values: dict[str, np.ndarray]) -> int | None:
    """Apply `adjust_factor`: prices ×, volume ÷. The number of unusable factors; None: there is none."""
    if ADJUST_FACTOR not in values:
        return None
    with np.errstate(invalid="ignore"):
        factor = np.where(values[ADJUST_FACTOR] > 0, values[ADJUST_FACTOR], np.nan)
    for name in PRICES:
        if name in values:
            values[name] = values[name] * factor
    if "volume" in values:
        values["volume"] = values["volume"] / factor
    return int(np.isnan(factor).sum())


def probable_splits(
    values: Mapping[str, np.ndarray], codes: np.ndarray, stamps: np.ndarray, symbols: Sequence[str]
) -> tuple[ProbableSplit, ...]:
    """Jumps from a date's last close to the next date's first open (or close) that look like splits.

    Rows are sorted by symbol, then time. Bars without a close are passed over.
    """
    if "close" not in values:
        return ()
    close = values["close"]
    present = np.flatnonzero(np.isfinite(close))
    dates = stamps[present] // DAY
    after = np.flatnonzero((np.diff(dates) != 0) & (np.diff(codes[present]) == 0)) + 1
    first, last = present[after], present[after - 1]
    start = close[first]
    if "open" in values:
        start = np.where(np.isfinite(values["open"][first]), values["open"][first], start)
    ratio = start / close[last]
    factor = np.maximum(ratio, 1 / ratio)
    nearest = np.abs(factor[:, None] / SPLIT_RATIOS - 1).min(axis=1, initial=np.inf)
    return tuple(
        ProbableSplit(
            symbols[codes[first[at]]],
            dt.date(1970, 1, 1) + dt.timedelta(days=int(dates[after[at]])),
            float(ratio[at]),
        )
        for at in np.flatnonzero(nearest <= SPLIT_TOLERANCE)
    )
