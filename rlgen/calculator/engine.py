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
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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


@dataclass
class Run:
    """One program over one range of bars."""

    program: Program
    row0: int
    """First bar read."""
    start: int
    """First bar wanted."""
    stop: int
    spans: Mapping[int, Span]
    """Per rolling node its window laid over the rows."""
    results: Mapping[int, np.ndarray]
    """Per root node its values, float32 (stop − start, S)."""
    whole: dict[int, np.ndarray]
    """Per written-out node its values, float64 (stop − row0, padded S)."""


class CpuEngine:
    """Evaluates programs over one base panel.

    Args:
        panel: the base panel; its fields are read in place.
        threads: worker threads.
    """

    def __init__(self, panel: Panel, threads: int) -> None:
        self.panel = panel
        self.threads = threads
        self.padded = -(-len(panel.symbols) // LANES) * LANES
        self._workers = ThreadPoolExecutor(threads, thread_name_prefix="calculator")
        self._local = threading.local()
        self._spare: list[np.ndarray] = []
        """Arrays of finished stages, taken again: fresh memory costs more than what is written to it."""

    def close(self) -> None:
        """End the worker threads."""
        self._workers.shutdown()

    def bytes_per_bar(self, program: Program) -> int:
        """Bytes that a bar of the range costs beyond the results: whole-panel intermediates, buffers."""
        buffers = max(stage.n_slots for stage in program.stages) + 2
        return 8 * (program.peak_whole * self.padded + self.threads * buffers * LANES)

    def run(self, program: Program, start: int, stop: int, results: Mapping[int, np.ndarray]) -> None:
        """Evaluate bars [start, stop) of the base panel.

        Args:
            results: per root node, a float32 array (stop − start, S) to be filled.
        """
        starts, row0 = segments(self.panel, start, program.halo, stop)
        run = Run(program, row0, start, stop, self._spans(program, starts), results, {})
        for k, stage in enumerate(program.stages):
            self._run_tiles(run, stage)
            self._run_cross_section(run, stage, k)
            for number in [n for n in run.whole if program.last_stages[n] <= k]:
                self._spare.append(run.whole.pop(number))
        del self._spare[program.peak_whole :]

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

    def _run_tiles(self, run: Run, stage: Stage) -> None:
        rows = run.stop - run.row0
        for step in stage.steps:
            if step.store:
                run.whole[step.node] = self._whole_array(rows)
        largest = max((span.window for span in run.spans.values()), default=1)

        def run_tile(column: int) -> None:
            buffers = self._buffer("tiles", stage.n_slots * rows * LANES).reshape(-1, rows, LANES)
            scratch = self._buffer("scratch", scratch_size(rows, largest))
            for step in stage.steps:
                tile = buffers[step.slot]
                if step.load:
                    self._load(run, step, column, tile)
                else:
                    self._compute(run, step, buffers, scratch)
                if step.store:
                    write_tile(tile, column, run.whole[step.node])
                if step.node in run.results:
                    write_rounded(tile, run.start - run.row0, column, run.results[step.node])

        self._for_each(run_tile, range(0, len(self.panel.symbols), LANES))

    def _load(self, run: Run, step: Step, column: int, tile: np.ndarray) -> None:
        expression = run.program.nodes[step.node].expression
        if isinstance(expression, Field):
            read_tile(self.panel.fields[expression.name], run.row0, column, tile)
        else:
            read_tile(run.whole[step.node], 0, column, tile)

    @staticmethod
    def _compute(run: Run, step: Step, buffers: np.ndarray, scratch: np.ndarray) -> None:
        call = run.program.nodes[step.node].expression
        assert isinstance(call, Call)
        inputs: list[Any] = [buffers[i] if isinstance(i, int) else i for i in step.inputs]
        if step.node in run.spans:
            ROLLING[call.operator](inputs, buffers[step.slot], run.spans[step.node], scratch)
        else:
            # The ufuncs' floating point flags are no news: undefined results are missing.
            with np.errstate(all="ignore"):
                ELEMENTWISE[call.operator](*inputs, buffers[step.slot])

    def _run_cross_section(self, run: Run, stage: Stage, k: int) -> None:
        rows = run.stop - run.row0
        universe = self.panel.universe[run.row0 : run.stop]
        share = -(-rows // (4 * self.threads))
        readers = Counter(run.program.nodes[number].inputs[0] for number in stage.cross_section)
        for number in stage.cross_section:
            node = run.program.nodes[number]
            operand = node.inputs[0]
            assert isinstance(node.expression, Call)
            operator = CROSS_SECTION[node.expression.operator]
            readers[operand] -= 1
            source = run.whole[operand]
            if readers[operand] == 0 and run.program.last_stages[operand] <= k:
                target = run.whole.pop(operand)  # nobody reads it again: in place
            else:
                target = self._whole_array(rows)
            run.whole[number] = target

            def run_bars(
                low: int, operator: Any = operator, source: Any = source, target: Any = target
            ) -> None:
                operator(source, universe, target, low, min(low + share, rows))

            self._for_each(run_bars, range(0, rows, share))
            if number in run.results:
                round_to_float32(target, run.start - run.row0, run.results[number])

    def _for_each(self, task: Callable[[int], None], items: Iterable[int]) -> None:
        """Run the task on every item, on all threads; the first error is raised."""
        if self.threads == 1:
            for item in items:
                task(item)
        else:
            for _ in self._workers.map(task, items):
                pass

    def _whole_array(self, rows: int) -> np.ndarray:
        """An array (rows, padded S), from the spare ones where one is large enough."""
        size = rows * self.padded
        while self._spare:
            spare = self._spare.pop().reshape(-1)
            if spare.size >= size:
                return spare[:size].reshape(rows, self.padded)
        return np.empty((rows, self.padded))

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
