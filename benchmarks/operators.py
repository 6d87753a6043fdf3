"""Every operator × windows × panels against pandas, bottleneck, numbagg and the plain method.

    python -m benchmarks.operators [--quick] [--operators Med Rank] [--without windows]

All contenders take turns in one process; medians and ratios to rlgen are reported, and how many times the
bandwidth floor rlgen takes: one read of each distinct input and one write of the result, at the speed
at which all threads copy memory. Before an operator is timed, every contender computes it on the tests'
hostile series (missing cells, ticks at 1e4, volumes of 1e9, outliers of 1e15); `*` marks those that miss the
definition there, most of them because running sums keep traces of outliers, or because a missing value
spoils its window: they are shown, not counted.
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
from rlgen.expression import OPERATORS, Call, Field, minimum_periods
from rlgen.panel import Panel
from tests import reference
from tests.hostile import assert_matches, hostile_fields

WINDOWS = (5, 20, 60, 240)
FIELDS = ("close", "volume")
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
    """What computes a call on a panel, by name; rlgen first. Each gives (T, S) values."""
    calculator = Calculator(panel, device="cpu")
    plain = Unfold(panel)
    arrays = {name: np.array(values) for name, values in panel.fields.items()}
    doubles = {name: np.asfortranarray(values.astype(np.float64)) for name, values in arrays.items()}
    frames = {name: pd.DataFrame(values) for name, values in arrays.items()}

    def rlgen(call: Call) -> Any:
        calculator.clear_cache()
        return calculator.evaluate(call)

    def others(call: Call) -> Iterator[tuple[str, Callable[[], Any]]]:
        names = [operand.name for operand in call.operands if isinstance(operand, Field)]
        name, window = call.operator, call.window
        if window is None:
            if name == "CSRank":
                yield "pandas", partial(frames[names[0]].rank, axis=1, pct=True)
            yield "windows", partial(plain.evaluate, call)
            return
        least = minimum_periods(OPERATORS[name], window, panel.min_periods)
        if name in PANDAS:
            rolling = frames[names[0]].rolling(window, min_periods=least)
            yield "pandas", partial(getattr(rolling, PANDAS[name]), *(frames[n] for n in names[1:]))
        if name in BOTTLENECK:
            function = getattr(bottleneck, BOTTLENECK[name])
            more = {"ddof": 1} if name in ("Std", "Var") else {}
            yield "bottleneck", partial(function, arrays[names[0]], window, least, axis=0, **more)
        if name in NUMBAGG:
            function = getattr(numbagg, NUMBAGG[name])
            columns = [doubles[n] for n in names]
            yield "numbagg", partial(function, *columns, window=window, min_count=least, axis=0)
        if len(panel.bars) * window <= SMALL[0] * max(WINDOWS) * 2 or window <= SLOWEST_PLAIN:
            yield "windows", partial(plain.evaluate, call)

    def of(call: Call) -> dict[str, Callable[[], Any]]:
        found = {"rlgen": partial(rlgen, call), **dict(others(call))}
        return {name: run for name, run in found.items() if name not in skip}

    return of


class Hostile:
    """The hostile series, and who computes an operator on them as it is defined."""

    def __init__(self) -> None:
        # One stock, so that no larger neighbour in a bar excuses a trace that an outlier left.
        self.panel = Panel.from_arrays(hostile_fields(400, 1))
        self._of = contenders(self.panel, set())

    def failing(self, name: str, window: int | None) -> set[str]:
        """The contenders that miss the definition on any series."""
        fields = [Field(field) for field in self.panel.fields if field != "empty"]
        pairs = zip(fields, fields[1:] + fields[:1], strict=True)
        calls = [
            Call(name, operands, window)
            for operands in (pairs if OPERATORS[name].arity == 2 else [(field,) for field in fields])
        ]
        unit = 1.0 if OPERATORS[name].unit == "none" else 0.0
        failed: set[str] = set()
        for call in calls:
            with np.errstate(all="ignore"):
                wanted = reference.evaluate(
                    call, self.panel.fields, self.panel.universe, None, self.panel.min_periods
                )
            for contender, run in self._of(call).items():
                values = np.asarray(run(), np.float64)
                if contender == "bottleneck" and name == "Rank":  # from −1 to 1 there
                    present = pd.DataFrame(self.panel.fields[min(call.fields)]).rolling(window, 1).count()
                    values = ((values * (present - 1) + present + 1) / 2 / present).to_numpy()
                try:
                    assert_matches(values, wanted, call, unit=unit)
                except AssertionError:
                    failed.add(contender)
        return failed


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
    hostile = Hostile()
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
                failing = hostile.failing(name, window)
                assert "rlgen" not in failing, call
                times = {
                    contender + "*" * (contender in failing): seconds
                    for contender, seconds in medians(of(call), 2 if given.quick else given.rounds).items()
                }
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
