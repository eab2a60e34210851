"""The progress of a running query, from Spark's observed metrics."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

OBSERVED = "muntin"
"""The prefix of our counts in Spark's progress reports."""
_STATE = ("keys", "slices", "bytes")


@dataclass(frozen=True)
class Progress:
    """Counts of a streaming query: rows and windows of all batches that Spark still reports, state of the last one.

    Spark keeps the last hundred reports, unless `spark.sql.streaming.numRecentProgressUpdates` is set.
    """

    batches: int = 0
    rows: int = 0
    late: int = 0
    """Rows behind the watermark; of slices, those of slices entirely behind it."""
    dropped: int = 0
    """Rows that no window took."""
    windows: int = 0
    revisions: int = 0
    retractions: int = 0
    keys: int = 0
    slices: int = 0
    bytes: int = 0
    """State of the buckets called in the last batch."""
    written: int = 0
    """Bytes of state written."""
    published: int = 0
    """Values of keys published by `serve=`."""
    published_bytes: int = 0
    publishing_ms: int = 0
    """The time that it took, of all tasks together."""
    watermark: str | None = None
    rows_per_second: float = 0.0

    def __str__(self) -> str:
        """Return a one-line summary."""
        state = f"{self.keys:,} keys, {self.slices:,} slices, {self.bytes / 1e6:.1f} MB"
        late = f"{self.late:,} late, {self.dropped:,} dropped"
        out = f"{self.windows:,} windows out, {self.revisions:,} revised"
        return f"{self.rows:,} rows ({self.rows_per_second:,.0f}/s, {late}), {out}, {state}, watermark {self.watermark}"


def progress(query: StreamingQuery) -> Progress:
    """Return what a streaming query has done so far; `print` it for a one-line summary.

    Works on any query started from a DataFrame of `Query.spark`, even while it runs. O(reports).
    """
    return summary(list(query.recentProgress))


def summary(reports: list[Any]) -> Progress:
    """Return the summary of progress reports.

    >>> seen = {"muntin 1": {"rows": 3, "windows": 1, "keys": 2}}
    >>> report = {"observedMetrics": seen, "durationMs": {"triggerExecution": 1500}, "eventTime": {}}
    >>> found = summary([report, report])
    >>> found.rows, found.keys, found.rows_per_second
    (6, 2, 2.0)
    """
    names = [field.name for field in fields(Progress) if field.type == "int" and field.name != "batches"]
    totals = dict.fromkeys(names, 0)
    millis, watermark = 0, None
    for report in reports:
        millis += report["durationMs"].get("triggerExecution", 0)
        watermark = report["eventTime"].get("watermark", watermark)
        counts = _counts(report)
        totals |= {
            name: counts.get(name, 0) if name in _STATE else totals[name] + counts.get(name, 0) for name in names
        }
    rate = totals["rows"] * 1000 / millis if millis else 0.0
    return Progress(batches=len(reports), watermark=watermark, rows_per_second=rate, **totals)


def _counts(report: Any) -> dict[str, int]:
    for name, row in report["observedMetrics"].items():
        if name.split()[0] == OBSERVED:
            found = row if isinstance(row, dict) else row.asDict()
            if set(found) == {"values", "schema"}:  # the form of Spark Connect
                names = (field["name"] for field in found["schema"]["fields"])
                found = dict(zip(names, found["values"], strict=True))
            return {key: value or 0 for key, value in found.items()}
    return {}
