"""`muntin.spark.rescale`: a query's checkpoint with another number of buckets.

Spark loads initial state into buckets only in the first batch of a checkpoint, and the checkpoint of a running query is
past that. So a separate one-batch query divides the state into a new checkpoint; its version is then renamed to that of
the last committed batch, and the old checkpoint's records of sources and batches are copied beside it. The assumed
layout is checked first, and any other is rejected.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import InvalidArgumentError, SnapshotError, UnsupportedOperationError
from muntin.snapshots import Snapshot
from muntin.spark.bucket_state import BucketState, Header, read, with_further
from muntin.spark.buckets import CLERK, Keyed, labels
from muntin.spark.checkpoint import read_state, saved_facts
from muntin.spark.chunks import joined, parted
from muntin.spark.folders import Folder
from muntin.spark.local_chunks import LocalChunks
from muntin.spark.needs import apply_settings
from muntin.streams.regrouping import known_keys, regrouped
from muntin.streams.slices.generations import by_time
from muntin.streams.snapshots import VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST = 1 << 15
_PARTITIONS = "spark.sql.shuffle.partitions"
_STATE_STORE = "spark.sql.streaming.stateStore."
_REMEDY = "give a folder of a disk, or of a file system that Arrow knows"
_SHARE = pa.schema(
    {"bucket": pa.int32(), "timer": pa.int64(), "place": pa.int32(), "header": pa.binary(), "data": pa.binary()}
)
"""What one bucket passes to another: the place is its own label, so that the order is the same in every run."""


def rescale(
    checkpoint: str | Path,
    target: str | Path,
    *,
    buckets: int,
    allow_pickle: bool = False,
    session: SparkSession | None = None,
) -> None:
    """Write a checkpoint with another number of buckets, from which the query resumes as from the old one.

        muntin.spark.rescale("checkpoint/", "wider/", buckets=32)
        query.spark(calls, buckets=32).writeStream.option("checkpointLocation", "wider/")

    Stop the query first: that of a running one is rejected. `checkpoint` stays unchanged; `target` must not exist. The
    partitions of the state are those of the session's `spark.sql.shuffle.partitions`, which a checkpoint otherwise
    fixes. Both must be folders that this process can reach: on a disk, or on a file system that Arrow supports.

    Keys move with their whole state: emitted windows are still revised. Joining buckets is rejected if they cannot be
    told apart, with an error that says so; splitting each into several never is. `allow_pickle` is that of the query.
    O(state), each bucket in the memory of
    a task.
    """
    if session is None:
        from pyspark.sql import SparkSession as Sessions

        session = Sessions.builder.getOrCreate()
    if isinstance(buckets, bool) or not isinstance(buckets, int) or not 1 <= buckets <= _MOST:
        raise InvalidArgumentError(f"buckets is {buckets!r}; give a number from 1 to {_MOST}")
    apply_settings(session)
    old, new = Folder.of(checkpoint, _REMEDY), Folder.of(target, _REMEDY)
    if new.is_there():
        raise InvalidArgumentError(f"target is {str(target)!r}, which is there already: give a new place")
    facts = saved_facts(session, old.uri)
    if facts is None:
        raise SnapshotError(f"{old.uri!r} holds nothing: no batch has been committed there yet")
    if not facts["key"]:
        raise UnsupportedOperationError(f"the query of {old.uri!r} has no key, and so one bucket: leave it as it is")
    if facts.get("idle_timeout", "None") != "None":
        raise UnsupportedOperationError(
            f"the query of {old.uri!r} has an idle_timeout, {facts['idle_timeout']}, and so timers by the clock, which "
            "cannot be moved: leave it as it is, or begin with a new checkpoint"
        )
    _require_stopped(session, old)
    batches = _batches(old)  # first, so that no later look misses a batch
    last = _require_layout(old)
    _require_converted(session, old, last)
    begin = new.parent / f".muntin-rescale-{uuid4().hex}"
    try:
        divider = Divider(buckets, _watermark(old, last), allow_pickle)
        _divide(session, old, new, begin, facts, divider, last)
        _graft(old, new, last)
        if _batches(old) != batches:
            raise _is_running(old)
    except BaseException:
        new.delete()
        raise
    finally:
        begin.delete()


def _require_converted(session: SparkSession, old: Folder, last: int) -> None:
    """Reject a checkpoint with buckets of an earlier version, which only their query can convert."""
    from pyspark.sql import functions as F

    headers = read_state(session, old.uri, "muntin_header", last).select("key.bucket", "value.header")
    version = F.get_json_object(F.col("header").cast("string"), "$.facts.version").cast("int")
    earlier = sorted(row[0] for row in headers.where(version < VERSION).select("bucket").collect())
    if earlier:
        shown = ", ".join(map(str, earlier[:5])) + (", ..." if len(earlier) > 5 else "")
        raise SnapshotError(
            f"the checkpoint {old.uri!r} has buckets of an earlier version of muntin ({shown}), which are converted "
            "when rows of them come: let its query go on until none is left"
        )


# ------------------------------------------------------------ the state


def _divide(
    session: SparkSession, old: Folder, new: Folder, begin: Folder, facts: dict[str, str], divider: Divider, last: int
) -> None:
    """Let Spark write the state of the new buckets after a batch, as the first batch of a separate query."""
    from pyspark.sql import functions as F

    from muntin.spark.schemas import spark_schema
    from muntin.spark.shipped import FOR_STREAMS, Shipped, Stateful

    headers = read_state(session, old.uri, "muntin_header", last).select("key.bucket", "value.*")
    chunks = read_state(session, old.uri, "muntin_chunks", last).select(
        "key.bucket", "user_map_key.name", "user_map_value.data"
    )
    held = headers.unionByName(chunks, allowMissingColumns=True).repartition(int(facts["buckets"]), "bucket")
    shares = held.mapInArrow(Shipped(divider, FOR_STREAMS), spark_schema(_SHARE))
    states = shares.groupBy("bucket").agg(
        F.min("timer").alias("timer"),
        F.lit(None).cast("string").alias("facts"),
        F.collect_list(F.struct("place", "header", "data")).alias("shares"),
    )
    text = json.dumps({**facts, "buckets": str(divider.buckets)})
    query = session.range(1).select(
        F.lit(CLERK).cast("int").alias("bucket"),
        F.lit(0).cast("long").alias("timer"),
        F.lit(text).alias("facts"),
        F.lit(None).cast(states.schema["shares"].dataType).alias("shares"),
    )
    one = session.range(1).select(
        F.lit(CLERK).cast("int").alias("bucket"), F.lit(None).cast("timestamp").alias("clock")
    )
    one.write.parquet(begin.uri)
    rows = session.readStream.schema(one.schema).parquet(begin.uri).withWatermark("clock", "0 seconds")
    results = rows.groupBy("bucket").transformWithState(
        Stateful(partial(Mover, divider.allow_pickle)),
        spark_schema(pa.schema({"none": pa.int32()})),
        "Update",
        "EventTime",
        states.unionByName(query).groupBy("bucket"),
    )
    writer = results.writeStream.format("noop").outputMode("update").option("checkpointLocation", new.uri)
    writer.trigger(availableNow=True).start().awaitTermination()


@dataclass(frozen=True)
class Divider:
    """Divides buckets into shares for new ones; Spark calls it with the state of some buckets."""

    buckets: int
    watermark: int
    """Spark's own, in milliseconds. Buckets that started from a history may be ahead of it, and all must agree."""
    allow_pickle: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the shares. O(state)."""
        given = [each for each in batches if each.num_rows]
        if not given:
            return
        held = pa.Table.from_batches(given)
        for bucket in sorted(set(held["bucket"].to_pylist())):
            rows = held.filter(pc.equal(held["bucket"], bucket)).to_pylist()
            yield from self._shares(bucket, rows)

    def _shares(self, bucket: int, rows: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
        (row,) = [row for row in rows if row["stamp"] is not None]
        header = Header.of([row[name] for name in ("stamp", "timer", "header", "names", "small")])
        chunks = {row["name"]: row["data"] for row in rows if row["name"] is not None}
        snapshot, _ = read(header, chunks.__getitem__, allow_pickle=self.allow_pickle)
        if "further" in snapshot.header:
            snapshot = with_further(snapshot, {**snapshot.header["further"], "buckets": str(self.buckets)})
        keys = known_keys(snapshot)
        keyed = Keyed.of(keys, len(keys[0]), self.buckets)
        places = keyed.buckets[keyed.numbers]
        is_ahead = header.timer - 1 > max(self.watermark, 0)
        for place, label in enumerate(labels(self.buckets)):
            mine = places == place
            if mine.any() or is_ahead:
                text, data = joined(regrouped([(snapshot, mine)]), allow_pickle=self.allow_pickle)
                columns = [label], [header.timer], [bucket], [text], [data]
                arrays = [pa.array(each, kind) for each, kind in zip(columns, _SHARE.types, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=_SHARE)


class Mover:
    """The stateful call that writes the state of new buckets, opened by Spark as for `Processor`."""

    def __init__(self, allow_pickle: bool, handle: Any, header: Any, chunks: Any, facts: Any) -> None:
        self.handle = handle
        self.allow_pickle = allow_pickle
        self.state = BucketState(header, chunks, LocalChunks(None), allow_pickle=allow_pickle)
        self.facts = facts

    def begin(self, bucket: int, given: Any, now: Any) -> None:
        """Write one bucket, or the checkpoint's facts of the query."""
        if given.facts is not None:
            self.facts.update((given.facts,))
            return
        shares = sorted(given.shares, key=lambda each: int(each["place"]))
        snapshots = [
            parted(bytes(each["header"]), bytes(each["data"]), allow_pickle=self.allow_pickle) for each in shares
        ]
        self.handle.registerTimer(given.timer)
        self.state.write(_whole(snapshots), given.timer, None)

    def rows(self, bucket: int, rows: Iterator[Any], now: Any) -> Iterator[Any]:
        """Answer nothing."""
        list(rows)
        yield from ()

    def expired(self, bucket: int, now: Any) -> Iterator[Any]:
        """Answer nothing: no watermark moves."""
        yield from ()

    def close(self) -> None:
        """Nothing is left open."""


