"""Bars in CSV, plain or gzipped: one file, or a folder or glob pattern with one file per symbol.

For each file: decompress it; read its header; let Arrow parse the wanted columns, with `datetime` and
`symbol` as text and the known columns as numbers. Where that fails, because of one bad value or
because later rows are of another type than the first, read everything as text and turn into
numbers what spells numbers: text that remains where a number belongs is then reported with its line.
"""

from __future__ import annotations

import codecs
import datetime as dt
import gzip
import zlib
from collections.abc import Mapping, Sequence
from csv import Error as CsvError
from csv import reader as csv_reader
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

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
from rlgen.schema import (
    DATETIME,
    MISSING_TEXT,
    NUMBERS,
    SYMBOL,
    concatenate,
    no_bars,
    to_number,
    with_place,
)

SUFFIXES = (".csv", ".csv.gz", ".txt", ".txt.gz")
NULLS = sorted(
    {form(text) for text in MISSING_TEXT for form in (str, str.upper, str.title)} | {"NaN", "-NaN"}
)


class Csv:
    """Reads CSV files with Arrow's parser."""

    per_call = "range"

    def __init__(
        self,
        path: str | Path,
        *,
        columns: Mapping[str, str] | None = None,
        symbol_pattern: str | None = None,
        symbol_width: int | None = None,
        datetime_format: str | None = None,
        header: Sequence[str] | None = None,
        delimiter: str = ",",
        encoding: str = "utf-8",
    ) -> None:
        """Options as in `docs/adapters.md`.

        Args:
            path: a file, a folder, or a glob pattern.
            columns: {name here: name in the file}; columns not mentioned keep their names.
            symbol_pattern: takes the symbol from the file's name, for example `{symbol}_1min.csv.gz`.
            symbol_width: restores leading zeros that a spreadsheet dropped.
            datetime_format: strptime format of the stamps, or epoch_s, epoch_ms, epoch_us, epoch_ns
                (counted in UTC); not needed for ISO 8601.
            header: the columns' names, for files without a header line.
            delimiter: one character between values.
            encoding: of the text, for example gbk.
        """
        check_text(path=path, datetime_format=datetime_format, encoding=encoding)
        check_symbol_width(symbol_width)
        if header is not None and (isinstance(header, str) or not isinstance(header, Sequence)):
            raise ConfigError(f"header must be a list of the columns' names, was {header!r}")
        if not isinstance(delimiter, str) or len(delimiter) != 1:
            raise ConfigError(f"delimiter must be one character, was {delimiter!r}")
        try:
            codecs.lookup(encoding)
        except LookupError:
            raise ConfigError(f"encoding must be one that Python knows, was {encoding!r}") from None
        check_symbol_pattern(symbol_pattern)
        self.path = path
        self.columns = check_columns(columns)
        self.symbol_pattern = symbol_pattern
        self.symbol_width = symbol_width
        self.datetime_format = datetime_format
        self.header = None if header is None else [str(name) for name in header]
        self.delimiter = delimiter
        self.encoding = encoding

    def files(self) -> list[Path]:
        """The files that `path` means."""
        return find_files(self.path, SUFFIXES, self.symbol_pattern)

    def bars(
        self,
        start: dt.date | None,
        end: dt.date | None,
        fields: Sequence[str] | None,
        symbols: Sequence[str] | None,
    ) -> pa.Table:
        """The files' bars; dates and symbols inside a file are left to the reader to cut."""
        tables = [self.read(file, start, end, fields, symbols) for file in self.files()]
        return concatenate(tables, str(self.path))

    def read(
        self,
        file: Path,
        start: dt.date | None,
        end: dt.date | None,
        fields: Sequence[str] | None,
        symbols: Sequence[str] | None,
    ) -> pa.Table:
        """One file's bars, with the number of the line that each came from."""
        symbol = symbol_of(file, self.symbol_pattern) if self.symbol_pattern else None
        if symbol is not None and symbols is not None and self.symbol_width is None and symbol not in symbols:
            return no_bars()
        data = content(file, self.encoding)
        present = self.header or read_header(data, self.delimiter, file)
        names = names_wanted(present, self.columns, fields, file, symbol is not None)
        table = self.parse(data, present, names, file)
        lines = line_numbers(data, 0 if self.header else 1, table.num_rows)
        table = with_place(table, str(file), lines)
        if symbol is not None:
            table = with_symbol(table, symbol)
        return with_stamps(table, self.datetime_format, str(file))

    def parse(self, data: bytes, present: Sequence[str], names: Mapping[str, str], file: Path) -> pa.Table:
        """The columns `names` of one file; in `NUMBERS` text is left where it is no number."""
        text = {name: pa.string() for name in (DATETIME, SYMBOL)}
        quick = {**text, **{name: pa.float64() for name in NUMBERS}}
        try:
            return self.parse_as({here: quick.get(here) for here in names}, data, present, names)
        except pa.ArrowInvalid:
            pass  # A value that does not fit its column; below, each value is looked at as text.
        try:
            table = self.parse_as({here: pa.string() for here in names}, data, present, names)
        except pa.ArrowInvalid as error:
            raise DataError(f"{file}: {explain(error, data, self.delimiter)}") from None
        for position, name in enumerate(names):
            if name not in text:
                try:
                    column = to_number(table, name, str(file))
                except DataError:
                    continue  # Text: a label, or an error for the reader, who knows what must be a number.
                table = table.set_column(position, name, column)
        return table

    def parse_as(
        self, kinds: Mapping[str, Any], data: bytes, present: Sequence[str], names: Mapping[str, str]
    ) -> pa.Table:
        """One pass of Arrow's parser; `kinds` gives types by our names, None: inferred."""
        table = arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(column_names=self.header),
            parse_options=arrow_csv.ParseOptions(delimiter=self.delimiter),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=list(names.values()),
                column_types={names[here]: kind for here, kind in kinds.items() if kind is not None},
                null_values=NULLS,
                strings_can_be_null=False,
            ),
        )
        return table.rename_columns(list(names))

    def column_names(self) -> list[str]:
        """The columns of the first file, by the names they have here; for messages."""
        file = self.files()[0]
        present = self.header or read_header(content(file, self.encoding), self.delimiter, file)
        return list(names_wanted(present, self.columns, None, file, self.symbol_pattern is not None))

    def describe(self) -> dict[str, Any]:
        """The files, with sizes and times of change."""
        return {"adapter": "csv", "path": str(self.path), "files": describe_files(self.files())}


