"""The CPU engine: runs a program over a range of bars, tile by tile on several threads.

For bars [start, stop):

1. The rows read begin at `start` less the program's halo, at bar 0 or (windows within sessions) at
   the session's start; the kernels' blocks stay anchored at absolute bars, so that the bits of a
   result do not depend on the range.
2. Per stage, each tile of LANES stocks is one task: its steps run one after the other on float64
   buffers that stay allocated from task to task. Kernels release the interpreter's lock, so tasks
   run in parallel; each writes its own columns, so the number of threads changes nothing.
3. Cross-sectional operators run on whole bars, a share of the bars per thread.
4. Roots are rounded to float32 once, at the end; what overflows is missing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from rlgen.calculator.kernels import (
    CROSS_SECTION,
    ELEMENTWISE,
    LANES,
    ROLLING,
    Span,
    make_span,
    scratch_size,
)
from rlgen.calculator.kernels.tiles import read_tile, round_to_float32, write_rounded, write_tile
from rlgen.calculator.program import Program, Stage, Step
from rlgen.expression import OPERATORS, Call, Field, minimum_periods
from rlgen.panel import Panel


class CpuEngine:
    """Evaluates programs over one base panel.

    Args:
        panel: the base panel; its fields are read in place.
        threads: worker threads.
    """

    def __init__(self, panel: Panel, threads: int) -> None:
        self.panel = panel
        self.threads = threads
        self._workers = ThreadPoolExecutor(threads, thread_name_prefix="calculator")
        self._local = threading.local()

    def close(self) -> None:
        """End the worker threads."""
        self._workers.shutdown()

    def bytes_per_bar(self, program: Program) -> int:
        """Bytes that a bar of the range costs beyond the results: whole-panel intermediates, buffers."""
        padded = -(-len(self.panel.symbols) // LANES) * LANES
        whole = sum(
            sum(step.store for step in stage.steps) + len(stage.cross_section) for stage in program.stages
        )
        buffers = max(stage.n_slots for stage in program.stages) + 2
        return 8 * (whole * padded + self.threads * buffers * LANES)

    def run(self, program: Program, start: int, stop: int, results: Mapping[int, np.ndarray]) -> None:
        """Evaluate bars [start, stop) of the base panel.

        Args:
            results: per root node, a float32 array (stop − start, S) to be filled.
        """
        starts, row0 = segments(self.panel, start, program.halo, stop)
        spans = self._spans(program, starts)
        whole: dict[int, np.ndarray] = {}
        for stage in program.stages:
            self._run_tiles(program, stage, row0, start, stop, spans, whole, results)
            self._run_cross_section(program, stage, row0, start, stop, whole, results)

    def _spans(self, program: Program, starts: np.ndarray) -> dict[int, Span]:
        """Per rolling node its window laid over the rows; equal windows share the work."""
        spans: dict[int, Span] = {}
        known: dict[tuple[int, int], Span] = {}
        for number, node in enumerate(program.nodes):
            if isinstance(node.expression, Call) and node.expression.window is not None:
                window = node.expression.window
                operator = OPERATORS[node.expression.operator]
                minimum = minimum_periods(operator, window, self.panel.min_periods)
                if (window, minimum) not in known:
                    known[window, minimum] = make_span(starts, window, minimum)
                spans[number] = known[window, minimum]
        return spans

    def _run_tiles(
        self,
        program: Program,
        stage: Stage,
        row0: int,
        start: int,
        stop: int,
        spans: Mapping[int, Span],
        whole: dict[int, np.ndarray],
        results: Mapping[int, np.ndarray],
    ) -> None:
        n_stocks = len(self.panel.symbols)
        rows = stop - row0
        for step in stage.steps:
            if step.store:
                whole[step.node] = np.empty((rows, -(-n_stocks // LANES) * LANES))
        largest = max((span.window for span in spans.values()), default=1)

        def load(step: Step, column: int, tile: np.ndarray) -> None:
            expression = program.nodes[step.node].expression
            if isinstance(expression, Field):
                read_tile(self.panel.fields[expression.name], row0, column, tile)
            else:
                read_tile(whole[step.node], 0, column, tile)

        def run_tile(column: int) -> None:
            buffers = self._buffer("tiles", stage.n_slots * rows * LANES).reshape(-1, rows, LANES)
            scratch = self._buffer("scratch", scratch_size(rows, largest))
            for step in stage.steps:
                tile = buffers[step.slot]
                if step.load:
                    load(step, column, tile)
                else:
                    call = program.nodes[step.node].expression
                    assert isinstance(call, Call)
                    inputs: list[Any] = [buffers[i] if isinstance(i, int) else i for i in step.inputs]
                    if step.node in spans:
                        ROLLING[call.operator](inputs, tile, spans[step.node], scratch)
                    else:
                        # The ufuncs' floating point flags are no news: undefined results are missing.
                        with np.errstate(all="ignore"):
                            ELEMENTWISE[call.operator](*inputs, tile)
                if step.store:
                    write_tile(tile, column, whole[step.node])
                if step.node in results:
                    write_rounded(tile, start - row0, column, results[step.node])

        self._for_each(run_tile, range(0, n_stocks, LANES))

    def _run_cross_section(
        self,
        program: Program,
        stage: Stage,
        row0: int,
        start: int,
        stop: int,
        whole: dict[int, np.ndarray],
        results: Mapping[int, np.ndarray],
    ) -> None:
        rows = stop - row0
        universe = self.panel.universe[row0:stop]
        share = -(-rows // (4 * self.threads))
        for number in stage.cross_section:
            node = program.nodes[number]
            assert isinstance(node.expression, Call)
            operator = CROSS_SECTION[node.expression.operator]
            source = whole[node.inputs[0]]
            target = whole[number] = np.empty_like(source)

            def run_bars(
                low: int, operator: Any = operator, source: Any = source, target: Any = target
            ) -> None:
                operator(source, universe, target, low=low, high=min(low + share, rows))

            self._for_each(run_bars, range(0, rows, share))
            if number in results:
                round_to_float32(target, start - row0, results[number])

    def _for_each(self, task: Callable[[int], None], items: Iterable[int]) -> None:
        """Run the task on every item, on all threads; the first error is raised."""
        if self.threads == 1:
            for item in items:
                task(item)
        else:
            for _ in self._workers.map(task, items):
                pass

    def _buffer(self, name: str, size: int) -> np.ndarray:
        """This thread's buffer of that name, grown if it is too small."""
        buffer = getattr(self._local, name, None)
        if buffer is None or buffer.size < size:
            buffer = np.empty(size)
            setattr(self._local, name, buffer)
        return buffer[:size]


def segments(panel: Panel, start: int, halo: int, stop: int) -> tuple[np.ndarray, int]:
    """The rows to read for bars [start, stop), and where windows may not cross.

    Returns:
        (n+1,) first rows of the segments relative to the first row read (the first one may be
        negative: it began before), closed by the number of rows; and the bar of the first row read.
    """
    row0 = max(0, start - halo)
    if panel.windows == "continuous":
        return np.array([-row0, stop - row0], np.int64), row0
    sessions = panel.session_starts
    row0 = max(row0, int(sessions[np.searchsorted(sessions, start, side="right") - 1]))
    first = np.searchsorted(sessions, row0, side="right") - 1
    last = np.searchsorted(sessions, stop, side="left")
    starts = sessions[first : last + 1] - row0
    starts[-1] = stop - row0
    return starts.astype(np.int64), row0
