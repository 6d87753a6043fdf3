"""Rank, Med, Mad: statistics that need the window's values themselves.

All three read the whole window for every bar, lane by lane in SIMD and eight rows at a time, so that
the counters stay in registers. Up to several hundred bars that beats any sorted structure, whose
branches no processor can foresee; nothing accumulates over time, and the results are exact.

**Rank** counts the values below and not above the current one: with a of the one and b of the other
the average rank is (a + b + 1) / 2. **Mad** takes the window's mean from `moments` and sums
|x − mean|. **Med** carries the lower median m over from the bar before. One value enters and one leaves,
so the new one is m itself or its neighbour in order: one pass counts what lies below and above m and
finds the two values next above and the one next below it, which is all that the new middle needs.

Rank and Med only compare. Where all values are float32 numbers, as in the panel's own fields, they
run on float32 copies: the same result from half the instructions.
"""

from __future__ import annotations

from math import inf, nan

import numpy as np

from rlgen.calculator.kernels.blocks import LANES, fill, jit, row_function

INFINITE = np.float32(inf)
"""Typed, so that a float32 kernel stays one."""
TOGETHER = 8
"""Rows that one pass over the lanes takes."""


@jit
def as_float32(x: np.ndarray, out: np.ndarray) -> bool:
    """Copy x (R, LANES) to float32; whether nothing was lost."""
    lost = 0
    for r in range(x.shape[0]):
        source, target = x[r], out[r]
        for j in range(LANES):
            rounded = np.float32(source[j])
            target[j] = rounded
            lost += 1 if (source[j] == source[j]) & (np.float64(rounded) != source[j]) else 0
        if lost:
            return False
    return True


@row_function
def _count_present(x: np.ndarray, first: np.ndarray, row: int, count: np.ndarray) -> None:
    """Bring the present values per lane from the window of the row before to that of `row`."""
    if first[row] == row:  # a segment's first bar, or a window of one
        fill(count, 0.0)
    elif first[row] > first[row - 1]:
        leaving = x[first[row - 1]]
        for j in range(LANES):
            count[j] -= 1.0 if leaving[j] == leaving[j] else 0.0
    entering = x[row]
    for j in range(LANES):
        count[j] += 1.0 if entering[j] == entering[j] else 0.0


@row_function
def _below(value: float, current: float) -> int:
    """2 for a smaller value, 1 for an equal one."""
    return (1 if value < current else 0) + (1 if value <= current else 0)


@row_function
def _compare(a, b, c, d, e, f, g, h, current, counts):  # type: ignore[no-untyped-def]
    """Add what lies below and not above the current values in eight rows."""
    for j in range(LANES):
        x = current[j]
        low = (_below(a[j], x) + _below(b[j], x)) + (_below(c[j], x) + _below(d[j], x))
        high = (_below(e[j], x) + _below(f[j], x)) + (_below(g[j], x) + _below(h[j], x))
        counts[j] += low + high


@row_function
def _compare_one(values, current, counts):  # type: ignore[no-untyped-def]
    for j in range(LANES):
        counts[j] += _below(values[j], current[j])


@jit
def rolling_rank(
    x: np.ndarray, out: np.ndarray, minimum: int, first: np.ndarray, state: np.ndarray, counts: np.ndarray
) -> None:
    """Write each bar's ascending percentile within its window of x (R, LANES) to out (R, LANES).

    Args:
        x: float64 or float32.
        minimum: present values that a window needs.
        first: `blocks.window_starts` of the tile.
        state: not used.
        counts: (LANES,) integers of x's width, for scratch.
    """
    present = np.zeros(LANES)
    for r in range(x.shape[0]):
        _count_present(x, first, r, present)
        for j in range(LANES):
            counts[j] = 0
        current = x[r]
        k = first[r]
        while k + TOGETHER <= r + 1:
            _compare(
                x[k], x[k + 1], x[k + 2], x[k + 3], x[k + 4], x[k + 5], x[k + 6], x[k + 7], current, counts
            )
            k += TOGETHER
        while k <= r:
            _compare_one(x[k], current, counts)
            k += 1
        target = out[r]
        for j in range(LANES):
            value = 0.5 * (counts[j] + 1.0) / present[j]
            target[j] = value if (present[j] >= minimum) & (current[j] == current[j]) else nan


# Offsets in the state of Med, after the middle carried over: the two values next above it, the one next
# below; and in its counts, after the number below it: the number above.
ABOVE, SECOND, BELOW = LANES, 2 * LANES, 3 * LANES
GREATER = LANES


@row_function
def _up(x, m):  # type: ignore[no-untyped-def]
    return x if x > m else INFINITE


@row_function
def _down(x, m):  # type: ignore[no-untyped-def]
    return x if x < m else -INFINITE


@row_function
def _smaller(a, b):  # type: ignore[no-untyped-def]
    return a if a < b else b


@row_function
def _larger(a, b):  # type: ignore[no-untyped-def]
    return a if a > b else b


