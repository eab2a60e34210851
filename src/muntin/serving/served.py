"""`muntin.serving.open`: published features, asked from any process, without the stream that keeps them."""

from __future__ import annotations

import asyncio
import datetime
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from muntin.columns import require_columns, row_count
from muntin.durations import BEFORE_TIME
from muntin.errors import InvalidArgumentError, SnapshotError, UnsupportedOperationError
from muntin.kernels.tiers import working_on
from muntin.query.query import Query
from muntin.serving import records
from muntin.serving.base import HEAD, FeatureStore
from muntin.serving.publishing import BEGUN, COMPLETE, SINCE, require_features
from muntin.serving.records import Head, Record
from muntin.serving.urls import store_of
from muntin.serving.values import DamagedValueError, Layout, join, layout_of
from muntin.snapshots import Snapshot, refusing_forged
from muntin.streams.asking import PointReader, answers_at, before_rows, frames_of
from muntin.streams.begun import Begun
from muntin.streams.core import StreamCore
from muntin.streams.places import Places, moved
from muntin.streams.plan import Forced
from muntin.streams.reading import as_time
from muntin.streams.snapshots import types_of
from muntin.tables.over import column_names
from muntin.tabular import as_table, kind_of, whole
from muntin.types import Array

_TRIES = 10
"""How often a reader begins again because another run became current meanwhile."""


def open(url: str, query: Query, *, clock: Callable[[], int] | None = None) -> Served:  # noqa: A001
    """Return a reader of the features that a stream of this query publishes: see `Query.stream(serve=)`.

    `url` is the stream's: `sqlite:///PATH`, `redis://HOST:PORT/DB`, `postgresql://USER@HOST/DATABASE`. A store of
    another query is refused, by what differs. `clock` returns the time for points without one, in nanoseconds or, if
    the times of rows are integers, in their unit; the default is `time.time_ns`.

    >>> import muntin, tempfile, pathlib
    >>> from muntin import Query, agg, window
    >>> query = Query(window.trailing(10), {"n": agg.count(), "spent": agg.sum("v")}, key="card", time="t")
    >>> folder = tempfile.TemporaryDirectory()
    >>> url = f"sqlite:///{pathlib.Path(folder.name, 'features.db')}"
    >>> stream = query.stream(serve=url)
    >>> _ = stream.push({"t": [1, 5, 9], "card": ["a", "b", "a"], "v": [3, 4, 5]})
    >>> with muntin.serving.open(url, query) as served:
    ...     served.ask({"card": ["a", "b", "c"], "t": [9, 12, 12]}).to_pydict()
    {'card': ['a', 'b', 'c'], 't': [9, 12, 12], 'n': [2, 1, 0], 'spent': [8, 4, None]}
    >>> _ = stream.close()
    >>> folder.cleanup()
    """
    return Served(url, query, clock=clock)


def delete(url: str, query: Query) -> None:
    """Delete all features that were published there, if they are of this query. Nothing happens if there are none.

    A stream that still publishes there is refused from then on.
    """
    store = store_of(url)
    try:
        head = store.read([HEAD])[0]
        if head is not None:
            _about(store, Head.decode(head), query)
            store.clear(None)
    finally:
        store.close()


