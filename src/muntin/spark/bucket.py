"""One bucket in one batch: emits what is due, takes rows, writes state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import SnapshotError
from muntin.query.computing import is_expression
from muntin.query.query import ProcessingTime, Query
from muntin.spark.bucket_state import BucketState, Header, facts_of, with_further
from muntin.spark.buckets import labels
from muntin.spark.checkpoint import ADOPTED, BUCKETS, HISTORY, TYPE, is_of_query
from muntin.spark.clock import Clock
from muntin.spark.cutter import from_table
from muntin.spark.local_files import ANSWERS, folder, write_table
from muntin.spark.memory import MEMORY, Place
from muntin.spark.pack import as_binary, from_binary
from muntin.streams.adopting import Adoption
from muntin.streams.driven import DrivenStream
from muntin.streams.facts import differences, facts, in_words, windows_of
from muntin.streams.migrating import facts_as_now

_AGGREGATE = "aggregate "
PUBLISHED = ("published", "published_bytes", "publishing_ms")
_OF_STATE = ("keys", "slices", "bytes", "written")
COUNTS = ("rows", "late", "dropped", "windows", "revisions", "retractions", *_OF_STATE, *PUBLISHED)
"""The counts of a call: rows received, behind the watermark, and taken by no window; windows emitted, revised and
retracted; then the bucket's current keys, slices and bytes of state, and the bytes written; at last the values that
were published, their bytes, and the time that it took."""
PACKED_ANSWERS = pa.schema({"answers": pa.binary(), "answers_file": pa.string(), "late_rows": pa.binary()})
"""Answers are in one of the two: in the file, if they are many."""
RESULT = pa.schema([*PACKED_ANSWERS, *((name, pa.int64()) for name in COUNTS)])


@dataclass(frozen=True)
class Job:
    """What every bucket of a query needs."""

    query: Query
    schema: pa.Schema
    """The columns of the rows."""
    clock: Clock
    buckets: int
    late: bool = False
    """Whether late rows are returned, not just counted."""
    history: bool = False
    """Whether the stream starts from a history."""
    constant: tuple[str, ...] = ()
    """The columns of answers that Spark adds."""
    allow_pickle: bool = False
    """Whether the state may hold objects that only pickle can write and read."""
    adopt: bool = False
    """Whether the state may be another query's, with which this one goes on."""
    has_adopted: bool = False
    """Whether the checkpoint is of this query, and buckets that were not called since may be of an earlier one."""
    order: tuple[str, ...] | None = None
    """The aggregates in the order that the checkpoint records: states of version 2 are in that order."""
    serve: str | None = None
    """The URL of the store to which features are published."""
    expressions: Mapping[str, str] = field(default_factory=dict)
    """The facts of the expressions by which Spark computed the rows; the query has none of them."""

    @property
    def follows_clock(self) -> bool:
        """Whether the watermark follows the clock: then all buckets are called, even those without rows."""
        return self.query.idle_timeout is not None

    @property
    def wakes(self) -> bool:
        """Whether a batch with rows calls all buckets."""
        return self.serve is not None or self.follows_clock or isinstance(self.query.emit_early, ProcessingTime)

    @cached_property
    def parts(self) -> dict[int, int]:
        """The number of each bucket among all, as readers of features count them."""
        return {label: part for part, label in enumerate(labels(self.buckets))}

    @property
    def timers(self) -> str:
        """The time mode of Spark's timers, which call buckets without rows; an operator has only one."""
        return "ProcessingTime" if self.follows_clock else "EventTime"

    @cached_property
    def facts(self) -> dict[str, str]:
        """The facts that a checkpoint must match, as text."""
        return {**facts(self.query), **self.further}

    @cached_property
    def further(self) -> dict[str, str]:
        """The facts besides the query's."""
        types = {f"{TYPE}{field.name}": str(field.type) for field in self.schema}
        return {**types, BUCKETS: str(self.buckets), **self.expressions}

    def require_checkpoint(self, saved: Mapping[str, str]) -> None:
        """Reject the recorded facts of a checkpoint that cannot be resumed from; name every difference."""
        if self.history and HISTORY not in saved:
            raise SnapshotError(
                "the checkpoint began without a history, which is for the first start alone: leave history= out, "
                "or begin with a new checkpoint"
            )
        known = {name: text for name, text in saved.items() if name not in (HISTORY, ADOPTED)}
        saved = facts_as_now(known, self.query, ())
        if self.adopt:
            self.require_adoptable(saved)
        else:
            require_compatible(saved, self.query, self.further)

    def require_adoptable(self, saved: Mapping[str, str]) -> None:
        """Reject the facts of a state with which the query cannot go on."""
        own = {name: text for name, text in saved.items() if is_of_query(name)}
        before = {name: own.pop(name) for name in list(own) if is_expression(name)}
        for name in (*before, *self.expressions):
            if before.get(name) != self.expressions.get(name):
                words = in_words(name, before.get(name), self.expressions.get(name))
                raise SnapshotError(f"the query cannot go on with this checkpoint: {words}")
        Adoption.of(own, self.query).require()
        for name, now in self.further.items():
            if saved.get(name, now) != now:
                raise SnapshotError(
                    f"the query cannot go on with this checkpoint: its {name} is {saved[name]}, this one's is {now}"
                )


