"""The health of a pipeline, in one form for runs, streams and Spark queries."""

from __future__ import annotations

import dataclasses
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEALTH_FILE = "health.json"
"""The name of a run's health file, next to its answers."""


@dataclass(frozen=True)
class Health:
    """The health of a pipeline at a moment. Unknown values are None."""

    at: float
    """The moment, in seconds of the clock."""
    rows: int
    late: int | None = None
    dropped: int | None = None
    windows: int | None = None
    keys: int | None = None
    slices: int | None = None
    bytes: int | None = None
    watermark: float | None = None
    """The watermark, in seconds since 1970, or as a plain number if times are integers."""
    is_time: bool = True
    """Whether the watermark is a time."""
    batch_seconds: float | None = None
    """The duration of the last batch."""

    @property
    def lag(self) -> float | None:
        """The seconds that the watermark is behind the clock; None if it is not a time."""
        return None if self.watermark is None or not self.is_time else self.at - self.watermark

    def rate_since(self, before: Health | None) -> float | None:
        """Return the rows per second since an earlier moment.

        >>> Health(at=12.0, rows=300).rate_since(Health(at=10.0, rows=100))
        100.0
        """
        if before is None or self.at <= before.at or self.rows < before.rows:
            return None
        return (self.rows - before.rows) / (self.at - before.at)


def work_folder(output: Path) -> Path:
    """Return the folder of a run's report and saved state, next to its output.

    >>> work_folder(Path("out/windows.csv")).as_posix()
    'out/windows.csv.muntin'
    """
    return output.with_name(output.name + ".muntin")


class HealthReport:
    """The file with a run's health and plan: written by one process, read by another."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / HEALTH_FILE

    def write(self, health: Health, plan: dict[str, Any] | None = None) -> None:
        """Replace the report atomically."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_name("." + self.path.name)
        text = json.dumps({"health": dataclasses.asdict(health), "plan": plan}, default=str)
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(self.path)

    def read(self) -> tuple[Health, dict[str, Any] | None] | None:
        """Return the last report; None if there is none, or it is unreadable."""
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            known = {field.name for field in dataclasses.fields(Health)}
            return Health(**{name: each for name, each in found["health"].items() if name in known}), found["plan"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None


def of_stream(metrics: dict[str, int | None], *, ticks_per_second: float | None, seconds: float | None) -> Health:
    """Return the health of `Stream.metrics`; `ticks_per_second` is None if times are integers.

    >>> counts = {"rows": 5, "late": 1, "dropped": 0, "keys": 2, "slices": 3, "bytes": 80, "watermark": 7_000}
    >>> of_stream(counts, ticks_per_second=1_000, seconds=0.1).watermark
    7.0
    """
    watermark = metrics["watermark"]
    return Health(
        at=time.time(),
        rows=metrics["rows"] or 0,
        late=metrics["late"],
        dropped=metrics["dropped"],
        keys=metrics["keys"],
        slices=metrics["slices"],
        bytes=metrics["bytes"],
        watermark=None if watermark is None else watermark / (ticks_per_second or 1),
        is_time=ticks_per_second is not None,
        batch_seconds=seconds,
    )
