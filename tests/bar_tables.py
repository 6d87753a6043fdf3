"""Small bar tables for the tests of schema, adapters and reading."""

import datetime as dt

import pyarrow as pa

FIRST = dt.datetime(2024, 1, 2, 9, 31)  # A Tuesday.


def stamps(n, first=FIRST):
    """`n` minutes from `first` on."""
    return [first + dt.timedelta(minutes=k) for k in range(n)]


def bar_table(symbols=("000001", "600000"), days=2, minutes=3, first=FIRST, **columns):
    """A complete table sorted by symbol and time; prices tell symbol, day and minute apart.

    `columns` replace or add whole columns.
    """
    rows = [
        (first + dt.timedelta(days=day, minutes=minute), symbol, 10.0 * (number + 1) + day + minute / 10)
        for number, symbol in enumerate(symbols)
        for day in range(days)
        for minute in range(minutes)
    ]
    close = [row[2] for row in rows]
    table = {
        "datetime": pa.array([row[0] for row in rows], pa.timestamp("ms")),
        "symbol": pa.array([row[1] for row in rows]),
        "open": [price - 0.01 for price in close],
        "high": [price + 0.05 for price in close],
        "low": [price - 0.05 for price in close],
        "close": close,
        "volume": [100 * (k + 1) for k in range(len(rows))],
    }
    return pa.table(table | columns)


def rows_of(table):
    """A table's rows as sets of items, for comparing without order."""
    return sorted(map(str, table.to_pylist()))
