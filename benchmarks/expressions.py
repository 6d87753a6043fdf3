"""Whole expressions per second: evaluation alone, and offers to a pool of 20, on (4800, 300).

    python -m benchmarks.expressions [--quick]

Formulas are drawn uniformly from the grammar with a fixed seed; every one is evaluated, scored against
the members, and tried in the pool, as in training.
"""

from __future__ import annotations

import argparse
import json
import time

from benchmarks.panels import SMALL, random_panel
from rlgen.alphapool import AlphaPool
from rlgen.calculator import Calculator
from rlgen.expression import Grammar, Vocabulary, uniform_expressions

WINDOWS = (5, 20, 60, 240)


def main() -> None:
    """Evaluate, then offer, and print both rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer bars and formulas")
    quick = parser.parse_args().quick
    n_formulas = 60 if quick else 300
    panel = random_panel(1200 if quick else SMALL[0], SMALL[1])
    vocabulary = Vocabulary(list(panel.fields), windows=WINDOWS, constants=(-1.0, 0.5, 2.0))
    for token_limit in (15, 30):
        formulas = uniform_expressions(Grammar(vocabulary, token_limit), n_formulas + 40, seed=token_limit)
        calculator = Calculator(panel, device="cpu")
        pool = AlphaPool(calculator, capacity=20)
        pool.offer_batch(formulas[n_formulas:])  # members, compiled code, warm buffers
        calculator.clear_cache()
        start = time.perf_counter()
        for _ in calculator.evaluate_batch(formulas[:n_formulas]):
            pass
        evaluated = time.perf_counter() - start
        calculator.clear_cache()
        start = time.perf_counter()
        pool.offer_batch(formulas[:n_formulas])
        offered = time.perf_counter() - start
        line = {
            "benchmark": "expressions",
            "bars": len(panel.bars),
            "stocks": len(panel.symbols),
            "token_limit": token_limit,
            "mean_tokens": round(sum(f.n_tokens for f in formulas[:n_formulas]) / n_formulas, 1),
            "evaluated_per_second": round(n_formulas / evaluated, 1),
            "evaluated_and_offered_per_second": round(n_formulas / offered, 1),
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
