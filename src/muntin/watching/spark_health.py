"""The health of a Spark query, from its progress reports."""

from __future__ import annotations

import datetime
import time
from typing import Any

from muntin.spark.progress import summary
from muntin.watching.health import Health


class Reports:
    """The progress reports of a streaming query, each once: Spark keeps the last hundred."""

    def __init__(self, query: Any) -> None:
        self._query = query
        self._seen: set[tuple[str, Any]] = set()

    def new(self) -> tuple[list[Any], list[Any]]:
        """Return the reports since the last call, and all that Spark still has. O(reports)."""
        held = list(self._query.recentProgress)
        keys = [(str(each["runId"]), (each["batchId"], each["timestamp"])) for each in held]
        new = [each for key, each in zip(keys, held, strict=True) if key not in self._seen]
        self._seen = set(keys)
        return new, held


class SparkHealth:
    """The health of a streaming query, since up to a hundred micro-batches before this was created."""

    def __init__(self, query: Any) -> None:
        self._reports = Reports(query)
        self._totals = dict.fromkeys(("rows", "late", "dropped", "windows"), 0)

    def now(self) -> Health:
        """Count new reports, and return the health. O(reports)."""
        new, held = self._reports.new()
        done, last = summary(new), summary(held)
        for name in self._totals:
            self._totals[name] += getattr(done, name)
        millis = held[-1]["durationMs"].get("triggerExecution") if held else None
        return Health(
            at=time.time(),
            rows=self._totals["rows"],
            late=self._totals["late"],
            dropped=self._totals["dropped"],
            windows=self._totals["windows"],
            keys=last.keys,
            slices=last.slices,
            bytes=last.bytes,
            watermark=seconds_of(last.watermark),
            batch_seconds=None if millis is None else millis / 1_000,
        )


def seconds_of(watermark: str | None) -> float | None:
    """Return Spark's text of a watermark as seconds since 1970; None before there is one.

    >>> seconds_of("2024-03-01T00:00:00.500Z"), seconds_of("1970-01-01T00:00:00.000Z"), seconds_of(None)
    (1709251200.5, None, None)
    """
    if watermark is None:
        return None
    return datetime.datetime.fromisoformat(watermark).timestamp() or None
