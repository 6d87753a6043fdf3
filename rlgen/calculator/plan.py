"""A stage of a program as instructions on tiles: which values go where, and what runs together.

1. **Order.** The stage's calls, operands first. Of several operands, those that need rolling operators
   come first, so that the elementwise rest of an expression stands together.
2. **Groups.** Each rolling call is a group of its own; what lies between is a chain of loads,
   elementwise calls and stores, which runs in one pass over the tile.
3. **Places.** A value that lives within one chain has a few rows of scratch; one that a rolling call
   or another chain reads has a tile. Both come from free lists: a stage needs as many as are alive
   at once, however many nodes it has. A result never overwrites an operand of the same step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

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

    @property
    def rolls(self) -> bool:
        """Whether the operator looks at a window of bars."""
        return isinstance(self.expression, Call) and self.expression.window is not None


@dataclass(frozen=True)
class Place:
    """Where a value lies: a tile, or a few rows of scratch within a chain."""

    tile: bool
    number: int


@dataclass(frozen=True)
class Step:
    """One instruction on a tile.

    `load` reads the node from a field or from values written out by an earlier stage; `compute` and
    `roll` call its operator; `write` puts it out as float64, for the cross-section or a later stage;
    `result` rounds it to its root's values.
    """

    kind: Literal["load", "compute", "roll", "write", "result"]
    node: int
    place: Place
    inputs: tuple[Place | float, ...] = ()
    """The operands' places; a float is a constant."""


@dataclass
class Stage:
    """Groups of steps that run tile by tile, then the cross-sectional nodes that end the stage."""

    groups: list[list[Step]] = field(default_factory=list)
    cross_section: list[int] = field(default_factory=list)
    n_tiles: int = 0
    n_scratch: int = 0

    @property
    def written(self) -> set[int]:
        """The nodes whose values are written out."""
        return {step.node for group in self.groups for step in group if step.kind == "write"}


class _Places:
    """A free list of places of one kind."""

    def __init__(self, tile: bool) -> None:
        self.tile = tile
        self.count = 0
        self._free: list[Place] = []

    def take(self) -> Place:
        if self._free:
            return self._free.pop()
        self.count += 1
        return Place(self.tile, self.count - 1)

    def release(self, place: Place) -> None:
        self._free.append(place)


