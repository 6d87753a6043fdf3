"""Whole expressions against the plain method: uniform ones, and a stream as a policy writes it.

    python -m benchmarks.expressions [--quick] [--formulas 300] [--baseline-every 5]

Three streams: 300 uniform formulas of up to 15 and up to 30 tokens (fixed seeds, `--seed` for others), and
`stream.txt`, 300 candidates in a row from the end of a training run on the demo. rlgen evaluates each
stream as training does, in batches with shared subexpressions; for the median and the share of slower
ones each formula is evaluated alone besides. The plain method (`unfold`) takes every n-th formula
on the large panel, where all would take an hour.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np

from benchmarks.panels import LARGE, SMALL, random_panel
from benchmarks.timing import copy_bandwidth
from benchmarks.unfold import Unfold
from rlgen.calculator import Calculator
from rlgen.calculator.program import Program
from rlgen.expression import Expression, Grammar, Vocabulary, parse, uniform_expressions
from rlgen.panel import Panel

WINDOWS = (5, 20, 60, 240)
STREAM = Path(__file__).with_name("stream.txt")


def streams(panel: Panel, n: int, seed: int) -> dict[str, list[Expression]]:
    """Formulas by the stream's name."""
    vocabulary = Vocabulary(list(panel.fields), windows=WINDOWS, constants=(-1.0, 0.5, 2.0))
    found = {
        f"uniform, {limit} tokens": uniform_expressions(Grammar(vocabulary, limit), n, seed=seed + limit)
        for limit in (15, 30)
    }
    found["training stream"] = [parse(line) for line in STREAM.read_text().splitlines()[:n]]
    # A bare field has nothing to evaluate: the plain method hands out the panel's own array.
    return {name: [f for f in formulas if f.n_tokens > 1] for name, formulas in found.items()}


def measure(panel: Panel, name: str, formulas: list[Expression], every: int, bandwidth: float) -> None:
    """Time one stream and print its line."""
    calculator = Calculator(panel, device="cpu")
    plain = Unfold(panel)

    def in_batches() -> float:
        calculator.clear_cache()
        start = time.perf_counter()
        for _ in calculator.evaluate_batch(formulas):
            pass
        return time.perf_counter() - start

    in_batches()
    total = statistics.median(in_batches() for _ in range(3))
    own: list[float] = []
    theirs: list[float] = []
    for formula in formulas[::every]:
        calculator.clear_cache()
        start = time.perf_counter()
        calculator.evaluate(formula)
        own.append(time.perf_counter() - start)
        start = time.perf_counter()
        plain.evaluate(formula)
        theirs.append(time.perf_counter() - start)
    cells = float(np.prod(panel.shape))
    nodes = sum(node.expression.n_tokens > 1 for f in formulas for node in Program([f.canonical()]).nodes)
    floor = sum(4 * cells * (len(set(f.fields)) + 1) for f in formulas) / bandwidth
    ratios = [b / a for a, b in zip(own, theirs, strict=True)]
    line = {
        "benchmark": "expressions",
        "stream": name,
        "bars": len(panel.bars),
        "stocks": len(panel.symbols),
        "formulas": len(formulas),
        "per_second": round(len(formulas) / total, 1),
        "billion_cell_nodes_per_second": round(nodes * cells / total / 1e9, 2),
        "times_floor": round(total / floor, 1),
        "plain_formulas": len(theirs),
        "total_ratio": round(sum(theirs) / len(theirs) / (total / len(formulas)), 1),
        "total_ratio_one_by_one": round(sum(theirs) / sum(own), 1),
        "median_ratio": round(statistics.median(ratios), 1),
        "share_slower": round(float(np.mean([ratio < 1 for ratio in ratios])), 4),
    }
    print(json.dumps(line), flush=True)
    calculator.close()


def main() -> None:
    """Every stream on every panel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,200 bars, 15 formulas a stream")
    parser.add_argument("--formulas", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--baseline-every", type=int, default=10, help="on the large panel")
    given = parser.parse_args()
    bandwidth = copy_bandwidth()
    for shape in [(1200, 300)] if given.quick else [SMALL, LARGE]:
        panel = random_panel(*shape)
        every = given.baseline_every if shape == LARGE else 1
        for name, formulas in streams(panel, 15 if given.quick else given.formulas, given.seed).items():
            measure(panel, name, formulas, every, bandwidth)


if __name__ == "__main__":
    main()
