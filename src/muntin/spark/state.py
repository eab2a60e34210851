"""`muntin.spark.state`: the contents of a checkpoint, read by Spark's state reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.durations import BEFORE_TIME
from muntin.errors import SnapshotError
from muntin.query.query import Query
from muntin.snapshots import Snapshot
from muntin.spark.asking import Checkpoint, ask_checkpoint
from muntin.spark.bucket_state import Header, in_tables, read
from muntin.spark.buckets import Keyed, labels
from muntin.spark.checkpoint import ADOPTED, HISTORY, read_state, saved_facts
from muntin.streams.contents import as_key, key_types, of_key, totals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNSET = object()
_HELD = {"bucket": pa.int64(), **dict.fromkeys(("keys", "slices", "rows", "emitted", "bytes"), pa.int64())}


@dataclass(frozen=True)
class State:
    """What the checkpoint of a streaming query holds as of its last committed batch; `print` it for a summary."""

    query: dict[str, str]
    """The query as text: its key, time, windows, aggregates, options and column types."""
    version: int | None
    """The version of the state's format; None if no bucket has any."""
    buckets: int
    """The number of buckets; empty ones are not in `held`."""
    watermark: int | None
    """The watermark that the state has seen, in the unit of the time column; None before there is one."""
    held: pa.Table
    """For each bucket its keys, slices, kept rows, emitted windows that may be revised, and bytes; for one key, if
    requested."""
    slices: pa.Table | None = None
    """The slices of the requested key, each with its edges, its number of rows if known, and the windows it serves."""
    _read: Callable[[], Checkpoint] | None = field(default=None, repr=False, compare=False)
    """Reads all buckets."""

    def ask(self, points: Any, query: Query) -> Any:
        """Return points, each with what the frames of its key hold at its time, as of the last committed batch.

            latest = muntin.spark.state("checkpoint/").ask({"card": ["a", "b"]}, query)

        As `Stream.ask` does, with the same names, answers and kinds of tables; without a time the greatest one that the
        query has seen. A checkpoint describes its query, and does not hold it: `query` is the one that it is of, and
        any other is refused by name. It may be running, and is not disturbed. Reads the buckets of the points' keys,
        each as a whole.
        """
        assert self._read is not None
        return ask_checkpoint(self._read(), points, query)

    def __str__(self) -> str:
        """Return a summary in a few lines."""
        names = ("keys", "slices", "rows", "emitted", "bytes")
        sums = {name: sum(self.held[name].to_pylist()) for name in names if name in self.held.column_names}
        counts = ", ".join(f"{count:,} {name}" for name, count in sums.items())
        width = max(map(len, ("holds", *self.query)))
        return "\n".join(
            [
                f"checkpoint: {self.held.num_rows} of {self.buckets} buckets hold state, watermark {self.watermark}",
                *(f"  {name:<{width}}  {text}" for name, text in {"holds": counts, **self.query}.items()),
            ]
        )


def state(path: str, key: Any = _UNSET, *, allow_pickle: bool = False, session: SparkSession | None = None) -> State:
    """Return what a query's checkpoint holds: the query, its buckets, keys, slices and kept rows.

        print(muntin.spark.state("checkpoint/"))
        muntin.spark.state("checkpoint/", key="north").slices.to_pandas()

    `key` is one of the query's keys, a tuple if it has several columns: then only its bucket is read, `held` is for
    that key, and `slices` has its slices. Without it a few hundred bytes per bucket are read for the counts; with it
    one whole bucket. The query may be running. `allow_pickle` is that of the query. `session` defaults to the
    active one.
    """
    if session is None:
        from pyspark.sql import SparkSession as Sessions

        session = Sessions.builder.getOrCreate()
    path = str(path)
    facts = saved_facts(session, path)
    if facts is None:
        raise SnapshotError(f"{path!r} holds nothing: no batch has been committed there yet")
    for name in (HISTORY, ADOPTED):
        facts.pop(name, None)
    buckets = int(facts.pop("buckets"))
    found = read_state(session, path, "muntin_header").select("key.bucket", "value.*").collect()
    headers = {bucket: Header.of(row) for bucket, *row in found}
    described = {bucket: json.loads(each.text) for bucket, each in headers.items()}
    rows = [{"bucket": bucket, **_totals(each)} for bucket, each in sorted(described.items())]
    whole = State(
        facts,
        max((each["facts"]["version"] for each in described.values()), default=None),
        buckets,
        _watermark([each["facts"] for each in described.values()]),
        pa.Table.from_pylist(rows, pa.schema(_HELD)),
        _read=lambda: Checkpoint(facts, buckets, headers, partial(_snapshot, session, path, allow_pickle)),
    )
    return whole if key is _UNSET else _of_key(whole, partial(_snapshot, session, path, allow_pickle), headers, key)


def _totals(header: dict[str, Any]) -> dict[str, int]:
    arrays = header["arrays"]
    counts = totals({each["name"]: each["rows"] for each in arrays})
    rows, size = in_tables(header["facts"])
    return counts | {"rows": counts["rows"] + rows, "bytes": sum(each["bytes"] for each in arrays) + size}


def _watermark(facts: list[dict[str, Any]]) -> int | None:
    """Return the greatest watermark of any bucket: the others are called only when they have something due."""
    seen = [each["core"]["progress"]["watermark"] for each in facts if each["core"] is not None]
    reached = max(seen, default=BEFORE_TIME)
    return None if reached == BEFORE_TIME else reached


def _of_key(whole: State, found: Callable[[int, Header], Snapshot], headers: dict[int, Header], key: Any) -> State:
    """Return the same for one key."""
    if not headers:
        return whole
    some = next(iter(headers))
    columns = as_key(key, key_types(found(some, headers[some])))
    keyed = Keyed.of(columns, 1, whole.buckets)
    bucket = labels(whole.buckets)[int(keyed.buckets[keyed.numbers[0]])]
    counts, slices = {"slices": 0, "rows": 0, "emitted": 0}, None
    if bucket in headers:
        counts, slices = of_key(found(bucket, headers[bucket]), columns)
    names = ["bucket", *counts]
    held = pa.Table.from_pylist([{"bucket": bucket, **counts}], pa.schema({name: _HELD[name] for name in names}))
    return State(whole.query, whole.version, whole.buckets, whole.watermark, held, slices)


def _snapshot(session: SparkSession, path: str, allow_pickle: bool, bucket: int, header: Header) -> Snapshot:
    """Return the whole state of a bucket."""
    from pyspark.sql import functions as F

    known: dict[bytes, bytes] = {}
    if header.names:
        chunks = read_state(session, path, "muntin_chunks").where(F.col("key.bucket") == bucket)
        rows = chunks.select("user_map_key.name", "user_map_value.data").collect()
        known = {bytes(row[0]): bytes(row[1]) for row in rows}
        if not known.keys() >= set(header.names):
            raise SnapshotError(f"the query of {path!r} has gone on in between: ask again")
    return read(header, known.__getitem__, allow_pickle=allow_pickle)[0]
