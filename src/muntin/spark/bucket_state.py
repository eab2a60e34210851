"""The state of a bucket in Spark's state store: a header, and chunks named by their content."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from muntin.query.query import Query
from muntin.snapshots import Snapshot
from muntin.spark import chunks
from muntin.spark.local_chunks import LocalChunks
from muntin.streams.migrating import OLD, facts_as_now
from muntin.streams.segments import COUNTS, HELD, STARTS, Segment, Segmented, decode, encode, merged

_NAME = 16
_TABLES = "tables"
"""The fact of a state whose rows are in tables."""
_NONE: Mapping[str, Sequence[Segment]] = MappingProxyType({})


@dataclass(frozen=True)
class Header:
    """What every call of a bucket reads: a few hundred bytes, including the state itself if it is small."""

    stamp: str
    """Unique per state ever written: a cached stream with this stamp has this state."""
    timer: int
    """When the bucket is called without rows, in milliseconds; -1 if never."""
    text: bytes
    names: list[bytes]
    """The chunks, in order, then the tables of rows in segments."""
    small: bytes

    @classmethod
    def of(cls, row: Sequence[Any]) -> Header:
        """Return the header in a row of Spark's state."""
        stamp, timer, text, names, small = row
        names = bytes(names)
        parts = [names[i : i + _NAME] for i in range(0, len(names), _NAME)]
        return cls(stamp, timer, bytes(text), parts, bytes(small))


class BucketState:
    """The state of the current bucket, which Spark selects. `header` is a value state, `chunks` a map state.

    `local` has chunks that need not be read from Spark. `allow_pickle` reads and writes objects that only pickle can.
    """

    def __init__(self, header: Any, chunks: Any, local: LocalChunks, *, allow_pickle: bool = False) -> None:
        self._header = header
        self._chunks = chunks
        self._local = local
        self._allow_pickle = allow_pickle

    def header(self) -> Header | None:
        """Return the header; None if there is no state."""
        row = self._header.get()
        return None if row is None else Header.of(row)

    def read(self, header: Header) -> tuple[Snapshot, dict[str, Segmented]]:
        """Return the state that a header describes, and the segments that rows of it are in. O(state)."""
        return read(header, self._chunk, allow_pickle=self._allow_pickle)

    def _chunk(self, name: bytes) -> bytes:
        near = self._local.read(name)
        if near is not None:
            return near
        row = self._chunks.getValue((name,))
        data = b"" if row is None else bytes(row[0])
        if chunks.name_of(data) != name:
            raise RuntimeError("a chunk of state is missing or damaged: the checkpoint cannot be used")
        self._local.write(name, data)
        return data

    def write(
        self, snapshot: Snapshot, timer: int, old: Header | None, segments: Mapping[str, Sequence[Segment]] = _NONE
    ) -> tuple[Header, int]:
        """Write the new parts of a state; return its header and the bytes written.

        Of rows in segments, those tables are written that have arrays. O(state besides, tables written).
        """
        known = set() if old is None else set(old.names)
        tables: list[bytes] = []
        pieces: dict[bytes, bytes | memoryview] = {}
        for each in (each for prefix in sorted(segments) for each in segments[prefix]):
            if each.arrays is not None:
                data = encode(each.arrays, allow_pickle=self._allow_pickle)
                name = chunks.name_of(data)
                pieces[name] = data
                each.note_written(name, len(data))
            elif each.name not in known:
                raise RuntimeError("invariant violated: a table of rows was written to another state")
            assert each.name is not None
            tables.append(each.name)
        text, data = chunks.joined(_with_tables(snapshot, segments), allow_pickle=self._allow_pickle)
        is_small = len(data) <= chunks.LEAST
        small, parts = (data, []) if is_small else (b"", chunks.cut(data))
        names = [chunks.name_of(piece) for piece in parts]
        pieces |= zip(names, parts, strict=True)
        names += tables
        written = len(text) + len(small) + len(b"".join(names))
        for name, piece in pieces.items():
            if name not in known:
                self._chunks.updateValue((name,), (bytes(piece),))
                self._local.write(name, piece)
                written += len(piece)
        gone = known.difference(names)
        for name in gone:
            self._chunks.removeKey((name,))
        self._local.remove(gone)
        header = Header(uuid.uuid4().hex, timer, text, names, small)
        self._header.update((header.stamp, timer, text, b"".join(names), small))
        return header, written

    def clear(self, old: Header) -> None:
        """Forget the bucket."""
        self._header.clear()
        self._chunks.clear()
        self._local.remove(old.names)


def read(
    header: Header, chunk: Callable[[bytes], bytes], *, allow_pickle: bool
) -> tuple[Snapshot, dict[str, Segmented]]:
    """Return the state that a header describes, whose chunks are found by name, and the segments that it is in.

    All rows are in the state: whoever divides or counts it need not know of segments. O(state).
    """
    facts = json.loads(header.text)["facts"]
    tables = {prefix: each["tables"] for prefix, each in facts.get(_TABLES, {}).items()}
    end = len(header.names) - sum(tables.values())
    data = header.small or b"".join(map(chunk, header.names[:end]))
    snapshot = chunks.parted(header.text, data, allow_pickle=allow_pickle)
    arrays, known = dict(snapshot.arrays), {}
    for prefix in sorted(tables):
        names = header.names[end : end + tables[prefix]]
        end += tables[prefix]
        found = [chunk(name) for name in names]
        starts, counts, held = (arrays.pop(prefix + name) for name in (STARTS, COUNTS, HELD))
        rows, gone = merged(counts, held, [decode(each, allow_pickle=allow_pickle) for each in found])
        arrays |= {prefix + name: array for name, array in rows.items()}
        described = zip(counts.tolist(), names, found, strict=True)
        segments = [Segment(count, None, name, len(each)) for count, name, each in described]
        known[prefix] = Segmented(starts, segments, gone)
    return replace(
        snapshot, header={name: fact for name, fact in facts.items() if name != _TABLES}, arrays=arrays
    ), known


def in_tables(facts: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many rows a state holds in tables, by the facts of its header, and the bytes of these."""
    tables = facts.get(_TABLES, {}).values()
    return sum(each["rows"] for each in tables), sum(each["bytes"] for each in tables)


def _with_tables(snapshot: Snapshot, segments: Mapping[str, Sequence[Segment]]) -> Snapshot:
    """Return a state that records which of its rows are in tables."""
    if not segments:
        return snapshot
    tables = {
        prefix: {
            "tables": len(held),
            "rows": int(snapshot.arrays[prefix + HELD].sum()),
            "bytes": sum(each.size for each in held),
        }
        for prefix, held in segments.items()
    }
    return replace(snapshot, header={**snapshot.header, _TABLES: tables})


def with_further(snapshot: Snapshot, further: Mapping[str, str]) -> Snapshot:
    """Return a state that records these facts beside its query's."""
    return replace(snapshot, header={**snapshot.header, "further": dict(further)})


def facts_of(header: Header, query: Query, further: Mapping[str, str]) -> dict[str, str]:
    """Return the facts of the query of a state, as text, and the further ones.

    A state that was written before it recorded them has `further`: the clerk compares what the checkpoint says. Facts
    of version 2 that are those of `query` are returned as this version writes them.
    """
    known = json.loads(header.text)["facts"]
    facts = known["query"] if known.get("version") != OLD else facts_as_now(known["query"], query)
    return {**facts, **known.get("further", further)}
