"""What the file adapters share: finding files, names of columns, symbols in file names, stamps."""

from __future__ import annotations

import glob
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from rlgen.errors import ConfigError, DataError
from rlgen.schema import DATETIME, SYMBOL, UNNAMED, decoded, first_true, listed, place

EPOCH_UNITS = {"epoch_s": "s", "epoch_ms": "ms", "epoch_us": "us", "epoch_ns": "ns"}


def find_files(path: str | Path, suffixes: Sequence[str], symbol_pattern: str | None = None) -> list[Path]:
    """The files that `path` means: one file, a folder (searched to the bottom) or a glob pattern.

    In a folder those with one of `suffixes` count, or, if `symbol_pattern` is given, those that it
    fits. Names that start with a dot or an underscore are left out, as other readers do.
    """
    text = str(path)
    root = Path(text)
    if any(mark in text for mark in "*?["):
        found = [Path(name) for name in sorted(glob.glob(text, recursive=True))]
        files = [file for file in found if file.name[0] not in "._" and file.is_file()]
        if not files:
            raise DataError(f"{text}: no file fits this pattern")
    elif root.is_dir():
        visible = [
            file
            for file in sorted(root.rglob("*"))
            if not any(part[0] in "._" for part in file.relative_to(root).parts) and file.is_file()
        ]
        if symbol_pattern is not None:
            files = [file for file in visible if symbol_of(file, symbol_pattern) is not None]
            wanted = f"a name like {symbol_pattern}"
        else:
            files = [file for file in visible if file.name.endswith(tuple(suffixes))]
            wanted = f"the ending {' or '.join(suffixes)}"
        if not files:
            raise DataError(
                f"{text}: no file in this folder has {wanted}; files were: "
                f"{listed([file.name for file in visible], 5) or 'none'}"
            )
    elif root.exists():
        files = [root]
    else:
        raise DataError(f"{text}: no such file or folder")
    for file in files:
        if symbol_pattern is not None and symbol_of(file, symbol_pattern) is None:
            raise DataError(f"{file}: the name must be like {symbol_pattern}, since `symbol_pattern` says so")
    return files


def symbol_of(file: Path, pattern: str) -> str | None:
    """The symbol in a file's name by a pattern such as `{symbol}_1min.csv.gz`; `*` fits anything.

    A pattern with slashes is compared with as many folders; None where it does not fit.
    """
    parts = re.split(r"(\{symbol\}|\*)", pattern)
    marks = {"{symbol}": r"(?P<symbol>[^/]+)", "*": r"[^/]*"}
    expression = "".join(marks.get(part, re.escape(part)) for part in parts)
    name = "/".join(file.parts[-(pattern.count("/") + 1) :])
    match = re.fullmatch(expression, name)
    return match["symbol"] if match else None


def check_text(**options: Any) -> None:
    """`ConfigError` unless each option is absent or text (`path` may be a path), and not empty."""
    for name, value in options.items():
        if isinstance(value, Path) or (value is None and name != "path"):
            continue
        # A folder called 2024 is a number in YAML and on the command line.
        named_by_number = name == "path" and type(value) is int
        if not named_by_number and not (isinstance(value, str) and value.strip(" ")):
            raise ConfigError(f"{name} must be text, was {value!r}")


def check_symbol_width(width: Any) -> None:
    """`ConfigError` unless the width is absent or a whole number of digits."""
    if width is not None and not (type(width) is int and width > 0):
        raise ConfigError(f"symbol_width must be a whole number of digits above 0, was {width!r}")


def check_symbol_pattern(pattern: str | None) -> None:
    """`ConfigError` unless the pattern is absent or names the symbol once."""
    if pattern is not None and str(pattern).count("{symbol}") != 1:
        raise ConfigError(f"symbol_pattern must have {{symbol}} in it once, was {pattern!r}")


