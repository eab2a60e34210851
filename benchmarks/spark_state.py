"""What a micro-batch of a bucket on Spark costs beside Spark: its time, and the state it writes, by rows held.

A trailing hour of 100 keys, 10,000 rows a micro-batch, which hold 10,000 rows and 1,000,000. State is written in
segments, as Spark's streams write it, and as one table, whose chunks are written if they have changed.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from harness import OURS, Figure, Timing, now, rounds_for

from muntin import Query, agg, warm, window
from muntin.spark.bucket_state import BucketState, Header
from muntin.spark.local_chunks import LocalChunks
from muntin.streams.driven import DrivenStream

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.timestamp("us", "UTC"), "v": pa.float64()})
AGGREGATES = {"sum": agg.sum("v"), "max": agg.max("v"), "n": agg.count()}
QUERY = Query(
    window.trailing("1 hour"), AGGREGATES, key="k", time="t", watermark="1 minute", allowed_lateness="1 minute"
)
HOUR = 3_600_000_000
ROWS, KEYS = 10_000, 100


class Memory:
    """State by name, in this process."""

    def __init__(self) -> None:
        self.value: Any = None
        self.values: dict[Any, Any] = {}
        self.get, self.getValue, self.removeKey = lambda: self.value, self.values.get, self.values.pop

    def update(self, value: Any) -> None:
        """Set the value."""
        self.value = value

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        """Set a value by name."""
        self.values[key] = value


def micro_batches(held: int, late: float) -> Any:
    """Yield micro-batches of which an hour has so many rows, and the watermark before each."""
    chance, step, at = np.random.default_rng(7), HOUR // held, 0
    while True:
        times = at + np.arange(ROWS) * step
        at += ROWS * step
        moved = times - chance.integers(0, HOUR // 60, ROWS) * (chance.random(ROWS) < late)
        keys, values = chance.integers(0, KEYS, ROWS), chance.standard_normal(ROWS).round(2)
        columns = zip((keys, np.maximum(moved, 0), values), SCHEMA.types, strict=True)
        yield pa.table([pa.array(each, kind) for each, kind in columns], SCHEMA), int(times[0]) - HOUR // 60


def measure(held: int, late: float, rounds: int, *, segmented: bool) -> tuple[Timing, str]:
    """Return the time of a micro-batch by row, and a line of what it writes."""
    stream, header = DrivenStream(QUERY, SCHEMA), None
    state = BucketState(Memory(), Memory(), LocalChunks(None))
    found: list[tuple[int, int, int]] = []
    for number, (rows, watermark) in enumerate(micro_batches(held, late)):
        begin = now()
        stream.set_watermark(watermark)
        stream.emit()
        stream.take(rows)
        stream.emit()
        middle = now()
        if number >= 1.2 * held / ROWS:
            header, written = write(state, stream, header, segmented=segmented)
            found.append((now() - begin, now() - middle, written))
        if len(found) == rounds + 3:
            taken, writing, size = (statistics.median(each) for each in zip(*found[3:], strict=True))
            best = min(each for each, _, _ in found[3:])
            line = f"{taken / 1e6:.1f} ms, {writing / 1e6:.1f} of them to write {size / 1e3:,.0f} kB"
            return Timing(taken / ROWS, best / ROWS), line
    raise AssertionError("micro-batches never end")


def write(state: BucketState, stream: DrivenStream, header: Header | None, *, segmented: bool) -> tuple[Header, int]:
    """Write the state of a stream; return its header and the bytes written."""
    if not segmented:
        return state.write(stream.save(), 0, header)
    snapshot, segments = stream.save_changes()
    return state.write(snapshot, 0, header, segments)


def run(quick: bool) -> Iterator[Figure]:
    """Yield one figure for rows in order, and one for late ones."""
    warm(QUERY, SCHEMA)
    few, many, rounds = 10_000, 100_000 if quick else 1_000_000, rounds_for(quick, 15)
    for late in (0.0, 0.2):
        times, lines = {}, []
        for segmented, name in ((True, OURS), (False, "one table")):
            for held in (many, few):
                shown = name if held == many else f"{name}, {held:,} rows held"
                times[shown], line = measure(held, late, rounds, segmented=segmented)
                lines.append(f"{'segments' if segmented else name}, {held:,} rows held: {line}")
        ratio = times[OURS].median / times[f"{OURS}, {few:,} rows held"].median
        what = f"a micro-batch with {many:,} rows held over one with {few:,}, {late:.0%} late"
        yield Figure("spark_state", what, ratio, 2.0, False, "x", times, "\n  ".join(lines))
