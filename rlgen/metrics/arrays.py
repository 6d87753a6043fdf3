"""What metrics accept: numpy arrays and torch tensors of one shape (T, S).

1. Tensors on the CPU become numpy views, without a copy. If any input is a tensor on another
   device, all of them become tensors there.
2. float32 stays; float16 and bfloat16 become float32, everything else float64.
3. Shapes must agree; the error names both.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rlgen.errors import DataError

Array: TypeAlias = Any
"""A numpy array or torch tensor, (T, S)."""
Float64s: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]


def is_tensor(values: Any) -> bool:
    """Whether `values` is a torch tensor; does not import torch, which a numpy user may lack."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def device_of(*arrays: Any) -> Any | None:
    """The first device other than the CPU that a tensor among `arrays` lies on, else None."""
    for values in arrays:
        if is_tensor(values) and values.device.type != "cpu":
            return values.device
    return None


def as_numpy(values: Any, name: str) -> npt.NDArray[Any]:
    """A contiguous float32 or float64 numpy array (T, S); a view where that is possible."""
    if is_tensor(values):
        values = values.detach().cpu()
        if not values.dtype.is_floating_point or values.dtype.itemsize < 4:
            values = values.float() if values.dtype.is_floating_point else values.double()
        values = values.numpy()
    try:
        array = np.asarray(values)
        if array.dtype == np.float16:
            array = array.astype(np.float32)
        elif array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} must be an array of numbers, was {type(values).__name__}") from None
    if array.ndim != 2:
        raise DataError(f"{name} must have two dimensions (bars, stocks), its shape was {array.shape}")
    # Files may hold the other byte order, which kernels do not read.
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


def as_mask(values: Any, name: str) -> npt.NDArray[np.bool_]:
    """A contiguous bool numpy array (T, S)."""
    if is_tensor(values):
        values = values.detach().cpu().numpy()
    array = np.asarray(values)
    if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
        raise DataError(f"{name} must hold booleans, its dtype was {array.dtype}")
    if array.ndim != 2:
        raise DataError(f"{name} must have two dimensions (bars, stocks), its shape was {array.shape}")
    return np.ascontiguousarray(array, dtype=np.bool_)


def same_shape(shape: tuple[int, ...], name: str, other: tuple[int, ...], other_name: str) -> None:
    """Refuse two shapes that differ.

    Raises:
        DataError: with both names and both shapes.
    """
    if tuple(shape) != tuple(other):
        raise DataError(
            f"{name} and {other_name} must have one shape (bars, stocks), "
            f"were {tuple(shape)} and {tuple(other)}"
        )


def as_float32_order(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """float32 values that order and tie within each bar exactly as `values` (T, S) do.

    float32 itself comes back as it is, and so does a float64 that float32 holds exactly. Else each
    value is replaced by its dense place within the bar (0, 1, …; missing stays missing).
    """
    if values.dtype == np.float32:
        return values
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    finite = np.isfinite(values)
    if (single[finite] == values[finite]).all():
        return single
    masked = np.where(finite, values, np.inf)
    order = np.argsort(masked, axis=1, kind="stable")
    ascending = np.take_along_axis(masked, order, axis=1)
    steps = np.zeros(ascending.shape, dtype=np.float32)
    steps[:, 1:] = ascending[:, 1:] != ascending[:, :-1]
    places = np.empty_like(steps)
    np.put_along_axis(places, order, np.cumsum(steps, axis=1, dtype=np.float32), axis=1)
    return np.where(finite, places, np.float32(np.nan))
