"""Kernels over bars in blocks that fit a core's cache, on several threads.

The blocks are the same for any number of threads, and nothing is summed across bars in them, so the
bits do not depend on who did which block (see `rlgen.workers`).
"""

from __future__ import annotations

from collections.abc import Callable

from rlgen.workers import available_threads, for_each

BLOCK_CELLS = 2**15
"""Cells of a block: its float64 keys (256 KB) stay in a core's second-level cache."""

_threads = 0


def set_threads(n: int) -> None:
    """Threads that metrics use from now on; 0: as many as the process may use."""
    global _threads
    _threads = n


def n_threads() -> int:
    """Threads that metrics use."""
    return _threads or available_threads()


def over_blocks(work: Callable[[int, int], None], n: int, cells: int) -> None:
    """Call `work(start, stop)` for consecutive blocks of [0, n), on all threads.

    Args:
        work: writes the results of items [start, stop), and touches nothing that another block
            touches.
        n: number of items (bars, or stocks).
        cells: cells per item; a block has about `BLOCK_CELLS` cells.
    """
    step = max(1, BLOCK_CELLS // max(cells, 1))
    for_each(lambda start: work(start, min(start + step, n)), range(0, n, step), n_threads())
