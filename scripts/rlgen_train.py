"""Train: search for formulas that predict the forward return, as a configuration says.

    python scripts/rlgen_train.py --config configs/demo.yaml --out runs/demo

Leaves in the run folder: pool.json (the pool that was best on the validation split), pool_last.json,
metrics.jsonl, ledger.jsonl, tensorboard/, checkpoints/, config.yaml, environment.json.

Exit status: 0 finished; 2 a mistake in what was given, told in one line; 128 + n stopped by signal n
(Ctrl-C, SIGTERM, SIGUSR1), with a checkpoint from which --resume goes on.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from rlgen.commandline import ScriptParser, run
from rlgen.config import Config, load_config


def main(arguments: Sequence[str]) -> None:
    """Parse, train, leave."""
    parser = ScriptParser(__doc__, overrides=Config)
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the YAML file")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the run folder (runs/NAME for NAME.yaml)")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint in --out")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="load, check, print sizes and an estimate of time and memory, and write nothing",
    )
    given, overrides = parser.split(arguments)
    config = load_config(given.config, overrides)
    out = given.out or Path("runs") / given.config.stem

    from rlgen.training import train  # Here, so that --help and a wrong key need not wait for torch.

    result = train(config, out, resume=given.resume, dry_run=given.dry_run)
    if result is not None and result.stopped_by is not None:
        raise SystemExit(128 + signal.Signals[result.stopped_by])


if __name__ == "__main__":
    run(main)
