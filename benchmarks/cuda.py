"""The whole table on a GPU: every operator, whole expressions, scoring; in one short run.

    python -m benchmarks.cuda [--quick] [--bars 24000 --stocks 500]

Each operator × windows 5/20/60/240 on a random panel; 60 uniform formulas of up to 15 tokens; a pool of 20
that is offered them. The values are compared with the CPU's: the largest relative difference stands in
each line, as times of wrong numbers are worth nothing. Without a GPU it says so and leaves.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.expressions import WINDOWS
from benchmarks.operators import FIELDS
from benchmarks.panels import LARGE, random_panel
from rlgen.alphapool import AlphaPool
from rlgen.calculator import Calculator
from rlgen.expression import OPERATORS, Call, Field, Grammar, Vocabulary, uniform_expressions
from rlgen.panel import Panel


def seconds(run: Callable[[], Any], rounds: int) -> float:
    """Median seconds of a run that ends when the GPU is done, after one that is not counted."""
    found = []
    for _ in range(rounds + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return statistics.median(found[1:])


def difference(own: torch.Tensor, other: torch.Tensor) -> float:
    """Largest |own − other| / max(|other|, 1e-6 of its largest); infinite where only one is missing."""
    own, other = own.double().cpu(), other.double().cpu()
    present = torch.isfinite(other)
    if not torch.equal(present, torch.isfinite(own)):
        return float("inf")
    own, other = own[present], other[present]
    if own.numel() == 0:
        return 0.0
    return float(
        ((own - other).abs() / other.abs().clamp(min=1e-6 * float(other.abs().max()))).nan_to_num().max()
    )


def operators(panel: Panel, rounds: int) -> None:
    """One line per operator and window."""
    on_gpu, on_cpu = Calculator(panel, device="cuda", memory_budget=2**34), Calculator(panel, device="cpu")
    cells = panel.shape[0] * panel.shape[1]
    for name, operator in OPERATORS.items():
        operands = tuple(Field(field) for field in FIELDS[: operator.arity])
        for window in WINDOWS if operator.has_window else [None]:
            call = Call(name, operands, window)

            def run(call: Call = call) -> None:
                on_gpu.clear_cache()
                on_gpu.evaluate(call)

            torch.cuda.reset_peak_memory_stats()
            own = seconds(run, rounds)
            line = {
                "benchmark": "cuda operators",
                "row": str(call),
                "milliseconds": round(1e3 * own, 3),
                "ns_per_cell": round(1e9 * own / cells, 3),
                "peak_mb": round(torch.cuda.max_memory_allocated() / 1e6),
                "difference_to_cpu": difference(on_gpu.evaluate(call), on_cpu.evaluate(call)),
            }
            print(json.dumps(line), flush=True)
            on_cpu.clear_cache()


def expressions(panel: Panel, n: int) -> None:
    """Uniform formulas evaluated in batches, then offered to a pool."""
    calculator = Calculator(panel, device="cuda", memory_budget=2**34)
    vocabulary = Vocabulary(list(panel.fields), windows=WINDOWS, constants=(-1.0, 0.5, 2.0))
    formulas = uniform_expressions(Grammar(vocabulary, 15), n, seed=15)

    def evaluate() -> None:
        calculator.clear_cache()
        for _ in calculator.evaluate_batch(formulas):
            pass

    def offer() -> None:
        calculator.clear_cache()
        AlphaPool(calculator, capacity=20).offer_batch(formulas)

    for name, run in (("evaluated", evaluate), ("evaluated and offered", offer)):
        taken = seconds(run, 1)
        print(
            json.dumps({"benchmark": "cuda expressions", "row": name, "per_second": round(n / taken, 1)}),
            flush=True,
        )


def main() -> None:
    """The whole table, or why there is none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,200 bars × 300 stocks, one round")
    parser.add_argument("--bars", type=int, default=LARGE[0])
    parser.add_argument("--stocks", type=int, default=LARGE[1])
    given = parser.parse_args()
    if not torch.cuda.is_available():
        print("cuda: not run, torch finds no CUDA device here")
        return
    print(
        json.dumps({"benchmark": "cuda", "device": torch.cuda.get_device_name(), "torch": torch.__version__})
    )
    shape = (1200, 300) if given.quick else (given.bars, given.stocks)
    panel = random_panel(*shape)
    operators(panel, 1 if given.quick else 3)
    expressions(panel, 20 if given.quick else 60)


if __name__ == "__main__":
    main()
