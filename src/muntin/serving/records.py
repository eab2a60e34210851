"""What a store of features holds besides the values of keys: the head, what is published, and how far each part is.

Names begin with the run that wrote them: `RUN:about`, `RUN:layout:HASH`, `RUN:part:3`, `RUN:key:...`. Only the head has
a name without one: it says which run is current, so that a new one becomes visible all at once.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from muntin.durations import BEFORE_TIME
from muntin.errors import SnapshotError
from muntin.keys import encoding
from muntin.query.query import Query
from muntin.serving.base import BATCH, RUN
from muntin.serving.values import MAGIC, NAME
from muntin.snapshots import Snapshot, refusing_forged
from muntin.streams import snapshots
from muntin.streams.facts import differences, facts, fingerprint
from muntin.streams.state import StreamState

KIND = "features"
VERSION = 1
"""The version of what is published; others are rejected."""
_TIMES = struct.Struct("<qq?")
_MOST_RETIRED = 1000
_FEW = 16


@dataclass(frozen=True)
class Head:
    """Which run is current."""

    run: str
    """Its name: 16 letters."""
    writer: str
    """Who writes it: a stream of a process, or the checkpoint of a query, which may begin several runs."""
    batch: int = 0
    """The batch with which it began."""
    parts: int = 1
    """How many parts publish, each on its own."""
    whole: bool = True
    """Whether parts that have published nothing hold nothing: false if a query begins to publish amid its life."""
    retired: tuple[str, ...] = ()
    """Earlier writers, which may not come back."""

    def encode(self) -> bytes:
        """Return the bytes, which begin with the run."""
        return self.run.encode() + json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Head:
        """Read the bytes again."""
        with refusing_forged():
            described = json.loads(data[RUN:])
            return cls(**{**described, "retired": tuple(described["retired"])})

    def after(self, other: Head) -> Head:
        """Return this head with what it retires: the writer of the one before it."""
        retired = other.retired if other.writer == self.writer else (*other.retired, other.writer)
        return replace(self, retired=retired[-_MOST_RETIRED:])

    def may_follow(self, other: Head) -> bool:
        """Return whether this run may begin after another one: a writer that was replaced may not come back."""
        return self.batch >= other.batch if self.writer == other.writer else self.writer not in other.retired

    def name(self, kind: str, rest: bytes = b"") -> bytes:
        """Return the name of a value of this run."""
        return f"{self.run}:{kind}:".encode() + rest

    def part_name(self, part: int) -> bytes:
        """Return the name of the record of a part."""
        return self.name("part", b"%d" % part)

    def with_parts(self, parts: int) -> Head:
        """Return the head of the same run with more parts."""
        return replace(self, parts=parts)

    @property
    def part_names(self) -> list[bytes]:
        """The names of the records of all parts."""
        return [self.part_name(i) for i in range(self.parts)]


@dataclass(frozen=True)
class Record:
    """How far a part has come."""

    batch: int
    watermark: int
    """BEFORE_TIME if there is none yet."""
    published_at: int
    """In nanoseconds since 1970."""
    complete: bool
    """Whether all that the part held was published once."""
    nothing: bytes
    """The value of a key that nothing is kept of; none before there are rows."""

    @property
    def layout(self) -> bytes:
        """The name of the layout of the last values."""
        return self.nothing[len(MAGIC) : len(MAGIC) + NAME]

    def encode(self) -> bytes:
        """Return the bytes, which begin with the number of the batch."""
        times = _TIMES.pack(self.watermark, self.published_at, self.complete)
        return b"%0*x" % (BATCH, self.batch) + times + self.nothing

    @classmethod
    def decode(cls, data: bytes) -> Record:
        """Read the bytes again."""
        with refusing_forged():
            watermark, published_at, complete = _TIMES.unpack_from(data, BATCH)
            return cls(int(data[:BATCH], 16), watermark, published_at, complete, data[BATCH + _TIMES.size :])


def about(state: StreamState) -> bytes:
    """Return what a stream publishes: its query, and the types of its columns."""
    asked = {**facts(state.query), **state.expressed_elsewhere}
    header: dict[str, Any] = {"kind": KIND, "version": VERSION, "query": asked, "windows": list(state.windows)}
    header["core"] = None
    schema: Sequence[tuple[str, pa.DataType | None]] = ()
    if state.core is not None:
        described, schema = snapshots.describe(state.core)
        header["core"] = {"columns": described["columns"]}
    return Snapshot(header, schema, fingerprint(asked), {}).encode()


def read_about(data: bytes, query: Query, url: str) -> Snapshot:
    """Return what was published; reject another version, and another query by what differs."""
    found = Snapshot.decode(data)
    version = found.header.get("version")
    if found.header.get("kind") != KIND or version != VERSION:
        raise SnapshotError(
            f"{url} holds version {version} of published features, and this version of muntin reads version {VERSION}"
        )
    changed = differences(found.header["query"], query)
    if changed:
        raise SnapshotError(
            f"{url} holds the features of another query: {'; '.join(changed.values())}. Ask with the query that is "
            "published, or begin its stream again"
        )
    return found


def key_names(head: Head, columns: Sequence[Any], rows: int) -> list[bytes]:
    """Return the names of the values of keys, the same in every process. O(bytes)."""
    begin = head.name("key")
    if not columns:
        return [begin] * rows
    if rows <= _FEW and len(columns) == 1 and columns[0].type == pa.string():
        return [begin + _text(value) for value in columns[0].to_pylist()]
    data, ends = encoding.rows_of([encoding.one_array(each) for each in columns], rows)
    text, bounds = data.tobytes(), ends.tolist()
    return [begin + text[bounds[i] : bounds[i + 1]] for i in range(rows)]


def _text(value: str | None) -> bytes:
    """Return a text as `encoding.rows_of` does, which takes longer for a few."""
    text = b"" if value is None else value.encode()
    return bytes([value is not None]) + len(text).to_bytes(8, "little") + text


def shown_watermark(watermark: int) -> int | None:
    """Return a watermark; None if there is none yet."""
    return None if watermark == BEFORE_TIME else watermark
