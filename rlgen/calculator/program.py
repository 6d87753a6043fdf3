"""A batch of expressions as one program: shared subexpressions once, in an order that needs few buffers.

1. **Nodes.** The canonical trees are merged by structure (hash consing): each distinct subexpression
   is one node, numbered so that operands come first.
2. **Stages.** Rolling and elementwise operators work on tiles of a few stocks; cross-sectional ones
   need whole bars. A cross-sectional node ends a stage: its operand is written out for all stocks,
   the operator runs over it, and the next stage reads the result back. A node's stage is the number
   of cross-sectional operators on its deepest path.
3. **Halos.** Going backwards from the roots, each node's halo is the number of bars before the first
   wanted one that its consumers reach back to, so that any range of bars can be evaluated alone.
4. **Steps.** Each stage becomes groups of instructions on tiles (`plan`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rlgen.calculator.plan import Node, Stage, StagePlanner
from rlgen.errors import ExpressionError
from rlgen.expression import OPERATORS, Call, Expression


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
            alive |= stage.written | set(stage.cross_section)
            peak = max(peak, len(alive))
            alive = {n for n in alive if self.last_stages[n] > k}
        return peak

    def _plan_stages(self) -> list[Stage]:
        used_by: list[list[int]] = [[] for _ in self.nodes]
        for number, node in enumerate(self.nodes):
            for i in node.inputs:
                used_by[i].append(number)
        n_stages = 1 + max(node.stage for node in self.nodes)
        return [StagePlanner(self.nodes, used_by, set(self.roots), k).plan() for k in range(n_stages)]