def content(file: Path, encoding: str) -> bytes:
    """A file's bytes, decompressed, as UTF-8 without byte order mark."""
    try:
        data = file.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        elif file.suffix == ".gz" and data:
            raise DataError(f"{file}: not a gzip file, its name says it is; first bytes were {data[:8]!r}")
        if codecs.lookup(encoding).name != "utf-8":
            data = data.decode(encoding).encode()
        else:
            codecs.utf_8_decode(data, "strict", True)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{file}: the gzip file is truncated or damaged: {error}") from None
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise DataError(
            f"{file}, row {line}: not {encoding} text, byte was {data[error.start]:#04x}; state `encoding`"
        ) from None
    except OSError as error:
        raise DataError(f"{file}: not readable: {error.strerror or error}") from None
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data.strip():
        raise DataError(f"{file}: the file is empty (size {file.stat().st_size} bytes)")
    return data


def read_header(data: bytes, delimiter: str, file: Path) -> list[str]:
    """The names in the first line that is not blank."""
    start = len(data) - len(data.lstrip(b"\r\n"))
    first = data[start:].split(b"\n", 1)[0].decode().rstrip("\r")
    try:
        names = next(csv_reader([first], delimiter=delimiter))
    except CsvError as error:
        raise DataError(f"{file}: not a CSV file: {error}") from None
    repeated = sorted({name for name in names if name and names.count(name) > 1})
    if repeated:
        raise DataError(f"{file}: each column name must be there once, was repeated: {', '.join(repeated)}")
    return names


def line_numbers(data: bytes, header_lines: int, rows: int) -> np.ndarray | None:
    """The file's line number of each row, from 1; blank lines, which hold no row, are counted.

    None where rows and lines do not correspond (line breaks inside quotes or of another kind).
    """
    if data.count(b"\r") != data.count(b"\r\n"):
        return None
    if not any(blank in data for blank in (b"\n\n", b"\n\r")) and data[:1] not in b"\r\n":
        return np.arange(header_lines + 1, header_lines + rows + 1)
    lines = filled_lines(data)[header_lines:]
    return lines if len(lines) == rows else None


def filled_lines(data: bytes) -> np.ndarray:
    """Numbers, from 1, of the lines that are not blank."""
    filled = [line.strip(b"\r") != b"" for line in data.split(b"\n")]
    return np.flatnonzero(filled) + 1


def explain(error: pa.ArrowInvalid, data: bytes, delimiter: str) -> str:
    """Arrow's complaint about a line, with the line's number where it is about the number of values."""
    lines = data.decode().split("\n")
    expected: int | None = None
    rows = csv_reader(lines, delimiter=delimiter)
    try:
        for row in rows:
            expected = len(row) if row and expected is None else expected
            if row and len(row) != expected:
                text = lines[rows.line_num - 1].strip()[:80]
                return f"row {rows.line_num}: must have {expected} values, was {len(row)}: {text!r}"
    except CsvError as problem:
        return f"row {rows.line_num}: {problem}: {lines[rows.line_num - 1][:80]!r}"
    return " ".join(str(error).split())
