"""`Stream.ask`: the answers of frames at points, from a stream's state, as columns beside the points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.columns import Column, inverse, require_columns, row_count
from muntin.errors import InvalidArgumentError, MuntinError, UnsupportedOperationError
from muntin.kernels.tiers import working_on
from muntin.query.query import Query
from muntin.streams.begun import nulled
from muntin.streams.core import StreamCore
from muntin.streams.points import AskedPoints
from muntin.streams.state import StreamState
from muntin.tables.over import as_column, as_rows_have_it, column_names
from muntin.tables.run import require_room, time_column
from muntin.tabular import TableKind, as_table, kind_of, whole
from muntin.types import Array


def ask(state: StreamState, points: Any) -> Any:
    """Return the points with the answers of the stream's frames there."""
    frames = frames_of(state.query, state.windows)
    points = whole(points, state.query.key)
    kind = kind_of(points)
    points = as_table(points) if isinstance(points, Mapping) else points  # convert once, not on every read
    given, rows = kind.names(points), row_count(points)
    names = column_names(state.query, given, list(frames.values()))
    with working_on(rows):
        if state.core is None:
            require_columns(state.query.key, given)
            columns = before_rows(state.query, rows, len(frames))
        else:
            reader = PointReader(state.core, kind, points, given)
            order, asked = reader.sorted_points(reader.found(), frames)
            columns = answers_at(state.core, order, asked, {i: state.complete_from.get(i) for i in frames})
    return kind.beside(points, dict(zip(names, columns, strict=True)))


def frames_of(query: Query, windows: Iterable[int]) -> dict[int, str]:
    """Return the names of a stream's frames, by window_id; reject one without any."""
    names = query.windows.names
    frames = {i: names[i] for i in windows if query.windows[i].is_frame}
    if not frames:
        raise UnsupportedOperationError(
            "ask is for frames, and this stream has none; take window.trailing, window.leading or window.frame"
        )
    return frames


def before_rows(query: Query, rows: int, frames: int) -> list[pa.Array]:
    """Return the answers of no rows, for a stream whose column types are not resolved yet."""
    nothing = [each.empty for each in query.aggregates.values()]
    return [pa.nulls(rows) if each is None else pa.array([each] * rows) for each in nothing * frames]


def answers_at(
    core: StreamCore, order: Array | None, points: AskedPoints, complete_from: Mapping[int, int | None]
) -> list[pa.Array]:
    """Return the aggregates of each frame, in the input order of the points; see `StreamCore.ask`."""
    places, count = None if order is None else inverse(order), len(points.times)
    found: dict[tuple[int, str], pa.Array] = {}
    for each in core.ask(points, complete_from):
        every = range(len(each.windows))
        all_places = None if places is None else np.concatenate([places + i * count for i in every])
        for name, raw in each.aggregates.items():
            column = as_column(raw, each.ends, all_places, core.plan.answer_schema.field(name).type)
            if core.begun:
                lacks = core.begun.lacking(name, np.repeat(each.windows, count), each.begins)
                column = nulled(column, lacks if all_places is None else lacks[all_places])
            found |= {(each.windows[i], name): column.slice(i * count, count) for i in every}
    return [found[i, name] for i in complete_from for name in core.plan.aggregates]


class PointReader:
    """Reads points in the column types of a stream. Without a time, all have the same: the greatest, or `now`."""

    def __init__(
        self, core: StreamCore, kind: TableKind, points: Any, given: list[Any], now: int | None = None
    ) -> None:
        self._core, self._now = core, now
        self._time = core.query.time if core.query.time in given else None
        types = dict(core.types.keys)
        if self._time is not None:
            types[self._time] = core.types.time.logical
        self._table = as_rows_have_it(kind.read(points, list(types)), types)
        self._rows = row_count(points)

    @property
    def keys(self) -> list[Any]:
        """The key columns."""
        return [self._table[name] for name in self._core.types.keys]

    def found(self) -> Array:
        """Return the number of each point's key; -1 if unknown."""
        return self._core.keys.find(self.keys, self._rows)

    def sorted_points(
        self, keys: Array, frames: Mapping[int, str], some: Array | None = None
    ) -> tuple[Array | None, AskedPoints]:
        """Return the points by key and time, and their places in the input; None if already sorted. O(p log p).

        With `some` only these points, by their places.
        """
        times = self._times()
        if some is not None:
            keys, times = keys[some], times[some]
        order = None
        if len(keys) > 1 and not _ascends(keys, times):
            order = np.lexsort((times, keys))
            keys, times = keys[order], times[order]

        def refusal(place: int, window_id: int, since: int | None) -> MuntinError:
            row = place if order is None else int(order[place])
            row = row if some is None else int(some[row])
            return self._refusal(row, int(times[place]), frames[window_id], since)

        return order, AskedPoints(keys, times, refusal)

    def _times(self) -> Array:
        core = self._core
        if self._time is None and self._now is not None:
            times = Column(np.full(self._rows, self._now, np.int64), None, core.types.time)
        elif self._time is None:
            now = core.progress.horizon if core.query.time is not None else core.progress.time_of_rows()
            times = Column(np.full(self._rows, now, np.int64), None, core.types.time)
        else:
            times = time_column(self._table, self._time)
        require_room(times, str(core.query.time), core.reach)
        return times.values.astype(np.int64)

    def _refusal(self, row: int, time: int, window: str, since: int | None) -> InvalidArgumentError:
        key = ", ".join(f"{name} {self._table[name][row].as_py()!r}" for name in self._core.types.keys)
        at = self._core.shown(time)
        when = "once more rows have come" if since is None else f"from {self._core.shown(since)} on"
        return InvalidArgumentError(
            f"the point in row {row}{f' ({key})' if key else ''} asks for the window {window!r} at {at}"
            f", which may hold rows that the stream has let go; it can be answered {when}"
        )


def _ascends(keys: Array, times: Array) -> bool:
    """Return whether rows are sorted by key and time. O(n)."""
    same = keys[1:] == keys[:-1]
    return bool(((keys[1:] > keys[:-1]) | (same & (times[1:] >= times[:-1]))).all())
