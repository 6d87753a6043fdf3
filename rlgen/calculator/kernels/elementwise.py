"""Operators on single cells, as numpy ufuncs compiled by numba: one line each.

Missing in, missing out; a result that is undefined or infinite is missing. Operands are float64
arrays of one shape, or one of them a number.
"""

from __future__ import annotations

from math import inf, log, nan

from numba import vectorize

# Signatures are stated so that compiling is over before threads call the functions.
unary = vectorize(["float64(float64)"], cache=True)
binary = vectorize(["float64(float64, float64)"], cache=True)


@unary
def absolute(a):  # type: ignore[no-untyped-def]
    """|a|."""
    return abs(a)


@unary
def sign(a):  # type: ignore[no-untyped-def]
    """−1, 0 or 1."""
    return 1.0 if a > 0.0 else (-1.0 if a < 0.0 else (0.0 if a == 0.0 else nan))


@unary
def logarithm(a):  # type: ignore[no-untyped-def]
    """Natural logarithm, missing for a ≤ 0."""
    return log(a) if a > 0.0 else nan


@binary
def add(a, b):  # type: ignore[no-untyped-def]
    """a + b."""
    value = a + b
    return value if abs(value) < inf else nan


@binary
def subtract(a, b):  # type: ignore[no-untyped-def]
    """a − b."""
    value = a - b
    return value if abs(value) < inf else nan


@binary
def multiply(a, b):  # type: ignore[no-untyped-def]
    """a · b."""
    value = a * b
    return value if abs(value) < inf else nan


@binary
def divide(a, b):  # type: ignore[no-untyped-def]
    """a / b, missing for b = 0."""
    value = a / b if b != 0.0 else nan
    return value if abs(value) < inf else nan


@binary
def power(a, b):  # type: ignore[no-untyped-def]
    """a to the b, missing where undefined or infinite; unlike IEEE pow, missing if either is."""
    value = a**b if (a == a) & (b == b) else nan
    return value if abs(value) < inf else nan


@binary
def greater(a, b):  # type: ignore[no-untyped-def]
    """The larger of the two, missing if either is."""
    larger = a if a > b else b
    return larger if a == a else nan


@binary
def less(a, b):  # type: ignore[no-untyped-def]
    """The smaller of the two, missing if either is."""
    smaller = a if a < b else b
    return smaller if a == a else nan
