"""Operators as their definitions say, in slow and obvious float64: one window at a time.

Written from the table of definitions, not from the kernels; sums are exact (`math.fsum`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping

import numpy as np
from scipy import stats

from rlgen.expression import Call, Constant, Expression, Field

NAN = math.nan


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def is_constant(values: list[float]) -> bool:
    return max(values) == min(values)


def central(values: list[float], power: int) -> float:
    """Σ (x − mean)^power, taken about a member first so that the mean loses no digits."""
    shifted = [v - values[0] for v in values]
    centre = mean(shifted)
    return math.fsum((v - centre) ** power for v in shifted)


def variance(values: list[float]) -> float:
    return 0.0 if is_constant(values) else central(values, 2) / (len(values) - 1)


def skew(values: list[float]) -> float:
    if is_constant(values):
        return NAN
    n, s = len(values), math.sqrt(variance(values))
    return n / ((n - 1) * (n - 2)) * central(values, 3) / s**3


def kurt(values: list[float]) -> float:
    if is_constant(values):
        return NAN
    n, s = len(values), math.sqrt(variance(values))
    first = n * (n + 1) / ((n - 1) * (n - 2) * (n - 3)) * central(values, 4) / s**4
    return first - 3 * (n - 1) ** 2 / ((n - 2) * (n - 3))


def mad(values: list[float]) -> float:
    if is_constant(values):
        return 0.0
    shifted = [v - values[0] for v in values]
    centre = mean(shifted)
    return mean([abs(v - centre) for v in shifted])


def median(values: list[float]) -> float:
    ordered = sorted(values)
    n = len(ordered)
    if n % 2:
        return ordered[n // 2]
    return 0.5 * ordered[n // 2 - 1] + 0.5 * ordered[n // 2]


def covariance(x: list[float], y: list[float]) -> float:
    if is_constant(x) or is_constant(y):
        return 0.0
    dx, dy = [v - x[0] for v in x], [v - y[0] for v in y]
    mx, my = mean(dx), mean(dy)
    return math.fsum((a - mx) * (b - my) for a, b in zip(dx, dy, strict=True)) / (len(x) - 1)


def correlation(x: list[float], y: list[float]) -> float:
    if is_constant(x) or is_constant(y):
        return NAN
    return covariance(x, y) / math.sqrt(variance(x)) / math.sqrt(variance(y))


# Statistics of the present values of one window.
PLAIN: Mapping[str, Callable[[list[float]], float]] = {
    "Mean": mean,
    "Sum": math.fsum,
    "Var": variance,
    "Std": lambda v: math.sqrt(variance(v)),
    "Skew": skew,
    "Kurt": kurt,
    "Max": max,
    "Min": min,
    "Med": median,
    "Mad": mad,
}
PAIRED = {"Cov": covariance, "Corr": correlation}
MINIMUM = {"Std": 2, "Var": 2, "Mad": 2, "Cov": 2, "Corr": 2, "Skew": 3, "Kurt": 4}


def weighted(window: np.ndarray, weights: list[float]) -> float:
    pairs = [(weight, v) for weight, v in zip(weights, window, strict=True) if v == v]
    base = pairs[0][1]
    total = math.fsum(weight for weight, _ in pairs)
    return base + math.fsum(weight * (v - base) for weight, v in pairs) / total


def rolling_cell(name: str, window: np.ndarray, w: int) -> float:
    """One window (its last bar the current one) of a rolling operator; at least one value present."""
    present = [float(v) for v in window if v == v]
    n = len(window)
    if name in PLAIN:
        return PLAIN[name](present)
    if name == "Rank":
        current = window[-1]
        if current != current:
            return NAN
        return float(stats.rankdata(present)[-1]) / len(present)
    if name == "WMA":
        return weighted(window, [w - age for age in range(n - 1, -1, -1)])
    if name == "EMA":
        decay = 1 - 2 / (w + 1)
        return weighted(window, [decay**age for age in range(n - 1, -1, -1)])
    extreme = max(present) if name == "ArgMax" else min(present)
    assert name in ("ArgMax", "ArgMin")
    return float(min(n - 1 - i for i, v in enumerate(window) if v == extreme))


def finite(value: float) -> float:
    return value if math.isfinite(value) else NAN


def unary_cell(name: str, a: float) -> float:
    if name == "Abs":
        return abs(a)
    if name == "Sign":
        return float((a > 0) - (a < 0))
    assert name == "Log"
    return math.log(a) if a > 0 else NAN


def binary_cell(name: str, a: float, b: float) -> float:
    if name == "Add":
        return a + b
    if name == "Sub":
        return a - b
    if name == "Mul":
        return a * b
    if name == "Div":
        return a / b if b != 0 else NAN
    if name == "Greater":
        return max(a, b)
    if name == "Less":
        return min(a, b)
    assert name == "Pow"
    try:
        value = a**b
    except (ZeroDivisionError, OverflowError):
        return NAN
    return NAN if isinstance(value, complex) else value


def cross_section_bar(name: str, values: np.ndarray, universe: np.ndarray) -> np.ndarray:
    out = np.full(len(values), NAN)
    members = np.flatnonzero(universe & ~np.isnan(values))
    if not len(members):
        return out
    x = values[members]
    if name == "CSRank":
        out[members] = stats.rankdata(x) / len(x)
    elif x.max() > x.min():
        d = x - x[0]
        d = d - mean(list(d))
        out[members] = d / math.sqrt(mean(list(d * d)))
    return out


def evaluate(
    expression: Expression,
    fields: Mapping[str, np.ndarray],
    universe: np.ndarray,
    session_starts: np.ndarray | None = None,
    min_periods: float = 0.5,
    jitter: float = 0.0,
    seed: int = 0,
) -> np.ndarray:
    """Values (T, S) float64 of an expression; windows stop at session starts where they are given.

    `jitter` moves every intermediate value by that share of itself and of its bar's scale: what
    changes then, such as the rank of two means that tie but for rounding, or a quotient by what is
    zero but for rounding, the definition leaves to the last bits.
    """
    n_bars, n_stocks = universe.shape
    rng = np.random.default_rng(seed)
    starts = np.zeros(n_bars, int)
    if session_starts is not None:
        for begin, end in itertools.pairwise(session_starts):
            starts[begin:end] = begin

    def values(node: Expression) -> np.ndarray:
        if isinstance(node, Field):
            return fields[node.name].astype(float)
        if isinstance(node, Constant):
            return np.full((n_bars, n_stocks), node.value)
        assert isinstance(node, Call)
        return apply(node, [values(operand) for operand in node.operands])

    def apply(node: Call, inputs: list[np.ndarray]) -> np.ndarray:
        name, w = node.operator, node.window
        out = np.full((n_bars, n_stocks), NAN)
        for t in range(n_bars):
            if name in ("CSRank", "CSZscore"):
                out[t] = cross_section_bar(name, inputs[0][t], universe[t])
                continue
            for s in range(n_stocks):
                if w is None:
                    cells = [float(x[t, s]) for x in inputs]
                    if any(c != c for c in cells):
                        continue
                    out[t, s] = unary_cell(name, *cells) if len(cells) == 1 else binary_cell(name, *cells)
                elif name in ("Ref", "Delta"):
                    if t - w >= starts[t]:
                        past = inputs[0][t - w, s]
                        out[t, s] = past if name == "Ref" else inputs[0][t, s] - past
                else:
                    low = max(starts[t], t - w + 1)
                    windows = [x[low : t + 1, s] for x in inputs]
                    out[t, s] = window_value(name, windows, w)
        out = np.vectorize(finite)(out)
        if jitter:
            scale = np.nan_to_num(np.abs(out)).max(axis=1, keepdims=True)
            out = out * (1 + jitter * rng.normal(size=out.shape))
            out = out + jitter * scale * rng.normal(size=out.shape)
        return out

    def window_value(name: str, windows: list[np.ndarray], w: int) -> float:
        needed = max(MINIMUM.get(name, 1), math.ceil(min_periods * w - 1e-9))
        present = ~np.isnan(windows[0])
        for window in windows[1:]:
            present = present & ~np.isnan(window)
        if present.sum() < needed:
            return NAN
        try:
            if name in PAIRED:
                return PAIRED[name](*(list(map(float, window[present])) for window in windows))
            return rolling_cell(name, windows[0], w)
        except (OverflowError, ZeroDivisionError):
            return NAN

    return values(expression)
