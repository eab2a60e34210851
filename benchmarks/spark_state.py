"""What a micro-batch of a bucket on Spark costs beside Spark: its time, and the state it writes, by rows held.

    python benchmarks/spark_state.py

A trailing hour of 100 keys, 10,000 rows a micro-batch, which hold 10,000 rows and 1,000,000. State is written in
segments, as Spark's streams write it, and as one table, whose chunks are written if they have changed.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import pyarrow as pa

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
ROWS, KEYS, ROUNDS = 10_000, 100, 15


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


def measure(held: int, late: float, *, segmented: bool) -> tuple[float, float, float]:
    """Return the medians of a micro-batch's seconds, those of its writing, and the bytes written."""
    stream, header = DrivenStream(QUERY, SCHEMA), None
    state = BucketState(Memory(), Memory(), LocalChunks(None))
    found = []
    for number, (rows, watermark) in enumerate(micro_batches(held, late)):
        begin = time.perf_counter()
        stream.set_watermark(watermark)
        stream.emit()
        stream.take(rows)
        stream.emit()
        middle = time.perf_counter()
        if number >= 1.2 * held / ROWS:
            header, written = write(state, stream, header, segmented=segmented)
            found.append((time.perf_counter() - begin, time.perf_counter() - middle, written))
        if len(found) == ROUNDS + 3:
            seconds, writing, written = (statistics.median(each) for each in zip(*found[3:], strict=True))
            return seconds, writing, written
    raise AssertionError("micro-batches never end")


def write(state: BucketState, stream: DrivenStream, header: Header | None, *, segmented: bool) -> tuple[Header, int]:
    """Write the state of a stream; return its header and the bytes written."""
    if not segmented:
        return state.write(stream.save(), 0, header)
    snapshot, segments = stream.save_changes()
    return state.write(snapshot, 0, header, segments)


def main() -> None:
    """Print the measurements."""
    warm(QUERY, SCHEMA)
    for late in (0.0, 0.2):
        for segmented in (False, True):
            few, many = (measure(held, late, segmented=segmented) for held in (10_000, 1_000_000))
            how = f"{late:.0%} late, {'segments' if segmented else 'one table'}"
            for name, (seconds, writing, written) in (("10,000", few), ("1,000,000", many)):
                print(
                    f"{how}, {name} rows held: {seconds * 1e3:.1f} ms, {writing * 1e3:.1f} of them to write "
                    f"{written / 1e3:,.0f} kB"
                )
            print(f"{how}: {many[0] / few[0]:.2f} times as long")


if __name__ == "__main__":
    main()
