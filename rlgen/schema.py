"""The bar table: what an adapter gives, and how any table becomes one with known types.

A bar table has one row per bar and symbol:

    datetime   time stamp in the exchange's local time (or with a zone, see `to_local`)
    symbol     text; `000001` keeps its zeros
    open high low close volume, optional amount, vwap, adjust_factor
    any further number (a field that formulas can use, or a ready-made return), flags, labels

`canonical` takes whatever an adapter returned and gives

    datetime   timestamp[ms], naive, no nulls
    symbol     dictionary<int32, string>, no nulls, trimmed
    numbers    float64 (null = missing; infinities and signs are the reader's business)
    flags      bool, and columns asked for by name (`keep`) in their own type

in these steps: check the names; datetime to naive local milliseconds; symbol to text; every
column that is or must be a number to float64, where text that is no number is an error that
names file, row, column and the text; drop what is neither number nor flag nor asked for.

An adapter may add two columns that say where a row came from, `FILE` (text) and `ROW` (the row or
line in that file). They are used in messages and never become fields; `with_place` adds them.

Adapters import nothing of rlgen but this module and `rlgen.errors`.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Sequence
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlgen.errors import ConfigError, DataError

DATETIME = "datetime"
SYMBOL = "symbol"
ADJUST_FACTOR = "adjust_factor"
PRICES = ("open", "high", "low", "close", "vwap")
NUMBERS = (*PRICES, "volume", "amount", ADJUST_FACTOR)
"""Columns that are numbers by their name: text in them is an error."""
FILE = "__file__"
ROW = "__row__"

STAMP = pa.timestamp("ms")
FIRST_STAMP, LAST_STAMP = np.array(["1700", "2250"], "datetime64[ms]").astype(np.int64).tolist()
CODED_TEXT = pa.dictionary(pa.int32(), pa.string())

MISSING_TEXT = ("", "na", "n/a", "#n/a", "nan", "-nan", "null", "none")
"""Text that means a missing number, in lower case."""


UNNAMED = re.compile(r"|Unnamed: \d+|__index_level_\d+__")
"""Names of a frame's index that was written along: never a column."""


