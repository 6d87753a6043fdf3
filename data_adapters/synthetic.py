"""Synthetic minute bars that look like a market, with formulas planted in their forward return.

The market, all arrays (S, T), prices in ticks of 0.01:

1. Volatility of a bar: the stock's level × a U over the session × slow clusters, those of the
   whole market and the stock's own (AR(1) in logs).
2. Efficient price: a common factor times the stock's beta, plus the stock's own moves, both
   Student-t, plus a gap over each night.
3. Observed price: the efficient one half a spread up or down at random (the bounce between bid and
   ask, which makes successive returns slightly negatively correlated), rounded to ticks.
4. Volume: the stock's level × a U × clusters that last × more when the price moves, in lots of 100.
5. Bars without volume repeat the last price; then halted days, days before a late listing and single
   missing bars are taken out.

`plant_forward_return` adds the column `forward_return`: the stock's actual price return over the
horizon, after the lag, in which a part of the cross-sectional dispersion is replaced by the planted
signal. Adapters do not know formulas, so the signal's values come from the caller.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.signal import lfilter

from rlgen.errors import ConfigError, DataError
from rlgen.files import write_atomically
from rlgen.schema import DATETIME, STAMP, SYMBOL

VERSION = 1
"""Of the generator: files written by another one are not current."""
SETTINGS = b"rlgen.synthetic"
FORWARD_RETURN = "forward_return"

OPEN_MINUTE, LUNCH_MINUTES, AFTERNOON_MINUTE = 9 * 60 + 30, 90, 13 * 60
LONGEST_SESSION = 720
MINUTE = 60_000  # ms
TICKS_PER_UNIT = 100
LOT = 100

Array = np.ndarray[Any, np.dtype[Any]]


class SyntheticMarket:
    """The synthetic market as an adapter: made anew for each call, nothing on disk, nothing planted."""

    per_call = "range"

    def __init__(
        self,
        *,
        seed: int = 0,
        n_stocks: int = 100,
        n_sessions: int = 20,
        session_minutes: int = 240,
        start: dt.date = dt.date(2024, 1, 2),
        halted: float = 0.002,
        late_listed: float = 0.04,
        missing: float = 0.005,
        zero_volume: float = 0.01,
    ) -> None:
        """Options as those of `generate_bars`."""
        self.settings: dict[str, Any] = {
            "seed": seed,
            "n_stocks": n_stocks,
            "n_sessions": n_sessions,
            "session_minutes": session_minutes,
            "start": dt.date.fromisoformat(str(start)),
            "halted": halted,
            "late_listed": late_listed,
            "missing": missing,
            "zero_volume": zero_volume,
        }

    def bars(
        self,
        start: dt.date | None,
        end: dt.date | None,
        fields: Sequence[str] | None,
        symbols: Sequence[str] | None,
    ) -> pa.Table:
        """The whole market; the reader cuts."""
        return generate_bars(**self.settings)

    def describe(self) -> dict[str, Any]:
        """The settings, which determine every value."""
        return {"adapter": "synthetic", "version": VERSION, "settings": settings_text(self.settings)}


def generate_bars(
    *,
    seed: int = 0,
    n_stocks: int = 100,
    n_sessions: int = 20,
    session_minutes: int = 240,
    start: dt.date = dt.date(2024, 1, 2),
    halted: float = 0.002,
    late_listed: float = 0.04,
    missing: float = 0.005,
    zero_volume: float = 0.01,
) -> pa.Table:
    """A bar table, sorted by symbol and time: datetime, symbol, open, high, low, close, volume, amount.

    Args:
        seed: the same seed gives the same values.
        n_stocks: stocks, called 000001, 000002, …
        n_sessions: trading days.
        session_minutes: bars per day, half of them before the lunch break; stamps mark a bar's end,
            09:31 to 11:30 and 13:01 to 15:00 for 240.
        start: the first trading day; weekends are skipped.
        halted: share of (stock, day) pairs without any bar.
        late_listed: share of stocks that list after the first day.
        missing: share of single bars that are missing.
        zero_volume: share of bars with zero volume and an unchanged price.

    Raises:
        ConfigError: a size that is not positive, a share outside 0 to 1, a session over 12 hours.
    """
    for name, size in (
        ("n_stocks", n_stocks),
        ("n_sessions", n_sessions),
        ("session_minutes", session_minutes),
    ):
        if size < 1:
            raise ConfigError(f"synthetic: {name} must be above zero, was {size}")
    if session_minutes > LONGEST_SESSION:
        raise ConfigError(
            f"synthetic: session_minutes must be {LONGEST_SESSION} or less, was {session_minutes}"
        )
    shares = {"halted": halted, "late_listed": late_listed, "missing": missing, "zero_volume": zero_volume}
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise ConfigError(f"synthetic: {name} must be a share from 0 to 1, was {share}")

    rng = np.random.default_rng(seed)
    shape = (n_stocks, n_sessions * session_minutes)
    volatility, market_volatility = volatilities(rng, n_stocks, n_sessions, session_minutes)
    move, gap = moves(rng, volatility, market_volatility, session_minutes)
    level = np.log(np.clip(30 * np.exp(0.6 * rng.standard_normal((n_stocks, 1))), 5, 300))
    after = np.exp(level + np.cumsum(move + gap, axis=1))
    before = after * np.exp(-move)  # After the night, before the bar's own move.
    half_spread = 2e-4 * np.exp(0.3 * rng.standard_normal((n_stocks, 1)))

    def observed(price: Array) -> Array:
        side = np.where(rng.random(shape) < 0.5, -half_spread, half_spread)
        return np.maximum(np.rint(price * (1 + side) * TICKS_PER_UNIT), 1.0)

    open_, close = observed(before), observed(after)
    reach = 0.6 * volatility
    high = np.ceil(np.maximum(open_, close) * np.exp(reach * np.abs(rng.standard_normal(shape))))
    low = np.floor(np.minimum(open_, close) * np.exp(-reach * np.abs(rng.standard_normal(shape))))
    low = np.maximum(low, 1.0)
    volume = volumes(rng, volatility, np.abs(move + gap), n_sessions, session_minutes)

    present = presence(rng, n_stocks, n_sessions, session_minutes, halted, late_listed, missing)
    quiet = rng.random(shape) < zero_volume
    last = np.maximum.accumulate(np.where(present & ~quiet, np.arange(shape[1]), -1), axis=1)
    quiet &= last >= 0  # A stock's first bar has a price of its own.
    repeated = np.take_along_axis(close, np.maximum(last, 0), axis=1)
    open_, high, low, close = (np.where(quiet, repeated, price) for price in (open_, high, low, close))
    volume = np.where(quiet, 0.0, volume)
    average = (open_ + high + low + close) / (4 * TICKS_PER_UNIT)

    columns = {
        "open": open_ / TICKS_PER_UNIT,
        "high": high / TICKS_PER_UNIT,
        "low": low / TICKS_PER_UNIT,
        "close": close / TICKS_PER_UNIT,
        "volume": volume,
        "amount": np.round(average * volume, 2),
    }
    stock, bar = np.nonzero(present)
    names = pa.array([f"{number:06d}" for number in range(1, n_stocks + 1)])
    table: dict[str, Any] = {
        DATETIME: pa.array(bar_stamps(start, n_sessions, session_minutes)[bar]).cast(STAMP),
        SYMBOL: names.take(pa.array(stock)),
    }
    return pa.table(table | {name: pa.array(values[stock, bar]) for name, values in columns.items()})


def bar_stamps(start: dt.date, n_sessions: int, session_minutes: int) -> Array:
    """(T,) int64 milliseconds: the end of each bar."""
    first = start + dt.timedelta(days=max(0, 7 - start.weekday()) if start.weekday() >= 5 else 0)
    days = np.busday_offset(np.datetime64(first, "D"), np.arange(n_sessions))
    minutes = np.arange(1, session_minutes + 1)
    morning = (session_minutes + 1) // 2
    # Lunch is at one o'clock, or where a long morning leaves no room for that, 90 minutes later.
    afternoon = max(AFTERNOON_MINUTE, OPEN_MINUTE + morning + LUNCH_MINUTES) - morning
    of_day = minutes + np.where(minutes <= morning, OPEN_MINUTE, afternoon)
    return (days.astype("datetime64[ms]").astype(np.int64)[:, None] + of_day * MINUTE).ravel()


def smile(session_minutes: int, opening: float, closing: float) -> Array:
    """(bars of a session,) a U with the mean of its squares 1: high at the open, less so at the close."""
    at = np.arange(session_minutes) / session_minutes
    curve = 1 + opening * np.exp(-at / 0.08) + closing * np.exp(-(1 - at) / 0.06)
    return curve / np.sqrt(np.mean(curve**2))


def cluster(rng: np.random.Generator, shape: tuple[int, ...], memory: float, spread: float) -> Array:
    """A stationary-looking AR(1) along the last axis: correlation `memory`, standard deviation `spread`."""
    noise = rng.standard_normal(shape)
    noise[..., 0] /= np.sqrt(1 - memory**2)  # Start in the stationary distribution.
    return np.asarray(lfilter([spread * np.sqrt(1 - memory**2)], [1, -memory], noise, axis=-1))


def student(rng: np.random.Generator, freedom: float, shape: tuple[int, ...]) -> Array:
    """Student-t draws with variance 1."""
    return np.asarray(rng.standard_t(freedom, shape) / np.sqrt(freedom / (freedom - 2)))


def volatilities(
    rng: np.random.Generator, n_stocks: int, n_sessions: int, session_minutes: int
) -> tuple[Array, Array]:
    """Standard deviation of a bar's own move (S, T), and of the common factor (T,)."""
    length = n_sessions * session_minutes
    curve = np.tile(smile(session_minutes, 2.0, 0.8), n_sessions)
    market = np.exp(cluster(rng, (length,), 0.998, 0.25))
    level = 7e-4 * np.exp(0.35 * rng.standard_normal((n_stocks, 1)))
    own = np.exp(cluster(rng, (n_stocks, length), 0.985, 0.35))
    return level * own * market * curve, 2.5e-4 * market * curve


