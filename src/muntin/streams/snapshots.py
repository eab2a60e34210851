"""Streams as bytes: a header that identifies the query, and the arrays of the whole state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import time_ns
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.columns import type_of_values, wide
from muntin.durations import BEFORE_TIME
from muntin.errors import ColumnError, SnapshotError
from muntin.query.computing import expressions_of
from muntin.query.plan import Types
from muntin.query.query import Query
from muntin.snapshots import Snapshot, refusing_forged
from muntin.streams import migrating
from muntin.streams.begun import Begun
from muntin.streams.core import StreamCore
from muntin.streams.facts import differences, facts, fingerprint
from muntin.streams.late_rows import LateRows
from muntin.streams.places import Places, moved
from muntin.streams.plan import STRATEGIES, Forced
from muntin.streams.segments import Segment, Segmented
from muntin.streams.state import FIRST_COUNTS, StreamState
from muntin.tables.answers import as_bytes, from_bytes

if TYPE_CHECKING:
    from muntin.expressions.rows import RowExpressions

KIND = "stream"
VERSION = 3
"""The version of a stream's snapshot. Version 1 had none in its header; version 2 did not record which aggregate a part
of the state belongs to, and kept rows otherwise: see `migrating`."""


def save(state: StreamState, segments: dict[str, list[Segment]] | None = None) -> Snapshot:
    """Return the whole state of a stream; given `segments`, all but the rows that are in these."""
    asked = facts(state.query)
    header: dict[str, Any] = {
        "kind": KIND,
        "version": VERSION,
        "query": asked,
        "closed": state.closed,
        "counts": {name: count for name, count in state.all_counts().items() if count or name in FIRST_COUNTS},
        "first_watermark": state.first_watermark,
        "windows": list(state.windows),
        "complete_from": {str(key): value for key, value in state.complete_from.items()},
        "core": None,
    }
    arrays = {"late": as_bytes(state.late.table())}
    schema: list[tuple[str, pa.DataType | None]] = []
    core = state.core
    if core is not None:
        described, schema = describe(core)
        header["core"] = {**described, "progress": core.progress.save(), **_of_changes(core)}
        if state.expressions is not None:
            schema += [(f"input {each.name}", each.type) for each in state.expressions.inputs]
        arrays |= {f"keys.{name}": array for name, array in core.keys.save().items()}
        if core.silence is not None:
            arrays |= {f"silence.{name}": array for name, array in core.silence.save().items()}
        for i, each in enumerate(core.strategies):
            kept, mine = (each.save(), {}) if segments is None else each.save_changes()
            arrays |= {f"{i}.{name}": array for name, array in kept.items()}
            if segments is not None:
                segments |= {f"{i}.{name}": held for name, held in mine.items()}
    return Snapshot(header, schema, fingerprint(asked), arrays)


def _of_changes(core: StreamCore) -> dict[str, Any]:
    """Return what is only known of streams that went on with the state of another query, or can tell its latest row."""
    found: dict[str, Any] = {} if core.latest == BEFORE_TIME else {"latest": core.latest}
    if core.begun:
        found["begun"] = core.begun.save()
    if core.plan.adopted[0] > BEFORE_TIME:
        found["adopted"] = list(core.plan.adopted)
    return found


def describe(core: StreamCore) -> tuple[dict[str, Any], list[tuple[str, pa.DataType | None]]]:
    """Return how a stream keeps its state, for a header, and the types of its columns."""
    types = core.types
    described = {"strategies": core.groups(), "places": places_of(core), "columns": list(types.columns)}
    schema: list[tuple[str, pa.DataType | None]] = [(f"time {core.query.time}", types.time.logical)]
    schema += [(f"column {name}", kind.logical) for name, kind in types.columns.items()]
    schema += [(f"key {name}", kind) for name, kind in types.keys.items()]
    return described, schema


def places_of(core: StreamCore) -> list[list[dict[str, Any]]]:
    """Return where each strategy has what belongs to which aggregate."""
    return [[place.to_json() for place in each.places] for each in core.strategies]


def migrate(snapshot: bytes, query: Query) -> bytes:
    """Return the snapshot of a stream, of this version or an earlier one, as this version writes it. O(state).

    `query` is that of the stream. A stream reads such snapshots by itself; this is for version 2, which does not record
    the order of the aggregates: here they are in the order in which `query` has them, as they must have been when the
    snapshot was made. Rejects a snapshot that contradicts that, or that cannot be converted, by name.

    >>> import muntin
    >>> from muntin import Query, agg, window
    >>> query = Query(window.tumbling(10), {"high": agg.max("v"), "low": agg.min("v")}, time="t")
    >>> stream = query.stream()
    >>> stream.push({"t": [1], "v": [5]}).num_rows
    0
    >>> muntin.migrate(stream.snapshot(), query) == stream.snapshot()
    True
    """
    state = StreamState(query, Forced(), time_ns, windows=dict(enumerate(query.windows)))
    load(state, Snapshot.decode(snapshot), order=list(query.aggregates))
    return save(state).encode()


def load(
    state: StreamState,
    snapshot: Snapshot,
    known: Mapping[str, Segmented] | None = None,
    order: Sequence[str] | None = None,
) -> None:
    """Restore a snapshot into a new stream; `known` are the segments that its rows were in.

    `order` is that of the aggregates in a snapshot of version 2, which does not record it, if it is known otherwise.
    """
    with refusing_forged():
        require_readable(snapshot.header, oldest=migrating.OLD)
        if snapshot.header["version"] == migrating.OLD:
            snapshot = _migrated(snapshot, state.query, order)
        require_same(snapshot.header["query"], state.query)
        state.windows = {i: state.query.windows[i] for i in snapshot.header["windows"]}
        load_counts(state, snapshot)
        if snapshot.header["core"] is not None:
            state.core = _core(state, snapshot)
            state.expressions = expressions_in(snapshot, state.query)
    for i, each in enumerate(state.core.strategies if known and state.core is not None else ()):
        each.go_on_from(_under(f"{i}.", known))


def _migrated(snapshot: Snapshot, query: Query, order: Sequence[str] | None) -> Snapshot:
    """Return a snapshot of version 2 as one of this version; reject that of another query."""
    require_same(migrating.facts_as_now(snapshot.header["query"], query), query)
    types = None if snapshot.header["core"] is None else types_of(snapshot, query)
    return migrating.migrated(snapshot, query, types, order)


def load_counts(state: StreamState, snapshot: Snapshot) -> None:
    """Restore what a stream counts, and its late rows."""
    header = snapshot.header
    late = from_bytes(snapshot.arrays["late"])
    state.closed = header["closed"]
    state.counts |= header["counts"]
    state.first_watermark = header["first_watermark"]
    state.complete_from = {int(key): value for key, value in header["complete_from"].items()}
    state.late = LateRows((late,) if late.num_rows else (), late.schema if late.num_columns else None)


def expressions_in(snapshot: Snapshot, query: Query) -> RowExpressions | None:
    """Return the expressions of a query by the types of a state; None if they read what that does not know."""
    before = "input "
    known = [(name.removeprefix(before), kind) for name, kind in snapshot.schema if name.startswith(before)]
    with suppress(ColumnError):
        return expressions_of(query, pa.schema(known))
    return None


def types_of(snapshot: Snapshot, query: Query, further: pa.Schema | None = None) -> Types:
    """Return the types of the columns of a state; given a schema, of those that it does not know those of that one.

    Those that neither knows hold nulls.
    """
    kinds = dict(snapshot.schema)
    if further is not None:
        for name in query.reads:
            saved = kinds.get(f"column {name}")
            if saved is None or pa.types.is_null(saved):
                kinds[f"column {name}"] = further.field(name).type if name in further.names else pa.null()
    return Types(
        columns={name: type_of_values(kinds[f"column {name}"]) for name in query.reads},
        keys={name: wide(kinds[f"key {name}"]) for name in query.key},
        time=type_of_values(kinds[f"time {query.time}"]),
    )


def _core(state: StreamState, snapshot: Snapshot) -> StreamCore:
    known = snapshot.header["core"]
    types = types_of(snapshot, state.query)
    require_strategies([each["name"] for each in known["strategies"]], state.forced.strategy)
    core = StreamCore(state.query, state.windows, types, state.forced, state.clock)
    core.begun = Begun.load(known.get("begun", {}))
    core.go_on_after(tuple(known.get("adopted", core.plan.adopted)))
    core.latest = known.get("latest", BEFORE_TIME)
    core.regroup(known["strategies"])
    core.progress.load(known["progress"])
    core.keys.load(_under("keys.", snapshot.arrays))
    if core.silence is not None:
        core.silence.load(_under("silence.", snapshot.arrays))
    for i, each in enumerate(core.strategies):
        saved = _under(f"{i}.", snapshot.arrays)
        saved = moved(saved, [Places.from_json(place) for place in known["places"][i]], each.places)
        each.require_loadable(saved)
        each.load(saved)
    return core


def require_readable(header: Mapping[str, Any], *, oldest: int = VERSION) -> None:
    """Reject the header of another kind of snapshot, or of another version; from `oldest` on it is read."""
    if header.get("kind") != KIND:
        raise SnapshotError("the snapshot is not of a stream, but of an aggregator; its own class restores it")
    version = header.get("version", 1)
    if oldest <= version <= VERSION:
        return
    if version > VERSION:
        raise SnapshotError(
            f"the snapshot of a stream has version {version}, of a later version of muntin; this one reads versions "
            f"{migrating.OLD} to {VERSION}: restore it with the one that wrote it, or a later one"
        )
    if version == migrating.OLD:
        raise SnapshotError(
            f"the state of a stream has version {version}, and must be of version {VERSION} here: let its query read "
            "it once, which writes it anew; muntin.migrate converts the snapshot of a stream"
        )
    raise SnapshotError(
        f"the snapshot of a stream has version {version}, and this version of muntin reads versions {migrating.OLD} "
        f"to {VERSION}; let the one that wrote it finish the stream, or push its rows again"
    )


def require_strategies(names: list[str], forced: str) -> None:
    """Reject strategies that are not there, or not the one that was asked for."""
    if forced not in ("auto", *names):
        raise SnapshotError(
            f"the snapshot was kept by {', '.join(names)}, not by {forced}; restore it with strategy='auto'"
        )
    unknown = [name for name in names if name not in STRATEGIES]
    if unknown:
        raise SnapshotError(
            f"the snapshot was kept by {unknown[0]}, which this version of muntin does not know; let "
            "the one that wrote it finish the stream, or push its rows again"
        )


def require_same(saved: Mapping[str, str], query: Query) -> None:
    """Reject a state of another query; name every difference."""
    found = differences(saved, query)
    if found:
        raise SnapshotError(
            f"the snapshot is of another query: {'; '.join(found.values())}. If that is meant, go on with adopt=True; "
            "muntin.can_adopt tells what becomes of each window and aggregate"
        )


def _under(prefix: str, arrays: Any) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
