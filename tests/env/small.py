"""A pool on a small panel, and a grammar that compiles few kernels."""

import numpy as np

from rlgen.alphapool import AlphaPool
from rlgen.calculator import Calculator
from rlgen.panel import Panel

GRAMMAR = {"operators": ("Abs", "Sub", "Mean", "Delta"), "windows": (2, 5), "constants": (), "token_limit": 6}


def make_pool(capacity: int = 3) -> AlphaPool:
    rng = np.random.default_rng(1)
    close = 10 + rng.normal(0, 0.1, (80, 8)).cumsum(0)
    fields = {"close": close, "volume": rng.lognormal(5, 1, (80, 8))}
    panel = Panel.from_arrays(fields, rng.normal(0, 1e-3, (80, 8)), horizon=1, lag=1)
    return AlphaPool(Calculator(panel, "cpu", threads=1), capacity)
