"""What a base panel is made of: the arrays that were read, and the rules that they are read by.

`derive` makes the universe and the forward return of them, in this order, since a transform of
the target runs across the universe. `digest` is their fingerprint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from rlgen.config import SplitsConfig, UniverseConfig
from rlgen.panel.forward_return import ForwardReturn, transform_forward_return
from rlgen.panel.sessions import Calendar
from rlgen.panel.universe import build_universe

Array = npt.NDArray[Any]
Windows = Literal["continuous", "session"]
BarLabel = Literal["left", "right"]


@dataclass(frozen=True, eq=False)
class Arrays:
    """What was read, on the grid: (T, S) arrays, C-contiguous, never written to."""

    calendar: Calendar
    symbols: Array
    """(S,) str."""
    columns: Mapping[str, Array]
    """float32, NaN missing: the fields, and what the universe's rules read besides."""
    raw_return: Array | None = None
    """float32 forward return before its transform; None: no target."""
    given: Array | None = None
    """bool, the universe's column."""
    members: Array | None = None
    """(n, S) bool, the universe's membership table by session."""
    groups: Mapping[str, Array] = field(default_factory=dict)
    """int32 group codes by column, -1 missing."""


@dataclass(frozen=True)
class Settings:
    """The rules that make a panel out of `Arrays`."""

    field_names: tuple[str, ...]
    """Which columns are fields, in order."""
    target: ForwardReturn | None = None
    universe: UniverseConfig = field(default_factory=UniverseConfig)
    windows: Windows = "continuous"
    min_periods: float = 0.5
    splits: SplitsConfig | None = None
    bar_label: BarLabel = "right"


def derive(arrays: Arrays, settings: Settings) -> tuple[Array, Array]:
    """The universe (T, S) bool and the forward return (T, S) float32."""
    universe = build_universe(
        arrays.columns, arrays.calendar, settings.universe, arrays.given, arrays.members
    )
    if arrays.raw_return is None or settings.target is None:
        return universe, np.full(universe.shape, np.nan, dtype=np.float32)
    group = arrays.groups.get(settings.target.group_column or "")
    return universe, transform_forward_return(arrays.raw_return, universe, settings.target, group)


def frozen(array: Array) -> Array:
    """A read-only view of `array`."""
    view = array.view()
    view.flags.writeable = False
    return view


def digest(arrays: Arrays, settings: Settings, universe: Array) -> str:
    """Hex digest of a base panel's content and rules."""
    target = None if settings.target is None else vars(settings.target)
    rules = [1, settings.field_names, target, settings.windows, settings.min_periods]
    rules += [settings.universe.model_dump(mode="json", exclude={"membership"}), arrays.symbols.tolist()]
    result = hashlib.sha256(json.dumps(rules).encode())
    parts: list[Array] = [
        arrays.calendar.bars,
        arrays.calendar.session,
        arrays.calendar.session_dates,
        universe,
    ]
    parts += [arrays.columns[name] for name in sorted(arrays.columns)]
    parts += [arrays.groups[name] for name in sorted(arrays.groups)]
    parts += [part for part in (arrays.raw_return, arrays.given, arrays.members) if part is not None]
    for part in parts:
        part = np.ascontiguousarray(part)
        result.update(f"{part.dtype.kind}{part.dtype.itemsize}{part.shape}".encode())
        result.update(part.view(np.uint8).reshape(-1).data)
    return result.hexdigest()[:32]
