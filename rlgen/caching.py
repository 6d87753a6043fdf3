"""Where numba keeps compiled kernels, decided before numba is first imported.

numba keeps them in `__pycache__` beside the source, else in the user's cache folder, and refuses to
import a cached function where neither can be written, as in a container with a read-only file system.
`choose_cache` steps in only where the package's folder cannot be written and NUMBA_CACHE_DIR is unset:

1. a folder of rlgen's own in the user's cache folder, if that can be written;
2. else one in the folder for temporary files, that only this user can write: what lies there is run.

The folder's name holds the machine's processor, since clusters share homes between unlike machines.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import sys
import tempfile
from pathlib import Path

VARIABLE = "NUMBA_CACHE_DIR"


def choose_cache() -> Path | None:
    """Set NUMBA_CACHE_DIR where that is needed; the folder chosen, or None if numba's own rule serves."""
    package = Path(__file__).resolve().parent
    if os.environ.get(VARIABLE) or can_write(package):
        return None
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    user = os.getuid() if hasattr(os, "getuid") else "user"
    for root in (home / "rlgen", Path(tempfile.gettempdir()) / f"rlgen-{user}"):
        folder = root / f"numba-{processor()}"
        if make_private(root) and make_private(folder):
            os.environ[VARIABLE] = str(folder)
            if (config := getattr(sys.modules.get("numba"), "config", None)) is not None:
                config.CACHE_DIR = str(folder)  # It has read the environment already.
            return folder
    return None


def can_write(folder: Path) -> bool:
    """Whether a file can be made there: tried, since access rights do not tell of read-only mounts."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def make_private(folder: Path) -> bool:
    """Make a folder for this user alone; False if it cannot be written or belongs to another user."""
    with contextlib.suppress(OSError, RuntimeError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()
        return own and not folder.is_symlink() and can_write(folder)
    return False


def processor() -> str:
    """A short name of this machine's processor: architecture, and a digest of model and features."""
    wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    lines: set[str] = set()
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        lines = {line for line in text.splitlines() if line.startswith(wanted)}
    told = "\n".join(sorted(lines)) or platform.processor()
    return f"{platform.machine()}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"