class Served:
    """Published features of a query. Created by `muntin.serving.open`; any number of threads may ask it.

    Each call reads the store once, and answers by what is there at that moment: nothing is cached but how to read it.
    """

    def __init__(self, url: str, query: Query, *, clock: Callable[[], int] | None = None) -> None:
        require_features(query)
        if clock is not None and not callable(clock):
            raise InvalidArgumentError(f"clock is {clock!r}; give a function that returns the time as an integer")
        self._query = query
        self._clock = time.time_ns if clock is None else clock
        self._store = store_of(url)
        try:
            self._view = self._look(self._store.read([HEAD])[0])
        except BaseException:
            self._store.close()
            raise

    @property
    def query(self) -> Query:
        """The query whose features these are."""
        return self._query

    @property
    def point_types(self) -> dict[str, pa.DataType]:
        """The types of the columns of points, keys and time, by name; empty before the first row is published."""
        view = self._view
        if not view.is_typed:
            self._records()  # another run may have begun
            view = self._view
        if not view.is_typed:
            return {}
        time, types = self._query.time, dict(view.types.keys)
        return types if time is None else {**types, time: view.types.time.logical or pa.int64()}

    # ------------------------------------------------------------ points in, answers out

    def ask(self, points: Any) -> Any:
        """Return points, each with what the frames of its key hold at its time.

        As `Stream.ask` and `Query.over(at=)`: points are rows with the key and the time, in any order; without a time
        column, the time is the clock's. There is one more column per frame and aggregate; pandas returns pandas,
        polars returns polars, everything else an Arrow table.

        The answers are of all rows of the batches that were published. Every point from the watermark on is answered,
        and earlier ones as long as all rows of their frames are held; others raise an error that names the earliest
        time that can be answered. One round trip; O(state of the asked keys).
        """
        query = self._query
        points = whole(points, query.key)
        kind = kind_of(points)
        points = as_table(points) if isinstance(points, Mapping) else points
        given, rows = kind.names(points), row_count(points)
        for _ in range(_TRIES):
            view = self._view
            names = column_names(query, given, list(view.frames.values()))
            try:
                if not view.is_typed:
                    require_columns(query.key, given)
                    columns = self._before_rows(view, rows)
                else:
                    with working_on(rows):
                        columns = _Asking(self, view, kind, points, given).columns()
                return kind.beside(points, dict(zip(names, columns, strict=True)))
            except _ChangedError as changed:
                self._view = self._look(changed.head)
        raise SnapshotError(f"{self._store.url} changes faster than it can be read: several streams publish to it")

    async def ask_async(self, points: Any) -> Any:
        """Return what `ask` returns, without blocking the event loop."""
        return await asyncio.to_thread(self.ask, points)

    def _before_rows(self, view: View, rows: int) -> list[pa.Array]:
        head = self._store.read([HEAD])[0]
        if head != view.head_bytes:
            raise _ChangedError(head)
        return before_rows(self._query, rows, len(view.frames))

    # ------------------------------------------------------------ how far the stream is

    @property
    def watermark(self) -> int | None:
        """The watermark up to which features are published, in the unit of the time column; None if there is none."""
        return records.shown_watermark(max((each.watermark for each in self._records()), default=BEFORE_TIME))

    @property
    def watermark_time(self) -> np.datetime64 | int | None:
        """The watermark as a time: a `datetime64` in UTC, if times are timestamps or dates."""
        watermark, view = self.watermark, self._view
        return watermark if watermark is None or not view.is_typed else as_time(watermark, view.types.time)

    @property
    def published_at(self) -> datetime.datetime | None:
        """When a batch was published last, in UTC; None if none was."""
        latest = max((each.published_at for each in self._records()), default=None)
        return None if latest is None else datetime.datetime.fromtimestamp(latest / 1e9, datetime.UTC)

    def _records(self) -> list[Record]:
        """Return how far each part is: two round trips if another run has become current."""
        for _ in range(_TRIES):
            view = self._view
            head, *found = self._store.read([HEAD, *view.head.part_names])
            if head == view.head_bytes:
                return [Record.decode(each) for each in found if each is not None]
            self._view = self._look(head)
        raise SnapshotError(f"{self._store.url} changes faster than it can be read: several streams publish to it")

    # ------------------------------------------------------------ the current run

    def _look(self, head: bytes | None) -> View:
        """Return how to read the current run."""
        if head is None:
            raise InvalidArgumentError(
                f"{self._store.url} holds no features; begin the stream with serve=, or look at the URL"
            )
        decoded = Head.decode(head)
        return View(self._query, head, decoded, self._store, self._clock)

    def close(self) -> None:
        """Close the connections."""
        self._store.close()

    def __enter__(self) -> Self:
        """Return the reader."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the connections."""
        self.close()

    def __repr__(self) -> str:
        """Return the query and the store."""
        return f"<Served features of {self._query!r} in {self._store.url}>"


class _ChangedError(Exception):
    """Another run became current."""

    def __init__(self, head: bytes | None) -> None:
        super().__init__()
        self.head = head


def _about(store: FeatureStore, head: Head, query: Query) -> Snapshot:
    """Return what is published; reject another query."""
    data = store.read([head.name("about")])[0]
    if data is None:
        raise SnapshotError(f"{store.url} is damaged: it does not hold what its features are of")
    return records.read_about(data, query, store.url)


