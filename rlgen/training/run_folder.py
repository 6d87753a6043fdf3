"""The folder of a run: what lies where, whether it is taken, and what made it.

config.yaml        the resolved configuration
environment.json   versions, git revision, panel fingerprint, device
metrics.jsonl      one line per iteration
tensorboard/       the same for TensorBoard
checkpoints/       the last K states of the run
pool.json          the pool that was best on the validation split
pool_last.json     the pool at the end
ledger.jsonl       one line per distinct candidate
"""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from rlgen.config import Config, load_config
from rlgen.errors import CheckpointError

PACKAGES = (
    "rlgen",
    "gymnasium",
    "numba",
    "numpy",
    "pandas",
    "pyarrow",
    "sb3-contrib",
    "scipy",
    "stable-baselines3",
    "torch",
)

MAY_CHANGE = ("total_steps", "checkpoint_every", "keep_checkpoints")
"""Keys of the section `training` that a resumed run may state anew: none of them touches the search."""


class RunFolder:
    """Paths of a run.

    Args:
        root: the folder; it need not exist.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self.config = self.root / "config.yaml"
        self.environment = self.root / "environment.json"
        self.metrics = self.root / "metrics.jsonl"
        self.tensorboard = self.root / "tensorboard"
        self.checkpoints = self.root / "checkpoints"
        self.pool = self.root / "pool.json"
        self.pool_last = self.root / "pool_last.json"
        self.ledger = self.root / "ledger.jsonl"

    @property
    def nearest(self) -> Path:
        """The folder, or before it is made the nearest one above it: on the disk that the user chose."""
        root = self.root.absolute()
        return next(path for path in (root, *root.parents) if path.is_dir())

    def holds_a_run(self) -> bool:
        """Whether a run has begun here."""
        return any(
            path.exists() for path in (self.config, self.metrics, self.checkpoints, self.pool, self.ledger)
        )

    def check_free(self) -> None:
        """Raises CheckpointError if a run has begun here, or if `root` is no folder."""
        if self.root.exists() and not self.root.is_dir():
            raise CheckpointError(f"{self.root}: must be a folder, was a file")
        if self.holds_a_run():
            raise CheckpointError(
                f"{self.root}: already holds a run; continue it with --resume, or choose another --out"
            )

    def check_same(self, config: Config) -> None:
        """Raises CheckpointError if the run here was made with another configuration.

        What does not touch the search may differ (`MAY_CHANGE`).
        """
        if not self.config.exists():
            return
        before = load_config(self.config).model_dump(mode="json")
        now = config.model_dump(mode="json")
        for key in MAY_CHANGE:
            now["training"][key] = before["training"][key]
        difference = first_difference(before, now)
        if difference is not None:
            key, old, new = difference
            raise CheckpointError(
                f"{self.config}: {key} was {old!r} when the run began and is {new!r} now; "
                f"a resumed run may change only training.{', training.'.join(MAY_CHANGE)}"
            )

    def clear(self) -> None:
        """Remove what an earlier start without a checkpoint left, to begin anew."""
        for path in (self.metrics, self.ledger, self.pool, self.pool_last):
            path.unlink(missing_ok=True)
        if self.tensorboard.is_dir():
            for file in self.tensorboard.glob("events.out.tfevents.*"):
                file.unlink()


def first_difference(before: Any, now: Any, path: str = "") -> tuple[str, Any, Any] | None:
    """Key path, old and new value of the first place where two plain trees differ."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in [*before, *(key for key in now if key not in before)]:
            where = f"{path}.{key}" if path else str(key)
            found = first_difference(before.get(key), now.get(key), where)
            if found is not None:
                return found
        return None
    return None if before == now else (path, before, now)


def describe_environment(fingerprint: str, device: torch.device, threads: int) -> dict[str, Any]:
    """What a run was made with, for `environment.json`: plain data, no host and no user."""
    return {
        "schema": 1,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: version_of(name) for name in PACKAGES},
        "git": git_revision(),
        "panel": fingerprint,
        "device": str(device) if device.type == "cpu" else torch.cuda.get_device_name(device),
        "threads": threads,
    }


def version_of(package: str) -> str | None:
    """The installed version, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def git_revision() -> dict[str, Any] | None:
    """Revision of the working copy that rlgen runs from, and whether it was changed; None without git."""
    here = Path(__file__).resolve().parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        return {"revision": git("rev-parse", "HEAD"), "changed": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None
