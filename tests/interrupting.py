"""Ctrl-C between any two lines of a call."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sampling import THOROUGH

POINTS = 10_000 if THOROUGH > 1 else 8
"""At about so many lines of each call it is interrupted; in a thorough run at each."""


@contextmanager
def interrupted(at: int) -> Iterator[list[int]]:
    """Raise `KeyboardInterrupt` before the line of ours with this number, as Ctrl-C may; count the lines."""
    seen = [0]

    def trace(frame: Any, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if "muntin" not in name or "turns.py" in name or "test_" in name:
            return None
        return lines_of(name)

    def lines_of(name: str) -> Any:
        before = 0

        def line(frame: Any, event: str, _: Any) -> Any:
            nonlocal before
            if event == "line":
                # Python comes back to the line of `with` to leave the block, where a trace may raise but Ctrl-C does
                # not: the block would never be left, and its lock be held for ever.
                text = linecache.getline(name, frame.f_lineno).lstrip()
                leaves, before = before > frame.f_lineno and text.startswith("with "), frame.f_lineno
                seen[0] += not leaves
                if seen[0] == at and not leaves:
                    sys.settrace(None)
                    raise KeyboardInterrupt
            return line

        return line

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield seen
    finally:
        sys.settrace(before)


def spread(lines: int) -> list[int]:
    """Return some of the lines, from the first to the last."""
    step = max(1, lines // POINTS)
    return sorted({*range(1, lines + 1, step), lines})