class Adapter(Protocol):
    """What rlgen asks of a source of bars. A class need not inherit from this, only look like it."""

    per_call: Literal["range", "day", "symbol"] = "range"
    """What one call of `bars` can give. `range`: any dates and symbols. `day`: `start` equals `end`;
    the reader calls once per day, and a day without data may raise FileNotFoundError or give None
    or an empty table; an optional method `days() -> list[date]` serves open ranges. `symbol`: one
    symbol a call; the adapter also has `symbols() -> list[str]`."""

    def bars(
        self,
        start: dt.date | None,
        end: dt.date | None,
        fields: Sequence[str] | None,
        symbols: Sequence[str] | None,
    ) -> pa.Table:
        """The bars from `start` to `end`, both inclusive; None: no limit, all fields, all symbols.

        `datetime` and `symbol` always come along. A field that the source lacks is left out: the
        reader says so. Giving more than was asked for is allowed, the reader cuts.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """What the bars come from (paths, sizes, times of change): plain JSON values, quick to get.

        A panel stored on disk is rebuilt if this changes.
        """
        ...


def canonical(
    given: Any,
    source: str,
    *,
    numbers: Collection[str] = (),
    keep: Collection[str] = (),
    booleans: Collection[str] = (),
    timezone: str | None = None,
    symbol_width: int | None = None,
) -> pa.Table:
    """A bar table with the types of the module's docstring, rows in the order given.

    Args:
        given: an Arrow table or a pandas frame.
        source: what messages call it where the table has no `FILE` column.
        numbers: columns, besides `NUMBERS`, that must be numbers.
        keep: columns kept in their own type (labels, dates).
        booleans: columns that must be true/false; 0 and 1 will do, missing is false.
        timezone: zone that stamps with a zone are converted to.
        symbol_width: restores leading zeros: symbols of digits are padded to this many.

    Raises:
        DataError: no datetime or symbol column, a row without either, text where a number belongs,
            symbols that are numbers, stamps with a zone but no `timezone`.
    """
    table = to_table(given, source)
    names = table.column_names
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(f"{source}: each column name must be there once, was repeated: {', '.join(repeated)}")
    for name in (DATETIME, SYMBOL):
        if name not in names:
            raise DataError(f"{source}: no column `{name}`; columns were {listed(names)}")
    columns: dict[str, Any] = {
        DATETIME: to_local(table, source, timezone),
        SYMBOL: to_symbol(table, source, symbol_width),
    }
    for name in names:
        kind = table.schema.field(name).type
        if name in columns or UNNAMED.fullmatch(name):
            continue
        if name in (FILE, ROW) or (name in keep and name not in numbers and name not in booleans):
            columns[name] = table[name]
        elif name in booleans:
            columns[name] = to_boolean(table, name, source)
        elif name in numbers or name in NUMBERS:
            columns[name] = to_number(table, name, source)
        elif pa.types.is_boolean(kind):
            columns[name] = table[name].fill_null(False)
        elif is_number(kind) or pa.types.is_null(kind):
            columns[name] = pc.cast(table[name], pa.float64(), safe=False)
    return pa.table(columns)


def to_table(given: Any, source: str) -> pa.Table:
    """An Arrow table of an Arrow table or pandas frame (whose index counts if it is named)."""
    if isinstance(given, pa.Table):
        return given
    if not (hasattr(given, "columns") and hasattr(given, "reset_index")):
        raise DataError(
            f"{source}: a bar table must be an Arrow table or a pandas frame, was {type(given).__name__}"
        )
    if any(name in (DATETIME, SYMBOL) for name in given.index.names):
        given = given.reset_index()
    arrays: list[Any] = []
    for position in range(given.shape[1]):
        series = given.iloc[:, position]
        try:
            arrays.append(pa.array(series, from_pandas=True))
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # Mixed objects; `to_number` names the bad one.
            arrays.append(pa.array(series.astype(str).where(series.notna(), None), pa.string()))
    return pa.Table.from_arrays(arrays, names=[str(name) for name in given.columns])


def no_bars() -> pa.Table:
    """A bar table without rows, for an adapter that finds nothing."""
    return pa.table({DATETIME: pa.array([], STAMP), SYMBOL: pa.array([], pa.string())})


def place(table: pa.Table, row: int, source: str) -> str:
    """Where a row came from: file and row as far as the table says, else source and row from 1."""
    known = {name: table[name][row].as_py() for name in (FILE, ROW) if name in table.column_names}
    number = known.get(ROW, None if known else row + 1)
    if number is not None:
        return f"{known.get(FILE) or source}, row {number}"
    keys = [str(table[name][row].as_py()) for name in (SYMBOL, DATETIME) if name in table.column_names]
    return f"{known.get(FILE) or source}, {' at '.join(keys)}"


def origin(table: pa.Table, source: str) -> str:
    """The file of the first row, for messages about a whole column; else the source."""
    return (table[FILE][0].as_py() if FILE in table.column_names and table.num_rows else None) or source


def with_place(table: pa.Table, file: str, rows: np.ndarray | None = None) -> pa.Table:
    """`table` with the columns `FILE` and, where `rows` gives the rows' numbers, `ROW`."""
    codes = pa.array(np.zeros(table.num_rows, np.int32))
    table = table.append_column(FILE, pa.DictionaryArray.from_arrays(codes, pa.array([file])))
    return table if rows is None else table.append_column(ROW, pa.array(rows, pa.int64()))


def check_timezone(timezone: str | None) -> None:
    """ConfigError unless `timezone` is absent or one that can be converted to."""
    if timezone is None:
        return
    try:
        pc.local_timestamp(pa.scalar(0, pa.timestamp("ms", timezone)))
        known = timezone != ""  # Arrow takes the empty one for none.
    except (pa.ArrowException, OSError):
        known = False
    if not known:
        raise ConfigError(
            f"data.timezone: must be a known time zone, such as America/New_York, was {timezone!r}"
        )


