"""The stateful call, bucket by bucket, where muntin is installed. Requires pyspark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import Row

from muntin.errors import MuntinError
from muntin.spark.bucket import COUNTS, PACKED_ANSWERS, Bucket, Job
from muntin.spark.bucket_state import BucketState
from muntin.spark.buckets import CLERK
from muntin.spark.checkpoint import ADOPTED, HISTORY
from muntin.spark.local_chunks import LocalChunks
from muntin.spark.local_files import ANSWERS, CHUNKS, delete_unread, folder
from muntin.spark.memory import Place
from muntin.spark.worker import settle

BATCH_ID = "streaming.sql.batchId"
"""The name under which Spark tells its tasks the number of a micro-batch."""


class Processor:
    """Answers a query bucket by bucket, with the state opened by Spark."""

    def __init__(self, job: Job, handle: Any, header: Any, chunks: Any, facts: Any) -> None:
        self.job = job
        self.handle = handle
        self.state = BucketState(header, chunks, LocalChunks(folder(CHUNKS)), allow_pickle=job.allow_pickle)
        self.facts = facts
        self.query, self.batch = _query_of_task()
        delete_unread(folder(ANSWERS))

    def begin(self, bucket: int, history: Any, now: Any) -> None:
        """Start a bucket from its rows of a history: all that tasks have packed of it, in one row."""
        # A struct within an array is a dict or a Row, depending on Spark's version.
        packed = sorted(
            ((each["task"], each["part"], each["data"], each["sliced"]) for each in history.parts), key=_place
        )
        watermark, clock = now.getCurrentWatermarkInMs(), now.getCurrentProcessingTimeInMs()
        self._bucket(bucket).begin([each[2:] for each in packed], history.watermark, watermark, clock)

    def rows(self, bucket: int, rows: Iterator[Any], now: Any) -> Iterator[Row]:
        """Answer a bucket that has rows."""
        packed = sorted(((row.task, row.part, row.data, row.sliced) for row in rows), key=_place)
        with _message_first():
            if bucket == CLERK:
                self._check()
                return
            yield from self._run(bucket, [each[2:] for each in packed if each[2] is not None], now, came=True)

    def expired(self, bucket: int, now: Any) -> Iterator[Row]:
        """Answer a bucket without rows, once the watermark, or the clock that it follows, has advanced."""
        with _message_first():
            yield from self._run(bucket, [], now, came=False)

    def _bucket(self, bucket: int) -> Bucket:
        return Bucket(self.job, self.handle, self.state, Place(self.query, bucket), self.batch)

    def _run(self, bucket: int, packed: list[tuple[bytes, bool]], now: Any, *, came: bool) -> Iterator[Row]:
        watermark, clock = now.getCurrentWatermarkInMs(), now.getCurrentProcessingTimeInMs()
        for result in self._bucket(bucket).run(packed, watermark, clock, came=came):
            yield _row(result)

    def close(self) -> None:
        """Nothing is left open."""
        settle()

    def _check(self) -> None:
        """Reject a checkpoint of another query; record this one."""
        asked, given = self.job.facts, self.facts.get()
        saved = None if given is None else json.loads(given[0])
        begun = {HISTORY: "loaded"} if self.job.history else {}
        if saved is not None:
            begun = {name: saved[name] for name in (HISTORY, ADOPTED) if name in saved}
            self.job.require_checkpoint(saved)
            if saved == asked | begun:
                return
            if self.job.adopt:
                begun[ADOPTED] = "yes"
        # The aggregates stay in the order in which they were first recorded: states of version 2 are in that order.
        now = asked | begun
        self.facts.update((json.dumps({name: now[name] for name in (*(saved or {}), *now) if name in now}),))


def _query_of_task() -> tuple[str, int]:
    """Return the id of the streaming query whose task this is, and the number of its batch.

    The same after a restart; "" and 0 outside of a task.
    """
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:
        return "", 0
    return task.getLocalProperty("sql.streaming.queryId") or "", int(task.getLocalProperty(BATCH_ID) or 0)


@contextmanager
def _message_first() -> Iterator[None]:
    """Let an error's message come first in Spark's, before all frames: Python prints the cause of an error first."""
    try:
        yield
    except MuntinError as error:
        raise error from type(error)(str(error))


def _place(packed: tuple[Any, ...]) -> tuple[int, int]:
    """Return the task and the part: an order that is the same when a task reruns."""
    return packed[:2]


def _row(result: dict[str, Any]) -> Row:
    names = (*PACKED_ANSWERS.names, *COUNTS)
    return Row(**{name: result[name] for name in names})
