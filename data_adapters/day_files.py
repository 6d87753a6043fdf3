"""One file per day, as many vendors deliver: `bars/{date:%Y%m%d}.parquet`, or CSV.

The reader asks for one day at a time. A day's file is taken whole: whatever stamps it holds belong
to that day, a night session's of the evening before included.
"""

from __future__ import annotations

import datetime as dt
import glob
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from data_adapters.csv import SUFFIXES as CSV_SUFFIXES
from data_adapters.csv import Csv
from data_adapters.files import describe_files
from data_adapters.parquet import SUFFIXES, Parquet
from rlgen.errors import ConfigError

DIRECTIVES = {"%Y": r"\d{4}", "%m": r"\d\d", "%d": r"\d\d", "%y": r"\d\d", "%j": r"\d{3}"}


class DayFiles:
    """Reads one parquet, feather or CSV file per day."""

    per_call = "day"

    def __init__(self, path: str, **options: Any) -> None:
        """Options as in `docs/adapters.md`.

        Args:
            path: the files' path with the date in it, in the directives %Y %m %d %y %j, for example
                `bars/{date:%Y}/{date:%Y%m%d}.csv.gz`.
            options: those of the parquet or the CSV adapter, whichever the path's ending says.
        """
        self.path = str(path)
        self._expression = expression_of(self.path)
        ending = re.sub(r"\{date:[^{}]*\}", "", self.path)
        self._reader: Parquet | Csv
        try:
            if ending.endswith(CSV_SUFFIXES):
                self._reader = Csv(self.path, **options)
            elif ending.endswith(SUFFIXES["feather"]):
                self._reader = Parquet(self.path, file_format="feather", **options)
            elif ending.endswith(SUFFIXES["parquet"]):
                self._reader = Parquet(self.path, **options)
            else:
                endings = ", ".join((*SUFFIXES["parquet"], *SUFFIXES["feather"], *CSV_SUFFIXES))
                raise ConfigError(f"path must end in one of {endings}; was {self.path!r}")
        except TypeError as error:
            raise ConfigError(f"options of day_files: {str(error).split('() ', 1)[-1]}") from None
        self.symbol_width = self._reader.symbol_width

    def bars(
        self,
        start: dt.date | None,
        end: dt.date | None,
        fields: Sequence[str] | None,
        symbols: Sequence[str] | None,
    ) -> pa.Table:
        """The file of the day `start`.

        Raises:
            FileNotFoundError: there is none.
        """
        if start is None or start != end:
            raise ValueError(f"day_files gives one day per call, was {start} to {end}")
        file = self.file_of(start)
        if not file.is_file():
            raise FileNotFoundError(str(file))
        return self._reader.read(file, None, None, fields, symbols)

    def file_of(self, day: dt.date) -> Path:
        """The path of a day's file."""
        return Path(self.path.format(date=day))

    def days(self) -> list[dt.date]:
        """The days that have a file, in order."""
        pattern = "*".join(glob.escape(part) for part in re.split(r"\{date:[^{}]*\}", self.path))
        days = set()
        for name in glob.glob(pattern):
            match = self._expression.fullmatch(name)
            if match is None:
                continue
            parts = match.groupdict()
            try:
                day = dt.datetime.strptime(" ".join(parts.values()), " ".join(f"%{key}" for key in parts))
            except ValueError:
                continue
            if str(self.file_of(day.date())) == str(Path(name)):
                days.add(day.date())
        return sorted(days)

    def column_names(self) -> list[str]:
        """The columns of the first day's file, by the names they have here; for messages."""
        day = self.days()[0]
        return self.bars(day, day, None, None).column_names

    def describe(self) -> dict[str, Any]:
        """The files of all days, with sizes and times of change."""
        files = describe_files(self.file_of(day) for day in self.days())
        return {"adapter": "day_files", "path": self.path, "files": files}


def expression_of(path: str) -> re.Pattern[str]:
    """A regular expression that finds the date's parts in the path of a day's file."""
    try:
        filled = path.format(date=dt.date(2000, 1, 1))
    except (KeyError, IndexError, ValueError) as error:
        raise ConfigError(
            f"path may have only the date in braces, such as {{date:%Y%m%d}}; was {path!r} ({error!r})"
        ) from None
    seen: set[str] = set()
    whole = ""
    for part in re.split(r"(\{date:[^{}]*\})", path):
        if not part.startswith("{date:"):
            whole += re.escape(part)
            continue
        for piece in re.split(r"(%.)", part[6:-1]):
            if piece not in DIRECTIVES:
                whole += re.escape(piece)
            elif piece in seen:
                whole += DIRECTIVES[piece]
            else:
                seen.add(piece)
                whole += f"(?P<{piece[1]}>{DIRECTIVES[piece]})"
    days = ({"%Y", "%y"} & seen) and ({"%m", "%d"} <= seen or "%j" in seen)
    if not days or not re.fullmatch(whole, filled):
        raise ConfigError(
            f"path must name the day by the directives %Y %m %d %y %j, such as {{date:%Y%m%d}}; was {path!r}"
        )
    return re.compile(whole)