class View:
    """How to read the current run: its layouts, and strategies to load values into."""

    def __init__(
        self, query: Query, head_bytes: bytes, head: Head, store: FeatureStore, clock: Callable[[], int]
    ) -> None:
        self.head_bytes, self.head, self.store = head_bytes, head, store
        about = _about(store, head, query)
        self._query, self._clock = query, clock
        self._loaders: dict[bytes, _Loader] = {}
        self._free: queue.SimpleQueue[StreamCore] = queue.SimpleQueue()
        with refusing_forged():
            self.windows = {i: query.windows[i] for i in about.header["windows"]}
            self.frames = frames_of(query, self.windows)
            self.is_typed = about.header["core"] is not None
            """Whether the types of the columns are known."""
            if self.is_typed:
                self.types = types_of(about, query)
        if self.is_typed:
            self.give_back(self.core())

    def core(self) -> StreamCore:
        """Return a core that no other thread uses, whose strategies hold nothing."""
        try:
            return self._free.get_nowait()
        except queue.Empty:
            return StreamCore(self._query, self.windows, self.types, Forced(), self._clock)

    def give_back(self, core: StreamCore) -> None:
        """Let others use a core."""
        self._free.put(core)

    def loader(self, name: bytes) -> _Loader:
        """Return what loads values of a layout, which is read once."""
        if name not in self._loaders:
            text = self.store.read([self.head.name("layout", name)])[0]
            if text is None:
                raise DamagedValueError(f"{self.store.url} is damaged: it does not hold the layout of some values")
            self._loaders[name] = _Loader(self, Layout.from_text(text))
        return self._loaders[name]


class _Loader:
    """Loads values of one layout into strategies that keep their state so."""

    def __init__(self, view: View, layout: Layout) -> None:
        self._view, self._layout = view, layout
        self._places = [[Places.from_json(each) for each in part] for part in layout.places]
        self._free: queue.SimpleQueue[StreamCore] = queue.SimpleQueue()

    def core(self) -> StreamCore:
        """Return a core that no other thread uses; its state is of an earlier call."""
        try:
            return self._free.get_nowait()
        except queue.Empty:
            view = self._view
            core = StreamCore(view._query, view.windows, view.types, Forced(), view._clock)
            core.regroup(self._layout.strategies)
            return core

    def give_back(self, core: StreamCore) -> None:
        """Let others use a core."""
        self._free.put(core)

    def load(self, core: StreamCore, values: Sequence[bytes]) -> tuple[int, dict[int, int | None]]:
        """Load values, with the aggregates in the places in which this query has them.

        Returns from which time on points are answered, and from which time on each window is complete.
        """
        arrays = join(self._layout, values)
        (since,), complete = arrays.pop(SINCE).tolist(), arrays.pop(COMPLETE).tolist()
        later = {name: arrays.pop(name).tolist() for name in list(arrays) if name.startswith(BEGUN)}
        for i, each in enumerate(core.strategies):
            if list(each.places) != self._places[i]:
                prefix = f"{i}."
                mine = {name.removeprefix(prefix): arrays.pop(name) for name in list(arrays) if name.startswith(prefix)}
                arrays |= {prefix + name: held for name, held in moved(mine, self._places[i], each.places).items()}
        core.load_keys(arrays, len(values))
        core.begun = Begun(
            {
                name.removeprefix(BEGUN): {
                    i: time for i, time in zip(self._view.windows, times, strict=True) if time > BEFORE_TIME
                }
                for name, times in later.items()
            }
        )
        known = [None if each == BEFORE_TIME else each for each in complete]
        return since, dict(zip(self._view.windows, known, strict=True))


@dataclass
class _Group:
    """Asked keys whose values have one layout, or all that are unknown."""

    layout: bytes | None
    """None if there is no value at all."""
    values: list[bytes]
    places: list[int]
    """The places of the values' keys among those asked."""
    is_unknown: bool = False


