"""What numba has no word for: the bits of a number, and arrays at an address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _conversion(name: str, result: Any, argument: Any, target: ir.Type) -> Any:
    """An intrinsic that applies one LLVM conversion."""

    def convert(typing_context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, name)(arguments[0], target)

        return result(argument), generate

    return intrinsic(convert)


bits_of: Callable[[float], int] = _conversion("bitcast", types.int64, types.float64, ir.IntType(64))
"""The bits of a float64 as int64."""
from_bits: Callable[[int], float] = _conversion("bitcast", types.float64, types.int64, ir.DoubleType())
"""The float64 that has these bits."""
float32_at: Callable[[int], Any] = _conversion(
    "inttoptr", types.CPointer(types.float32), types.int64, ir.FloatType().as_pointer()
)
"""A pointer to float32 from an address, for `carray`."""
float64_at: Callable[[int], Any] = _conversion(
    "inttoptr", types.CPointer(types.float64), types.int64, ir.DoubleType().as_pointer()
)
"""A pointer to float64 from an address, for `carray`."""
