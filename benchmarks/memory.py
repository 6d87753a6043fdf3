"""Peak memory under `calculator.memory_budget`, on panels that are larger than it.

    python -m benchmarks.memory [--quick] [--pool 20] [--formulas 24]

Each case runs in a fresh process, on a panel whose arrays are memory-mapped files. After a warm-up on
a small panel, which imports and compiles, anonymous memory is sampled every 5 ms while formulas are
evaluated, scored and offered to a pool. The peak above the process's own baseline is set against the
budget; what lies in files of the calculator's (`spilled`) is not anonymous and stands beside it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from benchmarks.panels import random_panel

WINDOWS = (5, 20, 60, 240)
CASES = {
    "quick": [(2400, 1000, 2**26)],
    "full": [
        (2880, 5000, 2**28),
        (14640, 1000, 10**9),
        (29280, 1000, 10**9),
        (58560, 1000, 10**9),
    ],
}


def anonymous() -> int:
    """Bytes of this process's anonymous memory."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise OSError("this system does not tell anonymous memory")


class Peak:
    """The largest anonymous memory while the block runs."""

    def __enter__(self) -> Peak:
        self.bytes = anonymous()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self.bytes = max(self.bytes, anonymous())

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()


def prepare(folder: Path, n_bars: int, n_stocks: int) -> None:
    """Write a random panel's arrays to a folder."""
    from rlgen.panel.store import write_store

    write_store(random_panel(n_bars, n_stocks), folder, "benchmark")


def measure(folder: Path, budget: int, capacity: int, n_formulas: int) -> None:
    """Evaluate, score and offer on the stored panel; print one JSON line."""
    from rlgen.alphapool import AlphaPool
    from rlgen.calculator import Calculator
    from rlgen.expression import Grammar, Vocabulary, uniform_expressions
    from rlgen.panel.store import open_store

    small = random_panel(480, 40)
    vocabulary = Vocabulary(list(small.fields), windows=WINDOWS, constants=(-1.0, 0.5, 2.0))
    formulas = uniform_expressions(Grammar(vocabulary, 15), n_formulas, seed=15)

    def work(calculator: Calculator) -> dict[str, float]:
        start = time.perf_counter()
        for value in calculator.evaluate_batch(formulas):
            del value
        evaluated = time.perf_counter() - start
        start = time.perf_counter()
        pool = AlphaPool(calculator, capacity=capacity)
        pool.offer_batch(formulas)
        offered = time.perf_counter() - start
        spilled = calculator.memory.spilled
        pool.scores()
        return {
            "evaluate_s": evaluated,
            "offer_s": offered,
            "members": len(pool),
            "spilled_mb": spilled / 1e6,
        }

    work(Calculator(small, device="cpu"))
    settings = SimpleNamespace(settings=lambda fields: small._settings)
    baseline = anonymous()
    panel = open_store(folder, "benchmark", settings)  # type: ignore[arg-type]
    assert panel is not None
    with Peak() as peak:
        found = work(Calculator(panel, device="cpu", memory_budget=budget))
    cells = np.prod(panel.shape)
    line = {
        "benchmark": "memory",
        "bars": len(panel.bars),
        "stocks": len(panel.symbols),
        "fields_mb": round(4 * cells * len(panel.fields) / 1e6),
        "budget_mb": round(budget / 1e6),
        "peak_above_baseline_mb": round((peak.bytes - baseline) / 1e6),
        "baseline_mb": round(baseline / 1e6),
        "evaluate_ns_per_cell": round(1e9 * found["evaluate_s"] / cells / n_formulas, 1),
        **{name: round(value, 1) for name, value in found.items()},
    }
    print(json.dumps(line), flush=True)


def main() -> None:
    """Prepare and measure every case, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small panel under 67 MB")
    parser.add_argument("--pool", type=int, default=20)
    parser.add_argument("--formulas", type=int, default=24)
    parser.add_argument("--child", nargs=2, metavar=("FOLDER", "BUDGET"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        measure(Path(given.child[0]), int(given.child[1]), given.pool, given.formulas)
        return
    for n_bars, n_stocks, budget in CASES["quick" if given.quick else "full"]:
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder) / "panel"
            prepare(store, n_bars, n_stocks)
            command = [sys.executable, "-m", "benchmarks.memory", "--child", str(store), str(budget)]
            options = ["--pool", str(given.pool), "--formulas", str(given.formulas)]
            subprocess.run([*command, *options], check=True)


if __name__ == "__main__":
    main()
