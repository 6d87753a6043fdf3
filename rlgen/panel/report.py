"""The load report: what came in, what was dropped, and what a person should look at.

`LoadReport` holds plain numbers, texts and lists only, so that a stored panel carries its report
as JSON. `str(report)` is for a terminal: one fact a line, the worst symbols by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

NAMED = 6  # symbols or days named in one line; the report itself holds them all


@dataclass(frozen=True)
class LoadReport:
    """What a panel was built from. Shares are fractions; dates and times are ISO texts."""

    source: str = ""
    """Where the bars came from, in words."""
    reading: tuple[str, ...] = ()
    """The reader's own lines: rows, duplicates, prices not positive, probable splits, missing days."""
    rows: int = 0
    """Rows that became cells of the panel."""
    symbols: int = 0
    bars: int = 0
    sessions: int = 0
    first: str = ""
    """The first bar's time stamp."""
    last: str = ""
    bars_per_session: tuple[int, int, int] = (0, 0, 0)
    """Smallest, median and largest number of bars in a session."""
    fields: tuple[str, ...] = ()
    unused: Mapping[str, str] = field(default_factory=dict)
    """Columns that are no fields, and why."""
    absent: float = 0.0
    """Share of the panel's cells without a row."""
    missing: Mapping[str, float] = field(default_factory=dict)
    """By field: share of the cells with a row whose value is missing."""
    overflow: Mapping[str, int] = field(default_factory=dict)
    """By field: values too large for float32, now missing."""
    outside: Mapping[str, int] = field(default_factory=dict)
    """By symbol: rows dropped because they lie outside the trading hours."""
    short_sessions: Mapping[str, int] = field(default_factory=dict)
    """Sessions with less than half the usual number of bars, and that number."""
    empty_weekdays: tuple[str, ...] = ()
    """Weekdays between the first and the last session that are no session."""
    late: Mapping[str, str] = field(default_factory=dict)
    """By symbol: date of its first bar, where that is not in the first session."""
    early: Mapping[str, str] = field(default_factory=dict)
    """By symbol: date of its last bar, where that is not in the last session."""
    universe: float = 0.0
    """Share of the present cells that are in the universe."""
    outsiders: tuple[str, ...] = ()
    """Symbols that are never in the universe."""
    unknown_members: tuple[str, ...] = ()
    """Symbols of the membership table that the panel lacks."""
    target: str = ""
    """The forward return, in words."""
    labels: int = 0
    """Cells of the universe with a forward return."""
    labels_beyond: int = 0
    """Cells of the universe without one because it would look past its session or the data; unknown,
    and 0, for a ready-made return."""
    labels_lost: Mapping[str, float] = field(default_factory=dict)
    """By symbol: share of the other cells of the universe without one: a price, the ready-made
    return or the group is missing."""
    labels_lost_in_all: float = 0.0
    """The same over all symbols."""
    splits: tuple[str, ...] = ()
    """One line a split."""

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and texts; `from_json` reads them back."""
        return asdict(self)

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> LoadReport:
        """The report that `to_json` wrote."""
        known: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in tree.items()
        }
        return cls(**known)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The report as lines of text."""
        smallest, median, largest = self.bars_per_session
        per_session = f"{largest}" if smallest == largest else f"{smallest} to {largest}, median {median}"
        lines = [f"panel from {self.source}" if self.source else "panel", *self.reading]
        lines.append(
            f"{self.bars:,} bars × {self.symbols:,} symbols, {self.sessions:,} sessions "
            f"({per_session} bars each), {self.first} to {self.last}"
        )
        lines.append(f"{self.rows:,} rows; {percent(self.absent)} of the cells have none")
        lines.append(f"fields: {', '.join(self.fields)}")
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.unused.items():
            by_reason.setdefault(reason, []).append(name)
        lines += [f"no field: {', '.join(names)} ({reason})" for reason, names in by_reason.items()]
        holes = {name: share for name, share in self.missing.items() if share > 0}
        if holes:
            lines.append(f"missing values in rows: {shares(holes)}")
        if self.overflow:
            lines.append(f"too large for float32, now missing: {counts(self.overflow)}")
        if self.outside:
            total = sum(self.outside.values())
            lines.append(f"outside the trading hours, dropped: {total:,} rows: {counts(self.outside)}")
        if self.short_sessions:
            lines.append(f"short sessions: {counts(self.short_sessions, 'bars')}")
        if self.empty_weekdays:
            lines.append(f"weekdays without a session: {listed(self.empty_weekdays)}")
        if self.late:
            lines.append(f"start late: {listed(f'{name} {day}' for name, day in self.late.items())}")
        if self.early:
            lines.append(f"end early: {listed(f'{name} {day}' for name, day in self.early.items())}")
        lines.append(f"universe: {percent(self.universe)} of the present cells")
        if self.outsiders:
            lines.append(f"never in the universe: {listed(self.outsiders)}")
        if self.unknown_members:
            lines.append(f"members without any bar: {listed(self.unknown_members)}")
        if self.target:
            lines.append(f"forward return: {self.target}")
            lines.append(
                f"labels: {self.labels:,}; {percent(self.labels_lost_in_all)} of those possible are lost to "
                f"missing values, {self.labels_beyond:,} more bars × stocks would look too far"
            )
            lost = {name: share for name, share in self.labels_lost.items() if share > 0}
            if lost:
                lines.append(f"labels lost by symbol: {shares(lost)}")
        lines += self.splits
        return lines


def percent(share: float) -> str:
    """A share for the eye; what is not nothing never reads as 0 %."""
    if 0 < share < 0.0005:
        return "under 0.1 %"
    return f"{share:.1%}".replace("%", " %")


def listed(items: Iterable[str]) -> str:
    """The first few of `items`, and how many more there are."""
    names = list(items)
    more = f", and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def counts(numbers: Mapping[str, int], unit: str = "") -> str:
    """The largest numbers by name, as text."""
    ordered = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    return listed(f"{name} {number:,}{' ' + unit if unit else ''}" for name, number in ordered)


def shares(numbers: Mapping[str, float]) -> str:
    """The largest shares by name, as text."""
    ordered = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    return listed(f"{name} {percent(share)}" for name, share in ordered)
