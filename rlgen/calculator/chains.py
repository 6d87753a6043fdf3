"""Steps of a chain → instructions of the `elementwise` kernel, with the addresses of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlgen.calculator.kernels import elementwise
from rlgen.calculator.kernels.blocks import LANES
from rlgen.calculator.kernels.elementwise import CELLS_TOGETHER, CONSTANT_POWERS, OPCODES, WIDTH
from rlgen.calculator.plan import Place, Stage, Step
from rlgen.expression import Call, Expression


@dataclass(frozen=True)
class Array:
    """A panel-wide array (T, columns), C order, that tiles are loaded from or stored to."""

    values: np.ndarray
    first_row: int
    """The tile's row that the array's first row is; negative where the array begins before the tile."""


@dataclass(frozen=True)
class Chain:
    """The arguments of `elementwise.run_chain`."""

    code: np.ndarray
    constants: np.ndarray


class Layout:
    """A thread's memory for a stage: rows of scratch, then the tiles of `rows` bars."""

    def __init__(self, stage: Stage, rows: int) -> None:
        constants = max((len(_constants(group)) for group in stage.groups), default=0)
        self.scratch = stage.n_scratch
        self.tiles = (stage.n_scratch + constants) * CELLS_TOGETHER
        self.tile_size = rows * LANES
        self.size = self.tiles + stage.n_tiles * self.tile_size

    def place(self, place: Place) -> tuple[int, int]:
        """Offset and step of a value."""
        if place.tile:
            return self.tiles + place.number * self.tile_size, 1
        return place.number * CELLS_TOGETHER, 0

    def compile(
        self, group: Sequence[Step], expressions: Sequence[Expression], arrays: Sequence[Array | None]
    ) -> Chain:
        """Instructions of a chain.

        Args:
            expressions: per node, its expression.
            arrays: per step, the array that it loads from or stores to.
        """
        constants = {value: self.scratch + i for i, value in enumerate(_constants(group))}
        code = np.zeros((len(group), WIDTH), np.int64)
        for line, step, array in zip(code, group, arrays, strict=True):
            if array is not None:
                double = array.values.dtype == np.float64
                line[elementwise.OP] = {
                    ("load", False): elementwise.LOAD_FLOAT32,
                    ("load", True): elementwise.LOAD_FLOAT64,
                    ("result", False): elementwise.STORE_FLOAT32,
                    ("write", True): elementwise.STORE_FLOAT64,
                }[step.kind, bool(double)]
                line[elementwise.A : elementwise.B] = self.place(step.place)
                line[elementwise.ADDRESS] = array.values.ctypes.data
                line[elementwise.STRIDE] = array.values.strides[0] // array.values.itemsize
                line[elementwise.FIRST_ROW] = array.first_row
                line[elementwise.COLUMNS] = array.values.shape[1]
                continue
            expression = expressions[step.node]
            assert isinstance(expression, Call)
            opcode, inputs = OPCODES[expression.operator], step.inputs
            if expression.operator == "Pow" and inputs[1] in CONSTANT_POWERS:
                opcode, inputs = CONSTANT_POWERS[float(inputs[1])], inputs[:1]  # type: ignore[arg-type]
            operands = [
                self.place(value) if isinstance(value, Place) else (constants[value] * CELLS_TOGETHER, 0)
                for value in (*inputs, inputs[0])[:2]
            ]
            line[elementwise.OP] = opcode
            line[elementwise.A : elementwise.OUT] = [*operands[0], *operands[1]]
            line[elementwise.OUT : elementwise.ADDRESS] = self.place(step.place)
        filled = [[place * CELLS_TOGETHER, value] for value, place in constants.items()]
        return Chain(code, np.array(filled, np.float64).reshape(-1, 2))


def _constants(group: Sequence[Step]) -> list[float]:
    """The distinct constants among the operands."""
    return list(dict.fromkeys(value for step in group for value in step.inputs if isinstance(value, float)))