def to_local(table: pa.Table, source: str, timezone: str | None) -> pa.ChunkedArray:
    """The column `datetime` as naive exchange-local milliseconds.

    Naive stamps are local already. Stamps with a zone are converted to `timezone`; without one
    that is an error, since nothing else says which wall clock the exchange has.
    """
    check_timezone(timezone)
    column = decoded(table[DATETIME])
    if is_text(column.type):
        column = parse_stamps(table, column, source)
    if pa.types.is_date(column.type):
        column = pc.cast(column, STAMP)
    if not pa.types.is_timestamp(column.type):
        raise DataError(
            f"{origin(table, source)}: column `{DATETIME}` must hold time stamps, was {column.type}"
            f" (first value {first_value(column)}); state `datetime_format`"
        )
    if column.null_count:
        row = first_true(column.is_null())
        raise DataError(f"{place(table, row, source)}: column `{DATETIME}` was empty, must be a time stamp")
    if column.type.tz is not None:
        if timezone is None:
            raise DataError(
                f"{origin(table, source)}: column `{DATETIME}` has time stamps with a zone"
                f" (was {column.type.tz}); state the exchange's as `timezone`, for example `timezone:"
                " America/New_York`"
            )
        column = pc.local_timestamp(pc.cast(column, pa.timestamp(column.type.unit, timezone)))
    column = pc.cast(column, STAMP, safe=False)
    for stamp in pc.min_max(pc.cast(column, pa.int64())).as_py().values():
        if stamp is not None and not FIRST_STAMP <= stamp < LAST_STAMP:
            raise DataError(
                f"{origin(table, source)}: column `{DATETIME}` must lie in the years 1700 to 2249, was"
                f" {np.datetime64(stamp, 'ms')}; does the unit or `datetime_format` fit?"
            )
    return column


def parse_stamps(table: pa.Table, column: pa.ChunkedArray, source: str) -> pa.ChunkedArray:
    """ISO 8601 text as time stamps, naive or (where every one has an offset) in UTC."""
    text = pc.utf8_trim_whitespace(column)
    text = pc.if_else(pc.equal(text, ""), pa.scalar(None, text.type), text)
    for kind in (STAMP, pa.timestamp("ms", "UTC")):
        try:
            return pc.cast(text, kind)
        except pa.ArrowInvalid:
            continue
    zoned = pc.fill_null(pc.match_substring_regex(text, r"\d(Z|[+-]\d\d:?\d\d)$"), False)
    kind = pa.timestamp("ms", "UTC") if zoned[0].as_py() else STAMP
    row = first_failure(text, kind)
    raise DataError(
        f"{place(table, row, source)}, column `{DATETIME}`: was {column[row].as_py()!r}, must be a time"
        " stamp such as 2024-01-02 09:31:00 (or state `datetime_format`)"
    )


def to_symbol(table: pa.Table, source: str, width: int | None) -> pa.ChunkedArray:
    """The column `symbol` as coded text, trimmed, with zeros restored if `width` is given."""
    column = table[SYMBOL]
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_integer(kind):
        if width is None:
            raise DataError(
                f"{origin(table, source)}: column `{SYMBOL}` must be text, was {kind}"
                f" (first value {first_value(column)}): a number has lost its leading zeros;"
                " store text, or state `symbol_width`, for example 6"
            )
        column = pc.cast(decoded(column), pa.string())
    elif not is_text(kind):
        raise DataError(
            f"{origin(table, source)}: column `{SYMBOL}` must be text, was {kind}"
            f" (first value {first_value(column)})"
        )
    if not pa.types.is_dictionary(column.type):
        column = pc.cast(column, pa.string()).dictionary_encode()
    coded = one_chunk(column.unify_dictionaries())
    names = [None if entry is None else entry.strip() for entry in coded.dictionary.to_pylist()]
    if width is not None:
        names = [name.zfill(width) if name and name.isdigit() else name for name in names]
    unique = sorted({name for name in names if name})
    number = {name: code for code, name in enumerate(unique)}
    recode = np.array([number.get(name, -1) if name else -1 for name in [*names, None]], np.int32)
    codes = recode[pc.cast(coded.indices, pa.int32()).fill_null(len(names)).to_numpy()]
    if len(codes) and codes.min() < 0:
        row = int(np.argmax(codes < 0))
        raise DataError(f"{place(table, row, source)}: column `{SYMBOL}` was empty, must name the stock")
    coded = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(unique, pa.string()))
    return pa.chunked_array([coded], CODED_TEXT)


def first_true(flags: pa.ChunkedArray) -> int:
    """Row of the first true."""
    return int(pc.index(flags, True).as_py())


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    whole = column.combine_chunks()  # Gives either kind, depending on the number of chunks.
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0) if whole.num_chunks else pa.array([], column.type)
    return whole


