"""A panel on disk: memory-mapped arrays in a folder, reopened in milliseconds.

1. `source_key` digests what a panel depends on: the adapter's description of its source (paths,
   sizes, times of change), the data section of the configuration, the membership file, and the
   version of this format.
2. `open_store` maps the arrays of a folder whose manifest carries that key and whose files have
   the sizes that it lists. Another key, or damage, means: build again.
3. `write_store` writes a folder beside the store's name and renames it, so that a store is there
   in whole or not at all. Only an empty folder or one of ours is ever replaced.
4. `only_one` lets one process build while others that want the same store wait for it: ranks of
   one training run start at the same moment.

Folder: `rlgen-panel.json` (the manifest: key, fingerprint, load report, arrays) and one `.npy`
file an array. Splits are not stored: they are ranges of bars, and cost nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rlgen.config import DataConfig
from rlgen.errors import DataError
from rlgen.files import write_json
from rlgen.panel.arrays import Arrays
from rlgen.panel.panel import Panel
from rlgen.panel.plan import Plan
from rlgen.panel.report import LoadReport
from rlgen.panel.sessions import Calendar

Array = npt.NDArray[Any]

MANIFEST = "rlgen-panel.json"
FORMAT = 1
CALENDAR = ("bars", "session", "session_dates", "session_starts", "bar_of_session")

log = logging.getLogger(__name__)


def source_key(description: dict[str, Any], data: DataConfig) -> str:
    """Hex digest of everything that a panel is built from."""
    membership = data.universe.membership
    tree = {
        "format": FORMAT,
        "source": description,
        "data": data.model_dump(mode="json", exclude={"store"}),
        "membership": None if membership is None else file_digest(membership),
    }
    text = json.dumps(tree, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def file_digest(path: Path) -> str:
    """Hex digest of a file's content. Raises DataError if it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def check_folder(store: Path) -> None:
    """Raise DataError if `store` is something that must not be replaced by a panel."""
    if not store.exists():
        return
    if not store.is_dir():
        raise DataError(f"data.store: {store} must be a folder, was a file")
    if not (store / MANIFEST).exists() and any(store.iterdir()):
        raise DataError(
            f"data.store: {store} must be empty or hold a stored panel, was a folder with other files; "
            "it is left as it is, name another"
        )


def open_store(store: Path, key: str, plan: Plan) -> Panel | None:
    """The stored panel, its arrays memory-mapped; None if there is none with this key.

    `plan` supplies the rules; those of the store's data section are the same, since the key is.
    """
    if not (store / MANIFEST).exists():
        return None
    try:
        manifest = json.loads((store / MANIFEST).read_text(encoding="utf-8"))
        if manifest["key"] != key:
            log.info("%s: made from another source or configuration, built again", store)
            return None
        found = {name: map_array(store, entry) for name, entry in manifest["arrays"].items()}
        calendar = Calendar(*(np.array(found[name]) for name in CALENDAR))
        arrays = Arrays(
            calendar,
            np.array(found["symbols"]),
            {name: found[f"column {name}"] for name in manifest["columns"]},
            found.get("raw_return"),
            found.get("given"),
            found.get("members"),
            {name: found[f"group {name}"] for name in manifest["groups"]},
        )
        labels = found["forward_return" if "forward_return" in found else "raw_return"]
        settings = plan.settings(tuple(manifest["fields"]))
        report = LoadReport.from_json(manifest["report"])
        return Panel(
            arrays, settings, report, derived=(found["universe"], labels), fingerprint=manifest["fingerprint"]
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("%s: damaged (%s), built again", store, error)
        return None


def map_array(store: Path, entry: dict[str, Any]) -> Array:
    """One array of a store. Raises ValueError if its file has not the size that was written."""
    path = store / entry["file"]
    size = path.stat().st_size
    if size != entry["size"]:
        raise ValueError(f"{path.name} must have {entry['size']} bytes, had {size}")
    # As a plain array: slices of numpy's memmap class cost ten times as much.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def write_store(panel: Panel, store: Path, key: str) -> None:
    """Write a base panel to the folder `store`, replacing an older stored panel.

    Raises DataError if the folder cannot be written, or is not ours to replace.
    """
    check_folder(store)
    arrays = panel._arrays
    named: dict[str, Array] = {name: getattr(arrays.calendar, name) for name in CALENDAR}
    named["symbols"] = arrays.symbols
    named |= {f"column {name}": values for name, values in arrays.columns.items()}
    named |= {f"group {name}": codes for name, codes in arrays.groups.items()}
    optional = {"raw_return": arrays.raw_return, "given": arrays.given, "members": arrays.members}
    named |= {name: values for name, values in optional.items() if values is not None}
    named["universe"] = panel.universe
    if panel.target is None or panel.target.transform != "none":
        named["forward_return"] = panel.forward_return
    temporary: Path | None = None
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{store.name}-", dir=store.parent))
        entries: dict[str, dict[str, Any]] = {}
        for number, (name, values) in enumerate(named.items()):
            path = temporary / f"{number:03d}.npy"
            np.save(path, values, allow_pickle=False)
            entries[name] = {"file": path.name, "size": path.stat().st_size}
        manifest = {
            "format": FORMAT,
            "key": key,
            "fingerprint": panel.fingerprint,
            "fields": list(panel.fields),
            "columns": list(arrays.columns),
            "groups": list(arrays.groups),
            "arrays": entries,
            "report": panel.report.to_json(),
        }
        write_json(temporary / MANIFEST, manifest)
        temporary.chmod(0o777 & ~current_umask())
        put_in_place(temporary, store)
    except OSError as error:
        raise DataError(f"data.store: {store} cannot be written: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def put_in_place(temporary: Path, store: Path) -> None:
    """Rename `temporary` to `store`, moving an older store out of the way and removing it.

    A process that has the old files mapped keeps them.
    """
    with tempfile.TemporaryDirectory(prefix=f".{store.name}-old-", dir=store.parent) as aside:
        if store.exists():
            os.rename(store, Path(aside) / "store")
        os.rename(temporary, store)


@contextmanager
def only_one(store: Path) -> Iterator[None]:
    """Hold the lock of a store, a hidden file beside it, waiting for whoever holds it now.

    Raises DataError if the lock cannot be made. A file system without locks goes without.
    """
    path = store.parent / f".{store.name}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("a")
    except OSError as error:
        raise DataError(f"data.store: {store} cannot be written: {error.strerror}") from None
    with lock:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def current_umask() -> int:
    """The process's umask; temporary folders are made private, a store is as any other folder."""
    umask = os.umask(0)
    os.umask(umask)
    return umask
