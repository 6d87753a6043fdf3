"""How kernels are compiled: one decorator for all of them, and vectors as wide as the processor has.

LLVM holds back to 256-bit vectors on Intel's processors with AVX-512, for the sake of programs that use
vectors now and then. Kernels use nothing else: with 512 bits rolling operators take 0.5 to 0.7 of the
time on such a machine. numba keeps compiled code apart by these features, so machines that share
a cache do not meet each other's.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import numba
from llvmlite import binding

NARROW = "prefer-256-bit"


def widen_vectors() -> None:
    """Let LLVM use 512-bit vectors where the processor has them, unless the user chose features."""
    config: Any = numba.config
    if config.CPU_FEATURES is not None or "NUMBA_CPU_FEATURES" in os.environ:
        return
    with contextlib.suppress(RuntimeError):  # a processor that LLVM cannot tell
        features = binding.get_host_cpu_features()
        if features.get("avx512f") and config.ENABLE_AVX:
            config.CPU_FEATURES = f"{features.flatten()},-{NARROW}"


def kernel(**options: Any) -> Any:
    """`numba.njit` for code that runs without the interpreter's lock and is kept on disk.

    A division by zero gives inf or NaN, which kernels turn into NaN, instead of a check.
    """
    return numba.njit(nogil=True, cache=True, error_model="numpy", **options)


widen_vectors()
