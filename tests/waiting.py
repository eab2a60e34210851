"""Waiting for what will happen, however slow the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 900
"""After this many seconds something is broken, on any machine: a limit that no working test comes near."""


def until(happened: Callable[[], bool], pause: float = 0.01) -> None:
    """Return once something has happened."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing happened for {PATIENCE} seconds")
        time.sleep(pause)
