"""Small panels and slow twins for the tests of this room."""

import numpy as np
import pandas as pd


def minutes(day, first, last):
    """(n,) stamps of `day` from `first` to `last`, both inclusive, a minute apart."""
    begin, end = np.datetime64(f"{day}T{first}", "ms"), np.datetime64(f"{day}T{last}", "ms")
    return np.arange(begin, end + np.timedelta64(1, "m"), np.timedelta64(60_000, "ms"))


def small_frame(n_days=3, n_bars=6, symbols=("000001", "000002", "600000"), seed=0):
    """A complete bar table: minutes from 09:31, weekdays from 2024-01-02."""
    rng = np.random.default_rng(seed)
    days = pd.bdate_range("2024-01-02", periods=n_days)
    stamps = np.concatenate([minutes(day.date(), "09:31", f"09:{30 + n_bars}") for day in days])
    parts = []
    for symbol in symbols:
        close = 10 * np.exp(np.cumsum(rng.normal(0, 0.01, len(stamps))))
        columns = {
            "datetime": stamps,
            "symbol": symbol,
            "open": close * 1.001,
            "high": close * 1.01,
            "low": close * 0.99,
            "close": close,
            "volume": rng.integers(1, 1000, len(stamps)) * 100,
            "amount": close * 5000,
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def random_sessions(rng, n_bars):
    """(T,) session numbers of random lengths."""
    return np.cumsum(np.concatenate([[0], rng.random(n_bars - 1) < 0.25])).astype(np.int32)


def slow_forward_return(price, session, horizon, lag, across_sessions):
    """The definition, cell by cell."""
    result = np.full(price.shape, np.nan)
    for t in range(len(price)):
        end = t + lag + horizon
        if end >= len(price) or (session[t] != session[end] and not across_sessions):
            continue
        for s in range(price.shape[1]):
            first, last = float(price[t + lag, s]), float(price[end, s])
            if first > 0 and last > 0 and np.isfinite(first) and np.isfinite(last):
                result[t, s] = last / first - 1
    return result


def slow_universe(panel, config):
    """The rules of `rlgen.panel.universe`, cell by cell."""
    close = panel.fields["close"].astype(float)
    volume = panel.fields["volume"].astype(float)
    amount = panel.fields["amount"].astype(float) if "amount" in panel.fields else close * volume
    starts = panel.session_starts
    result = np.isfinite(close)
    for s in range(len(starts) - 1):
        for k in range(close.shape[1]):
            before = [slice(starts[i], starts[i + 1]) for i in range(s)]
            bars = [np.isfinite(close[rows, k]) for rows in before]
            keep = True
            if config.minimum_price is not None:
                there = before and close[before[-1], k][bars[-1]]
                keep &= len(there) > 0 and there[-1] >= config.minimum_price
            if config.minimum_sessions is not None:
                keep &= sum(bar.any() for bar in bars) >= config.minimum_sessions
            if config.minimum_median_amount is not None:
                listed = next((i for i, bar in enumerate(bars) if bar.any()), s)
                traded = [
                    np.nansum(amount[rows, k]) for rows in before[max(listed, s - config.median_sessions) :]
                ]
                keep &= len(traded) > 0 and np.median(traded) >= config.minimum_median_amount
            if config.exclude_halted and before:
                keep &= np.nansum(volume[before[-1], k]) > 0
            result[starts[s] : starts[s + 1], k] &= keep
    return result


def same_panel(one, other):
    """Whether two panels hold the same in every attribute that calculations read."""
    assert list(one.fields) == list(other.fields)
    for name in one.fields:
        np.testing.assert_array_equal(one.fields[name], other.fields[name])
    for name in (
        "bars", "symbols", "session", "bar_of_session", "session_dates", "session_starts", "universe",
        "forward_return",
    ):  # fmt: skip
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.windows, one.min_periods, one.target) == (other.windows, other.min_periods, other.target)
