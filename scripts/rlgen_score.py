"""Score: the signal of a run's pool on new bars, equal bit for bit to the batch computation.

    python scripts/rlgen_score.py --run runs/demo --data new_bars.parquet --since 2024-03-01

Writes a parquet file with the columns datetime, symbol, signal: one row for each bar and symbol that has
a signal. The data must begin where the run's data began; earlier bars than --since are only looked back
on. Exit status 2: a mistake in what was given, told in one line.
"""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Sequence
from pathlib import Path

from rlgen.commandline import ScriptParser, run


def main(arguments: Sequence[str]) -> None:
    """Parse, score, say where it is."""
    parser = ScriptParser(__doc__)
    parser.add_argument("--run", type=Path, required=True, metavar="DIR", help="the run folder")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="PATH",
        help="bars, read as the run's configuration says; or a configuration file, whose section `data` "
        "is used (the run's own data)",
    )
    parser.add_argument("--since", type=date, metavar="DATE", help="the first session wanted (all)")
    parser.add_argument("--pool", type=Path, metavar="FILE", help="another pool file (DIR/pool.json)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the file to write (DIR/signal.parquet)")
    given, _ = parser.split(arguments)
    out = given.out or given.run / "signal.parquet"

    from rlgen.training import score_pool  # Here, so that --help need not wait for torch.

    table = score_pool(given.run, given.data, since=given.since, out=out, pool=given.pool)
    print(f"{out}: {table.num_rows} rows")


def date(text: str) -> dt.date:
    """A date in ISO 8601."""
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a date such as 2024-01-31, was {text!r}") from None


if __name__ == "__main__":
    run(main)
