"""Publishing a stream that is divided among tasks: each part publishes its keys, before its batch commits.

A run is that of a checkpoint and of what its query is. A part that has no complete record in the store publishes all of
its keys, whatever the reason: it is new there, the store was emptied, or an earlier attempt died halfway.
"""

from __future__ import annotations

import hashlib
import time

import pyarrow as pa

from muntin.durations import BEFORE_TIME
from muntin.forks import Renewed
from muntin.serving import records
from muntin.serving.base import CHUNK, HEAD, FeatureStore, chunks, patiently, refusal
from muntin.serving.publishing import PATIENCE, Counted, Pending, Values, record_of
from muntin.serving.records import Head, Record
from muntin.serving.urls import store_of
from muntin.streams.state import StreamState
from muntin.types import Array


class Stores:
    """The stores that this process is connected to, by their URLs: a worker runs many tasks."""

    def __init__(self) -> None:
        self._opened: Renewed[dict[str, FeatureStore]] = Renewed(dict)

    def get(self, url: str) -> FeatureStore:
        """Return the store that a URL names."""
        opened = self._opened()
        if url not in opened:
            opened[url] = store_of(url)
        return opened[url]


STORES = Stores()
"""Those of this process."""


class Part:
    """One part of a stream, in one batch."""

    def __init__(self, store: FeatureStore, writer: str, batch: int, part: int, parts: int) -> None:
        self._store, self._writer, self._batch, self._part, self._parts = store, writer, batch, part, parts
        self.counted = Counted()

    def publish(self, state: StreamState, changed: Array, gone: list[list[pa.Array]]) -> None:
        """Publish the keys that a batch changed, by their numbers, and remove those that are gone.

        Points are answered from the watermark on: what was let go before the part held anything is not known.
        """
        begun = time.perf_counter()
        core, since = state.resolved, BEFORE_TIME if state.watermark is None else state.watermark
        head, last = self._attach(state)
        pending = Pending()
        for columns in gone:
            pending.note(columns)
        keys, removed = pending.with_changed(core, head, changed)
        is_first = last is None or not last.complete
        if is_first:
            keys = core.keys.in_use()
        found = Values.of(state, head, keys, since)
        values = {**found.by_name, **removed}
        layout = head.name("layout", found.layout.name)
        if last is None or is_first or found.layout.name != last.layout:
            patiently(lambda: self._store.write({layout: found.layout.text}), PATIENCE)
        if is_first:  # what dies in between is seen by the next attempt
            for chunk in chunks(values, CHUNK):
                self._send(head, record_of(state, self._batch, found.nothing, complete=False), chunk)
        self._send(head, record_of(state, self._batch, found.nothing), {} if is_first else values)
        self.counted.add(values, begun)

    def _send(self, head: Head, record: Record, values: dict[bytes, bytes | None]) -> None:
        run, part = head.run.encode(), head.part_name(self._part)
        patiently(lambda: self._store.publish(run, part, record.encode(), values), PATIENCE)

    # ------------------------------------------------------------ the run

    def _attach(self, state: StreamState) -> tuple[Head, Record | None]:
        """Return the head of this run, which begins if it is not current, and the last record of the part."""
        about = records.about(state)
        run = hashlib.sha256(self._writer.encode() + about).hexdigest()[:16]
        mine = Head(run, self._writer, self._batch, self._parts, whole=self._batch == 0)
        return patiently(lambda: self._attached(mine, about), PATIENCE)

    def _attached(self, mine: Head, about: bytes) -> tuple[Head, Record | None]:
        while True:
            found, last = self._store.read([HEAD, mine.part_name(self._part)])
            current = None if found is None else Head.decode(found)
            if current is not None and current.run == mine.run and current.parts >= self._parts:
                return current, None if last is None else Record.decode(last)
            if current is not None and current.run == mine.run:  # the state was divided among more parts
                wider = current.with_parts(self._parts)
                self._store.swap(found, wider.encode())
                continue
            if current is not None and not mine.may_follow(current):
                raise refusal(self._store.url, newer_batch=current.writer == mine.writer)
            self._store.write({mine.name("about"): about})
            following = mine if current is None else mine.after(current)
            if self._store.swap(found, following.encode()):
                self._store.clear(mine.run.encode())
