"""The forward return: the target that factors are measured against.

1. `compute_forward_return`: price[t+lag+horizon] / price[t+lag] - 1 in grid bars, in float64; NaN
   where either price is missing or not positive, and, unless `across_sessions`, where bar
   t+lag+horizon is not in t's session. Nothing is ever filled. A ready-made column skips this.
2. `transform_forward_return`: an optional transform per bar across the universe.
3. `cut_labels`: the labels that look beyond a split's end become NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rlgen.config import ForwardReturnConfig
from rlgen.errors import ConfigError

Array = npt.NDArray[Any]

TRANSFORMS = ("none", "demean", "winsorize", "rank", "group-neutral")
BLOCK = 512  # rows at a time: float64 temporaries stay small beside the panel


@dataclass(frozen=True)
class ForwardReturn:
    """The return from bar t+lag to bar t+lag+horizon, from a price field or a ready-made column.

    `lag` 1 is the honest value; 0 only shows what it hides. `group_column` names the groups of
    the transform `group-neutral`; `winsorize` is the share clipped on each side by `winsorize`.
    """

    horizon: int
    lag: int = 1
    price: str | None = None
    column: str | None = None
    across_sessions: bool = False
    transform: str = "none"
    winsorize: float = 0.01
    group_column: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.horizon, int) or self.horizon < 1:
            raise ConfigError(
                f"forward return: horizon must be a positive number of bars, was {self.horizon}"
            )
        if not isinstance(self.lag, int) or self.lag < 0:
            raise ConfigError(f"forward return: lag must be 0 or more bars, was {self.lag}")
        if (self.price is None) == (self.column is None):
            raise ConfigError(
                f"forward return: needs one of price and column, was price {self.price}, column {self.column}"
            )
        if self.transform not in TRANSFORMS:
            raise ConfigError(
                f"forward return: transform must be one of {', '.join(TRANSFORMS)}, was {self.transform}"
            )
        if not 0.0 < self.winsorize < 0.5:
            raise ConfigError(f"forward return: winsorize must lie between 0 and 0.5, was {self.winsorize}")
        if (self.transform == "group-neutral") != (self.group_column is not None):
            raise ConfigError("forward return: transform group-neutral and group_column go together")

    @classmethod
    def from_config(cls, config: ForwardReturnConfig) -> ForwardReturn:
        """The same thing out of a configuration file."""
        return cls(**config.model_dump())

    @property
    def reach(self) -> int:
        """Bars that a label looks ahead: lag + horizon."""
        return self.lag + self.horizon


def compute_forward_return(price: Array, session: Array, target: ForwardReturn) -> Array:
    """(T, S) float32 forward return of a price (T, S), NaN where it does not exist."""
    n_bars, lag, reach = len(price), target.lag, target.reach
    result = np.full(price.shape, np.nan, dtype=np.float32)
    stop = n_bars - reach
    with np.errstate(all="ignore"):
        for begin in range(0, max(stop, 0), BLOCK):
            end = min(begin + BLOCK, stop)
            first = price[begin + lag : end + lag].astype(np.float64)
            last = price[begin + reach : end + reach].astype(np.float64)
            value = (last / first - 1.0).astype(np.float32)
            # An infinite first price gives a finite -1.
            value[~((first > 0.0) & (last > 0.0) & np.isfinite(first) & np.isfinite(value))] = np.nan
            if not target.across_sessions:
                value[session[begin:end] != session[begin + reach : end + reach]] = np.nan
            result[begin:end] = value
    return result


def refresh_labels(
    raw: Array, before: Array, after: Array, given: Array, session: Array, target: ForwardReturn
) -> Array:
    """The labels (T, S) with those computed again whose price changed; `given` is `after` unrounded.

    Labels are made from the source's float64 prices, the field holds float32: computing them all
    again would change labels whose prices did not change.
    """
    same = before.view(np.int32) == after.view(np.int32)
    if same.all():
        return raw
    fresh = compute_forward_return(given, session, target)
    stop = max(len(raw) - target.reach, 0)
    lag, reach = target.lag, target.reach
    kept = same[lag : lag + stop] & same[reach : reach + stop]
    fresh[:stop][kept] = raw[:stop][kept]
    return fresh


def possible_labels(session: Array, target: ForwardReturn) -> Array:
    """(T,) bool: the bars whose label the calendar allows."""
    possible = np.zeros(len(session), dtype=bool)
    stop = max(len(session) - target.reach, 0)
    possible[:stop] = True
    if not target.across_sessions:
        possible[:stop] = session[:stop] == session[target.reach : target.reach + stop]
    return possible


def cut_labels(forward_return: Array, limit: int) -> Array:
    """`forward_return` (T, S) with NaN from row `limit` on; itself if there is nothing to cut."""
    limit = max(limit, 0)
    if not has_label(forward_return[limit:]):
        return forward_return
    result = np.array(forward_return)
    result[limit:] = np.nan
    return result


def has_label(forward_return: Array, universe: Array | None = None) -> bool:
    """Whether any label is there, in the universe if it is given; as a rule the first block tells."""
    for begin in range(0, len(forward_return), BLOCK):
        rows = slice(begin, begin + BLOCK)
        there = ~np.isnan(forward_return[rows])
        if (there if universe is None else there & universe[rows]).any():
            return True
    return False


def transform_forward_return(
    raw: Array, universe: Array, target: ForwardReturn, group: Array | None = None
) -> Array:
    """(T, S) float32: `raw` transformed per bar across the universe's present labels.

    `none` is `raw` itself; the other transforms leave NaN outside the universe. `demean` subtracts
    the mean; `winsorize` clips at the quantiles q and 1-q (linear interpolation); `rank` is the
    ascending percentile in (0, 1] with average ties; `group-neutral` subtracts the mean of the
    cell's group, `group` (T, S) int32 with -1 for none, whose cells become NaN.
    """
    if target.transform == "none":
        return raw
    result = np.empty(raw.shape, dtype=np.float32)
    for begin in range(0, len(raw), BLOCK):
        rows = slice(begin, begin + BLOCK)
        value = np.where(universe[rows], raw[rows], np.nan).astype(np.float64)
        if target.transform == "demean":
            value -= _row_means(value)
        elif target.transform == "winsorize":
            value = _winsorize(value, target.winsorize)
        elif target.transform == "rank":
            value = _row_ranks(value)
        else:
            assert group is not None
            value = _group_neutral(value, group[rows])
        result[rows] = value
    return result


def _row_means(value: Array) -> Array:
    """(T, 1) mean of the present values, NaN for a row without any."""
    count = np.count_nonzero(~np.isnan(value), axis=1)[:, None]
    total = np.nansum(value, axis=1)[:, None]
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def _winsorize(value: Array, share: float) -> Array:
    ordered = np.sort(value, axis=1)  # NaN last
    count = np.count_nonzero(~np.isnan(value), axis=1)
    bounds = []
    for quantile in (share, 1.0 - share):
        position = quantile * np.maximum(count - 1, 0)
        lower = np.floor(position).astype(np.int64)
        upper = np.minimum(lower + 1, np.maximum(count - 1, 0))
        rows = np.arange(len(value))
        part = position - lower
        bounds.append((ordered[rows, lower] * (1.0 - part) + ordered[rows, upper] * part)[:, None])
    return np.clip(value, bounds[0], bounds[1])


def _row_ranks(value: Array) -> Array:
    """Ascending percentile among the row's present values, average ties, in (0, 1]."""
    order = np.argsort(value, axis=1, kind="stable")
    ordered = np.take_along_axis(value, order, axis=1)
    n_names = value.shape[1]
    position = np.arange(n_names)
    new = np.ones(value.shape, dtype=bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = np.maximum.accumulate(np.where(new, position, 0), axis=1)
    closes = np.ones(value.shape, dtype=bool)
    closes[:, :-1] = new[:, 1:]
    last = np.minimum.accumulate(np.where(closes, position, n_names)[:, ::-1], axis=1)[:, ::-1]
    count = np.count_nonzero(~np.isnan(value), axis=1)[:, None]
    percentile = ((first + last) / 2.0 + 1.0) / np.maximum(count, 1)
    percentile[np.isnan(ordered)] = np.nan
    result = np.empty(value.shape)
    np.put_along_axis(result, order, percentile, axis=1)
    return result


def _group_neutral(value: Array, group: Array) -> Array:
    n_groups = int(group.max(initial=-1)) + 1
    present = ~np.isnan(value) & (group >= 0)
    key = (np.arange(len(value))[:, None] * n_groups + group)[present]
    size = len(value) * n_groups
    total = np.bincount(key, weights=value[present], minlength=size)
    count = np.bincount(key, minlength=size)
    result = np.full(value.shape, np.nan)
    result[present] = value[present] - total[key] / count[key]
    return result