def moves(
    rng: np.random.Generator, volatility: Array, market_volatility: Array, session_minutes: int
) -> tuple[Array, Array]:
    """Log moves within bars and over the nights before them, both (S, T)."""
    n_stocks, length = volatility.shape
    beta = np.clip(1 + 0.35 * rng.standard_normal((n_stocks, 1)), 0.1, None)
    common = market_volatility * student(rng, 4, (length,))
    move = beta * common + volatility * student(rng, 5, (n_stocks, length))
    gap = np.zeros_like(move)
    nights = slice(session_minutes, None, session_minutes)
    night = 3e-3 * student(rng, 4, (1, gap[:, nights].shape[1]))
    level = volatility.mean(axis=1, keepdims=True)
    gap[:, nights] = beta * night + 8 * level * student(rng, 4, gap[:, nights].shape)
    return np.clip(move, -0.1, 0.1), np.clip(gap, -0.2, 0.2)


def volumes(
    rng: np.random.Generator, volatility: Array, size: Array, n_sessions: int, session_minutes: int
) -> Array:
    """(S, T) shares traded, in lots; `size` is the absolute move."""
    n_stocks = len(volatility)
    level = np.log(2e4) + rng.standard_normal((n_stocks, 1))
    curve = np.tile(np.log(smile(session_minutes, 2.5, 1.5)), n_sessions)
    activity = cluster(rng, volatility.shape, 0.96, 0.5)
    surprise = 0.5 * np.log(0.3 + size / volatility)
    whim = 0.4 * rng.standard_normal(volatility.shape)
    return np.maximum(np.rint(np.exp(level + curve + activity + surprise + whim) / LOT), 1) * LOT


