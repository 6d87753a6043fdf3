"""The CPU engine: runs a program over a range of bars, tile by tile on several threads.

For bars [start, stop):

1. The rows read begin at `start` less the program's halo, at bar 0 or (windows within sessions) at
   the session's start; the kernels' blocks stay anchored at absolute bars, so that the bits of a
   result do not depend on the range.
2. Per stage, each tile of LANES stocks is one task: its groups run one after the other in memory that
   stays with the thread, chains in one pass over the tile, rolling operators one by one. Kernels
   release the interpreter's lock, so tasks run in parallel; each writes its own columns, so the number
   of threads changes nothing.
3. Cross-sectional operators run on whole bars, a share of the bars per thread.
4. Roots are rounded to float32 once, at the end; what overflows is missing.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlgen.calculator.chains import Array, Chain, Layout
from rlgen.calculator.kernels import CROSS_SECTION, LANES, ROLLING, Span, make_span, scratch_size
from rlgen.calculator.kernels.elementwise import CELLS_TOGETHER, run_chain
from rlgen.calculator.plan import Place, Stage, Step
from rlgen.calculator.program import Program
from rlgen.expression import OPERATORS, Call, Field, minimum_periods
from rlgen.memory import Memory
from rlgen.panel import Panel
from rlgen.workers import for_each


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

    @property
    def rows(self) -> int:
        """Bars read."""
        return self.stop - self.row0


class CpuEngine:
    """Evaluates programs over one base panel.

    Args:
        panel: the base panel; its fields are read in place.
        threads: threads, the caller's among them.
        memory: where intermediate results lie.
    """

    def __init__(self, panel: Panel, threads: int, memory: Memory) -> None:
        self.panel = panel
        self.threads = threads
        self.memory = memory
        self.padded = -(-len(panel.symbols) // LANES) * LANES
        self._local = threading.local()

    def bytes_per_bar(self, program: Program) -> int:
        """Bytes that a bar of the range costs beyond the results: whole-panel intermediates, tiles."""
        tiles = max(stage.n_tiles for stage in program.stages) + 2
        return 8 * (program.peak_whole * self.padded + self.threads * tiles * LANES)

    def run(self, program: Program, start: int, stop: int, results: Mapping[int, np.ndarray]) -> None:
        """Evaluate bars [start, stop) of the base panel.

        Args:
            results: per root node, a float32 array (stop − start, S) to be filled.
        """
        starts, row0 = segments(self.panel, start, program.halo, stop)
        run = Run(program, row0, start, stop, self._spans(program, starts), results, {})
        for k, stage in enumerate(program.stages):
            self._run_groups(run, stage)
            self._run_cross_section(run, stage, k)
            for number in [n for n in run.whole if program.last_stages[n] <= k]:
                del run.whole[number]

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

    def _run_groups(self, run: Run, stage: Stage) -> None:
        """Run what a stage does before its cross-section."""
        if not stage.groups:
            return
        for number in stage.written:
            run.whole[number] = self.memory.empty((run.rows, self.padded), np.float64)
        layout = Layout(stage, run.rows)
        expressions = [node.expression for node in run.program.nodes]
        work: list[Chain | Step] = [
            group[0]
            if group[0].kind == "roll"
            else layout.compile(group, expressions, [self._array(run, step) for step in group])
            for group in stage.groups
        ]
        if all(isinstance(item, Chain) for item in work):
            self._run_rows(run, layout, [item for item in work if isinstance(item, Chain)])
        else:
            self._run_tiles(run, layout, work)

    def _run_rows(self, run: Run, layout: Layout, chains: list[Chain]) -> None:
        """Run a stage without rolling operators along the bars, as the arrays lie in memory."""
        lanes = min(self.padded, CELLS_TOGETHER)
        share = -(-run.rows // (4 * self.threads))

        def run_bars(low: int) -> None:
            memory = self._buffer("tiles", layout.size)
            high = min(low + share, run.rows)
            for chain in chains:
                for column in range(0, self.padded, lanes):
                    width = min(lanes, self.padded - column)
                    run_chain(memory, chain.constants, chain.code, low, high, column, width)

        for_each(run_bars, range(0, run.rows, share), self.threads)

    def _run_tiles(self, run: Run, layout: Layout, work: list[Chain | Step]) -> None:
        """Run a stage on every tile."""
        windows = [run.spans[step.node].window for step in work if isinstance(step, Step)]
        scratch_needed = scratch_size(run.rows, max(windows))

        def run_tile(column: int) -> None:
            memory = self._buffer("tiles", layout.size)
            scratch = self._buffer("scratch", scratch_needed)
            tiles = memory[layout.tiles :].reshape(-1, run.rows, LANES)
            for item in work:
                if isinstance(item, Chain):
                    run_chain(memory, item.constants, item.code, 0, run.rows, column, LANES)
                else:
                    call = run.program.nodes[item.node].expression
                    assert isinstance(call, Call)
                    inputs = [tiles[place.number] for place in item.inputs if isinstance(place, Place)]
                    target = tiles[item.place.number]
                    ROLLING[call.operator](inputs, target, run.spans[item.node], scratch)

        for_each(run_tile, range(0, len(self.panel.symbols), LANES), self.threads)

    def _array(self, run: Run, step: Step) -> Array | None:
        """The panel-wide array that a step loads from or stores to."""
        if step.kind == "result":
            return Array(run.results[step.node], run.start - run.row0)
        if step.kind == "write":
            return Array(run.whole[step.node], 0)
        if step.kind == "load":
            expression = run.program.nodes[step.node].expression
            if isinstance(expression, Field):
                return Array(self.panel.fields[expression.name], -run.row0)
            return Array(run.whole[step.node], 0)
        return None

    def _run_cross_section(self, run: Run, stage: Stage, k: int) -> None:
        rows = run.rows
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
                target = self.memory.empty((rows, self.padded), np.float64)
            run.whole[number] = target

            def run_bars(
                low: int, operator: Any = operator, source: Any = source, target: Any = target
            ) -> None:
                operator(source, universe, target, low, min(low + share, rows))

            for_each(run_bars, range(0, rows, share), self.threads)
            if number in run.results:
                self._run_groups(run, _result_of(number))

    def _buffer(self, name: str, size: int) -> np.ndarray:
        """This thread's buffer of that name, another one if it is too small."""
        buffer = getattr(self._local, name, None)
        if buffer is None or buffer.size < size:
            setattr(self._local, name, None)  # before the other one is taken
            buffer = self.memory.empty(size, np.float64)
            setattr(self._local, name, buffer)
        return buffer[:size]


def _result_of(node: int) -> Stage:
    """A stage that rounds written-out values to a root's."""
    place = Place(False, 0)
    return Stage([[Step("load", node, place), Step("result", node, place)]], n_scratch=1)


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
