"""A batch of expressions as one program: shared subexpressions once, in an order that needs few buffers.

1. **Nodes.** The canonical trees are merged by structure (hash consing): each distinct subexpression
   is one node, numbered so that operands come first.
2. **Stages.** Rolling and elementwise operators work on tiles of a few stocks; cross-sectional ones
   need whole bars. A cross-sectional node ends a stage: its operand is written out for all stocks,
   the operator runs over it, and the next stage reads the result back. A node's stage is the number
   of cross-sectional operators on its deepest path.
3. **Halos.** Going backwards from the roots, each node's halo is the number of bars before the first
   wanted one that its consumers reach back to, so that any range of bars can be evaluated alone.
4. **Steps.** Per stage, loads, computations and stores in depth-first order of the roots, with the
   buffer of each result taken from, and given back to, a free list: a stage needs as many buffers as
   values are alive at once, however many nodes it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rlgen.errors import ExpressionError
from rlgen.expression import OPERATORS, Call, Constant, Expression, Field


@dataclass(frozen=True)
class Node:
    """A distinct subexpression."""

    expression: Expression
    inputs: tuple[int, ...]
    stage: int
    lookback: int
    """Bars before the current one that the operator itself reads."""

    @property
    def is_cross_section(self) -> bool:
        """Whether the operator needs whole bars."""
        return (
            isinstance(self.expression, Call)
            and OPERATORS[self.expression.operator].family == "cross_section"
        )


@dataclass(frozen=True)
class Step:
    """One instruction on a tile: read whole-panel values, compute, and perhaps write out."""

    node: int
    slot: int
    """Buffer of the result."""
    inputs: tuple[int | float, ...]
    """Buffers of the operands; a float is a constant."""
    load: bool
    """Read the node from a field or from a written-out result instead of computing it."""
    store: bool
    """Write the result out, float64, for the cross-section or a later stage."""


@dataclass
class Stage:
    """The steps that run tile by tile, then the cross-sectional nodes that end the stage."""

    steps: list[Step] = field(default_factory=list)
    n_slots: int = 0
    halo: int = 0
    cross_section: list[int] = field(default_factory=list)


class Program:
    """The batch's nodes, stages and roots.

    Attributes:
        nodes: all distinct subexpressions, operands first.
        roots: per expression of the batch, its node.
        halos: per node, bars before the first wanted one that are needed of it.
        stages: what runs, in order.
        last_stages: per node, the last stage that reads its written-out values; -1 if none does.
        peak_whole: written-out values alive at once, at most.
    """

    def __init__(self, expressions: Sequence[Expression]) -> None:
        self.nodes: list[Node] = []
        self._numbers: dict[Expression, int] = {}
        self.roots = [self._add(expression) for expression in expressions]
        for expression in expressions:
            if not expression.fields:
                raise ExpressionError(f"{expression}: a factor needs at least one field")
        self.halos = self._find_halos()
        self.stages = self._plan_stages()
        self.last_stages = [-1] * len(self.nodes)
        for node in self.nodes:
            for i in node.inputs:
                self.last_stages[i] = max(self.last_stages[i], node.stage)
        self.peak_whole = self._find_peak()

    @property
    def halo(self) -> int:
        """Bars before the first wanted one that the program reads of any field."""
        return max(self.halos, default=0)

    def _add(self, expression: Expression) -> int:
        number = self._numbers.get(expression)
        if number is not None:
            return number
        inputs: tuple[int, ...] = ()
        lookback = 0
        if isinstance(expression, Call):
            operator = OPERATORS[expression.operator]
            inputs = tuple(self._add(operand) for operand in expression.operands)
            lookback = operator.lookback(expression.window)
        stage = max((self.nodes[i].stage + self.nodes[i].is_cross_section for i in inputs), default=0)
        self._numbers[expression] = len(self.nodes)
        self.nodes.append(Node(expression, inputs, stage, lookback))
        return len(self.nodes) - 1

    def _find_halos(self) -> list[int]:
        halos = [0] * len(self.nodes)
        for number in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[number]
            for i in node.inputs:
                halos[i] = max(halos[i], halos[number] + node.lookback)
        return halos

    def _find_peak(self) -> int:
        alive: set[int] = set()
        peak = 0
        for k, stage in enumerate(self.stages):
            alive |= {step.node for step in stage.steps if step.store} | set(stage.cross_section)
            peak = max(peak, len(alive))
            alive = {n for n in alive if self.last_stages[n] > k}
        return peak

    def _plan_stages(self) -> list[Stage]:
        last = max(node.stage for node in self.nodes)
        stages = [Stage() for _ in range(last + 1)]
        used_by: list[list[int]] = [[] for _ in self.nodes]
        for number, node in enumerate(self.nodes):
            for i in node.inputs:
                used_by[i].append(number)
        roots = set(self.roots)
        for k, stage in enumerate(stages):
            stage.cross_section = [
                n for n, node in enumerate(self.nodes) if node.stage == k and node.is_cross_section
            ]
            self._plan_steps(stage, k, used_by, roots)
        return stages

    def _plan_steps(self, stage: Stage, k: int, used_by: list[list[int]], roots: set[int]) -> None:
        """Order the tile steps of stage k and give them buffers."""
        computed = [
            n
            for n, node in enumerate(self.nodes)
            if node.stage == k and isinstance(node.expression, Call) and not node.is_cross_section
        ]
        # Whatever else is read comes from outside: a field, or a result that was written out.
        wanted = set(computed)
        remaining: dict[int, int] = {}
        for n in computed:
            for i in self.nodes[n].inputs:
                remaining[i] = remaining.get(i, 0) + 1

        def stored(n: int) -> bool:
            """Whether a later step needs the node for all stocks; fields can be read again."""
            if isinstance(self.nodes[n].expression, Field):
                return any(self.nodes[u].is_cross_section for u in used_by[n])
            return any(self.nodes[u].stage > k or self.nodes[u].is_cross_section for u in used_by[n])

        # Bare fields that are a root or the operand of a cross-sectional operator.
        direct = [
            n
            for n, node in enumerate(self.nodes)
            if k == 0 and isinstance(node.expression, Field) and (n in roots or stored(n))
        ]
        slots: dict[int, int] = {}
        free: list[int] = []

        def take(n: int) -> int:
            slot = free.pop() if free else stage.n_slots
            stage.n_slots = max(stage.n_slots, slot + 1)
            slots[n] = slot
            return slot

        def release(n: int) -> None:
            if remaining.get(n, 0) == 0:
                free.append(slots[n])

        def emit(n: int) -> None:
            node = self.nodes[n]
            if n in slots:
                return
            if n not in wanted:
                stage.steps.append(
                    Step(n, take(n), (), load=True, store=k == 0 and n in direct and stored(n))
                )
                stage.halo = max(stage.halo, self.halos[n])
                return
            for i in node.inputs:
                if not isinstance(self.nodes[i].expression, Constant):
                    emit(i)
            inputs: list[int | float] = []
            for i in node.inputs:
                expression = self.nodes[i].expression
                inputs.append(expression.value if isinstance(expression, Constant) else slots[i])
            # The result may not overwrite an operand that the kernel still reads.
            slot = take(n)
            for i in node.inputs:
                remaining[i] -= 1
            for i in set(node.inputs):
                if i in slots:
                    release(i)
            stage.steps.append(Step(n, slot, tuple(inputs), load=False, store=stored(n)))
            stage.halo = max(stage.halo, self.halos[n])
            release(n)

        for n in computed + direct:
            emit(n)