def check_columns(columns: Any) -> dict[str, str]:
    """The option `columns` as a dictionary {name here: name in the file}."""
    if not isinstance(columns, Mapping | None):
        raise ConfigError(f"columns must map names to names in the file, was {columns!r}")
    columns = dict(columns or {})
    if not all(isinstance(name, str) for pair in columns.items() for name in pair):
        raise ConfigError(f"columns must map names to names in the file, was {columns!r}")
    return columns


def names_wanted(
    present: Sequence[str],
    columns: Mapping[str, str],
    fields: Collection[str] | None,
    file: Path,
    symbol_known: bool,
) -> dict[str, str]:
    """{name here: name in the file} of the columns to read: `datetime`, `symbol` and the fields.

    `columns` renames; other columns keep their names, and those without a name are left out. Where
    the file's name says the symbol (`symbol_known`), a column `symbol` is not read.

    Raises:
        DataError: a column that `columns` names, `datetime` or `symbol` is not in the file.
    """
    for here, there in columns.items():
        if there not in present:
            raise DataError(
                f"{file}: no column `{there}`, which `columns` maps to `{here}`; "
                f"columns were {listed(present)}"
            )
    renamed = set(columns.values())
    names = {name: name for name in present if name not in renamed and not UNNAMED.fullmatch(name)}
    names.update(columns)
    if DATETIME not in names:
        raise DataError(
            f"{file}: no column `{DATETIME}`; columns were {listed(present)}; say which it is in `columns`"
        )
    if symbol_known:
        names.pop(SYMBOL, None)
    elif SYMBOL not in names:
        raise DataError(
            f"{file}: no column `{SYMBOL}`; columns were {listed(present)}; say which it is in `columns`, or"
            " state `symbol_pattern` if the file's name has the symbol"
        )
    if fields is None:
        return names
    return {here: there for here, there in names.items() if here in fields or here in (DATETIME, SYMBOL)}


def with_stamps(table: pa.Table, form: str | None, source: str) -> pa.Table:
    """`table` with `datetime` parsed by a strptime format, or from a count since 1970 in UTC.

    Without a format the column stays as it is: time stamps, dates and ISO text are read anyhow.
    """
    if form is None or DATETIME not in table.column_names:
        return table
    column = decoded(table[DATETIME])
    if form in EPOCH_UNITS:
        try:
            numbers = pc.cast(column, pa.int64())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"{source}: column `{DATETIME}` must hold whole numbers, since datetime_format is {form};"
                f" {' '.join(str(error).split())}"
            ) from None
        stamps = pc.cast(numbers, pa.timestamp(EPOCH_UNITS[form], "UTC"))
    else:
        text = pc.cast(column, pa.string())
        try:
            parsed = pd.to_datetime(text.to_pandas(), format=form, errors="coerce", utc="%z" in form)
        except ValueError as error:
            raise ConfigError(f"datetime_format must be a strptime format, was {form!r}: {error}") from None
        stamps = pa.chunked_array([pa.array(parsed)])
        bad = pc.and_(stamps.is_null(), pc.invert(text.is_null()))
        if pc.any(bad, min_count=0).as_py():
            row = first_true(bad)
            raise DataError(
                f"{place(table, row, source)}, column `{DATETIME}`: was {text[row].as_py()!r}, must be a time"
                f" stamp of the form {form}"
            )
    return table.set_column(table.column_names.index(DATETIME), DATETIME, stamps)


def with_symbol(table: pa.Table, symbol: str) -> pa.Table:
    """`table` with one symbol in all rows."""
    codes = pa.repeat(pa.scalar(0, pa.int32()), table.num_rows)
    column = pa.DictionaryArray.from_arrays(codes, pa.array([symbol]))
    if SYMBOL in table.column_names:
        return table.set_column(table.column_names.index(SYMBOL), SYMBOL, column)
    return table.append_column(SYMBOL, column)


def describe_files(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Path, size and time of change of each file."""
    found = []
    for file in files:
        status = file.stat()
        found.append({"path": str(file), "size": status.st_size, "changed": status.st_mtime_ns})
    return found