def _whole(snapshots: list[Snapshot]) -> Snapshot:
    """Return one snapshot of all keys of several."""
    whole = regrouped([(each, np.ones(len(known_keys(each)[0]), np.bool_)) for each in snapshots])
    return replace(whole, arrays=by_time(whole.arrays))


# ------------------------------------------------------------ the files


def _require_layout(old: Folder) -> int:
    """Return the last committed batch; reject a checkpoint of unknown layout."""
    operators = (old / "state").entries()
    if operators != ["0"]:
        raise UnsupportedOperationError(
            f"the query of {old.uri!r} has other stateful operators than muntin's, {', '.join(operators)}: their state "
            "cannot be moved"
        )
    last = (old / "commits").numbers()[-1]
    for name in ("commits", "offsets"):
        version = (old / name / str(last)).text().splitlines()[0]
        if version != "v1":
            raise UnsupportedOperationError(f"{old.uri}/{name}/{last} is of format {version}, and v1 is known")
    return last


def _require_stopped(session: SparkSession, old: Folder) -> None:
    """Reject the checkpoint of a query that this session runs."""
    known = json.loads((old / "metadata").text())["id"]
    if any(str(each.id) == known for each in session.streams.active):
        raise _is_running(old)


def _batches(old: Folder) -> dict[str, list[int]]:
    """Return the batches that are planned and committed: they change while any query runs here."""
    return {name: (old / name).numbers() for name in ("commits", "offsets")}


