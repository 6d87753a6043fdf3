"""Where the numbers of an iteration go: `metrics.jsonl`, TensorBoard, the terminal.

The two writers are stable-baselines3 `KVWriter`s, given to the model by `set_logger`, so that what
the algorithm records and what the run loop records end in one line per iteration.
"""

from __future__ import annotations

import json
import math
import numbers
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stable_baselines3.common.logger import KVWriter
from tqdm import tqdm


def plain_number(value: Any) -> Any:
    """A number as JSON holds it: numpy's become Python's, NaN and infinities become None."""
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else None
    return value


class JsonLines(KVWriter):
    """One JSON object a line: `step`, then the keys in alphabetical order."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("a", encoding="utf-8")

    def write(
        self, key_values: Mapping[str, Any], key_excluded: Mapping[str, tuple[str, ...]], step: int = 0
    ) -> None:
        """Append a line; it is on its way to the disk when this returns."""
        line = {"step": step} | {key: plain_number(key_values[key]) for key in sorted(key_values)}
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()

    def position(self) -> int:
        """Bytes written so far."""
        self.file.flush()
        return self.file.tell()

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class TensorBoard(KVWriter):
    """Scalars for TensorBoard, written by tensorboardX."""

    def __init__(self, folder: Path) -> None:
        # Imported here: it takes half a second, and not every run wants it.
        from tensorboardX import SummaryWriter

        self.writer = SummaryWriter(str(folder))

    def write(
        self, key_values: Mapping[str, Any], key_excluded: Mapping[str, tuple[str, ...]], step: int = 0
    ) -> None:
        """Write the scalars among the values."""
        for key, value in key_values.items():
            value = plain_number(value)
            if isinstance(value, int | float) and "tensorboard" not in (key_excluded.get(key) or ()):
                self.writer.add_scalar(key, value, step)
        self.writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self.writer.close()


class Console:
    """A progress bar on a terminal, plain lines elsewhere.

    Args:
        total: steps of the whole run.
        done: steps done already.
    """

    def __init__(self, total: int, done: int = 0) -> None:
        self.total = total
        self.done = done
        self.bar: tqdm[Any] | None = None
        if sys.stdout.isatty():
            self.bar = tqdm(total=total, initial=done, unit=" steps", dynamic_ncols=True, file=sys.stdout)

    def line(self, text: str) -> None:
        """Print a line, above the bar if there is one."""
        if self.bar is not None:
            self.bar.write(text, file=sys.stdout)
        else:
            print(text, flush=True)

    def progress(self, done: int, numbers: Mapping[str, str]) -> None:
        """Show the steps done and a few numbers."""
        text = " ".join(f"{name} {value}" for name, value in numbers.items())
        if self.bar is not None:
            self.bar.set_postfix_str(text, refresh=False)
            self.bar.update(done - self.done)
        else:
            width = len(str(self.total))
            print(f"step {done:>{width}}/{self.total} {text}", flush=True)
        self.done = done

    def close(self) -> None:
        """End the bar."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None
