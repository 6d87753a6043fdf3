"""Scoring candidates against a full pool: what each part costs beside evaluating the same formulas.

    python -m benchmarks.scoring [--quick] [--members 20 100] [--batch 32]

Parts, each over a whole batch of uniform formulas of up to 15 tokens, in turn:

- `evaluate`: the formulas' values, in batches with shared subexpressions, as training does;
- `ic`: coverage, moments and Pearson of every bar;
- `rank_ic`: sort, ranks and Spearman of every bar, exact, ties averaged;
- `gram`: z-scores and the products with all members, the return and itself;
- `trial`: the combined signal of the members and the candidate, measured like a candidate.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from benchmarks.expressions import WINDOWS
from benchmarks.memory import Peak, anonymous
from benchmarks.panels import LARGE, SMALL, random_panel
from benchmarks.timing import medians, report
from rlgen.alphapool.values import CpuValues
from rlgen.calculator import Calculator
from rlgen.expression import Grammar, Vocabulary, uniform_expressions
from rlgen.metrics import kernels
from rlgen.metrics.cpu import CpuEngine
from rlgen.metrics.threads import over_blocks


def measure(shape: tuple[int, int], n_members: int, batch: int, rounds: int) -> None:
    """Time the parts on one panel and print their line."""
    panel = random_panel(*shape)
    calculator = Calculator(panel, device="cpu", memory_budget=2**33)
    vocabulary = Vocabulary(list(panel.fields), windows=WINDOWS, constants=(-1.0, 0.5, 2.0))
    formulas = uniform_expressions(Grammar(vocabulary, 15), batch + n_members, seed=7)
    baseline = anonymous()
    with Peak() as peak:
        target = calculator.target
        values = CpuValues(target, calculator.universe, 1.0, 0.0, n_members + 1, calculator.memory)
        members = [values.place(value) for value in calculator.evaluate_batch(formulas[batch:])]
        weights = np.random.default_rng(0).normal(size=n_members + 1)
        candidates = formulas[:batch]
        kept = [value.clone() for value in calculator.evaluate_batch(candidates)]
        engine = target._engine
        assert isinstance(engine, CpuEngine)

        def evaluate() -> None:
            calculator.clear_cache()
            for _ in calculator.evaluate_batch(candidates):
                pass

        def moments_of(factor: torch.Tensor) -> None:
            x, y = engine._one_type(engine.prepare(factor))
            found = np.zeros(shape[0], np.int64), np.empty(shape[0]), np.zeros((5, shape[0]))
            over_blocks(lambda a, b: kernels.bar_moments(a, b, x, y, target.min_names, *found), *shape)

        def ic() -> None:
            for factor in kept:
                moments_of(factor)

        def ic_and_rank_ic() -> None:
            for factor in kept:
                target.bars(factor)

        def gram() -> None:
            for factor in kept:
                slot = values.place(factor)
                values.products(slot, members)
                values.release(slot)

        def trial() -> None:
            for factor in kept:
                slot = values.place(factor)
                target.bars(values.combine([*members, slot], weights))
                values.release(slot)

        parts = {"evaluate": evaluate, "ic": ic, "ic+rank_ic": ic_and_rank_ic, "gram": gram, "trial": trial}
        times = medians(parts, rounds)
    times["rank_ic"] = times.pop("ic+rank_ic") - times["ic"]
    each = {name: seconds / batch for name, seconds in times.items()}
    report(
        "scoring",
        f"{shape}, {n_members} members, per candidate",
        each,
        bars=shape[0],
        stocks=shape[1],
        members=n_members,
        batch=batch,
        ic_and_gram_to_evaluate=round((each["ic"] + each["gram"]) / each["evaluate"], 2),
        rank_ic_to_evaluate=round(each["rank_ic"] / each["evaluate"], 2),
        peak_above_baseline_mb=round((peak.bytes - baseline) / 1e6),
    )


def main() -> None:
    """Both panels, both pools."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,200 bars, 20 members")
    parser.add_argument("--members", type=int, nargs="*", default=[20, 100])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if given.quick:
        measure((1200, 300), 20, given.batch, 1)
        return
    for shape in (SMALL, LARGE):
        for n_members in given.members:
            measure(shape, n_members, given.batch, given.rounds if shape == SMALL else 1)


if __name__ == "__main__":
    main()
