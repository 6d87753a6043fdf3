"""docs/metrics.md: its pandas checks are executed, and it names every metric."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from rlgen import metrics
from rlgen.alphapool import AlphaPool
from tests.alphapool.fakes import fake

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
# Each block below as many empty lines as stand above it, so that a failure names its line.
BLOCKS = [
    "\n" * TEXT.count("\n", 0, found.start(1)) + found[1]
    for found in re.finditer(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
]


def test_the_checks_of_the_documentation_hold():
    calculator = fake(7, n_stocks=25)
    pool = AlphaPool(calculator, 3)
    pool.offer_batch([f"$f{k}" for k in range(4)])
    factor = calculator.values["$f0"].numpy().astype(np.float64)
    forward_return = calculator.forward_return.numpy().astype(np.float64)
    universe = calculator.universe.numpy()
    random = np.random.default_rng(0)
    names = {
        "factor": factor,
        "forward_return": forward_return,
        "universe": universe,
        "horizon": 7,
        "session": calculator.panel.session,
        "pool": pool,
        "calculator": calculator,
    }
    # Trouble for the single factor: bars without spread, bars with too few names, infinities.
    troubled = factor.copy()
    troubled[5] = 1.0
    troubled[6, 5:] = np.nan
    troubled[random.random(troubled.shape) < 0.01] = np.inf
    troubled[:, 3] = np.where(np.arange(300) < 29, troubled[:, 3], np.nan)
    names["factor"] = troubled
    for block in BLOCKS:
        exec(compile(block, str(DOCUMENT), "exec"), names)
    assert names["scores"].n_bars == 298


@pytest.mark.parametrize("block", range(len(BLOCKS)))
def test_a_check_is_short(block):
    assert len([line for line in BLOCKS[block].splitlines() if line.strip()]) <= 12
    assert "assert" in BLOCKS[block]


def test_every_metric_is_documented():
    names = {field.name for field in dataclasses.fields(metrics.Scores)} | {"ic", "rank_ic"}
    for name in names - {"n_bars", "n_cells"}:
        assert f"`{name}" in TEXT, name
