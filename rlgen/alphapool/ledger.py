"""The ledger: one JSON line per distinct candidate, for auditing a search and for statistics that
account for the number of tries.

A line holds `formula`, `step`, `reason`, `reward`, `objective`, `ic`, `rank_ic`, `coverage` of the
candidate's first offer, and per session `session_ic_sums` (Σ n_t·ic[t]) and `session_cells` (Σ n_t
over the bars with an IC); undefined numbers are null. It holds no clock, path or host: two runs
with one seed write the same bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rlgen.alphapool.offer import Offer
from rlgen.errors import CheckpointError
from rlgen.metrics import BarScores, session_sums
from rlgen.metrics.arrays import Integers


class Ledger:
    """An append-only file of JSON lines.

    Args:
        path: made if absent.
        position: bytes to keep, as a checkpoint recorded them; what was written after that is cut
            off. None: keep everything.

    Raises:
        CheckpointError: the file is shorter than `position`.
    """

    def __init__(self, path: str | Path, position: int | None = None) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        size = self.path.stat().st_size if self.path.exists() else 0
        if position is not None and position > size:
            raise CheckpointError(f"{self.path}: must have at least {position} bytes, was {size}")
        self._file = open(self.path, "ab")  # noqa: SIM115 (open as long as the run)
        self._file.truncate(size if position is None else position)
        self._position = size if position is None else position

    @property
    def position(self) -> int:
        """Bytes written so far; goes into checkpoints."""
        return self._position

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one line and hand it to the system."""
        line = json.dumps(_plain(record), ensure_ascii=False, allow_nan=False) + "\n"
        self._position += self._file.write(line.encode())
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def read_ledger(path: str | Path) -> Iterator[dict[str, Any]]:
    """The lines of a ledger.

    Raises:
        CheckpointError: a line is not a JSON object; the message names file and line.
    """
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                raise CheckpointError(f"{path}: line {number} is not JSON: {error}") from None
            if not isinstance(record, dict) or "formula" not in record:
                raise CheckpointError(f"{path}: line {number} must be an object with the key formula")
            yield record


def ledger_line(offer: Offer, step: int, bars: BarScores | None, session: Integers) -> dict[str, Any]:
    """The record of an offer.

    Args:
        offer: the candidate's first.
        step: when it was made.
        bars: the candidate's own per-bar scores; None if it could not be evaluated.
        session: (T,) numbers of the bars' sessions.
    """
    if bars is None:
        sums, cells = [], []
    else:
        # Six digits are enough for statistics, and keep lines short.
        sums = [float(f"{value:.6g}") for value in session_sums(bars.count * bars.ic, session)]
        cells = [int(n) for n in session_sums(bars.count * np.isfinite(bars.ic), session)]
    return {
        "formula": offer.expression,
        "step": step,
        "reason": offer.reason,
        "reward": offer.reward,
        "objective": offer.objective,
        "ic": offer.ic,
        "rank_ic": offer.rank_ic,
        "coverage": offer.coverage,
        "session_ic_sums": sums,
        "session_cells": cells,
    }


def _plain(value: Any) -> Any:
    """JSON's kinds only, NaN as null."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
