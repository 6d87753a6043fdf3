"""Checkpoints: the whole state of a run between two iterations, in folders of their own.

    checkpoints/step_000000004096/
        policy.zip            sb3-contrib's zip: weights, optimizer, hyper-parameters
        state.json, state.npz everything else, plain (see `tree`)
        manifest.json         size and SHA-256 of each file; written last

1. A checkpoint is written beside its name and renamed, so that it is there in whole or not at all;
   only then the oldest ones beyond the number to keep are removed.
2. Reading starts at the newest. One whose files do not match its manifest is named, and the one
   before it is tried.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlgen.errors import CheckpointError
from rlgen.training.tree import load_tree, save_tree

SCHEMA = 1
PREFIX = "step_"
MANIFEST = "manifest.json"


def random_state() -> dict[str, Any]:
    """The states of Python's, numpy's and torch's global generators."""
    version, internal, gauss = random.getstate()
    numpy_state = np.random.get_state()  # noqa: NPY002 (stable-baselines3 draws from it)
    assert isinstance(numpy_state, tuple)
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {
        "python": {"version": version, "internal": np.array(internal, np.uint64), "gauss": gauss},
        "numpy": list(numpy_state),
        "torch": torch.get_rng_state(),
        "cuda": list(cuda),
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Continue the generators where `random_state` found them."""
    python = state["python"]
    random.setstate((python["version"], tuple(int(i) for i in python["internal"]), python["gauss"]))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys, *rest))  # noqa: NPY002
    torch.set_rng_state(torch.as_tensor(state["torch"]))
    if torch.cuda.is_available():
        for device, cuda in enumerate(state["cuda"]):
            torch.cuda.set_rng_state(torch.as_tensor(cuda), device)


def write_checkpoint(
    folder: Path, step: int, state: dict[str, Any], save_policy: Callable[[Path], None], keep: int
) -> Path:
    """Write `folder`/step_…/ and remove all but the newest `keep`.

    Args:
        folder: of the checkpoints.
        step: tokens written so far.
        state: plain values and arrays.
        save_policy: writes the policy's zip to a path.
        keep: checkpoints kept, this one included.

    Raises:
        CheckpointError: it cannot be written; those before it are as they were.
    """
    final = folder / f"{PREFIX}{step:012d}"
    temporary = folder / f".{final.name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(f".{PREFIX}*"):  # By a process that was killed as it wrote.
            shutil.rmtree(left, ignore_errors=True)
        temporary.mkdir()
        save_policy(temporary / "policy.zip")
        save_tree({"schema": SCHEMA, "step": step, **state}, temporary / "state")
        files = {path.name: _digest(path) for path in sorted(temporary.iterdir())}
        (temporary / MANIFEST).write_text(json.dumps({"schema": SCHEMA, "files": files}, indent=2) + "\n")
        for path in temporary.iterdir():
            _flush(path)
        shutil.rmtree(final, ignore_errors=True)
        os.replace(temporary, final)
        _flush(folder)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise CheckpointError(f"{final}: could not be written: {error.strerror or error}") from error
    for old in list_checkpoints(folder)[keep:]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, newest first."""
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if path.name.startswith(PREFIX)), reverse=True)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The state in a checkpoint; its policy is at `path` / "policy.zip".

    Raises:
        CheckpointError: a file is missing, truncated or changed, or of another schema.
    """
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        if manifest["schema"] != SCHEMA:
            raise CheckpointError(f"{path}: schema must be {SCHEMA}, was {manifest['schema']!r}")
        for name, expected in manifest["files"].items():
            found = _digest(path / name)
            if found != expected:
                raise CheckpointError(
                    f"{path / name}: damaged: must be as it was written, {expected['bytes']} bytes, "
                    f"was {found['bytes']} bytes"
                )
        state: dict[str, Any] = load_tree(path / "state")
    except OSError as error:
        raise CheckpointError(f"{path}: not a whole checkpoint: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: not a checkpoint: {error}") from None
    return state


def usable_checkpoints(folder: Path, say: Callable[[str], None]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Whole checkpoints, newest first; each damaged one is named by `say`."""
    for path in list_checkpoints(folder):
        try:
            state = read_checkpoint(path)
        except CheckpointError as error:
            say(f"{error}; trying the checkpoint before it")
            continue
        yield path, state


def _digest(path: Path) -> dict[str, Any]:
    """Size and SHA-256 of a file."""
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _flush(path: Path) -> None:
    """Have the system write a file or a folder's entries to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
