"""Random panels for benchmarks: prices that walk, volumes, missing cells."""

from __future__ import annotations

import numpy as np

from rlgen.panel import Panel

SMALL = (4800, 300)
LARGE = (24000, 500)
MISSING = 0.02


def random_panel(n_bars: int, n_stocks: int, seed: int = 0) -> Panel:
    """Six fields of n_bars × n_stocks with 2 % missing, 240 bars a session, a random forward return."""
    rng = np.random.default_rng(seed)
    shape = n_bars, n_stocks
    close = (100 * np.exp(0.001 * rng.normal(size=shape).cumsum(axis=0))).astype(np.float32)
    fields = {"close": close, "volume": np.exp(10 + rng.normal(size=shape)).astype(np.float32)}
    for name in ("open", "high", "low", "vwap"):
        fields[name] = close * (1 + 0.001 * rng.normal(size=shape)).astype(np.float32)
    for values in fields.values():
        values[rng.random(shape) < MISSING] = np.nan
    forward_return = 0.001 * rng.normal(size=shape).astype(np.float32)
    return Panel.from_arrays(fields, forward_return, session=np.arange(n_bars) // 240)
