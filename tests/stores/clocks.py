"""Time for couriers in tests: it passes only while one of them pauses, however slow the machine is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from muntin.aggregators.stored.courier import Clock


class PauseClock(Clock):
    """A clock that pauses move forward, and nothing else.

    So patience is the time that a store has failed for, not the time that a busy machine has taken.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._lock = threading.Lock()

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self._now += seconds

    def pause(self, changed: Any, until: Callable[[], bool], seconds: float) -> bool:
        self.sleep(seconds)
        return bool(changed.wait_for(until, 0.001))  # lets others have the lock
