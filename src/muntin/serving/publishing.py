"""Publishing: what a stream changed of each key, to a store of features, as part of the call that changed it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.durations import BEFORE_TIME
from muntin.errors import StoreError, UnsupportedOperationError
from muntin.query.query import Query
from muntin.serving import records
from muntin.serving.base import CHUNK, HEAD, FeatureStore, chunks, patiently, refusal
from muntin.serving.records import Head, Record
from muntin.serving.urls import store_of
from muntin.serving.values import Layout, cut, empty
from muntin.streams.core import StreamCore
from muntin.streams.snapshots import places_of
from muntin.streams.state import StreamState
from muntin.types import Array

PATIENCE = 30.0
"""How many seconds a call waits for a store that is away, before it fails."""
SINCE, COMPLETE, BEGUN = "served.since", "served.complete_from", "served.begun."
"""The marks beside those of strategies: from which time on points are answered, and each window is complete; and each
aggregate is, which came later."""
_NO_KEYS = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Values:
    """The values of some keys of a stream."""

    layout: Layout
    nothing: bytes
    """The value of a key that nothing is kept of."""
    by_name: dict[bytes, bytes | None]
    """None where nothing is kept."""

    @classmethod
    def of(cls, state: StreamState, head: Head, keys: Array, since: int = BEFORE_TIME) -> Values:
        """Return the values of keys, ascending, from which points from a time on are answered. O(their state)."""
        core = state.resolved
        kept = core.save_keys(keys)
        complete = [state.complete_from.get(i) for i in state.windows]
        marks = {
            SINCE: np.array([since], np.int64),
            COMPLETE: np.array([BEFORE_TIME if each is None else each for each in complete], np.int64),
        }
        for name, times in core.begun.since.items():
            marks[BEGUN + name] = np.array([times.get(i, BEFORE_TIME) for i in state.windows], np.int64)
        kept = replace(kept, marks={**kept.marks, **marks})
        layout = Layout.of(kept, core.groups(), places_of(core))
        names = records.key_names(head, core.keys.take(keys), len(keys)) if len(keys) else []
        return cls(layout, empty(kept, layout), dict(zip(names, cut(kept, layout, len(keys)), strict=True)))


class Pending:
    """Keys of which a store may hold something else than a stream does, as columns, since numbers may change hands."""

    def __init__(self) -> None:
        self._columns: list[list[pa.Array]] = []

    def note(self, columns: list[pa.Array]) -> None:
        """Note some keys."""
        self._columns.append(columns)

    def clear(self) -> None:
        """The store holds what the stream does."""
        self._columns = []

    def with_changed(self, core: StreamCore, head: Head, changed: Array) -> tuple[Array, dict[bytes, None]]:
        """Return the numbers of the keys to publish, ascending, and the names of those to remove."""
        keys, unknown = [np.unique(changed)], []
        for columns in self._columns:
            if not columns:  # without key columns there is one key
                keys.append(core.keys.in_use())
                continue
            numbers = core.keys.find(columns, len(columns[0]))
            keys.append(np.unique(numbers[numbers >= 0]))
            gone = [each.filter(pa.array(numbers < 0)) for each in columns]
            unknown += records.key_names(head, gone, len(gone[0]))
        return (keys[0] if len(keys) == 1 else np.unique(np.concatenate(keys))), dict.fromkeys(unknown)


class Counted:
    """What was published: how many values, their bytes, and the seconds that it took."""

    def __init__(self) -> None:
        self.values = self.bytes = 0
        self.seconds = 0.0

    def add(self, values: Mapping[bytes, bytes | None], begun: float) -> None:
        """Count values that were sent since a time."""
        self.values += len(values)
        self.bytes += sum(len(value) for value in values.values() if value is not None)
        self.seconds += time.perf_counter() - begun

    def metrics(self) -> dict[str, int]:
        """Return the counts as metrics."""
        return {"published": self.values, "published_bytes": self.bytes, "publishing_ms": round(1000 * self.seconds)}


def record_of(state: StreamState, batch: int, nothing: bytes, *, complete: bool = True) -> Record:
    """Return how far a stream is."""
    watermark = state.watermark
    return Record(batch, BEFORE_TIME if watermark is None else watermark, time.time_ns(), complete, nothing)


# ------------------------------------------------------------ a stream of this process


class LocalPublisher:
    """Publishes a stream of this process, which takes the place of whatever the store holds.

    A run has the query and the column types that it began with: where these change, as with the first row, another run
    begins. A call that fails leaves the store as it was, or with values of this call, which the next call replaces.
    """

    def __init__(self, store: FeatureStore) -> None:
        self.store, self.patience = store, PATIENCE
        self.counted = Counted()
        self._writer = secrets.token_hex(8)
        self._head: Head | None = None
        """None before the first run, and after one of which it is not known whether it began."""
        self._has_begun = False
        self._batch = 0
        self._pending = Pending()
        self._layouts: set[bytes] = set()
        self._about: tuple[Any, bytes] = None, b""

    def begin(self, state: StreamState) -> None:
        """Publish all of a stream as a new run. Readers see the run before it until all is there. O(state)."""
        begun = time.perf_counter()
        require_features(state.query)
        self._batch += 1
        head = Head(secrets.token_hex(8), self._writer, self._batch)
        values: dict[bytes, bytes] = {head.name("about"): self._described(state)}
        nothing, self._layouts = b"", set()
        published: Mapping[bytes, bytes | None] = {}
        if state.core is not None:
            found = Values.of(state, head, state.core.keys.in_use())
            nothing, self._layouts = found.nothing, {found.layout.name}
            values[head.name("layout", found.layout.name)] = found.layout.text
            published = found.by_name
            values |= {name: value for name, value in published.items() if value is not None}
        values[head.part_name(0)] = record_of(state, self._batch, nothing).encode()
        self._head = None
        for chunk in chunks(values, CHUNK):
            patiently(lambda chunk=chunk: self.store.write(chunk), self.patience)  # type: ignore[misc]
        patiently(lambda: self._take_over(head), self.patience)
        self._head, self._has_begun = head, True
        self._pending.clear()
        with suppress(StoreError):  # nobody reads what is left, and the next run deletes it
            self.store.clear(head.run.encode())
        self.counted.add(published, begun)

    def _take_over(self, head: Head) -> None:
        """Make a run the current one: of another writer's, only the first run of a stream takes the place."""
        while True:
            found = self.store.read([HEAD])[0]
            current = None if found is None else Head.decode(found)
            if self._has_begun and (current is None or current.writer != self._writer):
                raise refusal(self.store.url, newer_batch=False)
            following = head if current is None else head.after(current)
            if found == following.encode() or self.store.swap(found, following.encode()):
                return

    def push(self, state: StreamState, changed: Array) -> None:
        """Publish the keys that a call changed, by their numbers, and how far the stream is. O(state of the keys)."""
        if state.core is not None:
            state.core.is_published = True
        before = self._about[1]
        if self._described(state) != before or self._head is None:
            self.begin(state)
            return
        begun, head = time.perf_counter(), self._head
        self._batch += 1
        values: dict[bytes, bytes | None] = {}
        nothing = b""
        if state.core is not None:
            keys, removed = self._pending.with_changed(state.core, head, changed)
            found = Values.of(state, head, keys)
            nothing, values = found.nothing, {**found.by_name, **removed}
            self._pending.note(state.core.keys.take(keys))  # until the store says that it has them
            layout = found.layout
            if layout.name not in self._layouts:
                patiently(lambda: self.store.write({head.name("layout", layout.name): layout.text}), self.patience)
                self._layouts.add(layout.name)
        record, run = record_of(state, self._batch, nothing).encode(), head.run.encode()
        patiently(lambda: self.store.publish(run, head.part_name(0), record, values), self.patience)
        self._pending.clear()
        self.counted.add(values, begun)

    def _described(self, state: StreamState) -> bytes:
        """Return what is published; the same bytes as long as nothing of it changes."""
        what = (id(state.query), tuple(state.windows), state.core is None)
        if self._about[0] != (what, state.query):
            self._about = (what, state.query), records.about(state)
        return self._about[1]

    def note(self, columns: list[pa.Array]) -> None:
        """Remove these keys with the next batch, unless they are there again."""
        self._pending.note(columns)

    def metrics(self) -> dict[str, int]:
        """Return what was published: values, their bytes, and the milliseconds that it took."""
        return self.counted.metrics()

    def close(self) -> None:
        """Close the connections."""
        self.store.close()


def publisher(query: Query, url: str) -> LocalPublisher:
    """Return what publishes a stream of a query to a store; reject a query whose answers are not those of frames."""
    require_features(query)
    return LocalPublisher(store_of(url))


def require_features(query: Query) -> None:
    """Reject windows that cannot be asked at a time."""
    names: Sequence[str] = [name for name, each in query.windows.by_name.items() if not each.is_frame]
    if names:
        raise UnsupportedOperationError(
            f"serve= is for frames, and the window {names[0]!r} is {query.windows.by_name[names[0]]!r}; take "
            "window.trailing, with hop= for long ones, or a query of its own for other windows"
        )
