"""The torch engine: runs a program on whole tensors of one device, for CUDA.

Nodes are computed in order, operands first; a value is dropped after its last use. Rolling operators
run over as many stocks at a time as keep their temporaries, about `TEMPORARIES` tensors, within the
memory budget. Rows, halos and anchors are those of the CPU engine.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rlgen.calculator.engine import segments
from rlgen.calculator.kernels import make_span
from rlgen.calculator.program import Program
from rlgen.calculator.torch_kernels import CROSS_SECTION, ELEMENTWISE, ROLLING, Blocks
from rlgen.expression import OPERATORS, Call, Constant, Field, minimum_periods
from rlgen.panel import Panel

TEMPORARIES = 32
LARGEST_FLOAT32 = float(torch.finfo(torch.float32).max)


class TorchEngine:
    """Evaluates programs over one base panel on one device.

    Args:
        panel: the base panel; its fields are copied to the device once.
        device: where to compute.
        memory_budget: bytes for a rolling operator's temporaries.
    """

    def __init__(self, panel: Panel, device: torch.device, memory_budget: int) -> None:
        self.panel = panel
        self.device = device
        self.memory_budget = memory_budget
        self._fields = {name: torch.tensor(values, device=device) for name, values in panel.fields.items()}
        self._universe = torch.tensor(panel.universe, device=device)

    def bytes_per_bar(self, program: Program) -> int:
        """Bytes that a bar of the range costs beyond the results."""
        return 8 * len(self.panel.symbols) * (len(program.nodes) + 2)

    def run(self, program: Program, start: int, stop: int, results: Mapping[int, Tensor]) -> None:
        """Evaluate bars [start, stop) of the base panel.

        Args:
            results: per root node, a float32 tensor (stop − start, S) to be filled.
        """
        starts, row0 = segments(self.panel, start, program.halo, stop)
        blocks: dict[tuple[int, int], Blocks] = {}
        uses = [0] * len(program.nodes)
        for node in program.nodes:
            for i in node.inputs:
                uses[i] += 1
        values: dict[int, Tensor | float] = {}
        for number, node in enumerate(program.nodes):
            expression = node.expression
            if isinstance(expression, Constant):
                values[number] = expression.value
            elif isinstance(expression, Field):
                values[number] = self._fields[expression.name][row0:stop].double()
            else:
                assert isinstance(expression, Call)
                inputs = [values[i] for i in node.inputs]
                if expression.window is not None:
                    operator = OPERATORS[expression.operator]
                    minimum = minimum_periods(operator, expression.window, self.panel.min_periods)
                    key = expression.window, minimum
                    if key not in blocks:
                        blocks[key] = Blocks.lay(make_span(starts, *key), self.device)
                    values[number] = self._roll(expression.operator, inputs, blocks[key])
                elif expression.operator in CROSS_SECTION:
                    operand = inputs[0]
                    assert isinstance(operand, Tensor)
                    universe = self._universe[row0:stop]
                    values[number] = CROSS_SECTION[expression.operator](operand, universe)
                else:
                    values[number] = ELEMENTWISE[expression.operator](*inputs)
            if number in results:
                value = values[number]
                assert isinstance(value, Tensor)
                wanted = value[start - row0 :]
                results[number].copy_(torch.where(wanted.abs() <= LARGEST_FLOAT32, wanted, float("nan")))
            for i in node.inputs:
                uses[i] -= 1
                if uses[i] == 0:
                    values.pop(i, None)

    def _roll(self, name: str, inputs: list[Tensor | float], blocks: Blocks) -> Tensor:
        tensors = [value for value in inputs if isinstance(value, Tensor)]
        n_rows, n_stocks = tensors[0].shape
        width = max(1, self.memory_budget // (8 * TEMPORARIES * max(n_rows, 1)))
        parts = [
            ROLLING[name](*(tensor[:, low : low + width] for tensor in tensors), blocks)
            for low in range(0, n_stocks, width)
        ]
        return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
