"""What a chart shows: lines over a number that grows. `tools/draw_charts.py` draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Chart:
    """Lines by name, each a value for every x; None where there is none. Both axes are logarithmic by default."""

    name: str
    """The name of the file."""
    title: str
    x: str
    y: str
    at: Sequence[float]
    lines: Mapping[str, Sequence[float | None]]
    log_x: bool = True
    log_y: bool = True