class _Asking:
    """One call of `ask`."""

    def __init__(self, served: Served, view: View, kind: Any, points: Any, given: list[Any]) -> None:
        self._served, self._view = served, view
        self._rows = row_count(points)
        self._core = view.core()
        try:
            now = None if served.query.time in given else self._core.progress.time_of_rows()
            self._reader = PointReader(self._core, kind, points, given, now)
        finally:
            view.give_back(self._core)  # reading points changes nothing

    def columns(self) -> list[pa.Array]:
        """Return the answers, column by column."""
        names = records.key_names(self._view.head, self._reader.keys, self._rows)
        distinct: dict[bytes, int] = {}
        keys = np.array([distinct.setdefault(name, len(distinct)) for name in names], np.int64)
        values, parts = self._read(list(distinct))
        groups = self._groups(values, parts, keys)
        if len(groups) == 1:
            return self._answers(groups[0], keys, None)
        found: list[tuple[Array, list[pa.Array]]] = []
        for group in groups:
            mine = self._points_of(group, values, keys)
            columns = self._answers(group, keys, mine)
            if not (group.is_unknown and found and groups[len(found) - 1].is_unknown):
                found.append((mine, columns))  # else another part has answered for the unknown keys
        back = pa.array(np.argsort(np.concatenate([mine for mine, _ in found]), kind="stable"))
        return [pa.concat_arrays(each).take(back) for each in zip(*(columns for _, columns in found), strict=True)]

    def _read(self, names: list[bytes]) -> tuple[list[bytes | None], list[Record]]:
        """Return the values of the asked keys, and how far each part is: one round trip."""
        head = self._view.head
        current, *found = self._view.store.read([HEAD, *head.part_names, *names])
        if current != self._view.head_bytes:
            raise _ChangedError(current)
        parts, values = (
            [None if each is None else Record.decode(each) for each in found[: head.parts]],
            found[head.parts :],
        )
        missing = [i for i, each in enumerate(parts) if each is None or not each.complete]
        if missing and not head.whole:
            raise UnsupportedOperationError(
                f"part {missing[0]} of {head.parts} has published nothing yet: the query began to publish amid its "
                "life. Ask again after its next batch"
            )
        return values, [each for each in parts if each is not None]

    def _groups(self, values: Sequence[bytes | None], parts: Sequence[Record], keys: Array) -> list[_Group]:
        """Return the asked keys by the layout of their values, those that are unknown last."""
        groups: dict[bytes, _Group] = {}
        for i, value in enumerate(values):
            if value is not None:
                name = self._checked(value, i, keys)
                group = groups.setdefault(name, _Group(name, [], []))
                group.values.append(value)
                group.places.append(i)
        if values and all(value is not None for value in values):
            return list(groups.values())
        # What is not there holds nothing, from the time on that all parts can answer for.
        unknown: dict[bytes, _Group] = {}
        for part in parts:
            if part.nothing:
                name = layout_of(part.nothing)
                unknown.setdefault(name, _Group(name, [], [], is_unknown=True)).values.append(part.nothing)
        return [*groups.values(), *(unknown.values() or [_Group(None, [], [], is_unknown=True)])]

    def _checked(self, value: bytes, key: int, keys: Array) -> bytes:
        """Return the layout of a value; reject what is damaged, by its key."""
        try:
            return layout_of(value)
        except DamagedValueError as error:
            row = int(np.argmax(keys == key))
            names = self._served.query.key
            shown = ", ".join(
                f"{name} {column[row].as_py()!r}" for name, column in zip(names, self._reader.keys, strict=True)
            )
            raise DamagedValueError(
                f"{self._view.store.url} holds a damaged value of {shown or 'all rows'}: {error}. The next rows of "
                "that key replace it"
            ) from error

    def _points_of(self, group: _Group, values: Sequence[bytes | None], keys: Array) -> Array:
        """Return the places of the points whose keys are in a group."""
        inside = np.array([value is None for value in values]) if group.is_unknown else np.zeros(len(values), np.bool_)
        inside[group.places] = True
        return np.flatnonzero(inside[keys])

    def _answers(self, group: _Group, keys: Array, mine: Array | None) -> list[pa.Array]:
        """Return the answers of points, by their places: all, or those of a group."""
        numbers = np.full(int(keys.max(initial=-1)) + 1, -1, np.int64)
        numbers[group.places] = np.arange(len(group.places))
        order, points = self._reader.sorted_points(numbers[keys], self._view.frames, mine)
        if group.layout is None:
            core = self._view.core()
            try:
                return answers_at(core, order, points, dict.fromkeys(self._view.frames))
            finally:
                self._view.give_back(core)
        loader = self._view.loader(group.layout)
        core = loader.core()
        try:
            since, complete_from = loader.load(core, group.values)
            if points.least < since:
                raise points.refusal(int(np.argmax(points.times < since)), next(iter(self._view.frames)), since)
            return answers_at(core, order, points, {i: complete_from[i] for i in self._view.frames})
        finally:
            loader.give_back(core)
