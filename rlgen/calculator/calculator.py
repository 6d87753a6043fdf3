"""Formulas × panel → values and scores.

1. A batch of expressions is brought to canonical form; duplicates and values still in the cache are
   computed once or not at all.
2. The rest becomes a `Program` (shared subexpressions once), for as many expressions at a time as the
   memory budget holds results for.
3. An engine (`CpuEngine` or, on CUDA, `TorchEngine`) runs the program over the panel's bars, in
   blocks of bars where the intermediate results of all bars together would exceed the budget. Earlier
   bars of the base panel are read as warm-up, later ones never.
4. Scores come from `rlgen.metrics`, the one place where an IC is computed.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from rlgen import metrics
from rlgen.calculator.engine import CpuEngine
from rlgen.calculator.program import Program
from rlgen.calculator.torch_engine import TorchEngine
from rlgen.errors import ExpressionError, RlgenError
from rlgen.expression import Expression, parse
from rlgen.memory import Memory
from rlgen.panel import Panel
from rlgen.workers import available_threads

SMALLEST_BLOCK = 256
"""Bars of a block at least: below it the warm-up would outweigh the block."""
LARGEST_BATCH = 16
"""Expressions of a program at most: more share little more, and their intermediates need memory."""


class Calculator:
    """Evaluates expressions over a panel.

    Args:
        panel: the panel, or a split of one.
        device: `cpu`, `cuda`, or `auto` (cuda where there is one).
        threads: CPU threads; 0: as many as the process may use.
        memory_budget: bytes for results in flight, intermediate results and the cache of values.
        block_bars: evaluate in blocks of this many bars; default: as few as the budget allows. The
            values do not depend on it.
        spill_folder: where arrays go that the budget has no room for; None: the system's folder for
            temporary files.

    Attributes:
        panel: as given.
        device: torch device of all tensors returned.
        forward_return: (T, S) float32, missing where there is no label.
        universe: (T, S) bool.
    """

    def __init__(
        self,
        panel: Panel,
        device: Literal["auto", "cpu", "cuda"] = "auto",
        threads: int = 0,
        memory_budget: int = 2**31,
        block_bars: int | None = None,
        spill_folder: Path | None = None,
    ) -> None:
        self.panel = panel
        self.device = choose_device(device)
        self.memory_budget = memory_budget
        self.block_bars = block_bars
        self.threads = threads or available_threads()
        # A sixth is left for what is not worth counting: masks, a block's sort keys, small arrays.
        self.memory = Memory(memory_budget - memory_budget // 6, spill_folder)
        self.forward_return = self._shared(panel.forward_return)
        self.universe = self._shared(panel.universe)
        self._engine: CpuEngine | TorchEngine
        if self.device.type == "cpu":
            self._engine = CpuEngine(panel.base, self.threads, self.memory)
        else:
            self._engine = TorchEngine(panel.base, self.device, memory_budget // 4)
        self._cache: OrderedDict[Expression, Tensor] = OrderedDict()

    @property
    def result_bytes(self) -> int:
        """Bytes of one expression's values."""
        return 4 * max(1, len(self.panel.bars)) * len(self.panel.symbols)

    def evaluate(self, expression: Expression | str) -> Tensor:
        """The values of one expression.

        Returns:
            (T, S) float32 on the calculator's device, NaN = missing; shared with the calculator's
            cache, so not to be written to.

        Raises:
            ExpressionError: the text does not parse or names a field that the panel lacks.
        """
        return next(self.evaluate_batch([expression]))

    def evaluate_batch(self, expressions: Sequence[Expression | str]) -> Iterator[Tensor]:
        """The values of many expressions, in order, computed in chunks as the iterator is consumed."""
        canonical = [self.read(expression).canonical() for expression in expressions]
        chunk_size = min(LARGEST_BATCH, max(1, self.memory_budget // 8 // self.result_bytes))
        position = 0
        while position < len(canonical):
            wanted: dict[Expression, Tensor | None] = {}
            missing = 0
            end = position
            while end < len(canonical) and missing < chunk_size:
                expression = canonical[end]
                if expression not in wanted:
                    wanted[expression] = self._cached(expression)
                    missing += wanted[expression] is None
                end += 1
            to_compute = [expression for expression, value in wanted.items() if value is None]
            wanted.update(zip(to_compute, self._compute(to_compute), strict=True))
            for expression in canonical[position:end]:
                value = wanted[expression]
                assert value is not None
                yield value
            position = end

    def score(self, expression: Expression | str) -> metrics.Scores:
        """All metrics of one expression on this panel; each is defined in `docs/metrics.md`."""
        return self.score_values(self.evaluate(expression))

    def score_values(self, values: Tensor) -> metrics.Scores:
        """All metrics of a factor or signal (T, S) on this panel."""
        return self.target.score(values)

    @cached_property
    def target(self) -> metrics.Target:
        """The forward return of this panel, prepared for measuring factors against it."""
        return metrics.Target(
            self.forward_return,
            self.universe,
            session=self.panel.session,
            horizon=self.panel.horizon,
            empty=self.memory.keep,
        )

    def read(self, expression: Expression | str) -> Expression:
        """Parse a text; check that the panel has every field."""
        if isinstance(expression, str):
            return parse(expression, self.panel.fields)
        unknown = sorted(set(expression.fields) - set(self.panel.fields))
        if unknown:
            known = ", ".join(self.panel.fields)
            raise ExpressionError(f"{expression}: the panel has no field {unknown[0]}; it has {known}")
        return expression

    def clear_cache(self) -> None:
        """Forget all values computed so far."""
        self._cache.clear()

    def close(self) -> None:
        """Give back the memory that the calculator holds."""
        self.clear_cache()

    def _shared(self, values: np.ndarray) -> Tensor:
        """A tensor of the panel's array on the calculator's device; on the CPU the same memory."""
        if self.device.type != "cpu":
            return torch.tensor(values, device=self.device)
        with warnings.catch_warnings():
            # The array is read-only, which torch cannot express and warns of; nobody writes to it here.
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            return torch.from_numpy(values)

    def _empty(self, shape: tuple[int, int]) -> Tensor:
        if self.device.type == "cpu":
            return torch.from_numpy(self.memory.empty(shape, np.float32))
        return torch.empty(shape, dtype=torch.float32, device=self.device)

    def _cached(self, expression: Expression) -> Tensor | None:
        value = self._cache.get(expression)
        if value is not None:
            self._cache.move_to_end(expression)
        return value

    def _compute(self, expressions: list[Expression]) -> list[Tensor]:
        if not expressions:
            return []
        program = Program(expressions)
        shape = len(self.panel.bars), len(self.panel.symbols)
        values = [self._empty(shape) for _ in expressions]
        block = self.block_bars or max(
            SMALLEST_BLOCK, self.memory_budget // 4 // self._engine.bytes_per_bar(program) - program.halo
        )
        for low in range(0, shape[0], block):
            high = min(low + block, shape[0])
            results = {root: value[low:high] for root, value in zip(program.roots, values, strict=True)}
            if isinstance(self._engine, CpuEngine):
                arrays = {root: value.numpy() for root, value in results.items()}
                self._engine.run(program, self.panel.start + low, self.panel.start + high, arrays)
            else:
                self._engine.run(program, self.panel.start + low, self.panel.start + high, results)
        for expression, value in zip(expressions, values, strict=True):
            self._cache[expression] = value
        while self._cache and len(self._cache) * self.result_bytes > self.memory_budget // 8:
            self._cache.popitem(last=False)
        return values


def choose_device(name: str) -> torch.device:
    """The device of that name; `auto`: cuda where there is one.

    Raises:
        RlgenError: cuda was asked for and is not there.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise RlgenError("calculator.device was cuda, but torch finds no CUDA device here; use auto or cpu")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)
