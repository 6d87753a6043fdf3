"""Large arrays within a budget: memory that is taken again, and files for what does not fit.

1. The system hands out fresh memory page by page, at several times the cost of filling it. An array
   that nobody holds any longer therefore gives its block back to a list, from which the next one of
   about its size takes it.
2. Blocks in use and on the list together stay within the budget. For a new one, blocks on the list are
   let go first; if that is not enough, the array lies in a file without a name, mapped into
   memory: the system keeps of it what there is room for, and it vanishes with its last reader.
3. Arrays that last get a quarter of the budget and go to files beyond that: what is read once per
   candidate can wait for a disk, what is written at every step cannot.

An array may be viewed and handed on at will; its block is free when the last view is gone.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rlgen.errors import RlgenError

SMALL = 2**16
"""Bytes below which an array is the system's business alone."""
SLACK = 1.25
"""A block serves arrays that need at least 1/SLACK of it."""


class Memory:
    """Hands out arrays.

    Args:
        budget: bytes of blocks, in use or kept for later, that may lie in memory at one time.
        folder: where files go for what does not fit; None: the system's folder for temporary files.

    Attributes:
        in_use: bytes of memory in use.
        spilled: bytes of arrays that lie in files.
    """

    def __init__(self, budget: int, folder: Path | None = None) -> None:
        self.budget = budget
        self.folder = folder
        self.in_use = 0
        self.spilled = 0
        self._lasting = 0
        self._free: list[npt.NDArray[np.uint8]] = []
        self._lock = threading.RLock()

    def empty(self, shape: int | Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array whose contents are undefined."""
        return self._array(shape, dtype, lasting=False)

    def keep(self, shape: int | Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """The same for an array that lasts."""
        return self._array(shape, dtype, lasting=True)

    def _array(self, shape: int | Sequence[int], dtype: npt.DTypeLike, lasting: bool) -> npt.NDArray[Any]:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        kind = np.dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        if size < SMALL:
            return np.empty(shape, kind)
        with self._lock:
            fits = not lasting or self._lasting + size <= self.budget // 4
            block = self._take(size) if fits else None
            if block is None:
                return self._in_file(size).view(kind).reshape(shape)
            self._lasting += block.size if lasting else 0
        return np.asarray(_Lease(self, block, lasting))[:size].view(kind).reshape(shape)

    def _take(self, size: int) -> npt.NDArray[np.uint8] | None:
        """A block for `size` bytes, counted as in use; None if there is no room for it."""
        fitting = [i for i, b in enumerate(self._free) if size <= b.size <= SLACK * size]
        if fitting:
            block = self._free.pop(min(fitting, key=lambda i: self._free[i].size))
        else:
            while self._free and self.in_use + self.kept + size > self.budget:
                self._free.pop(0)
            if self.in_use + size > self.budget:
                return None
            block = _pages(size)
        self.in_use += block.size
        return block

    @property
    def kept(self) -> int:
        """Bytes of blocks kept for later."""
        return sum(block.size for block in self._free)

    def give_back(self, block: npt.NDArray[np.uint8], lasting: bool) -> None:
        """Called when the last view of a block's array is gone."""
        with self._lock:
            self.in_use -= block.size
            self._lasting -= block.size if lasting else 0
            self._free.append(block)

    def _in_file(self, size: int) -> npt.NDArray[np.uint8]:
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                # Room is taken now: a full disk would otherwise end the process at some later write.
                os.posix_fallocate(file.fileno(), 0, size)
                mapped = mmap.mmap(file.fileno(), size)
        except OSError as error:
            raise RlgenError(
                f"{self.folder or tempfile.gettempdir()}: no file of {size / 1e6:.0f} MB for what the "
                f"memory budget of {self.budget / 1e6:.0f} MB has no room for: {error.strerror}"
            ) from None
        array = np.asarray(_Spilled(self, mapped, size))
        self.spilled += size
        return array


def _pages(size: int) -> npt.NDArray[np.uint8]:
    """Memory straight from the system, which gets it back at once when it is let go: the C library
    keeps freed blocks of up to 32 MB for itself."""
    mapped = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a system without large pages
            mapped.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(mapped, np.uint8)


class _Lease:
    """Owns a block while any array over it is alive: numpy keeps it as the arrays' base."""

    def __init__(self, memory: Memory, block: npt.NDArray[np.uint8], lasting: bool) -> None:
        self.memory, self.block, self.lasting = memory, block, lasting
        self.__array_interface__ = block.__array_interface__

    def __del__(self) -> None:
        self.memory.give_back(self.block, self.lasting)


class _Spilled:
    """Owns a mapped file while any array over it is alive."""

    def __init__(self, memory: Memory, mapped: mmap.mmap, size: int) -> None:
        self.memory, self.mapped, self.size = memory, mapped, size
        self._view = np.frombuffer(mapped, np.uint8)
        self.__array_interface__ = self._view.__array_interface__

    def __del__(self) -> None:
        self.memory.spilled -= self.size
