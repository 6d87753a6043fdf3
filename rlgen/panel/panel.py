"""The panel: fields × bars × stocks, with a calendar, a universe and a forward return.

1. A *base* panel holds `Arrays`: what was read, on the grid. From them and the `Settings` it
   derives the universe and the forward return, in this order: universe, then the target, since
   a transform of the target runs across the universe.
2. `split` and `between` give a view of a range of bars: the base's own rows without a copy, its
   forward return cut where a label would look beyond the range. A view may read earlier bars of
   `base` as warm-up for windows, never later ones.
3. `with_fields` and `cut` make another base panel from other arrays by the same rules: what they
   change later must not change anything earlier, which the causality check relies on.

Nothing in a panel can be written to.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from rlgen.config import Config, SessionConfig, SplitsConfig, UniverseConfig
from rlgen.errors import ConfigError, DataError
from rlgen.panel.arrays import Array, Arrays, BarLabel, Settings, Windows, derive, digest, frozen
from rlgen.panel.forward_return import (
    ForwardReturn,
    cut_labels,
    has_label,
    possible_labels,
    refresh_labels,
)
from rlgen.panel.report import LoadReport


class Panel:
    """Bars as dense arrays. Made by `from_frame`, `from_arrays`, `load_panel`; views by `split`.

    Attributes (T bars of this panel or view, S stocks):
        fields: (T, S) float32 arrays by name, C-contiguous, NaN missing; read-only.
        bars: (T,) datetime64[ms], naive and exchange-local.
        symbols: (S,) str.
        session: (T,) int32 session number in the base panel.
        bar_of_session: (T,) int32 number of the bar within its session.
        session_dates: (n,) datetime64[D] of all the base's sessions.
        session_starts: (n+1,) int64 bar of the base at which each session starts, closed by its T.
        universe: (T, S) bool.
        forward_return: (T, S) float32, NaN missing; cut at a view's end.
        groups: (T, S) int32 group codes by column, -1 missing, or None.
        target: the `ForwardReturn`, or None.
        bar_label: the side of the bar that its time stamp marks, `left` or `right`.
        windows: `continuous` or `session`.
        min_periods: share of a window's bars that must be present.
        base: the panel that this is a view of, itself if it is none.
        start, stop: the view's bars in the base; 0 and T for a base.
        report: the `LoadReport`.
    """

    def __init__(
        self,
        arrays: Arrays,
        settings: Settings,
        report: LoadReport | None = None,
        *,
        derived: tuple[Array, Array] | None = None,
        fingerprint: str | None = None,
    ) -> None:
        """A base panel; `derived` is its universe and forward return where they are known already."""
        self._arrays = arrays
        self._settings = settings
        self.report = report if report is not None else LoadReport()
        universe, forward_return = derived if derived is not None else derive(arrays, settings)
        self.base: Panel = self
        self._embargo = 0
        self._labels = frozen(forward_return)
        self._known_fingerprint = fingerprint
        self._set_rows(0, len(arrays.calendar.bars), universe)

    def _set_rows(self, start: int, stop: int, universe: Array) -> None:
        """The attributes of rows [start, stop); `universe` is those rows."""
        arrays, settings, rows = self._arrays, self._settings, slice(start, stop)
        self.start, self.stop = start, stop
        self.fields: Mapping[str, Array] = MappingProxyType(
            {name: frozen(arrays.columns[name][rows]) for name in settings.field_names}
        )
        self.bars = frozen(arrays.calendar.bars[rows])
        self.session = frozen(arrays.calendar.session[rows])
        self.bar_of_session = frozen(arrays.calendar.bar_of_session[rows])
        self.session_dates = frozen(arrays.calendar.session_dates)
        self.session_starts = frozen(arrays.calendar.session_starts)
        self.symbols = frozen(arrays.symbols)
        self.universe = frozen(universe)
        self.groups: Mapping[str, Array] | None = (
            MappingProxyType({name: frozen(codes[rows]) for name, codes in arrays.groups.items()})
            if arrays.groups
            else None
        )
        self.target = settings.target
        self.bar_label: BarLabel = settings.bar_label
        self.windows: Windows = settings.windows
        self.min_periods = settings.min_periods

    # -- making ---------------------------------------------------------------------------------

    @classmethod
    def load(cls, config: Config | str | Path) -> Panel:
        """The panel that a configuration describes; `rlgen.load_panel` by another name."""
        from rlgen.panel.loader import load_panel

        return load_panel(config)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        forward_return: str | ForwardReturn | None = None,
        *,
        windows: Windows = "continuous",
        min_periods: float = 0.5,
        session: SessionConfig | Mapping[str, Any] | str = "date",
        hours: Sequence[Sequence[str]] | None = None,
        bar_label: BarLabel = "right",
        timezone: str | None = None,
        universe: UniverseConfig | Mapping[str, Any] | str | None = None,
        splits: SplitsConfig | Mapping[str, Any] | None = None,
        fields: Sequence[str] | None = None,
    ) -> Panel:
        """A panel from a bar table in memory.

        Args:
            frame: pandas frame or Arrow table with `datetime`, `symbol` and numeric columns, in
                any order; `datetime` and `symbol` may be a frame's index.
            forward_return: a ready-made column's name (one bar long, lag 1), a `ForwardReturn`,
                or None for a panel without a target (all missing).
            windows: `continuous` or `session`.
            min_periods: share of a window's bars that must be present.
            session: the rule, as `date`, `SessionConfig`, or a mapping such as
                `{"rule": "cut", "cut": "18:00"}`.
            hours: trading hours, pairs of HH:MM; bars outside are dropped and counted.
            bar_label: the side of the bar that its time stamp marks.
            timezone: the exchange's zone, for time stamps that have one.
            universe: a boolean column's name, `UniverseConfig`, or a mapping of its keys.
            splits: `SplitsConfig`, or a mapping such as `{"train": (first, last), "embargo": 5}`.
            fields: the fields kept; default every numeric column.

        Raises:
            DataError: the frame cannot be used as it is.
            ConfigError: an argument contradicts the frame or another argument.
        """
        from rlgen.panel.build import panel_from_frame

        return panel_from_frame(
            frame,
            forward_return,
            windows=windows,
            min_periods=min_periods,
            session=session,
            hours=hours,
            bar_label=bar_label,
            timezone=timezone,
            universe=universe,
            splits=splits,
            fields=fields,
        )

    @classmethod
    def from_arrays(
        cls,
        fields: Mapping[str, npt.ArrayLike],
        forward_return: npt.ArrayLike | ForwardReturn | None = None,
        *,
        horizon: int = 1,
        lag: int = 1,
        universe: npt.ArrayLike | None = None,
        bars: npt.ArrayLike | None = None,
        symbols: Sequence[str] | None = None,
        session: npt.ArrayLike | None = None,
        windows: Windows = "continuous",
        min_periods: float = 0.5,
        splits: SplitsConfig | Mapping[str, Any] | None = None,
    ) -> Panel:
        """A panel from dense arrays (T, S), one minute a bar, mostly for tests and benchmarks.

        Args:
            fields: (T, S) values by name.
            forward_return: (T, S) labels of the stated `horizon` and `lag`, or a `ForwardReturn`
                with a price among the fields, or None.
            horizon: bars that given labels span.
            lag: bars before given labels start.
            universe: (T, S) bool, narrowing the present cells.
            bars: (T,) time stamps; default minutes from 09:31, each session on the next day.
            symbols: (S,) names; default S000, S001, …
            session: (T,) session numbers 0…n-1; default the bars' dates, or one session.
            windows: as in `from_frame`.
            min_periods: as in `from_frame`.
            splits: as in `from_frame`.
        """
        from rlgen.panel.build import panel_from_arrays

        return panel_from_arrays(
            fields,
            forward_return,
            horizon=horizon,
            lag=lag,
            universe=universe,
            bars=bars,
            symbols=symbols,
            session=session,
            windows=windows,
            min_periods=min_periods,
            splits=splits,
        )

    # -- what it is -----------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        """(T, S)."""
        return len(self.bars), len(self.symbols)

    @functools.cached_property
    def forward_return(self) -> Array:
        """(T, S) float32, NaN missing; a view has no label that looks beyond its end."""
        if not self.is_view:
            return self._labels
        return frozen(cut_labels(self.base.forward_return[self.start : self.stop], self.label_limit))

    @property
    def label_limit(self) -> int:
        """The bars of this panel from here on have no label: those that a view's end cuts off."""
        if not self.is_view or self.target is None:
            return len(self.bars)
        return max(len(self.bars) - self.target.reach - self._embargo, 0)

    @property
    def horizon(self) -> int:
        """Length of the forward return in bars; 1 if the panel has none."""
        return self.target.horizon if self.target is not None else 1

    @property
    def lag(self) -> int:
        """Bars between a factor's bar and the start of its forward return; 1 if there is none."""
        return self.target.lag if self.target is not None else 1

    @property
    def is_view(self) -> bool:
        """Whether this is a range of another panel."""
        return self.base is not self

    @property
    def split_names(self) -> tuple[str, ...]:
        """The splits that were configured, in order."""
        splits = self._settings.splits
        return tuple(splits.ranges()) if splits is not None else ()

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hex digest of everything that a formula's values and scores depend on.

        Equal for equal calendars, symbols, values, universe and target, wherever they came from;
        a view's also depends on its range.
        """
        if self.is_view:
            text = f"{self.base.fingerprint} {self.start} {self.stop} {self._embargo}"
            return hashlib.sha256(text.encode()).hexdigest()[:32]
        return self._known_fingerprint or digest(self._arrays, self._settings, self.universe)

    def __repr__(self) -> str:
        view = f", bars {self.start} to {self.stop} of {self.base.shape[0]}" if self.is_view else ""
        return f"<Panel {len(self.fields)} fields × {self.shape[0]} bars × {self.shape[1]} stocks{view}>"

    # -- other panels ---------------------------------------------------------------------------

    def split(self, name: str) -> Panel:
        """The view of a configured split: `train`, `valid` or `test`.

        A label belongs to it only if its bar t and bar t+lag+horizon do: the last
        lag+horizon bars have none, nor have the `embargo` bars before these.

        Raises:
            ConfigError: no such split, or its dates have no bars or no label.
        """
        splits = self._settings.splits
        if splits is None or name not in splits.ranges():
            raise ConfigError(
                f"splits: there is no split {name!r}; there are {', '.join(self.split_names) or 'none'}"
            )
        first, last = splits.ranges()[name]
        view = self.between(first, last, splits.embargo, f"splits.{name}")
        if self.target is not None:
            self._check_labels(view, f"splits.{name}: {view.shape[0]} bars from {first} to {last}")
        return view

    def _check_labels(self, view: Panel, where: str) -> None:
        """ConfigError, beginning with `where`, if `view` has no label in its universe; and why."""
        assert self.target is not None
        allowed = slice(view.start, view.start + max(view.label_limit, 0))
        labels, universe = self.base.forward_return[allowed], self.base.universe[allowed]
        if has_label(labels, universe):
            return
        # Labels within a session need one that is long enough, whatever the split's length.
        possible = possible_labels(self.base.session, self.target)[allowed]
        if not possible.any():
            raise ConfigError(
                f"{where} leave no forward return: a label needs lag + horizon = {self.target.reach} later "
                f"bars of the same split, and the embargo takes {view._embargo} more"
            )
        if has_label(labels):
            raise ConfigError(
                f"{where} have no forward return in the universe, which has {np.count_nonzero(universe):,}"
                f" of {universe.size:,} cells there; loosen data.universe, or begin later"
            )
        missing = f"prices `{self.target.price}`" if self.target.price else f"column `{self.target.column}`"
        raise ConfigError(
            f"{where} have no forward return: {missing} must have values there, were missing or unusable"
        )

    def between(self, first: dt.date, last: dt.date, embargo: int = 0, where: str = "dates") -> Panel:
        """The view of the base's sessions dated first to last, both inclusive, labels cut as in `split`.

        It may have no label at all. Raises ConfigError, naming `where`, if it has no bars.
        """
        dates = self.session_dates
        begin = int(np.searchsorted(dates, np.datetime64(first, "D"), side="left"))
        end = int(np.searchsorted(dates, np.datetime64(last, "D"), side="right"))
        if begin >= end:
            raise ConfigError(
                f"{where}: no bars from {first} to {last}; the data has {dates[0]} to {dates[-1]}"
            )
        start, stop = int(self.session_starts[begin]), int(self.session_starts[end])
        return self.base._view(start, stop, embargo)

    def _view(self, start: int, stop: int, embargo: int = 0) -> Panel:
        """The view of the base's bars [start, stop)."""
        view = object.__new__(Panel)
        view._arrays, view._settings, view.report = self._arrays, self._settings, self.report
        view.base, view._embargo, view._known_fingerprint = self.base, embargo, None
        view._set_rows(start, stop, self.base.universe[start:stop])
        return view

    def cut(self, stop: int) -> Panel:
        """A base panel of the base's bars [0, stop), as if later bars had never been.

        The universe is rebuilt from the same rules, labels that look beyond are missing. Fields
        are shared, not copied. Splits are dropped. Raises DataError unless 0 < stop <= base's T.
        """
        arrays, n_bars = self._arrays, len(self._arrays.calendar.bars)
        if not 0 < stop <= n_bars:
            raise DataError(f"a panel of {n_bars} bars cannot be cut at bar {stop}")
        calendar = arrays.calendar.head(stop)
        raw = arrays.raw_return
        if raw is not None and stop < n_bars:
            assert self.target is not None
            raw = cut_labels(raw[:stop], stop - self.target.reach)
        shorter = Arrays(
            calendar,
            arrays.symbols,
            {name: values[:stop] for name, values in arrays.columns.items()},
            raw,
            None if arrays.given is None else arrays.given[:stop],
            None if arrays.members is None else arrays.members[: calendar.n_sessions],
            {name: codes[:stop] for name, codes in arrays.groups.items()},
        )
        return Panel(shorter, replace(self._settings, splits=None))

    def with_fields(self, fields: Mapping[str, npt.ArrayLike]) -> Panel:
        """The base panel with other values in some fields; of a view, the same view of that.

        Args:
            fields: (T, S) values of the base's shape by name, float32 or what becomes it; other
                fields stay. Infinities are taken as they are; a new name is a new field.

        The universe is rebuilt from the same rules, and a price-based forward return is computed
        again wherever one of its two prices changed. Raises DataError for a wrong shape.
        """
        arrays, settings = self._arrays, self._settings
        columns = dict(arrays.columns)
        shape = (len(arrays.calendar.bars), len(arrays.symbols))
        for name, values in fields.items():
            given = np.asarray(values)
            if given.shape != shape:
                raise DataError(f"field {name}: must have the panel's shape {shape}, was {given.shape}")
            shared = given.dtype == np.float32 and given.flags.c_contiguous and not given.flags.writeable
            with np.errstate(over="ignore"):
                columns[name] = given if shared else np.array(given, dtype=np.float32, order="C")
        names = settings.field_names + tuple(name for name in fields if name not in arrays.columns)
        raw, target = arrays.raw_return, settings.target
        if raw is not None and target is not None and target.price in fields:
            assert target.price is not None
            before, after = arrays.columns[target.price], columns[target.price]
            raw = refresh_labels(
                raw, before, after, np.asarray(fields[target.price]), arrays.calendar.session, target
            )
        other = Panel(
            replace(arrays, columns=columns, raw_return=raw),
            replace(settings, field_names=names),
            self.report,
        )
        return other._view(self.start, self.stop, self._embargo) if self.is_view else other
