"""Every operator on (4800, 300) against pandas and against gathered windows, as alphagen does it.

    python -m benchmarks.operators [--quick]

`windows` is the plain method: a view of all windows (T, S, w) reduced with torch, in chunks of bars
so that it survives; it gives NaN for any window with a missing value, which is less work.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.panels import SMALL, random_panel
from benchmarks.timing import medians, report
from rlgen.calculator import Calculator
from rlgen.expression import OPERATORS, Call, Field

CHUNK_BARS = 240
PANDAS = {"Mean": "mean", "Sum": "sum", "Std": "std", "Var": "var", "Skew": "skew", "Kurt": "kurt"}
PANDAS |= {"Max": "max", "Min": "min", "Med": "median", "Rank": "rank", "Cov": "cov", "Corr": "corr"}
WINDOWS: dict[str, Callable[..., torch.Tensor]] = {
    "Mean": lambda x: x.mean(-1),
    "Sum": lambda x: x.sum(-1),
    "Std": lambda x: x.std(-1),
    "Var": lambda x: x.var(-1),
    "Max": lambda x: x.amax(-1),
    "Min": lambda x: x.amin(-1),
    "Med": lambda x: x.median(-1).values,
    "Mad": lambda x: (x - x.mean(-1, keepdim=True)).abs().mean(-1),
    "Rank": lambda x: (x <= x[..., -1:]).sum(-1) / x.shape[-1],
    "Cov": lambda x, y: ((x - x.mean(-1, keepdim=True)) * (y - y.mean(-1, keepdim=True))).mean(-1),
    "Corr": lambda x, y: torch.cosine_similarity(
        x - x.mean(-1, keepdim=True), y - y.mean(-1, keepdim=True), dim=-1
    ),
}


def gathered(reduce: Callable[..., torch.Tensor], window: int, *inputs: torch.Tensor) -> None:
    """Reduce all windows of the inputs, CHUNK_BARS at a time."""
    for low in range(0, len(inputs[0]) - window, CHUNK_BARS):
        reduce(*(x[low : low + CHUNK_BARS + window - 1].unfold(0, window, 1) for x in inputs))


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="fewer bars, windows and rounds")
    quick = arguments.parse_args().quick
    panel = random_panel(1200 if quick else SMALL[0], SMALL[1])
    rounds = 3 if quick else 5
    calculator = Calculator(panel, device="cpu")

    def evaluate(call: Call) -> None:
        calculator.clear_cache()
        calculator.evaluate(call)

    fields = [Field("close"), Field("volume")]
    frames = [pd.DataFrame(panel.fields[field.name]) for field in fields]
    tensors = [torch.from_numpy(np.array(panel.fields[field.name])) for field in fields]
    for name, operator in OPERATORS.items():
        for window in ([20] if quick else [20, 240]) if operator.has_window else [None]:
            call = Call(name, tuple(fields[: operator.arity]), window)
            contenders: dict[str, Callable[[], Any]] = {"rlgen": partial(evaluate, call)}
            if name in PANDAS and window is not None:
                rolling = frames[0].rolling(window, min_periods=window // 2)
                contenders["pandas"] = partial(getattr(rolling, PANDAS[name]), *frames[1 : operator.arity])
            if name in WINDOWS and window is not None:
                contenders["windows"] = partial(gathered, WINDOWS[name], window, *tensors[: operator.arity])
            report("operators", str(call), medians(contenders, rounds), bars=len(panel.bars))


if __name__ == "__main__":
    main()
