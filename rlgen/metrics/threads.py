"""Work over bars on several threads, with results that do not depend on how many there are.

1. The bars [0, n) are cut into blocks whose cells fit a core's cache, the same blocks for any
   number of threads.
2. Each worker takes the next block until none is left. Kernels run without the GIL and write each
   bar's numbers to that bar's own place; nothing is summed across bars here, so the bits do not
   depend on who did which block.

Plain threads around kernels instead of numba's `prange`: the kernels compile several times faster,
and callers that are threads themselves cannot upset numba's threading layer.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

BLOCK_CELLS = 2**15
"""Cells of a block: its float64 keys (256 KB) stay in a core's second-level cache."""

_threads = 0
_executor: tuple[int, int, ThreadPoolExecutor] | None = None


def set_threads(n: int) -> None:
    """Threads that metrics use from now on; 0: as many as the process may use."""
    global _threads
    _threads = n


def n_threads() -> int:
    """Threads that metrics use."""
    if _threads > 0:
        return _threads
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def over_blocks(work: Callable[[int, int], None], n: int, cells: int) -> None:
    """Call `work(start, stop)` for consecutive blocks of [0, n), on all threads.

    Args:
        work: writes the results of items [start, stop), and touches nothing that another block
            touches.
        n: number of items (bars, or stocks).
        cells: cells per item; a block has about `BLOCK_CELLS` cells.
    """
    step = max(1, BLOCK_CELLS // max(cells, 1))
    starts = iter(range(0, n, step))

    def worker() -> None:
        # A range iterator's next() is one step under the GIL: no block is taken twice.
        for start in starts:
            work(start, min(start + step, n))

    helpers = min(n_threads(), -(-n // step)) - 1
    if helpers < 1:
        worker()
        return
    futures = [_pool(helpers).submit(worker) for _ in itertools.repeat(None, helpers)]
    try:
        worker()
    finally:
        for future in futures:
            future.result()


def _pool(helpers: int) -> ThreadPoolExecutor:
    """The helper threads; made anew after a fork, whose child has none, or when more are needed."""
    global _executor
    if _executor is None or _executor[0] != os.getpid() or _executor[1] < helpers:
        executor = ThreadPoolExecutor(helpers, thread_name_prefix="rlgen-metrics")
        _executor = (os.getpid(), helpers, executor)
    return _executor[2]
