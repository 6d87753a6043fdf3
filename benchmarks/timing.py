"""Timing side by side: contenders take turns in one process, medians and their ratios are reported.

The machine may be shared, so that absolute times drift; ratios of neighbouring runs drift less.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from rlgen.workers import available_threads


def medians(contenders: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median seconds of each contender over `repeats` rounds, after one round that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for round_number in range(repeats + 1):
        for name, run in contenders.items():
            start = time.perf_counter()
            run()
            if round_number:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def report(benchmark: str, row: str, seconds: Mapping[str, float], **facts: Any) -> None:
    """Print one line for a person and one JSON line; ratios are to the first contender."""
    first = next(iter(seconds.values()))
    cells = [f"{name} {1e3 * value:9.2f} ms ×{value / first:<7.2f}" for name, value in seconds.items()]
    print(f"{row:<44} " + "  ".join(cells), flush=True)
    line = {"benchmark": benchmark, "row": row, **facts}
    line["milliseconds"] = {name: round(1e3 * value, 4) for name, value in seconds.items()}
    print(json.dumps(line), flush=True)


def copy_bandwidth(megabytes: int = 256, repeats: int = 7) -> float:
    """Bytes per second that all threads together read and write, copying an array in memory."""
    threads = available_threads()
    source = np.ones((threads, megabytes * 2**20 // 4 // threads), np.float32)
    target = np.zeros_like(source)
    with ThreadPoolExecutor(threads) as workers:
        copy = {"copy": lambda: list(workers.map(np.copyto, target, source))}
        return 2 * source.nbytes / medians(copy, repeats)["copy"]
