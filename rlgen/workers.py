"""Work on several threads, with results that do not depend on how many there are.

The caller is one of the threads; each takes the next item until none is left. Tasks are kernels that
run without the interpreter's lock and write to places of their own, so it does not matter who does
which. Plain threads instead of numba's `prange`: kernels compile several times faster, and callers that
are threads themselves cannot upset numba's threading layer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")

_executor: tuple[int, int, ThreadPoolExecutor] | None = None


def available_threads() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def for_each(task: Callable[[Item], object], items: Sequence[Item], threads: int) -> None:
    """Call `task` on every item, on up to `threads` threads; an error of any is raised."""
    left = iter(items)

    def work() -> None:
        # An iterator's next() is one step under the interpreter's lock: no item is taken twice.
        for item in left:
            task(item)

    helpers = min(threads, len(items)) - 1
    if helpers < 1:
        work()
        return
    executor = _pool(helpers)
    futures = [executor.submit(work) for _ in range(helpers)]
    try:
        work()
    finally:
        for future in futures:
            future.result()


def _pool(helpers: int) -> ThreadPoolExecutor:
    """The helper threads; made anew after a fork, whose child has none, or when more are needed."""
    global _executor
    if _executor is None or _executor[0] != os.getpid() or _executor[1] < helpers:
        _executor = (os.getpid(), helpers, ThreadPoolExecutor(helpers, thread_name_prefix="rlgen"))
    return _executor[2]
