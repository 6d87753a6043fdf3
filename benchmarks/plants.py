"""How hard the demo's planted formulas are: the share of uniform draws that reach half the oracle.

    python -m benchmarks.plants [--config configs/demo.yaml] [--draws 20000]

Draws formulas uniformly from the configuration's own grammar and masks, and prints how many of them
alone have at least half the oracle's pooled IC on the training split, in absolute value and with
missing coverage counted as zero, and the best one.
Finding those by draws alone is what the search has to beat.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

import rlgen
from rlgen.alphapool.objective import covered
from rlgen.config import load_config
from rlgen.expression import Grammar, Vocabulary, uniform_expressions
from rlgen.training.demo import oracle_pool

BATCH = 512


def main() -> None:
    """Draw, evaluate, count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", default="configs/demo.yaml")
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="200 draws")
    given = parser.parse_args()
    draws = 200 if given.quick else given.draws
    config = load_config(given.config)
    panel = rlgen.load_panel(given.config).split("train")
    calculator = rlgen.Calculator(panel, memory_budget=config.calculator.memory_budget)
    oracle = oracle_pool(config, calculator)
    assert oracle is not None, f"{given.config} plants nothing"
    target = oracle.scores().pooled_ic
    rules = config.grammar
    vocabulary = Vocabulary(
        rules.fields or list(panel.fields), rules.operators, rules.windows, rules.constants
    )
    formulas = uniform_expressions(
        Grammar(vocabulary, rules.token_limit, rules.check_units), draws, given.seed
    )
    start, best, best_formula, reached = time.perf_counter(), 0.0, "", 0
    for low in range(0, draws, BATCH):
        batch = formulas[low : low + BATCH]
        for formula, values in zip(batch, calculator.evaluate_batch(batch), strict=True):
            bars = calculator.target.bars(values)
            ic = abs(covered(bars.ic, bars.count, calculator.target))
            reached += bool(ic >= 0.5 * target)
            if np.isfinite(ic) and ic > best:
                best, best_formula = ic, str(formula)
    line = {
        "benchmark": "plants",
        "draws": draws,
        "distinct": len({formula.canonical() for formula in formulas}),
        "oracle_ic": round(target, 4),
        "reach_half": reached,
        "share": reached / draws,
        "best_ic": round(best, 4),
        "best": best_formula,
        "seconds": round(time.perf_counter() - start, 1),
    }
    print(f"{reached} of {draws} uniform draws ({reached / draws:.2%}) reach half of {target:.4f}")
    print(json.dumps(line))


if __name__ == "__main__":
    main()