def order_of(saved: Mapping[str, str], query: Query) -> tuple[str, ...] | None:
    """Return the aggregates of a query in the order in which a checkpoint records them; None if it has others.

    >>> from muntin import agg, window
    >>> query = Query(window.tumbling(5), {"low": agg.min("v"), "high": agg.max("v")}, time="t")
    >>> order_of({"aggregate high": "...", "key": "k", "aggregate low": "..."}, query)
    ('high', 'low')
    """
    names = tuple(name.removeprefix(_AGGREGATE) for name in saved if name.startswith(_AGGREGATE))
    return names if set(names) == set(query.aggregates) else None


class Bucket:
    """Runs one bucket for one call."""

    def __init__(self, job: Job, handle: Any, state: BucketState, place: Place, batch: int = 0) -> None:
        self.job = job
        self.handle = handle
        self.state = state
        self.place = place
        self.batch = batch
        """The number of the micro-batch."""

    def run(
        self, packed: Sequence[tuple[bytes, bool]], watermark: int, clock: int, *, came: bool
    ) -> Iterator[dict[str, Any]]:
        """Take rows, slices of rows, or none; yield the results.

        `watermark` and `clock` are Spark's at the start of the batch, in milliseconds. `came` tells whether the batch
        has rows of any bucket.
        """
        header = self.state.header()
        only_woken = header is None and not packed and not self.job.follows_clock
        if only_woken and self.job.serve is None:
            return
        stream = self._stream(header, clock * 1_000_000)
        now = self.job.clock.ticks(watermark)
        tables = []
        if now is not None:
            stream.set_watermark(now)
        if only_woken:
            self._publish(stream)
            return
        if came:
            stream.note_rows()
        else:
            stream.follow_clock()
        if stream.watermark is not None:
            tables.append(stream.emit())  # due before these rows came
        early = stream.begin_early()
        before = stream.metrics()
        tables += [stream.emit() for _ in self._take(stream, packed) if stream.watermark is not None]
        if early:
            tables.append(stream.emit(early=True))
        late = stream.take_late()
        published = self._publish(stream)
        written = self._keep(stream, header, watermark, _next_call(stream, clock, came))
        answers = pa.concat_tables(tables) if tables else stream.schema.empty_table()
        counts = self._counts(stream, before, answers)
        if "revision" in self.job.constant and (counts["revisions"] or counts["retractions"]):
            raise SnapshotError(
                "a window was revised, which this query never does: the one whose state it went on with did. Pass "
                "checkpoint= with the path, so that the columns of revisions are kept"
            )
        yield {**self._packed(answers, late), **counts, "written": written, **published}

    def _publish(self, stream: DrivenStream) -> dict[str, int]:
        """Publish what the batch changed, before it commits: a batch that runs again publishes the same again."""
        if self.job.serve is None:
            return dict.fromkeys(PUBLISHED, 0)
        from muntin.serving.parts import STORES, Part

        writer = self.place.query or "a test"
        part = Part(STORES.get(self.job.serve), writer, self.batch, self.job.parts[self.place.bucket], self.job.buckets)
        part.publish(stream.state, *stream.take_changes())
        return part.counted.metrics()

    def begin(self, packed: Sequence[tuple[bytes, bool]], reached: int, watermark: int, clock: int) -> None:
        """Start from rows of a history, or from none. All windows due by then count as emitted.

        `reached` is the watermark after the whole history, `watermark` is Spark's own.
        """
        stream = self._noting(DrivenStream(self.job.query, self.job.schema, clock * 1_000_000))
        for _ in self._take(stream, packed):
            pass
        now = self.job.clock.ticks(reached)
        if now is not None:
            stream.set_watermark(now)
        stream.note_rows()
        early = stream.begin_early()
        stream.emit(early=early)
        stream.take_late()
        self._publish(stream)
        self._keep(stream, None, watermark, _next_call(stream, clock, came=True))

    def _take(self, stream: DrivenStream, packed: Iterable[tuple[bytes, bool]]) -> Iterator[None]:
        """Take the packed input, slices together and rows together; yield after each."""
        rows: list[pa.Table] = []
        slices: list[pa.Table] = []
        for data, sliced in packed:
            (slices if sliced else rows).append(from_binary(data))
        if slices:
            assert stream.slices
            stream.take_slices(*from_table(pa.concat_tables(slices), stream.slices[0]))
            yield
        if rows:
            stream.take(pa.concat_tables(rows))
            yield

    def _stream(self, header: Header | None, now: int) -> DrivenStream:
        job = self.job
        stream = MEMORY.take(self.place, None if header is None else header.stamp)
        if header is None:
            return self._noting(DrivenStream(job.query, job.schema, now))
        # Also for a cached stream: its worker may have outlived the query it was created for.
        # All of its facts, since Spark may call this bucket before the clerk, whose error would come too late.
        saved = facts_of(header, job.query, job.further)
        if saved != job.facts and (job.adopt or job.has_adopted):
            job.require_adoptable(saved)
            return DrivenStream.load(job.query, job.schema, self.state.read(header)[0], now, adopt=True)
        added = 0 if saved == job.facts else require_compatible(saved, job.query, job.further)
        windows = job.query.windows
        known = len(windows) - added
        if stream is None or list(stream.query.aggregates) != list(job.query.aggregates):
            older = replace(job.query, windows=windows[:known]) if added else job.query
            saved_state, segments = self.state.read(header)
            stream = DrivenStream.load(older, job.schema, saved_state, now, segments, job.order)
        stream.now = now
        for window in windows[known:]:
            stream.add(window)
        return self._noting(stream)

    def _noting(self, stream: DrivenStream) -> DrivenStream:
        """Return a stream that notes what is to be published."""
        stream.notes_changes = self.job.serve is not None
        stream.set_expressions(self.job.expressions)
        return stream

    def _keep(self, stream: DrivenStream, old: Header | None, watermark: int, at: int | None) -> int:
        """Write the state, and set a timer by the clock, or for the next move of the watermark.

        Return the bytes written.
        """
        if old is not None and old.timer >= 0:
            self.handle.deleteTimer(old.timer)
        known = stream.watermark
        # After a history it may be ahead of Spark's, and must be kept until that has caught up.
        reached = max(watermark, 0 if known is None else self.job.clock.millis(known))
        if stream.is_empty and reached <= max(watermark, 0) and at is None:
            if old is not None:
                self.state.clear(old)
            return 0
        timer = reached + 1 if at is None else at
        self.handle.registerTimer(timer)
        snapshot, segments = stream.save_changes()
        header, written = self.state.write(with_further(snapshot, self.job.further), timer, old, segments)
        MEMORY.keep(self.place, header.stamp, stream)
        return written

    def _packed(self, answers: pa.Table, late: pa.Table) -> dict[str, Any]:
        answers = answers.drop_columns(list(self.job.constant))
        path = write_table(answers, folder(ANSWERS))
        return {
            "answers": as_binary(answers) if answers.num_rows and path is None else None,
            "answers_file": path,
            "late_rows": as_binary(late) if late.num_rows and self.job.late else None,
        }

    def _counts(self, stream: DrivenStream, before: dict[str, Any], answers: pa.Table) -> dict[str, int]:
        after: dict[str, Any] = stream.metrics()
        counts = {name: after[name] - before[name] for name in ("rows", "late", "dropped")}
        counts["dropped"] += after["unmatched"] - before["unmatched"]
        counts |= {name: after[name] for name in ("keys", "slices", "bytes")}
        counts["windows"] = answers.num_rows
        counts["revisions"] = (answers["revision"].to_numpy() > 0).sum()
        counts["retractions"] = pc.sum(answers["retracted"]).as_py() or 0
        return {name: int(count) for name, count in counts.items()}