def presence(
    rng: np.random.Generator,
    n_stocks: int,
    n_sessions: int,
    session_minutes: int,
    halted: float,
    late_listed: float,
    missing: float,
) -> Array:
    """(S, T) bool: which bars exist."""
    days = rng.random((n_stocks, n_sessions)) >= halted
    late = rng.permutation(n_stocks)[: round(late_listed * n_stocks)]
    if n_sessions > 1:
        listing = rng.integers(1, max(2, n_sessions // 2 + 1), len(late))
        days[late] &= np.arange(n_sessions) >= listing[:, None]
    present = np.repeat(days, session_minutes, axis=1)
    return present & (rng.random(present.shape) >= missing)


def plant_forward_return(
    table: pa.Table,
    bars: Array,
    symbols: Sequence[str],
    signal: Array,
    *,
    information_coefficient: float,
    horizon: int,
    lag: int,
) -> pa.Table:
    """`table` with the column `forward_return` (missing where its prices are), in which `signal` is planted.

    With R the return of `close` from bar t+lag to t+lag+horizon, within one date, m and d its mean and
    standard deviation across the bar, x = (R - m) / d and z the signal's z-score across the bar,

        forward_return = m + d · (c · z + √(1 - c²) · (x - ρ z))

    ρ is the correlation of x and z over all cells (chance, taken out as one number: single bars keep
    theirs), and c is such that the signal's pooled IC over the whole table is the one asked for. So
    the column has the scale, the fat tails and the changing dispersion of real returns.

    Args:
        table: bars as `generate_bars` makes them.
        bars: (T,) all time stamps of the table, ascending.
        symbols: (S,) the names of the signal's columns.
        signal: (T, S) values; NaN where there are none: no return is planted there.
        information_coefficient: pooled IC of the signal with the column, 0 to 1.
        horizon, lag: in bars.

    Raises:
        DataError: a stamp or symbol of the table is not among `bars` and `symbols`, or the shape differs.
    """
    stamps = np.asarray(bars, dtype="datetime64[ms]")
    signal = np.asarray(signal, dtype=np.float64)
    if signal.shape != (len(stamps), len(symbols)):
        raise DataError(
            f"planted signal: must have the shape {(len(stamps), len(symbols))}, was {signal.shape}"
        )
    row_stamps = table[DATETIME].to_numpy().astype("datetime64[ms]")
    at = np.searchsorted(stamps, row_stamps)
    number = {name: column for column, name in enumerate(symbols)}
    coded = table[SYMBOL].dictionary_encode().combine_chunks()
    column = np.array([number.get(name, -1) for name in coded.dictionary.to_pylist()])[
        coded.indices.to_numpy()
    ]
    if not (stamps[np.minimum(at, len(stamps) - 1)] == row_stamps).all() or (column < 0).any():
        raise DataError("planted signal: the table has time stamps or symbols that the signal lacks")

    close = np.full(signal.shape, np.nan)
    close[at, column] = table["close"].to_numpy()
    forward = price_return(close, stamps.astype("datetime64[D]"), horizon, lag)
    planted = planted_return(forward, signal, information_coefficient)
    return table.append_column(FORWARD_RETURN, pa.array(planted[at, column]))


def price_return(close: Array, dates: Array, horizon: int, lag: int) -> Array:
    """(T, S) return from t+lag to t+lag+horizon where both are on the date of t, else NaN."""
    result = np.full(close.shape, np.nan)
    length = len(close) - lag - horizon
    if length > 0:
        with np.errstate(invalid="ignore", divide="ignore"):
            result[:length] = close[lag + horizon :] / close[lag : lag + length] - 1
        result[:length][dates[lag + horizon :] != dates[:length]] = np.nan
    return result


def planted_return(forward: Array, signal: Array, information_coefficient: float) -> Array:
    """(T, S) the forward return of `plant_forward_return`, from the price return and the signal."""
    mean, deviation, noise = standardised(forward)
    z = standardised(np.where(np.isfinite(forward), signal, np.nan))[2]
    both = np.isfinite(z) & (z != 0).any(axis=1, keepdims=True)  # The cells that an IC looks at.
    z = np.where(both, z, 0.0)
    noise = noise - z * (np.nansum(noise * z) / max(np.sum(z * z), 1.0))
    strength = information_coefficient
    for _ in range(4):  # The bars' chance correlations differ; two rounds settle it to 1e-6.
        part = strength * z + np.sqrt(1 - strength**2) * noise
        if not (0 < information_coefficient < 1 and both.any()):
            break
        reached = np.nansum(standardised(np.where(both, part, np.nan))[2] * z) / both.sum()
        strength = min(max(strength * information_coefficient / max(reached, 1e-9), 0.0), 1.0)
    return mean + deviation * part


def standardised(values: Array) -> tuple[Array, Array, Array]:
    """Mean (T, 1), standard deviation (T, 1) and z-score (T, S) across each bar's finite values.

    A bar without spread has z-scores of 0, one without values NaN.
    """
    finite = np.isfinite(values)
    count = np.maximum(finite.sum(axis=1, keepdims=True), 1)
    mean = np.where(finite, values, 0.0).sum(axis=1, keepdims=True) / count
    centred = np.where(finite, values - mean, np.nan)
    deviation = np.sqrt(np.nansum(centred**2, axis=1, keepdims=True) / count)
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.where(deviation > 0, centred / deviation, centred * 0.0)
    return mean, deviation, z


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings as one canonical text."""
    return json.dumps({"version": VERSION, **settings}, sort_keys=True, default=str)


def write(table: pa.Table, path: str | Path, settings: Mapping[str, Any]) -> None:
    """Write a bar table as parquet in one step, with the settings that it was made with inside."""
    marked = table.replace_schema_metadata({SETTINGS: settings_text(settings)})
    with write_atomically(path) as temporary:
        pq.write_table(marked, temporary, compression="zstd", row_group_size=2**17)


def is_current(path: str | Path, settings: Mapping[str, Any]) -> bool:
    """Whether `path` is a file that `write` wrote with the same settings and this generator."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException):
        return False
    return metadata.get(SETTINGS) == settings_text(settings).encode()
