"""The state of a bucket in Spark's state store: a header, and chunks named by their content."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from muntin.snapshots import Snapshot
from muntin.spark import chunks
from muntin.spark.local_chunks import LocalChunks

_NAME = 16


@dataclass(frozen=True)
class Header:
    """What every call of a bucket reads: a few hundred bytes, including the state itself if it is small."""

    stamp: str
    """Unique per state ever written: a cached stream with this stamp has this state."""
    timer: int
    """When the bucket is called without rows, in milliseconds; -1 if never."""
    text: bytes
    names: list[bytes]
    """The chunks, in order."""
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

    def read(self, header: Header) -> Snapshot:
        """Return the state that a header describes. O(state)."""
        data = header.small or b"".join(self._chunk(name) for name in header.names)
        return chunks.parted(header.text, data, allow_pickle=self._allow_pickle)

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

    def write(self, snapshot: Snapshot, timer: int, old: Header | None) -> tuple[Header, int]:
        """Write the new parts of a state; return its header and the bytes written."""
        text, data = chunks.joined(snapshot, allow_pickle=self._allow_pickle)
        is_small = len(data) <= chunks.LEAST
        small, parts = (data, []) if is_small else (b"", chunks.cut(data))
        names = [chunks.name_of(piece) for piece in parts]
        pieces = dict(zip(names, parts, strict=True))
        known = set() if old is None else set(old.names)
        written = len(text) + len(small)
        for name, piece in pieces.items():
            if name not in known:
                self._chunks.updateValue((name,), (bytes(piece),))
                self._local.write(name, piece)
                written += len(piece)
        gone = known.difference(pieces)
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


def with_further(snapshot: Snapshot, further: Mapping[str, str]) -> Snapshot:
    """Return a state that records these facts beside its query's."""
    return replace(snapshot, header={**snapshot.header, "further": dict(further)})


def facts_of(header: Header, further: Mapping[str, str]) -> dict[str, str]:
    """Return the facts of the query of a state, as text, and the further ones.

    A state that was written before it recorded them has `further`: the clerk compares what the checkpoint says.
    """
    known = json.loads(header.text)["facts"]
    return {**known["query"], **known.get("further", further)}
