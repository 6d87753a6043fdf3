"""What all rolling kernels share: tiles, the walk over blocks, shifts, constancy.

**Tile.** A kernel works on a float64 array (R, LANES): R consecutive bars of LANES neighbouring
stocks, NaN = missing. The lanes of a row are contiguous, so that the innermost loops, whose length
is the constant LANES, become SIMD code without remainders: every stock is computed by the same
instructions wherever it stands, hence the same bits in any tile.

**Walk** (van Herk, 1992, carried over from extremes to any mergeable statistic). The bars are cut
into blocks of w, anchored at bar 0 of the panel or at each session's start. A window that ends at
row r of a block is a suffix of the block before it and a prefix of its own block:

1. forward through the block, the prefix's state is updated row by row and merged with the stored
   state of the suffix that completes the window;
2. backward through the finished block, the states of all its suffixes are stored for the next one.

Each window is thus two sums of its own members and nothing else: an outlier leaves no trace once it
has left the window, unlike in running sums; the cost per bar does not depend on w.

**Shift.** Sums are taken of deviations from one member of the window: a prefix's first present
value, a suffix's last one. These belong to every window that uses the prefix or suffix, so nothing
of the future enters even the last bits; and a deviation is never larger than the window's range.

**Constancy.** "Constant" means max = min over the window's present values, exactly. Per lane the
row of the latest present value that differs from the latest present one is carried along: the
window is constant when that row lies before it.

**Vector code.** LLVM turns a lane loop into SIMD code if it can tell that its arrays do not overlap
and that no variable outlives an iteration. Hence the form of all kernels: the running state lies in
one flat array at constant offsets, rows are taken as one-dimensional views, conditions within a
lane loop are selections, and each lane loop stands in a row function of its own.
"""

from __future__ import annotations

import numpy as np

from rlgen.compiling import kernel

LANES = 32
"""Stocks side by side in a tile: four cache lines of float64."""

jit = kernel()
# Row functions are pasted into the kernel's loops: a call costs as much as a row of work.
row_function = kernel(forceinline=True)

BLOCK_FIRST, BLOCK_LOW, BLOCK_HIGH, BLOCK_FRESH = range(4)


@jit
def block_plan(starts: np.ndarray, window: int) -> np.ndarray:
    """The blocks of a tile, as rows (first, low, high, fresh).

    Args:
        starts: (n+1,) first rows of the segments that no window crosses, closed by the tile's
            number of rows; the first may be negative, where a segment began before the tile.
        window: w.

    Returns:
        (m, 4) int64: the row at which the block begins (perhaps before the tile), the rows [low,
        high) of it that the tile has, and whether no suffix is known before it.
    """
    n_blocks = 0
    for s in range(starts.shape[0] - 1):
        n_blocks += (starts[s + 1] - starts[s]) // window + 1
    plan = np.empty((n_blocks, 4), np.int64)
    i = 0
    for s in range(starts.shape[0] - 1):
        first = starts[s]
        if first < 0:
            first += (-first) // window * window
        fresh = 1
        while first < starts[s + 1]:
            plan[i, BLOCK_FIRST] = first
            plan[i, BLOCK_LOW] = max(first, 0)
            plan[i, BLOCK_HIGH] = min(first + window, starts[s + 1])
            plan[i, BLOCK_FRESH] = fresh
            fresh = 0
            i += 1
            first += window
    return plan[:i]


@jit
def window_starts(starts: np.ndarray, window: int) -> np.ndarray:
    """(R,) the first row that the window ending at each row has within the tile and its segment."""
    n_rows = starts[-1]
    first = np.empty(n_rows, np.int64)
    for s in range(starts.shape[0] - 1):
        low = max(starts[s], 0)
        for r in range(low, starts[s + 1]):
            first[r] = max(low, r - window + 1)
    return first


@jit
def suffix_rows(window: int, n_rows: int) -> int:
    """Suffixes to store: one for each place in a block, and the empty one.

    A tile that starts within a segment has more rows than the window; one that has fewer needs no
    suffix beyond its rows, so that memory does not grow with the window.
    """
    return min(window, n_rows) + 1


# Offsets in the flat state of a kernel. Rows 0 … 4 are the family's running sums.
SUMS = 5 * LANES
PREFIX_SHIFT = 5 * LANES
SUFFIX_SHIFT = 6 * LANES
LAST = 7 * LANES
LAST_ROW = 8 * LANES
DIFFERS = 9 * LANES
STATE = 10 * LANES


@jit
def fill(target: np.ndarray, value: float) -> None:
    """target[:] = value; numba takes seconds to compile that."""
    for i in range(target.shape[0]):
        target[i] = value


@jit
def copy(source: np.ndarray, target: np.ndarray) -> None:
    """target[:n] = source, n its length."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@jit
def reset(state: np.ndarray) -> None:
    """Forget everything: at a segment's start."""
    fill(state, 0.0)
    for j in range(LANES):
        state[LAST + j] = np.nan
        state[LAST_ROW + j] = -np.inf
        state[DIFFERS + j] = -np.inf


@jit
def take_shift(x: np.ndarray, row: int, end: int, step: int, state: np.ndarray, offset: int) -> None:
    """Per lane, store the first present value from `row` towards `end` (not included), 0 if none."""
    shift = state[offset : offset + LANES]
    fill(shift, np.nan)
    while row != end:
        missing = 0
        for j in range(LANES):
            if shift[j] != shift[j]:
                shift[j] = x[row, j]
                if shift[j] != shift[j]:
                    missing += 1
        if missing == 0:
            return
        row += step
    for j in range(LANES):
        if shift[j] != shift[j]:
            shift[j] = 0.0


@row_function
def track_constancy(values: np.ndarray, row: float, state: np.ndarray) -> None:
    """Carry LAST, LAST_ROW and DIFFERS on by one row of values."""
    for j in range(LANES):
        value = values[j]
        last = state[LAST + j]
        last_row = state[LAST_ROW + j]
        present = value == value
        changed = present & (value != last)
        state[DIFFERS + j] = last_row if changed else state[DIFFERS + j]
        state[LAST + j] = value if present else last
        state[LAST_ROW + j] = row if present else last_row