class StagePlanner:
    """Plans stage k of a program.

    Args:
        nodes: all nodes, operands first.
        used_by: per node, the nodes that read it.
        roots: nodes that are results.
        k: the stage.
    """

    def __init__(
        self, nodes: Sequence[Node], used_by: Sequence[Sequence[int]], roots: set[int], k: int
    ) -> None:
        self.nodes, self.used_by, self.roots, self.k = nodes, used_by, roots, k
        mine = [n for n, node in enumerate(nodes) if node.stage == k]
        self.stage = Stage(cross_section=[n for n in mine if nodes[n].is_cross_section])
        self.calls = {
            n for n in mine if isinstance(nodes[n].expression, Call) and not nodes[n].is_cross_section
        }
        # Bare fields that are a root or the operand of a cross-sectional operator.
        self.bare = [
            n for n in mine if isinstance(nodes[n].expression, Field) and (n in roots or self._is_written(n))
        ]

    def plan(self) -> Stage:
        """The stage."""
        order = self._order()
        self.group_of = self._group(order)
        self.tiles, self.scratch = _Places(True), _Places(False)
        self.places: dict[int, Place] = {}
        self.chain: list[Step] = []
        # Reads of tiles still to come, by rolling calls and by other chains than the value's own.
        self.reads: Counter[int] = Counter(
            i for n in order for i in set(self.nodes[n].inputs) if not self._is_constant(i)
        )
        self.rolled = Counter(i for n in order if self._rolls(n) for i in set(self.nodes[n].inputs))
        group = -1
        for n in order:
            if self.group_of[n] != group and not self._rolls(n):
                self._end_chain()
            group = self.group_of[n]
            self._roll(n) if self._rolls(n) else self._compute(n)
        for n in self.bare:
            self._put_out(n, self._place_of(n))
        self._end_chain()
        self.stage.n_tiles, self.stage.n_scratch = self.tiles.count, self.scratch.count
        return self.stage

    def _rolls(self, n: int) -> bool:
        return self.nodes[n].rolls

    def _is_constant(self, n: int) -> bool:
        return isinstance(self.nodes[n].expression, Constant)

    def _is_written(self, n: int) -> bool:
        """Whether the node is needed for all stocks; fields can be read again."""
        readers = [self.nodes[u] for u in self.used_by[n]]
        if isinstance(self.nodes[n].expression, Field):
            return any(reader.is_cross_section for reader in readers)
        return any(reader.stage > self.k or reader.is_cross_section for reader in readers)

    def _order(self) -> list[int]:
        rolling: dict[int, bool] = {}

        def needs_rolling(n: int) -> bool:
            if n not in rolling:
                rolling[n] = n in self.calls and (
                    self._rolls(n) or any(needs_rolling(i) for i in self.nodes[n].inputs)
                )
            return rolling[n]

        order: dict[int, None] = {}

        def visit(n: int) -> None:
            if n in self.calls and n not in order:
                for i in sorted(self.nodes[n].inputs, key=lambda i: not needs_rolling(i)):
                    visit(i)
                order[n] = None

        for n in sorted(self.calls):
            visit(n)
        return list(order)

    def _group(self, order: list[int]) -> dict[int, int]:
        """Number the groups: a rolling call ends a chain."""
        groups: dict[int, int] = {}
        number, in_chain = 0, False
        for n in order:
            number += self._rolls(n) or not in_chain
            in_chain = not self._rolls(n)
            groups[n] = number
        return groups

    def _end_chain(self) -> None:
        if self.chain:
            self.stage.groups.append(self.chain)
        self.chain = []
        for n in [n for n, place in self.places.items() if not place.tile]:
            self.scratch.release(self.places.pop(n))

    def _place_of(self, n: int) -> Place:
        """Where a value is; one from outside is loaded into the present chain's scratch."""
        if n not in self.places:
            self.places[n] = self.scratch.take()
            self.chain.append(Step("load", n, self.places[n]))
        return self.places[n]

    def _tile_of(self, n: int) -> Place:
        """A tile that holds the value; one from outside is loaded."""
        place = self.places.get(n)
        if place is None or not place.tile:
            self.places[n] = self.tiles.take()
            self.chain.append(Step("load", n, self.places[n]))
            if place is not None:
                self.scratch.release(place)
        return self.places[n]

    def _read(self, n: int) -> None:
        """Count what the call has read, and give back places that nobody reads again."""
        for i in {i for i in self.nodes[n].inputs if not self._is_constant(i)}:
            self.reads[i] -= 1
            self.rolled[i] -= self._rolls(n)
            # A field's tile is kept for rolling calls only: chains can load it again.
            left = self.reads[i] if i in self.calls else self.rolled[i]
            place = self.places.get(i)
            if place is not None and (self.reads[i] <= 0 or (place.tile and left <= 0)):
                (self.tiles if place.tile else self.scratch).release(self.places.pop(i))

    def _roll(self, n: int) -> None:
        inputs = tuple(self._tile_of(i) for i in self.nodes[n].inputs)
        self._end_chain()
        place = self.tiles.take()
        self.stage.groups.append([Step("roll", n, place, inputs)])
        self._read(n)
        self._keep(n, place)

    def _compute(self, n: int) -> None:
        inputs: list[Place | float] = []
        for i in self.nodes[n].inputs:
            expression = self.nodes[i].expression
            inputs.append(expression.value if isinstance(expression, Constant) else self._place_of(i))
        here = all(
            self.group_of[u] == self.group_of[n]
            for u in self.used_by[n]
            if u in self.calls  # the others read what is written out
        )
        place = (self.scratch if here else self.tiles).take()
        self.chain.append(Step("compute", n, place, tuple(inputs)))
        self._read(n)
        self._keep(n, place)

    def _keep(self, n: int, place: Place) -> None:
        self.places[n] = place
        self._put_out(n, place)
        if self.reads[n] <= 0:
            (self.tiles if place.tile else self.scratch).release(self.places.pop(n))

    def _put_out(self, n: int, place: Place) -> None:
        if self._is_written(n):
            self.chain.append(Step("write", n, place))
        if n in self.roots:
            self.chain.append(Step("result", n, place))
