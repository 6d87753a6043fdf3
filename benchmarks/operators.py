"""Every operator × windows × panels against pandas, bottleneck, numbagg and the plain method.

    python -m benchmarks.operators [--quick] [--operators Med Rank] [--without windows]

All contenders take turns in one process; medians and ratios to rlgen are reported, and how many times the
bandwidth floor rlgen takes: one read of each distinct input and one write of the result, at the speed
at which all threads copy memory. `*` marks contenders that fail the hostile series of the tests
(running sums keep traces of outliers): they are shown, not counted.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import bottleneck
import numbagg
import numpy as np
import pandas as pd

from benchmarks.panels import LARGE, SMALL, random_panel
from benchmarks.timing import copy_bandwidth, medians, report
from benchmarks.unfold import Unfold
from rlgen.calculator import Calculator
from rlgen.expression import OPERATORS, Call, Field
from rlgen.panel import Panel

WINDOWS = (5, 20, 60, 240)
FIELDS = ("close", "volume")
RUNNING = {"Mean", "Sum", "Std", "Var", "Skew", "Kurt", "Cov", "Corr"}
"""Operators that the other libraries compute by running sums."""
PANDAS = {
    "Mean": "mean",
    "Sum": "sum",
    "Std": "std",
    "Var": "var",
    "Skew": "skew",
    "Kurt": "kurt",
    "Max": "max",
    "Min": "min",
    "Med": "median",
    "Rank": "rank",
    "Cov": "cov",
    "Corr": "corr",
}
BOTTLENECK = {
    "Mean": "move_mean",
    "Sum": "move_sum",
    "Std": "move_std",
    "Var": "move_var",
    "Max": "move_max",
    "Min": "move_min",
    "Med": "move_median",
    "Rank": "move_rank",
    "ArgMax": "move_argmax",
    "ArgMin": "move_argmin",
}
NUMBAGG = {
    "Mean": "move_mean",
    "Sum": "move_sum",
    "Std": "move_std",
    "Var": "move_var",
    "Cov": "move_cov",
    "Corr": "move_corr",
}
SLOWEST_PLAIN = 60
"""Windows up to which the plain method's slow statistics are timed on the large panel."""


def contenders(panel: Panel, skip: set[str]) -> Callable[[Call], dict[str, Callable[[], Any]]]:
    """What computes a call, by name; rlgen first."""
    calculator = Calculator(panel, device="cpu")
    plain = Unfold(panel)
    arrays = {name: np.array(panel.fields[name]) for name in FIELDS}
    doubles = {name: values.astype(np.float64) for name, values in arrays.items()}
    frames = {name: pd.DataFrame(values) for name, values in arrays.items()}

    def rlgen(call: Call) -> None:
        calculator.clear_cache()
        calculator.evaluate(call)

    def others(call: Call) -> Iterator[tuple[str, Callable[[], Any]]]:
        names = [operand.name for operand in call.operands if isinstance(operand, Field)]
        name, window = call.operator, call.window
        if window is None:
            if name == "CSRank":
                yield "pandas", partial(frames[names[0]].rank, axis=1, pct=True)
            yield "windows", partial(plain.evaluate, call)
            return
        star = "*" if name in RUNNING else ""
        if name in PANDAS:
            rolling = frames[names[0]].rolling(window, min_periods=window // 2)
            yield "pandas" + star, partial(getattr(rolling, PANDAS[name]), *(frames[n] for n in names[1:]))
        if name in BOTTLENECK:
            function = getattr(bottleneck, BOTTLENECK[name])
            yield "bottleneck" + star, partial(function, arrays[names[0]], window, window // 2, axis=0)
        if name in NUMBAGG:
            function = getattr(numbagg, NUMBAGG[name])
            columns = [np.asfortranarray(doubles[n]) for n in names]
            yield (
                "numbagg" + star,
                partial(function, *columns, window=window, min_count=window // 2, axis=0),
            )
        if len(panel.bars) * window <= SMALL[0] * max(WINDOWS) * 2 or window <= SLOWEST_PLAIN:
            yield "windows", partial(plain.evaluate, call)

    def of(call: Call) -> dict[str, Callable[[], Any]]:
        found = {"rlgen": partial(rlgen, call), **dict(others(call))}
        return {name: run for name, run in found.items() if name.rstrip("*") not in skip}

    return of


def main() -> None:
    """Print the table of each panel, and what to remember of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the small panel's first bars, one window")
    parser.add_argument("--operators", nargs="*", default=list(OPERATORS), choices=list(OPERATORS))
    parser.add_argument("--without", nargs="*", default=[], help="contenders to leave out")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    bandwidth = copy_bandwidth()
    print(json.dumps({"benchmark": "bandwidth", "gigabytes_per_second": round(bandwidth / 1e9, 1)}))
    for shape in [(1200, 300)] if given.quick else [SMALL, LARGE]:
        panel = random_panel(*shape)
        of = contenders(panel, set(given.without))
        slower = []
        for name in given.operators:
            operator = OPERATORS[name]
            operands = tuple(Field(field) for field in FIELDS[: operator.arity])
            windows = ([20] if given.quick else list(WINDOWS)) if operator.has_window else [None]
            for window in windows:
                call = Call(name, operands, window)
                times = medians(of(call), 2 if given.quick else given.rounds)
                floor = 4 * np.prod(shape) * (len(operands) + 1) / bandwidth
                report(
                    "operators",
                    str(call),
                    times,
                    bars=shape[0],
                    stocks=shape[1],
                    times_floor=round(times["rlgen"] / floor, 2),
                )
                slower += [
                    f"{call} against {other}"
                    for other, seconds in times.items()
                    if not other.endswith("*") and seconds < times["rlgen"]
                ]
        print(f"{shape}: slower than a contender that counts: {', '.join(slower) or 'none'}", flush=True)


if __name__ == "__main__":
    main()
