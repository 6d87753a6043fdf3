"""How a bar table becomes a panel: the parts of the configuration that the panel needs.

`choose_fields` decides which columns are fields. A numeric column is one unless it is the
configured session, universe, group or return column, or a sibling of the return column (`ret_5`
beside the target `ret_10`), or its name says that it looks ahead (`forward_return…`,
`fwd_ret…`), or formulas cannot spell its name. A return that looks ahead must never be within a
formula's reach: naming one as a field is an error.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa

from rlgen.config import Config, SessionConfig, SplitsConfig, UniverseConfig, validate
from rlgen.errors import ConfigError, DataError
from rlgen.panel.arrays import BarLabel, Settings, Windows
from rlgen.panel.forward_return import ForwardReturn
from rlgen.panel.sessions import parse_clock

AHEAD = re.compile(r"(forward|fwd|future|next)_?(ret|return)", re.IGNORECASE)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Plan:
    """What `build_panel` needs to know besides the table."""

    target: ForwardReturn | None
    session: SessionConfig = field(default_factory=SessionConfig)
    universe: UniverseConfig = field(default_factory=UniverseConfig)
    splits: SplitsConfig | None = None
    fields: tuple[str, ...] | None = None
    bar_label: BarLabel = "right"
    windows: Windows = "continuous"
    min_periods: float = 0.5

    def __post_init__(self) -> None:
        """Refuse what shows to be wrong before any data is read."""
        check_windows(self.windows, self.min_periods)
        check_clocks(self.session)
        if self.bar_label not in ("left", "right"):
            raise ConfigError(f"bar_label: must be left or right, was {self.bar_label!r}")
        fields = self.fields or ()
        for name in fields:
            if (reason := self.no_field(name)) is not None:
                raise ConfigError(f"data.fields: {name} can be no field: {reason}")
        if self.fields is not None and not fields:
            raise ConfigError("data.fields: must name a field, was empty")
        if len(set(fields)) != len(fields):
            raise ConfigError(f"data.fields: must not name a field twice, was {', '.join(fields)}")
        price = self.target.price if self.target is not None else None
        if price is not None and AHEAD.match(price):
            raise ConfigError(f"data.forward_return.price: {price} looks ahead; did you mean `column`?")

    @classmethod
    def from_config(cls, config: Config) -> Plan:
        """The plan in a configuration."""
        data = config.data
        return cls(
            ForwardReturn.from_config(data.forward_return),
            data.session,
            data.universe,
            config.splits,
            data.fields,
            data.bar_label,
            data.windows,
            data.min_periods,
        )

    def settings(self, field_names: tuple[str, ...]) -> Settings:
        """The rules that a panel with these fields keeps."""
        return Settings(
            field_names,
            self.target,
            self.universe,
            self.windows,
            self.min_periods,
            self.splits,
            self.bar_label,
        )

    def no_field(self, name: str) -> str | None:
        """Why the column `name` can be no field, whatever it holds; None if it can."""
        target = self.target
        if name in ("datetime", "symbol"):
            return "it says which bar a row is"
        if name == self.session.column:
            return "it is the session"
        if name == self.universe.column:
            return "it is the universe"
        if target is not None and name == target.group_column:
            return "it is the group"
        if target is not None and target.column is not None:
            if name == target.column:
                return "it is the forward return: it looks ahead"
            if digits_out(name) == digits_out(target.column):
                return f"it looks ahead like its sibling {target.column}"
        if AHEAD.match(name):
            return "its name says that it looks ahead"
        if name.startswith("__"):
            return "it is a stored frame's index"  # `__index_level_0__`, as pandas writes to parquet
        if not NAME.fullmatch(name):
            return "formulas cannot spell its name: letters, digits and _ only"
        return None

    def wanted(self) -> dict[str, Any]:
        """Columns that cleaning must keep, as `clean_bars` takes them: `numbers`, `keep`, `booleans`."""
        target = self.target
        numbers = [target.column, target.price] if target is not None else []
        keep = [self.session.column, target.group_column if target is not None else None]
        return {"numbers": given(numbers), "keep": given(keep), "booleans": given([self.universe.column])}


def given(names: Iterable[str | None]) -> list[str]:
    """The names that are not None."""
    return [name for name in names if name is not None]


def digits_out(name: str) -> str:
    """A name with each number replaced by one mark: what siblings have in common."""
    return re.sub(r"\d+", "#", name)


def choose_fields(table: pa.Table, plan: Plan) -> tuple[tuple[str, ...], dict[str, str]]:
    """The fields' names, and the columns that are none with the reason.

    Raises:
        ConfigError: a field that was asked for is absent or not numeric.
        DataError: no column can be a field.
    """
    able: list[str] = []
    unused: dict[str, str] = {}
    for name in table.column_names:
        reason = plan.no_field(name)
        if reason is None and not is_numeric(table.schema.field(name).type):
            reason = "it is not numeric"
        if reason is None:
            able.append(name)
        elif name not in ("datetime", "symbol"):
            unused[name] = reason
    if plan.fields is None:
        if not able:
            raise DataError(f"no column can be a field; the columns are {', '.join(table.column_names)}")
        return tuple(able), unused
    for name in plan.fields:
        if name in unused:
            raise ConfigError(f"data.fields: {name} can be no field: {unused[name]}")
        check_column(able, name, "data.fields")
    return plan.fields, unused | {name: "not configured" for name in able if name not in plan.fields}


def is_numeric(kind: pa.DataType) -> bool:
    """Whether a column of this type can be a field."""
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def check_number(table: pa.Table, name: str, key: str) -> None:
    """Raise ConfigError, naming the key, unless the table has the numeric column `name`."""
    check_column(table.column_names, name, key)
    if not is_numeric(table.schema.field(name).type):
        raise ConfigError(f"{key}: column {name} must hold numbers, was {table.schema.field(name).type}")


def check_column(names: Sequence[str], name: str, key: str) -> None:
    """Raise ConfigError, naming the key and close columns, unless `name` is among `names`."""
    if name not in names:
        close = difflib.get_close_matches(name, names)
        hint = f"did you mean {' or '.join(close)}?" if close else f"it has {', '.join(names)}"
        raise ConfigError(f"{key}: the data has no column {name}; {hint}")


def check_windows(windows: str, min_periods: float) -> None:
    """Raise ConfigError for an unknown window mode or a share outside [0, 1]."""
    if windows not in ("continuous", "session"):
        raise ConfigError(f"windows: must be continuous or session, was {windows!r}")
    if not 0.0 <= min_periods <= 1.0:
        raise ConfigError(f"min_periods: must lie in [0, 1], was {min_periods}")


def check_clocks(session: SessionConfig) -> None:
    """ConfigError if a time of day is none, or `hours` leave no time at all."""
    if session.cut is not None:
        parse_clock(session.cut, "data.session.cut")
    if session.hours is not None and not session.hours:
        raise ConfigError("data.session.hours: must have a pair, or be left out for all hours; was empty")
    for first, last in session.hours or ():
        if parse_clock(first, "data.session.hours") == parse_clock(last, "data.session.hours"):
            raise ConfigError(f"data.session.hours: a pair must not be empty, was [{first}, {last}]")


def session_config(
    session: SessionConfig | Mapping[str, Any] | str, hours: Sequence[Sequence[str]] | None
) -> SessionConfig:
    """`session` and `hours` of `Panel.from_frame` as one section."""
    if isinstance(session, SessionConfig):
        tree: dict[str, Any] = session.model_dump()
    else:
        tree = {"rule": session} if isinstance(session, str) else dict(session)
    if hours is not None:
        tree["hours"] = [list(pair) for pair in hours]
    return cast(SessionConfig, validate(SessionConfig, tree, "session"))


def universe_config(universe: UniverseConfig | Mapping[str, Any] | str | None) -> UniverseConfig:
    """`universe` of `Panel.from_frame` as a section."""
    if universe is None or isinstance(universe, UniverseConfig):
        return universe or UniverseConfig()
    tree = {"column": universe} if isinstance(universe, str) else dict(universe)
    return cast(UniverseConfig, validate(UniverseConfig, tree, "universe"))


def splits_config(splits: SplitsConfig | Mapping[str, Any] | None) -> SplitsConfig | None:
    """`splits` of `Panel.from_frame` as a section."""
    if splits is None or isinstance(splits, SplitsConfig):
        return splits
    return cast(SplitsConfig, validate(SplitsConfig, dict(splits), "splits"))
