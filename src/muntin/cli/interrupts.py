"""Ctrl-C as a request, not as an accident."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stop:
    """A request to stop."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def __bool__(self) -> bool:
        """Return whether to stop."""
        return self._event.is_set()

    def ask(self) -> None:
        """Ask to stop."""
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Wait for `seconds`, or until a stop is requested; return whether it was."""
        return self._event.wait(seconds)


@contextmanager
def stop_on_interrupt() -> Iterator[Stop]:
    """Turn the first Ctrl-C (or SIGTERM) into a `Stop`. The second one interrupts as usual."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread gets signals
        return

    def asked(*_: Any) -> None:
        if stop:
            raise KeyboardInterrupt
        stop.ask()

    before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
