"""The stateful call, where muntin is: one bucket after the other. Imported where pyspark is, only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row

from muntin.spark.bucket import COUNTS, Bucket, Job, require_compatible
from muntin.spark.buckets import CLERK
from muntin.spark.state import BucketState
from muntin.spark.worker import freeze_loaded


class Processor:
    """Answers a query bucket by bucket, with the state that Spark has opened."""

    def __init__(self, job: Job, handle: Any, header: Any, chunks: Any, facts: Any) -> None:
        self.job = job
        self.handle = handle
        self.state = BucketState(header, chunks)
        self.facts = facts

    def rows(self, bucket: int, rows: Iterator[Any], now: Any) -> Iterator[Row]:
        """Answer a bucket that has rows."""
        packed = sorted(((row.task, row.part, row.data, row.sliced) for row in rows), key=lambda each: each[:2])
        if bucket == CLERK:
            self._check()
            return
        yield from self._run([each[2:] for each in packed if each[2] is not None], now)

    def expired(self, now: Any) -> Iterator[Row]:
        """Answer a bucket that has none, once the watermark has moved on."""
        yield from self._run([], now)

    def _run(self, packed: list[tuple[bytes, bool]], now: Any) -> Iterator[Row]:
        bucket = Bucket(self.job, self.handle, self.state)
        for result in bucket.run(packed, now.getCurrentWatermarkInMs(), now.getCurrentProcessingTimeInMs()):
            yield _row(result)

    def close(self) -> None:
        """Nothing is left open."""
        freeze_loaded()

    def _check(self) -> None:
        """Refuse a checkpoint of another query; remember this one."""
        asked = self.job.facts
        saved = self.facts.get()
        if saved is not None:
            if json.loads(saved[0]) == asked:
                return
            require_compatible(json.loads(saved[0]), asked)
        self.facts.update((json.dumps(asked),))


def _row(result: dict[str, Any]) -> Row:
    names = ("answers", "late_rows", *COUNTS)
    return Row(**{name: result[name] for name in names})
