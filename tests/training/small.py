"""A whole run in a few seconds: a small synthetic market, a small network, few kernels."""

from pathlib import Path
from typing import Any

from rlgen.config import Config, validate

PLANT = "Sub(Mean($close,4),$close)"


def make_config(folder: Path, **sections: dict[str, Any]) -> Config:
    """A configuration whose bars are at `folder`/bars.parquet; `sections` change single keys."""
    path = str(folder / "bars.parquet")
    tree: dict[str, dict[str, Any]] = {
        "synthetic": {
            "path": path,
            "n_stocks": 12,
            "n_sessions": 8,
            "session_minutes": 40,
            "information_coefficient": 0.2,
            "plants": [{"expression": PLANT}],
        },
        "data": {
            "options": {"path": path},
            "fields": ["close", "volume"],
            "forward_return": {"column": "forward_return", "horizon": 3, "lag": 1},
        },
        "splits": {
            "train": ["2024-01-02", "2024-01-05"],
            "valid": ["2024-01-08", "2024-01-09"],
            "test": ["2024-01-10", "2024-01-11"],
        },
        "grammar": {
            "operators": ["Sub", "Mean", "Delta", "CSRank"],
            "windows": [2, 4],
            "constants": [],
            "token_limit": 6,
        },
        "calculator": {"threads": 1, "device": "cpu"},
        "pool": {"capacity": 3},
        "policy": {"d_model": 16, "n_layers": 1, "n_heads": 2},
        "training": {
            "total_steps": 960,
            "n_envs": 12,
            "n_steps": 10,
            "batch_size": 40,
            "n_epochs": 2,
            "checkpoint_every": 3,
            "evaluate_every": 2,
            "keep_checkpoints": 2,
            "threads": 1,
        },
    }
    for name, changes in sections.items():
        tree[name] = tree[name] | changes
    return validate(Config, tree, "test")


def files_of(folder: Path, *names: str) -> dict[str, bytes]:
    """The bytes of files of a run that no clock enters."""
    names = names or ("pool.json", "pool_last.json", "ledger.jsonl", "config.yaml", "environment.json")
    return {name: (folder / name).read_bytes() for name in names}
