"""Logarithm, exponential and power as straight-line code, so that LLVM turns loops over them into SIMD.

The C library's functions take one number at a time: 7 ns for a logarithm, 17 ns for a power.

**log a.** a = 2^k · m with m in [√½, √2), from the bits. With f = m − 1 and s = f / (2 + f),
log(1 + f) = 2 atanh s = 2s + s·R, R = 2(s²/3 + s⁴/5 + …); since 2s = f − s·f, it is f − s(f − R), whose
leading term is exact. k·ln 2 is added in two parts, the larger one exact. Error under 1.5 units in
the last place.

**exp y.** y = n·ln 2 + r with |r| ≤ ½ ln 2; Taylor's polynomial of degree 13 in r; times 2ⁿ in two
halves, so that results at both ends of the range come out.

**a to the b** = ± exp(b·log|a|), for which the error is |b log a| units of 2⁻⁵³ and a few: under 2e-13
relative at worst. Exponents 0, ±½, ±1, 2 are done by exact arithmetic: no search may find that
Pow(x,1) differs from x.
"""

from __future__ import annotations

from math import inf, log, nan, sqrt

from rlgen.calculator.kernels.blocks import row_function
from rlgen.calculator.kernels.intrinsics import bits_of, from_bits

SMALLEST_NORMAL = 2.2250738585072014e-308
LIFT = 2.0**54
"""Makes a subnormal number normal."""
ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of √½
BIAS = 1023 << 52
"""Keeps exponents above 0, so that unsigned shifts serve."""
WHOLE = 0x4330000000000000  # the bits of 2^52: or-ed with a number below 2^52, 2^52 more than it
LOG2_HIGH = 0.6931471803691238  # its last 21 bits are 0: k times it is exact
LOG2_LOW = 1.9082149292705877e-10
NEAREST = 1.5 * 2.0**52
"""Added and taken away again, it rounds to a whole number, which then stands in the last bits."""
PER_LOG2 = 1.0 / log(2.0)


@row_function
def log_positive(a: float) -> float:
    """The natural logarithm of a finite a > 0."""
    small = a < SMALLEST_NORMAL
    bits = bits_of(a * LIFT if small else a)
    biased = (bits - ROOT_HALF + BIAS) >> 52
    k = from_bits(biased | WHOLE) - (4503599627370496.0 + 1023.0)
    f = from_bits(bits - (biased << 52) + BIAS) - 1.0
    k = k - 54.0 if small else k
    s = f / (2.0 + f)
    z = s * s
    r = 2.0 / 21.0
    r = r * z + 2.0 / 19.0
    r = r * z + 2.0 / 17.0
    r = r * z + 2.0 / 15.0
    r = r * z + 2.0 / 13.0
    r = r * z + 2.0 / 11.0
    r = r * z + 2.0 / 9.0
    r = r * z + 2.0 / 7.0
    r = r * z + 2.0 / 5.0
    r = r * z + 2.0 / 3.0
    r = r * z
    return k * LOG2_HIGH + (f - (s * (f - r) - k * LOG2_LOW))


@row_function
def _power_of_two(n: float) -> float:
    """2 to a whole n between −1022 and 1023."""
    return from_bits((bits_of(n + NEAREST) + 1023) << 52)


@row_function
def exponential(y: float) -> float:
    """e to the y; infinite above 709.8, 0 below −745.2."""
    y = 710.0 if y > 710.0 else y
    y = -746.0 if y < -746.0 else y
    n = (y * PER_LOG2 + NEAREST) - NEAREST
    r = (y - n * LOG2_HIGH) - n * LOG2_LOW
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    half = (n * 0.5 + NEAREST) - NEAREST
    return p * _power_of_two(half) * _power_of_two(n - half)


@row_function
def power_of(a: float, b: float) -> float:
    """a to the b; missing where either is, where undefined, and where infinite."""
    # All branches are computed and then selected from: a jump would end the SIMD code.
    size = abs(a)
    whole = (b + NEAREST) - NEAREST
    half = 0.5 * b
    half_whole = (half + NEAREST) - NEAREST
    is_whole = (whole == b) | (abs(b) >= 2.0**52)
    odd = is_whole & (abs(b) < 2.0**53) & (half_whole != half)
    square, inverse, root = a * a, 1.0 / a, sqrt(a)
    inverse_root = 1.0 / root
    logarithm = log_positive(size)
    value = exponential(b * logarithm)
    negative = -value
    at_zero = 0.0 if b > 0.0 else inf
    value = negative if odd & (a < 0.0) else value
    value = value if (a > 0.0) | is_whole else nan
    value = at_zero if a == 0.0 else value
    value = 1.0 if b == 0.0 else value
    value = a if b == 1.0 else value
    value = square if b == 2.0 else value
    value = inverse if b == -1.0 else value
    value = root if b == 0.5 else value
    value = inverse_root if b == -0.5 else value
    return value if (a == a) & (b == b) & (abs(value) < inf) else nan
