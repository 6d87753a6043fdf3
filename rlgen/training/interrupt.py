"""Signals ask a run to stop; the run looks when it suits.

SIGINT (Ctrl-C), SIGTERM and SIGUSR1 are noted by the first arrival. A second SIGINT or SIGTERM ends
the process as it would have without us.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name))


class StopRequest:
    """Context manager: within it `name` is the signal that asked to stop, or None.

    Outside the main thread, where Python delivers no signals, it notes nothing.
    """

    def __init__(self) -> None:
        self.name: str | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.name = signal.Signals(number).name
        # From now on the signals mean what they meant before: a second one ends the process.
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
