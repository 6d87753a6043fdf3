"""Between panels and tiles: reading columns as float64, writing results back."""

from __future__ import annotations

from math import nan

import numpy as np

from rlgen.calculator.kernels.blocks import LANES, copy, jit

LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


@jit
def read_tile(source: np.ndarray, row: int, column: int, tile: np.ndarray) -> None:
    """Fill the tile (R, LANES) with rows from `row` and columns from `column` of source (T, S).

    Columns beyond S, the padding, are missing.
    """
    n = min(LANES, source.shape[1] - column)
    for r in range(tile.shape[0]):
        values = source[row + r, column : column + n]
        target = tile[r]
        for j in range(n):
            target[j] = values[j]
        for j in range(n, LANES):
            target[j] = nan


@jit
def write_tile(tile: np.ndarray, column: int, target: np.ndarray) -> None:
    """Copy the tile (R, LANES) to the columns from `column` of target (R, padded S)."""
    for r in range(tile.shape[0]):
        copy(tile[r], target[r, column : column + LANES])


@jit
def _round(values: np.ndarray, target: np.ndarray) -> None:
    """Round a row to float32; what overflows is missing."""
    for j in range(target.shape[0]):
        value = values[j]
        target[j] = value if abs(value) <= LARGEST_FLOAT32 else nan


@jit
def write_rounded(tile: np.ndarray, row: int, column: int, target: np.ndarray) -> None:
    """Round the tile's rows from `row` to float32 into the columns from `column` of target (R', S)."""
    n = min(LANES, target.shape[1] - column)
    for r in range(target.shape[0]):
        _round(tile[row + r], target[r, column : column + n])


@jit
def round_to_float32(source: np.ndarray, row: int, target: np.ndarray) -> None:
    """Round the rows from `row` of source (R, padded S) to float32 into target (R', S)."""
    for r in range(target.shape[0]):
        _round(source[row + r], target[r])
