"""The answers of frames at points, from the checkpoint of a query: a stream of the points' keys, from their buckets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.errors import SnapshotError
from muntin.keys.table import KeyTable
from muntin.query.query import Query
from muntin.snapshots import Snapshot
from muntin.spark.bucket_state import Header
from muntin.spark.buckets import bucket_of_each, labels
from muntin.spark.checkpoint import is_of_query
from muntin.streams.contents import key_types
from muntin.streams.driven import DrivenStream
from muntin.streams.facts import differences
from muntin.streams.regrouping import known_keys, regrouped
from muntin.streams.snapshots import load
from muntin.streams.stream import Stream
from muntin.tables.over import as_rows_have_it
from muntin.tabular import kind_of
from muntin.types import Array


@dataclass(frozen=True)
class Checkpoint:
    """The buckets of a checkpoint as of a batch."""

    facts: Mapping[str, str]
    buckets: int
    headers: Mapping[int, Header]
    snapshot: Callable[[int, Header], Snapshot]
    """Reads the whole state of a bucket."""


def ask_checkpoint(checkpoint: Checkpoint, points: Any, query: Query) -> Any:
    """Return the points with the answers of a query's frames there, from its checkpoint."""
    found = differences({name: text for name, text in checkpoint.facts.items() if is_of_query(name)}, query)
    if found:
        raise SnapshotError(
            f"the checkpoint is of another query: {'; '.join(found.values())}. Ask by the query that it is of"
        )
    stream = Stream(query)
    if checkpoint.headers:
        load(stream._state, _of_keys(checkpoint, points, query))
    return stream.ask(points)


def _of_keys(checkpoint: Checkpoint, points: Any, query: Query) -> Snapshot:
    """Return the state of the points' keys, which lie in some buckets, as one snapshot; of the others nothing."""
    some = next(iter(checkpoint.headers))
    first = checkpoint.snapshot(some, checkpoint.headers[some])
    types = key_types(first)
    asked = as_rows_have_it(kind_of(points).read(points, list(types)), types)
    columns = [asked[name].combine_chunks() for name in types]
    places = bucket_of_each(columns, asked.num_rows, checkpoint.buckets)
    names = labels(checkpoint.buckets)
    wanted = [names[place] for place in np.unique(places).tolist() if names[place] in checkpoint.headers]
    read = {bucket: checkpoint.snapshot(bucket, checkpoint.headers[bucket]) for bucket in wanted} or {some: first}
    held = [_converted(each, query) for each in read.values()]
    groups = [(_at(_latest(held), each), _mask(each, asked, wanted)) for each in held]
    return regrouped(groups)


def _converted(snapshot: Snapshot, query: Query) -> Snapshot:
    """Return the state of a bucket that has not been called since the query adopted it, as that of the query."""
    if not differences(snapshot.header["query"], query):
        return snapshot
    kinds = {name.partition(" ")[2]: kind for name, kind in snapshot.schema}
    return DrivenStream.load(query, pa.schema(kinds), snapshot, adopt=True).save()


def _latest(snapshots: Sequence[Snapshot]) -> dict[str, Any]:
    """Return how far the query has come: a bucket without rows of late knows less than others."""
    known = [each.header["core"]["progress"] for each in snapshots]
    return {name: max(each[name] for each in known) for name in known[0]}


def _at(progress: dict[str, Any], snapshot: Snapshot) -> Snapshot:
    core = {**snapshot.header["core"], "progress": progress}
    return replace(snapshot, header={**snapshot.header, "core": core})


def _mask(snapshot: Snapshot, asked: pa.Table, wanted: Sequence[int]) -> Array:
    """Return which keys of a snapshot are asked about."""
    keys = known_keys(snapshot)
    if not keys:
        return np.ones(1, np.bool_)
    table = KeyTable([each.type for each in keys])
    table.numbers([asked[name] for name in asked.column_names], asked.num_rows)
    return table.find(keys, len(keys[0])) >= 0 if wanted else np.zeros(len(keys[0]), np.bool_)