def to_number(table: pa.Table, name: str, source: str) -> pa.ChunkedArray:
    """A column as float64; text must spell numbers, or nothing (`MISSING_TEXT`)."""
    column = decoded(table[name])
    if is_number(column.type) or pa.types.is_boolean(column.type) or pa.types.is_null(column.type):
        return pc.cast(column, pa.float64(), safe=False)
    if not is_text(column.type):
        raise DataError(f"{origin(table, source)}: column `{name}` must hold numbers, was {column.type}")
    text = pc.utf8_trim_whitespace(column)
    absent = pc.is_in(pc.utf8_lower(text), value_set=pa.array(MISSING_TEXT, text.type))
    text = pc.if_else(absent, pa.scalar(None, text.type), text)
    try:
        return pc.cast(text, pa.float64())
    except pa.ArrowInvalid:
        row = first_failure(text, pa.float64())
    raise DataError(
        f"{place(table, row, source)}, column `{name}`: was {column[row].as_py()!r}, must be a number"
    )


def to_boolean(table: pa.Table, name: str, source: str) -> pa.ChunkedArray:
    """A column as true/false, missing as false; numbers must be 0 or 1, text true/false/1/0."""
    column = decoded(table[name])
    if pa.types.is_boolean(column.type) or pa.types.is_null(column.type):
        return pc.cast(column, pa.bool_()).fill_null(False)
    if is_number(column.type):
        yes, no = pc.equal(column, 1), pc.equal(column, 0)
    elif is_text(column.type):
        text = pc.utf8_lower(pc.utf8_trim_whitespace(column))
        yes = pc.is_in(text, value_set=pa.array(["true", "1", "1.0", "t", "yes"], text.type))
        no = pc.is_in(text, value_set=pa.array(["false", "0", "0.0", "f", "no", *MISSING_TEXT], text.type))
    else:
        raise DataError(f"{origin(table, source)}: column `{name}` must hold true/false, was {column.type}")
    known = pc.or_(pc.or_(yes, no).fill_null(True), column.is_null())
    if not pc.all(known, min_count=0).as_py():
        row = first_true(pc.invert(known))
        found = column[row].as_py()
        raise DataError(f"{place(table, row, source)}, column `{name}`: was {found!r}, must be true or false")
    return yes.fill_null(False)


def concatenate(tables: Sequence[pa.Table], source: str) -> pa.Table:
    """Tables of one source, one below the other; columns that one lacks are null there.

    Where a column is numbers in some and text in others, the text must spell numbers.
    """
    tables = [table for table in tables if table.num_rows] or list(tables[:1])
    names = dict.fromkeys(name for table in tables for name in table.column_names)
    for name in names.keys() - {DATETIME, SYMBOL, FILE, ROW}:
        there = [number for number, table in enumerate(tables) if name in table.column_names]
        kinds = [tables[number].schema.field(name).type for number in there]
        if len({is_number(kind) for kind in kinds if not pa.types.is_null(kind)}) > 1:
            for number in there:
                at, column = tables[number].column_names.index(name), to_number(tables[number], name, source)
                tables[number] = tables[number].set_column(at, name, column)
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(f"{source}: files do not fit together: {' '.join(str(error).split())}") from None


def is_number(kind: pa.DataType) -> bool:
    """Whether an Arrow type is integer, floating or decimal."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type is text, not coded."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of coded values as plain ones, text as Arrow's usual kind; any other as it is."""
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    return pc.cast(column, pa.string()) if pa.types.is_string_view(column.type) else column


def first_value(column: pa.ChunkedArray) -> str:
    """The first value, for messages."""
    return repr(column[0].as_py()) if len(column) else "none"


def first_failure(text: pa.ChunkedArray, kind: pa.DataType) -> int:
    """Row of the first value that Arrow cannot cast to `kind`, by halving; there must be one."""
    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            pc.cast(text.slice(low, middle - low), kind)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def listed(names: Collection[str], at_most: int = 20) -> str:
    """Names for a message, shortened."""
    shown = [name for name in names if name not in (FILE, ROW)]
    more = f" … ({len(shown)} in all)" if len(shown) > at_most else ""
    return ", ".join(str(name) for name in shown[:at_most]) + more
