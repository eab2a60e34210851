"""What Spark must answer, batch by batch; and the pipeline's own parts played without Spark.

`Expected` is the oracle, told the watermark as Spark tells it: each batch sees the one that the batches before it have
brought about, emits what is due by it, takes its rows, and emits what these have changed.

`Machine` runs the very functions that Spark runs (packer, stateful processor, unpacker) in this process, with state
and timers in dictionaries, so that every transcript can be played in a second.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from queries import oracle, streams

from muntin import Query
from muntin.query.plan import resolve
from muntin.spark.bucket import COUNTS, PACKED_ANSWERS, Job
from muntin.spark.buckets import CLERK, labels
from muntin.spark.clock import Clock
from muntin.spark.constants import constant_columns
from muntin.spark.pack import Packer
from muntin.spark.processor import Processor
from muntin.spark.schemas import known_to_spark
from muntin.spark.unpack import Unpacker
from muntin.streams.driven import DrivenStream
from muntin.types import column_type

PER_TICK = {"s": 1_000_000, "ms": 1000, "us": 1}


def as_spark_has_it(query: oracle.Query, batches: list[list[dict[str, Any]]]) -> tuple[oracle.Query, Any]:
    """Return a query and its rows with times in microseconds, the only timestamps that Spark has."""
    logical = query.time_type.logical
    if not pa.types.is_timestamp(logical):
        return query, batches
    factor = PER_TICK[logical.unit]
    kind = column_type(pa.timestamp("us", "UTC" if logical.tz else None))
    rows = [[{**row, query.time: row[query.time] * factor} for row in batch] for batch in batches]
    return replace(query, time_type=kind), rows


class Expected:
    """The oracle, with a watermark that it is told; `idle` is the query's `idle_timeout` in the unit of its times."""

    def __init__(self, query: oracle.Query, idle: int | None = None) -> None:
        self.query, self.idle = query, idle
        self.came = 0
        self.stream = oracle.Stream(replace(query, watermark=1 << 60))  # so that rows never move it
        self.stream.query = replace(self.stream.query, time_type=query.time_type, emit_early=None, idle_timeout=None)
        self.last_early: int | None = None

    def batch(self, rows: list[dict[str, Any]], watermark: int | None, now: int = 0) -> list[oracle.Result]:
        emitted = []
        self.came = now if rows else self.came
        early = False
        if watermark is not None:
            self.stream.horizon = max(self.stream.horizon, watermark + self.query.delay)
            emitted += self.stream._emit(max(self.stream.watermark, watermark))
            early = self.is_early(watermark + self.query.delay)
            waited = now - self.came
            if self.idle is not None and waited >= self.idle:  # never in a batch that has rows
                self.stream.horizon = max(self.stream.horizon, watermark + waited)
                emitted += self.stream._emit(max(self.stream.watermark, watermark + waited))
        horizon = self.stream.horizon
        self.stream.seen = -oracle.NEVER
        if rows:
            arrived = self.stream.push(rows)
            self.stream.horizon = horizon
            emitted += arrived
        return emitted + (self.stream._emit(self.stream.watermark, early=True) if early else [])

    def is_early(self, seen: int) -> bool:
        """Say whether event time has moved on by so much since the last time, as all batches before have brought it."""
        if self.query.emit_early is None:
            return False
        if self.last_early is not None and seen - self.last_early < self.query.emit_early:
            return False
        first = self.last_early is None
        self.last_early = seen
        return not first


@dataclass
class Store:
    """State and timers of all buckets, as Spark keeps them."""

    values: dict[Any, Any] = field(default_factory=dict)
    timers: dict[int, set[int]] = field(default_factory=dict)
    bucket: int = 0


class Value:
    def __init__(self, store: Store, name: str) -> None:
        self.store, self.name = store, name

    def get(self) -> Any:
        return self.store.values.get((self.store.bucket, self.name))

    def update(self, value: Any) -> None:
        self.store.values[self.store.bucket, self.name] = value

    def clear(self) -> None:
        self.store.values.pop((self.store.bucket, self.name), None)


