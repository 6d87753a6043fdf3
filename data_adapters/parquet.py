"""Bars in parquet (or feather): one file, a folder, or a folder partitioned by day or symbol.

For each file: read its schema; choose the columns that were asked for; push the dates and symbols
down into the scan, so that row groups which cannot hold them are not read; say the file's name in a
column. Folder names `key=value` become columns, always as text: `symbol=000001` keeps its zeros.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from data_adapters.files import (
    check_columns,
    check_symbol_pattern,
    check_symbol_width,
    check_text,
    describe_files,
    find_files,
    names_wanted,
    symbol_of,
    with_stamps,
    with_symbol,
)
from rlgen.errors import ConfigError, DataError
from rlgen.schema import DATETIME, NUMBERS, SYMBOL, concatenate, is_text, no_bars, with_place

SUFFIXES = {"parquet": (".parquet", ".pq"), "feather": (".feather", ".arrow")}
FIRST_DAY, LAST_DAY = dt.date(1700, 1, 1), dt.date(2250, 1, 1)  # What nanoseconds can count.
DAY_KEYS = ("date", "day", "trade_date", "trading_day")


class Parquet:
    """Reads parquet and feather files through pyarrow.dataset."""

    per_call = "range"

    def __init__(
        self,
        path: str | Path,
        *,
        columns: Mapping[str, str] | None = None,
        symbol_pattern: str | None = None,
        symbol_width: int | None = None,
        datetime_format: str | None = None,
        file_format: str = "parquet",
    ) -> None:
        """Options as in `docs/adapters.md`.

        Args:
            path: a file, a folder, or a glob pattern.
            columns: {name here: name in the file}; columns not mentioned keep their names.
            symbol_pattern: takes the symbol from the file's name, for example `{symbol}.parquet`.
            symbol_width: restores leading zeros of symbols that were stored as numbers.
            datetime_format: strptime format of stamps stored as text or whole numbers, or epoch_s,
                epoch_ms, epoch_us, epoch_ns (counted in UTC).
            file_format: parquet or feather.
        """
        check_text(path=path, datetime_format=datetime_format)
        check_symbol_width(symbol_width)
        if file_format not in SUFFIXES:
            raise ConfigError(f"file_format must be parquet or feather, was {file_format!r}")
        check_symbol_pattern(symbol_pattern)
        self.path = path
        self.columns = check_columns(columns)
        self.symbol_pattern = symbol_pattern
        self.symbol_width = symbol_width
        self.datetime_format = datetime_format
        self.file_format = file_format

    def files(self) -> list[Path]:
        """The files that `path` means."""
        return find_files(self.path, SUFFIXES[self.file_format], self.symbol_pattern)

    def bars(
        self,
        start: dt.date | None,
        end: dt.date | None,
        fields: Sequence[str] | None,
        symbols: Sequence[str] | None,
    ) -> pa.Table:
        """The files' bars; rows that cannot be cut exactly here are left to the reader."""
        files = [file for file in self.files() if may_hold(self.keys_of(file), start, end)]
        tables = [self.read(file, start, end, fields, symbols) for file in files]
        return concatenate(tables, str(self.path)) if tables else no_bars()

    def keys_of(self, file: Path) -> dict[str, str]:
        """Partition keys in the folders between `path` and the file: {key: value as text}."""
        root = Path(self.path)
        folders = file.relative_to(root).parts[:-1] if root.is_dir() else ()
        pairs = [folder.partition("=") for folder in folders if "=" in folder]
        return {unquote(key): unquote(value) for key, _, value in pairs}

    def read(
        self,
        file: Path,
        start: dt.date | None,
        end: dt.date | None,
        fields: Sequence[str] | None,
        symbols: Sequence[str] | None,
    ) -> pa.Table:
        """One file's bars."""
        symbol = symbol_of(file, self.symbol_pattern) if self.symbol_pattern else None
        if symbol is not None and symbols is not None and self.symbol_width is None and symbol not in symbols:
            return no_bars()
        # Coded text reads faster and smaller, but Arrow skips no row groups by it.
        coded = [self.columns.get(SYMBOL, SYMBOL)] if symbols is None else []
        parquet = self.file_format == "parquet"
        form = ds.ParquetFileFormat(dictionary_columns=coded) if parquet else self.file_format
        try:
            dataset = ds.dataset(str(file), format=form)
            schema = dataset.schema
            keys = {key: value for key, value in self.keys_of(file).items() if key not in schema.names}
            names = names_wanted([*schema.names, *keys], self.columns, fields, file, symbol is not None)
            names = {
                here: there
                for here, there in names.items()
                if there in keys or not pa.types.is_nested(schema.field(there).type)
            }
            condition = self.condition(schema, names, start, end, symbols)
            inside = {here: ds.field(there) for here, there in names.items() if there not in keys}
            table = dataset.to_table(columns=inside, filter=condition)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DataError(
                f"{file}: not a complete {self.file_format} file (size {size(file)} bytes): {one_line(error)}"
            ) from None
        for here, there in names.items():
            if there in keys:
                column = pa.repeat(pa.scalar(keys[there]), table.num_rows)
                table = table.append_column(here, column.dictionary_encode())
        if symbol is not None:
            table = with_symbol(table, symbol)
        rows = np.arange(1, table.num_rows + 1) if condition is None else None
        return with_stamps(with_place(table, str(file), rows), self.datetime_format, str(file))

    def condition(
        self,
        schema: pa.Schema,
        names: Mapping[str, str],
        start: dt.date | None,
        end: dt.date | None,
        symbols: Sequence[str] | None,
    ) -> ds.Expression | None:
        """The rows to read, as far as the file's own types allow to say; None: all."""
        kinds = {here: schema.field(there).type for here, there in names.items() if there in schema.names}
        if any(holds_text(kind) for here, kind in kinds.items() if here in NUMBERS):
            return None  # Text in place of numbers: read it whole, so that an error can name its row.
        parts: list[ds.Expression] = []
        kind = kinds.get(DATETIME)
        if kind is not None and (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            stamp = ds.field(names[DATETIME])
            # A zone moves a stamp by less than a day; the reader cuts exactly, in local time.
            margin = 1 if getattr(kind, "tz", None) else 0
            if start is not None:
                parts.append(stamp >= moment(start, -margin, kind))
            if end is not None:
                parts.append(stamp < moment(end, margin + 1, kind))
            if parts:  # An empty stamp is an error that the reader must get to see.
                parts = [combine(parts) | stamp.is_null()]
        if symbols is not None and self.symbol_width is None and holds_text(kinds.get(SYMBOL)):
            parts.append(ds.field(names[SYMBOL]).isin(list(symbols)))
        return combine(parts) if parts else None

    def column_names(self) -> list[str]:
        """The columns of the first file, by the names they have here; for messages."""
        return self.read(self.files()[0], dt.date(2200, 1, 1), None, None, None).column_names

    def describe(self) -> dict[str, Any]:
        """The files, with sizes and times of change."""
        return {"adapter": "parquet", "path": str(self.path), "files": describe_files(self.files())}


def may_hold(keys: Mapping[str, str], start: dt.date | None, end: dt.date | None) -> bool:
    """Whether a file in folders with these keys can have bars from `start` to `end`.

    A folder named by a day may hold stamps of earlier ones: a night session belongs to the trading
    day it opens, even past a week of holidays, and a zone moves stamps by hours. Hence the margins.
    """
    for key in DAY_KEYS:
        try:
            day = dt.date.fromisoformat(keys[key])
        except (KeyError, ValueError):
            continue
        early = start is not None and (start - day).days > 2
        late = end is not None and (day - end).days > 16
        return not (early or late)
    return True


def moment(day: dt.date, shift: int, kind: pa.DataType) -> pa.Scalar:
    """Midnight, `shift` days after `day`, as a scalar of a column's type."""
    day = min(max(day, FIRST_DAY), LAST_DAY) + dt.timedelta(days=shift)
    return pa.scalar(day if pa.types.is_date(kind) else dt.datetime.combine(day, dt.time()), kind)


def combine(parts: Sequence[ds.Expression]) -> ds.Expression:
    """All conditions together."""
    whole = parts[0]
    for part in parts[1:]:
        whole = whole & part
    return whole


def holds_text(kind: pa.DataType | None) -> bool:
    """Whether a type is text, coded or not."""
    if kind is not None and pa.types.is_dictionary(kind):
        kind = kind.value_type
    return kind is not None and is_text(kind)


def size(file: Path) -> str:
    """A file's size for a message."""
    return str(file.stat().st_size) if file.exists() else "unknown"


def one_line(error: BaseException) -> str:
    """An exception's message on one line."""
    return " ".join(str(error).split())