@row_function
def _neighbours(a, b, c, d, state, counts):  # type: ignore[no-untyped-def]
    """Take four rows into the counts and neighbours of the middle."""
    for j in range(LANES):
        m = state[j]
        counts[j] += ((1 if a[j] < m else 0) + (1 if b[j] < m else 0)) + (
            (1 if c[j] < m else 0) + (1 if d[j] < m else 0)
        )
        counts[GREATER + j] += ((1 if a[j] > m else 0) + (1 if b[j] > m else 0)) + (
            (1 if c[j] > m else 0) + (1 if d[j] > m else 0)
        )
        down = _larger(_larger(_down(a[j], m), _down(b[j], m)), _larger(_down(c[j], m), _down(d[j], m)))
        state[BELOW + j] = _larger(down, state[BELOW + j])
        # The two smallest of two pairs, and of these and the two known.
        p, q, r, s = _up(a[j], m), _up(b[j], m), _up(c[j], m), _up(d[j], m)
        p, q = _smaller(p, q), _larger(p, q)
        r, s = _smaller(r, s), _larger(r, s)
        p, q = _smaller(p, r), _smaller(_larger(p, r), _smaller(q, s))
        state[SECOND + j] = _smaller(_larger(p, state[ABOVE + j]), _smaller(q, state[SECOND + j]))
        state[ABOVE + j] = _smaller(p, state[ABOVE + j])


@row_function
def _neighbours_one(x, state, counts):  # type: ignore[no-untyped-def]
    for j in range(LANES):
        m = state[j]
        counts[j] += 1 if x[j] < m else 0
        counts[GREATER + j] += 1 if x[j] > m else 0
        state[BELOW + j] = _larger(_down(x[j], m), state[BELOW + j])
        state[SECOND + j] = _smaller(_larger(_up(x[j], m), state[ABOVE + j]), state[SECOND + j])
        state[ABOVE + j] = _smaller(_up(x[j], m), state[ABOVE + j])


@jit
def rolling_median(
    x: np.ndarray, out: np.ndarray, minimum: int, first: np.ndarray, state: np.ndarray, counts: np.ndarray
) -> None:
    """Write the windows' medians of x (R, LANES), float64 or float32, to out (R, LANES).

    Args:
        state: (4 · LANES,) of x's type, for scratch.
        counts: (2 · LANES,) integers of x's width, for scratch.

    The other arguments are those of `rolling_rank`.
    """
    present = np.zeros(LANES)
    for j in range(LANES):
        state[j] = nan
    for r in range(x.shape[0]):
        _count_present(x, first, r, present)
        entering = x[r]
        for j in range(LANES):
            state[j] = state[j] if state[j] == state[j] else entering[j]
            state[ABOVE + j] = state[SECOND + j] = INFINITE
            state[BELOW + j] = -INFINITE
            counts[j] = counts[GREATER + j] = 0
        k = first[r]
        while k + 4 <= r + 1:
            _neighbours(x[k], x[k + 1], x[k + 2], x[k + 3], state, counts)
            k += 4
        while k <= r:
            _neighbours_one(x[k], state, counts)
            k += 1
        _choose(state, counts, present, minimum, out[r])


@row_function
def _choose(state, counts, present, minimum, out):  # type: ignore[no-untyped-def]
    """The middle of the window, from the counts and neighbours of the middle before."""
    for j in range(LANES):
        n = int(present[j])
        m, not_above = state[j], n - counts[GREATER + j]
        low, high = (n - 1) // 2, n // 2
        lower, upper = m, m if high < not_above else state[ABOVE + j]
        if low < counts[j]:
            lower = state[BELOW + j]
            upper = lower if high == low else upper if not_above > counts[j] else state[ABOVE + j]
        if low >= not_above:
            lower = state[ABOVE + j]
            upper = state[SECOND + j] if high > low else lower
        value = 0.5 * np.float64(lower) + 0.5 * np.float64(upper)
        out[j] = value if (n >= minimum) & (abs(value) < inf) else nan
        state[j] = lower if n > 0 else m


@row_function
def _distance(x: float, mean: float) -> float:
    d = abs(x - mean)
    return d if d > 0.0 else 0.0  # a missing value adds nothing


@row_function
def _deviate(a, b, c, d, e, f, g, h, mean, total):  # type: ignore[no-untyped-def]
    for j in range(LANES):
        m = mean[j]
        low = (_distance(a[j], m) + _distance(b[j], m)) + (_distance(c[j], m) + _distance(d[j], m))
        high = (_distance(e[j], m) + _distance(f[j], m)) + (_distance(g[j], m) + _distance(h[j], m))
        total[j] += low + high


@row_function
def _deviate_one(x: np.ndarray, mean: np.ndarray, total: np.ndarray) -> None:
    for j in range(LANES):
        total[j] += _distance(x[j], mean[j])


@jit
def rolling_mad(x: np.ndarray, out: np.ndarray, first: np.ndarray) -> None:
    """Replace the windows' means in `out`, of x (R, LANES), by the mean absolute deviations from them."""
    total = np.empty(LANES)
    present = np.zeros(LANES)
    for r in range(x.shape[0]):
        _count_present(x, first, r, present)
        fill(total, 0.0)
        target = out[r]
        k = first[r]
        while k + TOGETHER <= r + 1:
            _deviate(
                x[k], x[k + 1], x[k + 2], x[k + 3], x[k + 4], x[k + 5], x[k + 6], x[k + 7], target, total
            )
            k += TOGETHER
        while k <= r:
            _deviate_one(x[k], target, total)
            k += 1
        for j in range(LANES):
            # Missing where the mean is missing.
            value = total[j] / present[j] + 0.0 * target[j]
            target[j] = value if abs(value) < inf else nan