class Chunks(Value):
    def getValue(self, key: Any) -> Any:  # noqa: N802
        return (self.get() or {}).get(key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        self.update({**(self.get() or {}), key: value})

    def removeKey(self, key: Any) -> None:  # noqa: N802
        self.update({k: v for k, v in self.get().items() if k != key})


class Handle:
    def __init__(self, store: Store) -> None:
        self.store = store

    def getValueState(self, name: str, schema: str) -> Value:  # noqa: N802
        return Value(self.store, name)

    def getMapState(self, name: str, key: str, value: str) -> Chunks:  # noqa: N802
        return Chunks(self.store, name)

    def registerTimer(self, at: int) -> None:  # noqa: N802
        self.store.timers.setdefault(self.store.bucket, set()).add(at)

    def deleteTimer(self, at: int) -> None:  # noqa: N802
        self.store.timers.get(self.store.bucket, set()).discard(at)


class Machine(streams.Stream):
    """The pipeline without Spark. With `sliced`, rows are cut into slices before they are sent, where that can be."""

    def __init__(
        self,
        query: oracle.Query | Query,
        schema: pa.Schema,
        buckets: int = 3,
        store: Store | None = None,
        sliced: bool = False,
        adopt: bool = False,
        has_adopted: bool = False,
    ) -> None:
        self.query, self.schema, self.buckets = query, schema, buckets
        asked = query if isinstance(query, Query) else streams.asked(query)
        time = column_type(schema.field(query.time).type)
        self.clock = Clock.of(time, query.time)
        self.job = pickle.loads(pickle.dumps(self._job(asked, sliced, adopt, has_adopted)))
        cut = asked if sliced else None
        self.packer = Packer(
            schema, tuple(query.key), query.time, self.clock, labels(buckets), cut, rows=2, wakes=self.job.wakes
        )
        answers = known_to_spark(DrivenStream(asked, schema).schema)
        rows = pa.struct(list(known_to_spark(schema)))
        self.unpacker = Unpacker(answers.append(pa.field("late", rows)), late=True)
        self.store = store or Store()
        self.seen = self.watermark = self.now = 0
        self.delay = self.clock.delay_in_millis(query.watermark, time)
        self.lost: list[dict[str, Any]] = []
        self.counts = dict.fromkeys(COUNTS, 0)
        self.never_revises = "revision" in constant_columns(resolve(asked, schema), finite=False)

    def _job(self, asked: Query, sliced: bool, adopt: bool, has_adopted: bool) -> Job:
        late = not sliced
        return Job(asked, self.schema, self.clock, self.buckets, late=late, adopt=adopt, has_adopted=has_adopted)

    def gone_on(self, query: Query, **options: bool) -> Machine:
        """Return a machine of another query over the same state, at the same watermark."""
        other = Machine(query, self.schema, self.buckets, self.store, **options)
        other.seen, other.watermark, other.now = self.seen, self.watermark, self.now
        other.never_revises = False
        return other

    def ticks(self) -> int | None:
        return self.clock.ticks(self.watermark)

    def tell(self, ticks: int) -> None:
        """Move the watermark, as rows elsewhere would."""
        self.watermark = max(self.watermark, self.clock.micros(ticks) // 1000)

    def batch(self, rows: list[dict[str, Any]]) -> list[oracle.Result]:
        """Run one micro-batch; the watermark moves after it."""
        return [each for table in self.tables(rows) for each in self.results(table)]

    def tables(self, rows: list[dict[str, Any]]) -> list[pa.Table]:
        """Run one micro-batch, and return the answers as Spark has them."""
        results = list(self.answers(self.processor, self.pack(rows)))
        assert not self.never_revises or not self.counts["revisions"] + self.counts["retractions"]
        self.watermark = max(self.watermark, self.seen - self.delay)
        return results

    @property
    def processor(self) -> Processor:
        """A new processor over the state, as each task has one."""
        states = (
            Value(self.store, "muntin_header"),
            Chunks(self.store, "muntin_chunks"),
            Value(self.store, "muntin_query"),
        )
        return Processor(self.job, Handle(self.store), *states)

    def pack(self, rows: list[dict[str, Any]]) -> dict[int, list[Any]]:
        """Return the packed rows by bucket, from two tasks."""
        packed: dict[int, list[Any]] = {}
        half = (len(rows) + 1) // 2
        for task, part in enumerate((rows[:half], rows[half:])):
            columns = [pa.array([row[f.name] for row in part], f.type) for f in self.schema]
            batch = pa.RecordBatch.from_arrays(columns, self.schema.names)
            batches = [batch.slice(i, 1) for i in range(batch.num_rows)]
            for out in self.packer(iter(batches)):
                for each in out.to_pylist():
                    if each["clock"] is not None:
                        micros = int(pa.scalar(each["clock"], pa.timestamp("us", "UTC")).value)
                        self.seen = max(self.seen, micros // 1000)
                    else:
                        packed.setdefault(each["bucket"], []).append(SimpleNamespace(**{**each, "task": task}))
        return packed

    def answers(self, processor: Processor, packed: dict[int, list[Any]]) -> Iterator[pa.Table]:
        now = SimpleNamespace(
            getCurrentWatermarkInMs=lambda: self.watermark, getCurrentProcessingTimeInMs=lambda: self.now
        )
        for bucket, rows in packed.items():
            self.store.bucket = bucket
            yield from self.unpacked(processor.rows(bucket, iter(rows[::-1]), now))
        for bucket, timers in list(self.store.timers.items()):
            self.store.bucket = bucket
            reached = {"EventTime": self.watermark, "ProcessingTime": self.now}[self.job.timers]
            for at in sorted(timer for timer in timers if timer <= reached):
                yield from self.unpacked(processor.expired(bucket, now))
                self.store.timers[bucket].discard(at)

    def unpacked(self, results: Iterator[Any]) -> Iterator[pa.Table]:
        for row in results:
            for name in COUNTS:
                self.counts[name] += row[name]
            made = pa.RecordBatch.from_pylist([row.asDict()], PACKED_ANSWERS)
            for batch in self.unpacker(iter([made])):
                table = pa.Table.from_batches([batch]).rename_columns(self.unpacker.schema.names)
                late = table["late"].combine_chunks()
                self.lost += self.rows_of(late.filter(late.is_valid()))
                yield table.filter(late.is_null()).drop_columns("late")

    def rows_of(self, late: Any) -> list[dict[str, Any]]:
        times = streams.integers(late.field(self.query.time))
        return [{**row.as_py(), self.query.time: time} for row, time in zip(late, times, strict=True)]

    @property
    def held(self) -> set[int]:
        """The buckets that have state."""
        return {bucket for bucket, name in self.store.values if name == "muntin_header" and bucket != CLERK}