def _is_running(old: Folder) -> InvalidArgumentError:
    return InvalidArgumentError(f"the query of {old.uri!r} is running: stop it first, and wait until it has")


def _watermark(old: Folder, last: int) -> int:
    """Return Spark's watermark after the last batch, in milliseconds."""
    return int(json.loads((old / "commits" / str(last)).text().splitlines()[1])["nextBatchWatermarkMs"])


def _graft(old: Folder, new: Folder, last: int) -> None:
    """Give the new state the version of the last batch, and copy the old checkpoint's records of batches beside it."""
    conf = _conf(new / "offsets" / "0")
    _require_same_store(_conf(old / "offsets" / str(last)), conf)
    partitions = [name for name in (new / "state" / "0").entries() if name.isdigit()]
    for name in partitions:
        _rename_version(new / "state" / "0" / name, last + 1)
    for name in ("commits", "offsets", "sources"):
        (new / name).delete()
    new.system.delete_file((new / "metadata").place)
    _without_checksum(new, "metadata")
    for name in ("sources", "metadata", "commits"):
        (old / name).copy(new / name)
    new.system.create_dir((new / "offsets").place)
    for number in (old / "offsets").numbers():
        text = (old / "offsets" / str(number)).text()
        (new / "offsets" / str(number)).write(_with_partitions(text, conf[_PARTITIONS]))


def _conf(offsets: Folder) -> dict[str, str]:
    return dict(json.loads(offsets.text().splitlines()[1])["conf"])


def _require_same_store(old: dict[str, str], new: dict[str, str]) -> None:
    for name, value in old.items():
        if name.startswith(_STATE_STORE) and new.get(name) != value:
            raise UnsupportedOperationError(
                f"the checkpoint was written with {name} = {value}, and the session has {new.get(name)}: set that"
            )


def _with_partitions(text: str, partitions: str) -> str:
    version, facts, *offsets = text.splitlines()
    known = json.loads(facts)
    known["conf"] = {**known["conf"], _PARTITIONS: partitions}
    return "\n".join([version, json.dumps(known, separators=(",", ":")), *offsets])


def _rename_version(partition: Folder, version: int) -> None:
    """Renumber the first version of a partition's state, which is one snapshot."""
    if "1.zip" not in partition.entries():
        raise UnsupportedOperationError(
            f"{partition.uri!r} has no snapshot 1.zip, only {', '.join(partition.entries())}: this version of Spark "
            f"lays state out otherwise, or {_STATE_STORE}checkpointFormatVersion is not 1"
        )
    for name in ("1.zip", "1.changelog"):
        _without_checksum(partition, name)
    if "1.changelog" in partition.entries():
        partition.system.delete_file((partition / "1.changelog").place)
    partition.system.move((partition / "1.zip").place, (partition / f"{version}.zip").place)


def _without_checksum(folder: Folder, name: str) -> None:
    checksum = folder / f".{name}.crc"
    if checksum.is_there():
        folder.system.delete_file(checksum.place)
