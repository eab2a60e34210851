"""How a Spark query is doing, from its progress reports."""

from __future__ import annotations

import datetime
import time
from typing import Any

from muntin.spark.progress import progress
from muntin.watching.health import Health


def health_of(query: Any) -> Health:
    """Return the health of a streaming query. O(reports)."""
    done = progress(query)
    last = query.lastProgress
    millis = None if last is None else last["durationMs"].get("triggerExecution")
    return Health(
        at=time.time(),
        rows=done.rows,
        late=done.late,
        dropped=done.dropped,
        windows=done.windows,
        keys=done.keys,
        slices=done.slices,
        bytes=done.bytes,
        watermark=seconds_of(done.watermark),
        batch_seconds=None if millis is None else millis / 1_000,
    )


def seconds_of(watermark: str | None) -> float | None:
    """Return a watermark as Spark writes it in seconds since 1970; None before there is one.

    >>> seconds_of("2024-03-01T00:00:00.500Z"), seconds_of("1970-01-01T00:00:00.000Z"), seconds_of(None)
    (1709251200.5, None, None)
    """
    if watermark is None:
        return None
    return datetime.datetime.fromisoformat(watermark).timestamp() or None
