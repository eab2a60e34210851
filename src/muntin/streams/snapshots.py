"""Streams as bytes: a header that says which query it was, and the arrays of all that a stream holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.columns import type_of_values
from muntin.errors import SnapshotError
from muntin.query.plan import Types
from muntin.query.query import Query
from muntin.snapshots import Snapshot
from muntin.streams.plan import STRATEGIES, name_of
from muntin.streams.strategy import Strategy
from muntin.tables.answers import as_bytes, from_bytes
from muntin.types import Array

if TYPE_CHECKING:
    from muntin.streams.stream import Stream

KIND = "stream"


def facts(query: Query) -> dict[str, str]:
    """Return what a query asks, as text: what a snapshot must agree with."""
    words = {f"window {i}": each.fingerprint for i, each in enumerate(query.windows)}
    words |= {
        f"aggregate {name}": f"{each.identity} over {', '.join(each.columns)} ({each.fingerprint})"
        for name, each in query.aggregates.items()
    }
    options = ("watermark", "allowed_lateness", "partial", "emit_empty", "idle_timeout", "emit_early")
    return {
        "key": ", ".join(query.key),
        "time": str(query.time),
        **words,
        **{name: repr(getattr(query, name)) for name in options},
    }


def fingerprint(asked: dict[str, str]) -> str:
    """Return a hash of what a query asks."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def save(stream: Stream) -> bytes:
    """Return a stream as bytes."""
    return state_of(stream).encode()


def state_of(stream: Stream) -> Snapshot:
    """Return all that a stream holds."""
    asked = facts(stream._query)
    header: dict[str, Any] = {
        "kind": KIND,
        "query": asked,
        "closed": stream._closed,
        "counts": stream._counts,
        "told": stream._told,
        "windows": list(stream._windows),
        "complete_from": {str(key): value for key, value in stream._complete_from.items()},
        "settled": None,
    }
    arrays = {"late": as_bytes(stream.late)}
    schema: list[tuple[str, pa.DataType | None]] = []
    settled = stream._settled
    if settled is not None:
        header["settled"] = {
            "strategies": [{"name": name_of(each), "windows": list(each.plan.windows)} for each in settled.strategies],
            "progress": settled.progress.save(),
            "columns": list(settled.types.columns),
        }
        schema = [(f"time {settled.query.time}", settled.plan.time_type.logical)]
        schema += [(f"column {name}", kind.logical) for name, kind in settled.types.columns.items()]
        schema += [(f"key {name}", kind) for name, kind in settled.types.keys.items()]
        arrays |= {f"keys.{name}": array for name, array in settled.keys.save().items()}
        for i, each in enumerate(settled.strategies):
            arrays |= {f"{i}.{name}": array for name, array in each.save().items()}
    return Snapshot(header, schema, fingerprint(asked), arrays)


def restore(stream: Stream, data: bytes) -> None:
    """Bring a stream that was just made to where one was that was saved."""
    load(stream, Snapshot.decode(data))


def load(stream: Stream, snapshot: Snapshot) -> None:
    """Bring a stream that was just made to where one was whose state this is."""
    from muntin.streams.stream import _Settled

    header = snapshot.header
    if header.get("kind") != KIND:
        raise SnapshotError("the snapshot is not of a stream, but of an aggregator; its own class restores it")
    _require_same(header["query"], facts(stream._query))
    stream._closed = header["closed"]
    stream._counts = dict(header["counts"])
    stream._told = header["told"]
    stream._windows = {i: stream._query.windows[i] for i in header["windows"]}
    stream._complete_from = {int(key): value for key, value in header["complete_from"].items()}
    late = from_bytes(snapshot.arrays["late"])
    stream._late = [late] if late.num_rows else []
    stream._late_schema = late.schema if late.num_columns else None
    if header["settled"] is None:
        return
    kinds = dict(snapshot.schema)
    known = header["settled"]
    types = Types(
        columns={name: type_of_values(kinds[f"column {name}"]) for name in known["columns"]},
        keys={name: kinds[f"key {name}"] for name in stream._query.key},
        time=type_of_values(kinds[f"time {stream._query.time}"]),
    )
    settled = _Settled(stream._query, stream._windows, types, stream._forced, stream._clock)
    names = [each["name"] for each in known["strategies"]]
    if stream._forced.strategy not in ("auto", *names):
        kept = ", ".join(names)
        raise SnapshotError(
            f"the snapshot was kept by {kept}, not by {stream._forced.strategy}; restore it with strategy='auto'"
        )
    unknown = [name for name in names if name not in STRATEGIES]
    if unknown:
        raise SnapshotError(f"the snapshot was kept by {unknown[0]}, which this version of muntin does not know")
    settled.kept_by(known["strategies"])
    settled.progress.load(known["progress"])
    settled.keys.load(_under("keys.", snapshot.arrays))
    for i, each in enumerate(settled.strategies):
        saved = _under(f"{i}.", snapshot.arrays)
        _require_kept_alike(each, saved)
        each.load(saved)
    stream._settled = settled


def _require_same(saved: dict[str, str], asked: dict[str, str]) -> None:
    for name in dict.fromkeys((*saved, *asked)):
        if saved.get(name) != asked.get(name):
            raise SnapshotError(
                f"the snapshot is of another query: its {name} is {saved.get(name, 'none')}, "
                f"this one's is {asked.get(name, 'none')}"
            )


def _require_kept_alike(strategy: Strategy, saved: Mapping[str, Array]) -> None:
    """Refuse states of other fields: another version may have run aggregations together that this one does not."""
    for name, array in strategy.save().items():
        found = saved.get(name)
        if found is None or (array.dtype.names is not None and found.dtype.names != array.dtype.names):
            raise SnapshotError(
                f"the snapshot was written by a version of muntin that kept {name!r} otherwise; let that version "
                "finish the stream, or push its rows again"
            )


def _under(prefix: str, arrays: Any) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
