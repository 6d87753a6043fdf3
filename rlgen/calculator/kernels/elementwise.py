"""Operators on single cells, and chains of them in one pass over a tile.

A **chain** is a list of instructions on a thread's memory: load a tile's cells from a panel's array,
compute, store. It runs over a few rows at a time, so that what passes from one instruction to the next
stays in the first-level cache, however long the tile is: a chain costs one read of its inputs and one
write of its results.

An operand is a place in the memory and a step: 1 for a tile, which the chain walks along; 0 for
a few rows of scratch that are used again and again, or a constant, with which such rows are filled once.

Missing in, missing out; a result that is undefined or infinite is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nan, sqrt

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from rlgen.calculator.kernels.blocks import LANES, fill, jit, row_function
from rlgen.calculator.kernels.intrinsics import float32_at, float64_at
from rlgen.calculator.kernels.logarithm import log_positive, power_of

CELLS_TOGETHER = 16 * LANES
"""Cells of a pass: 4 KB an operand."""

# Instructions.
LOAD_FLOAT32, LOAD_FLOAT64, STORE_FLOAT32, STORE_FLOAT64 = range(4)
ABS, SIGN, LOG, ADD, SUB, MUL, DIV, POW, GREATER, LESS, SQUARE, ROOT, INVERSE = range(4, 17)

OPCODES: Mapping[str, int] = {
    "Abs": ABS,
    "Sign": SIGN,
    "Log": LOG,
    "Add": ADD,
    "Sub": SUB,
    "Mul": MUL,
    "Div": DIV,
    "Pow": POW,
    "Greater": GREATER,
    "Less": LESS,
}
CONSTANT_POWERS: Mapping[float, int] = {2.0: SQUARE, 0.5: ROOT, -1.0: INVERSE}
"""Exponents with an instruction of their own: the same bits as `power_of` in a tenth of the time."""

# Columns of an instruction: what, two operands and the result as (place, step), and for loads and
# stores the array's address, its numbers per row, the tile's row that its first row is, its columns.
OP, A, A_STEP, B, B_STEP, OUT, OUT_STEP, ADDRESS, STRIDE, FIRST_ROW, COLUMNS = range(11)
WIDTH = 11

LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


# In these three the number of columns is not a constant on purpose: LLVM unrolls a short loop of known
# length before it looks for SIMD.
@row_function
def _load(source: np.ndarray, target: np.ndarray) -> None:
    """Copy the columns that there are, as float64; the padding is missing."""
    n = source.shape[0]
    for j in range(n):
        target[j] = source[j]
    for j in range(n, target.shape[0]):
        target[j] = nan


@row_function
def _round(source: np.ndarray, target: np.ndarray) -> None:
    """Copy the columns that there are; what overflows float32 is missing."""
    for j in range(target.shape[0]):
        value = source[j]
        target[j] = value if abs(value) <= LARGEST_FLOAT32 else nan


@row_function
def _store(source: np.ndarray, target: np.ndarray) -> None:
    """Copy the columns that there are."""
    for j in range(target.shape[0]):
        target[j] = source[j]


@row_function
def _transfer(code: np.ndarray, i: int, row: int, n_rows: int, column: int, lanes: int, cells: int) -> None:
    """Load or store rows from `row`, `lanes` cells each; `cells` is the address of theirs."""
    op, stride, address = code[i, OP], code[i, STRIDE], code[i, ADDRESS]
    n = min(lanes, code[i, COLUMNS] - column)
    first = row - code[i, FIRST_ROW]
    place = first * stride + column
    for r in range(n_rows):
        tile_row = carray(float64_at(cells + 8 * lanes * r), (lanes,))
        if op == LOAD_FLOAT32:
            _load(carray(float32_at(address + 4 * place), (n,)), tile_row)
        elif op == LOAD_FLOAT64:
            _load(carray(float64_at(address + 8 * place), (n,)), tile_row)
        elif op == STORE_FLOAT64:
            _store(tile_row, carray(float64_at(address + 8 * place), (n,)))
        elif first + r >= 0:
            _round(tile_row, carray(float32_at(address + 4 * place), (n,)))
        place += stride


@row_function
def _finite(value: float) -> float:
    return value if abs(value) < inf else nan


@row_function
def _compute(op: int, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """out = a ∘ b; one operand alone is a."""
    n = out.shape[0]
    if op == ABS:
        for i in range(n):
            out[i] = abs(a[i])
    elif op == SIGN:
        for i in range(n):
            x = a[i]
            out[i] = 1.0 if x > 0.0 else (-1.0 if x < 0.0 else (0.0 if x == 0.0 else nan))
    elif op == LOG:
        for i in range(n):
            x = log_positive(a[i])
            out[i] = x if a[i] > 0.0 else nan
    elif op == ADD:
        for i in range(n):
            out[i] = _finite(a[i] + b[i])
    elif op == SUB:
        for i in range(n):
            out[i] = _finite(a[i] - b[i])
    elif op == MUL:
        for i in range(n):
            out[i] = _finite(a[i] * b[i])
    elif op == DIV:
        for i in range(n):
            out[i] = _finite(a[i] / b[i])
    elif op == POW:
        for i in range(n):
            out[i] = power_of(a[i], b[i])
    elif op == GREATER:
        for i in range(n):
            larger = a[i] if a[i] > b[i] else b[i]
            out[i] = larger if a[i] == a[i] else nan
    elif op == LESS:
        for i in range(n):
            smaller = a[i] if a[i] < b[i] else b[i]
            out[i] = smaller if a[i] == a[i] else nan
    elif op == SQUARE:
        for i in range(n):
            out[i] = _finite(a[i] * a[i])
    elif op == ROOT:
        for i in range(n):
            out[i] = sqrt(a[i])
    else:  # INVERSE
        for i in range(n):
            out[i] = _finite(1.0 / a[i])


@jit
def run_chain(
    memory: np.ndarray,
    constants: np.ndarray,
    code: np.ndarray,
    low: int,
    high: int,
    column: int,
    lanes: int,
) -> None:
    """Run a chain over the rows [low, high) and `lanes` columns from `column`.

    Args:
        memory: float64, all tiles and scratch of this thread.
        constants: (k, 2) places and values: scratch that is filled beforehand.
        code: (n, WIDTH) int64 instructions; tiles begin at row 0 and have `lanes` columns.
        lanes: CELLS_TOGETHER at most.
    """
    # Addresses instead of views: a view counts references, which costs more than a row of work.
    base = memory.ctypes.data
    for i in range(constants.shape[0]):
        place = int(constants[i, 0])
        fill(memory[place : place + CELLS_TOGETHER], constants[i, 1])
    together = CELLS_TOGETHER // lanes
    for row in range(low, high, together):
        rows = min(together, high - row)
        n, cell = rows * lanes, row * lanes
        for i in range(code.shape[0]):
            a = base + 8 * (code[i, A] + cell * code[i, A_STEP])
            if code[i, OP] <= STORE_FLOAT64:
                _transfer(code, i, row, rows, column, lanes, a)
            else:
                b = base + 8 * (code[i, B] + cell * code[i, B_STEP])
                out = base + 8 * (code[i, OUT] + cell * code[i, OUT_STEP])
                _compute(
                    code[i, OP],
                    carray(float64_at(a), (n,)),
                    carray(float64_at(b), (n,)),
                    carray(float64_at(out), (n,)),
                )
