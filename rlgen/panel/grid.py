"""From a clean bar table to dense (T, S) arrays.

1. The grid's bars are the union of all symbols' time stamps.
2. Every row gets its cell (bar, stock); rows of bars that do not count (outside the trading
   hours) are dropped and counted by symbol.
3. `Grid.dense` scatters one column into its cells; what no row fills is missing.

The table is what `rlgen.panel.clean` makes: its `symbol` is a dictionary in order, without unused
entries, so that the codes are the stocks' numbers. A duplicate cell is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rlgen.errors import DataError
from rlgen.panel.sessions import Calendar

Array = npt.NDArray[Any]

LARGEST = float(np.finfo(np.float32).max)


class Grid:
    """Where each row of a table lies in the panel.

    Attributes:
        symbols: (S,) str, sorted.
        calendar: the bars that count, in sessions.
        outside: rows dropped because their bar does not count, by symbol.
    """

    def __init__(
        self, table: pa.Table, calendar_of: Callable[[Array, Array], tuple[Array, Calendar]]
    ) -> None:
        """Lay out `table`.

        Args:
            table: `datetime`, `symbol` and other columns, N rows.
            calendar_of: takes all the table's bars (T',) and the number of each row's (N,),
                returns which bars count and their calendar, as `assign_sessions` does.

        Raises:
            DataError: the table is empty, or two rows are for one cell.
        """
        if not table.num_rows:
            raise DataError("the bar table has no rows")
        symbol = one_chunk(table, "symbol")
        self.symbols = np.asarray(symbol.dictionary.to_pylist(), dtype=np.str_)
        stock = symbol.indices.to_numpy(zero_copy_only=False).astype(np.int64)

        time = one_chunk(table, "datetime").cast(pa.timestamp("ms")).cast(pa.int64())
        coded = time.dictionary_encode()
        stamps = coded.dictionary.to_numpy(zero_copy_only=False)
        bars = np.sort(stamps)
        row_bar = np.searchsorted(bars, stamps)[coded.indices.to_numpy(zero_copy_only=False)]
        del coded, time
        kept, self.calendar = calendar_of(bars.astype("datetime64[ms]"), row_bar)

        self._rows: Array | None = None
        self.outside: dict[str, int] = {}
        if not kept.all():
            self._rows = kept[row_bar]
            dropped = np.bincount(stock[~self._rows], minlength=len(self.symbols))
            self.outside = {str(self.symbols[s]): int(dropped[s]) for s in np.flatnonzero(dropped)}
            stock, row_bar = stock[self._rows], (np.cumsum(kept) - 1)[row_bar[self._rows]]
        self.shape = (len(self.calendar.bars), len(self.symbols))
        self._cell = row_bar * self.shape[1] + stock
        self.n_rows = len(self._cell)
        seen = np.zeros(self.shape[0] * self.shape[1], dtype=bool)
        seen[self._cell] = True
        self.n_cells = int(np.count_nonzero(seen))
        if self.n_cells != self.n_rows:
            raise DataError(
                f"{self.n_rows - self.n_cells} rows are for a symbol and bar that another row has"
            )

    def dense(self, values: Array, fill: Any, dtype: npt.DTypeLike) -> Array:
        """(T, S) array of `values` (N,), one per row of the table, `fill` where there is no row."""
        result = np.full(self.shape, fill, dtype=dtype)
        result.reshape(-1)[self._cell] = values if self._rows is None else values[self._rows]
        return result


def one_chunk(table: pa.Table, name: str) -> pa.Array:
    """A column as one array. Raises DataError if it is absent or has missing values."""
    if name not in table.column_names:
        raise DataError(f"column {name} is missing; the columns are {', '.join(table.column_names)}")
    column = table.column(name)
    if column.null_count:
        raise DataError(f"column {name}: {column.null_count} of {len(column)} values are missing")
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def numbers(table: pa.Table, name: str) -> Array:
    """A numeric or boolean column as (N,) float64, NaN where missing, without a copy where it can."""
    column = table.column(name)
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if not pa.types.is_float64(array.type):
        if pa.types.is_boolean(array.type):
            array = array.cast(pa.int8())
        array = array.cast(pa.float64(), safe=False)
    return array.to_numpy(zero_copy_only=False)


def to_field(values: Array) -> tuple[Array, int]:
    """`values` as float32, and how many finite ones are missing now because they overflow it."""
    with np.errstate(over="ignore"):
        result = values.astype(np.float32)
    infinite = np.isinf(result)
    overflow = int(np.count_nonzero(infinite & np.isfinite(values))) if infinite.any() else 0
    result[infinite | np.isnan(result)] = np.nan  # one NaN, whatever the source's bits: fingerprints
    return result, overflow