def _next_call(stream: DrivenStream, clock: int, came: bool) -> int | None:
    """Return when a bucket whose watermark follows the clock must be called again, in milliseconds, or None.

    After rows that is the next batch, which gets their watermark; then the first in which the stream is idle.
    """
    if stream.idle_at is None:
        return None
    idle = -(-stream.idle_at // 1_000_000)
    return clock + 1 if came or idle <= clock else idle


def require_compatible(saved: Mapping[str, str], query: Query, further: Mapping[str, str] | None = None) -> int:
    """Return how many windows were appended; reject any other change, and name every one.

    >>> from muntin import agg, window
    >>> old = Query(window.tumbling("1 minute"), {"n": agg.count()})
    >>> require_compatible(facts(old), replace(old, windows=[*old.windows, window.tumbling("1 hour")]))
    1
    """
    found = differences(saved, query, further)
    known = len(windows_of(saved))
    added = [name for name in (f"window {i}" for i in range(known, len(query.windows))) if name in found]
    changed = [words for name, words in found.items() if name not in added]
    if changed:
        hint = ""
        if "buckets" in found and "buckets" in saved:
            hint = f"; pass buckets={saved['buckets']}, or checkpoint= with its path, so that they are read from there"
        raise SnapshotError(
            f"the checkpoint is of another query: {'; '.join(changed)}{hint}. Go on with the query it was made for, or "
            "with adopt=True, or begin with a new checkpoint"
        )
    return len(added)
