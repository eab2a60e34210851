"""The stateful call: Spark hands over one bucket after the other. Imported where pyspark is, only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from muntin.spark.bucket import COUNTS, Bucket, Job, require_compatible
from muntin.spark.buckets import CLERK
from muntin.spark.state import BucketState
from muntin.spark.worker import freeze_loaded


class Processor(StatefulProcessor):
    """Answers a query bucket by bucket."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def init(self, handle: Any) -> None:
        """Get hold of the state."""
        self.handle = handle
        self.state = BucketState(handle)
        self.facts = handle.getValueState("muntin_query", "facts string")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Answer a bucket that has rows."""
        packed = sorted(((row.task, row.part, row.data, row.sliced) for row in rows), key=lambda each: each[:2])
        if key[0] == CLERK:
            self._check()
            return
        yield from self._run([each[2:] for each in packed if each[2] is not None], timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Answer a bucket that has none, once the watermark has moved on."""
        yield from self._run([], timerValues)

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
