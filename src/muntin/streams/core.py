"""The part of a stream that needs resolved column types: keys, strategies, the watermark, tables of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.errors import InvalidArgumentError, UnsupportedOperationError
from muntin.keys.table import KeyTable
from muntin.query.plan import Plan, Types, resolve
from muntin.query.query import Query
from muntin.query.timing import Timing
from muntin.restoring import RestorePoint
from muntin.streams.begun import Begun
from muntin.streams.plan import STRATEGIES, Forced, chosen_for, name_of, strategies_for
from muntin.streams.points import AskedPoints, FramesAtPoints
from muntin.streams.progress import Progress
from muntin.streams.reading import TableReader, read_times
from muntin.streams.row_reading import Row, RowReader
from muntin.streams.silence import Silence
from muntin.streams.strategy import KEYED, Batch, KeyedState, Strategy
from muntin.tables.answers import Answers, AnswerTables
from muntin.tables.over import as_rows_have_it
from muntin.tables.run import reach_of, require_order
from muntin.types import NULL, Array, logical_array
from muntin.windows.base import Window

_FEW_KEYS = 64


class StreamCore:
    """The resolved part of a stream: takes rows, moves the watermark, and answers the windows that are due."""

    def __init__(
        self,
        query: Query,
        windows: Mapping[int, Window],
        types: Types,
        forced: Forced,
        clock: Callable[[], int],
    ) -> None:
        self.query = query
        self.types = types
        self.forced = forced
        self.plan = resolve(query, types, windows)
        self.reach, self._particular = reach_of(self.plan.windows.values()), _particular(self.plan)
        timing = Timing.of(query, types.time)
        self.progress = Progress(timing, clock)
        self.silence = None if timing.forget_after is None else self._silence(timing.forget_after, timing.delay)
        self.forgotten = 0  # number of keys forgotten
        self.begun = Begun()  # aggregates that came later than windows
        self.latest = BEFORE_TIME  # the greatest time of a row, also where another engine moves the watermark
        self.tables = self._tables_of(query)
        self.keys = KeyTable(list(types.keys.values()))
        self.strategies: list[Strategy] = strategies_for(self.plan, forced)
        self.lacks_types = any(each == NULL for each in types.columns.values())
        """Whether only nulls are known of a column: rows with values tell its type."""
        self._reader, self.row_reader = TableReader(types, query), RowReader(types, query)
        self._crowd = _FEW_KEYS
        self._undo: list[RestorePoint] | None = None
        self._has_begun = False  # whether strategies may have changed since the last restore point
        self.is_published = False
        """Whether a call may fail after its rows were taken, because a store of features is away."""

    def _silence(self, forget_after: int, delay: int) -> Silence:
        """Return the tracker of each key's last row; reject a `forget_after` that could forget rows still needed."""
        for each in self.plan.windows.values():
            needed = each.time_held(delay, self.plan.lateness)
            if needed is not None and forget_after < needed:
                raise InvalidArgumentError(
                    f"forget_after is {self.query.forget_after!r}, and {each!r} needs rows for {needed}, with the "
                    "delay of the watermark and the allowed lateness; give a longer time"
                )
        return Silence(forget_after, self.plan.lateness)

    def _tables_of(self, query: Query) -> AnswerTables:
        """Return the builder of answers: their columns are those of all windows that there have been."""
        return AnswerTables(resolve(query, self.types))

    # ------------------------------------------------------------ rows in, windows out

    def read(self, data: pa.Table | Row, arrived: int) -> Batch:
        """Return rows as strategies take them; reject what does not fit. `arrived` rows came before."""
        reader: Any = self.row_reader if isinstance(data, Row) else self._reader
        columns = reader.columns(data)
        for each in self._particular:
            each.require_values(columns)
        times = self._times(reader, data)
        if self.query.ordered:
            require_order(times, self.query.time, after=self.progress.seen)
        takes = None if self.query.changes is None else reader.takes(data)
        batch = Batch(reader.key_numbers(data, self.keys), times, columns, arrived, takes)
        if takes is not None:
            for strategy in self.strategies:
                strategy.require_rows(batch)
        return batch

    def known_rows(self, data: pa.Table) -> Batch:
        """Return the rows of keys that are held, by key and time, stably. O(n log n)."""
        columns = self._reader.columns(data)
        times = self._times(self._reader, data)
        keys = as_rows_have_it(data.select(list(self.types.keys)), self.types.keys)
        numbers = self.keys.find([keys[name] for name in self.types.keys], data.num_rows)
        batch = Batch(numbers, times, columns)
        order = np.lexsort((times, numbers))
        return batch.take(order[numbers[order] >= 0])

    def first_time(self, data: pa.Table) -> int:
        """Return the first time of rows, after `known_rows` of these."""
        return int(self._times(self._reader, data).min())

    def shown(self, time: int) -> Any:
        """Return a time as the time column has it."""
        kind = self.types.time
        return logical_array(np.array([time]).astype(kind.physical), None, kind)[0].as_py()

    def _times(self, reader: Any, data: pa.Table | Row) -> Array:
        """Return the times of rows: without a time column, that of the clock."""
        name = self.query.time
        if name is None:
            return np.full(data.num_rows, self.progress.time_of_rows(), np.int64)
        return read_times(reader.times(data), name, self.types.time, self.reach)

    def take(self, batch: Batch) -> Array:
        """Give rows to all strategies; return which of them some window took."""
        watermark = self.progress.watermark
        self.be_careful(batch.latest)
        self.latest = max(self.latest, batch.latest)
        if self.silence is not None:
            self.silence.note(batch.keys, batch.times)
        self._has_begun = True
        masks = [each.take(batch, watermark) for each in self.strategies]
        taken = masks[0] if masks else np.zeros(len(batch.times), np.bool_)
        for mask in masks[1:]:
            taken = taken | mask
        return taken

    def emit(self, *, early: bool = False) -> list[Answers]:
        """Return the windows that are due at the watermark, or have changed since their last emission."""
        return self._emit(self.progress.watermark, early)

    def close(self) -> list[Answers]:
        """Return all remaining windows."""
        return self._emit(END_OF_TIME, early=False)

    def _emit(self, watermark: int, early: bool) -> list[Answers]:
        horizon = self.progress.horizon
        self._has_begun = True
        answers = [found for each in self.strategies for found in each.emit(watermark, horizon, early=early)]
        return answers if self.silence is None else answers + self._forget_silent(self.silence, watermark)

    def _forget_silent(self, silence: Silence, watermark: int) -> list[Answers]:
        """Forget silent keys; return their remaining windows."""
        if not BEFORE_TIME < watermark < END_OF_TIME:
            return []
        keys = silence.silent(watermark)
        if not len(keys):
            return []
        held = np.unique(np.concatenate([each.kept_for_ever() for each in self.strategies]))
        self.forgotten += len(np.intersect1d(keys, held))
        return [found for each in self.strategies for found in each.forget(keys, self.progress.horizon)]

    def ask(self, points: AskedPoints, complete_from: Mapping[int, int | None]) -> Iterator[FramesAtPoints]:
        """Yield the answers of frames at points; `complete_from` names the frames, see `Strategy.ask`."""
        for each in self.strategies:
            mine = {i: complete_from[i] for i in each.plan.windows if i in complete_from}
            if mine:
                yield from each.ask(points, mine)

    def table(self, answers: Sequence[Answers]) -> pa.Table:
        """Return answers as a table."""
        if self.begun:
            answers = [self.begun.without_parts(each, self.plan.windows) for each in answers]
        table = self.tables.table(answers, self.keys.take)
        return table.combine_chunks() if len(answers) > 1 else table

    def release_keys(self, before: Callable[[Array], object] | None = None) -> None:
        """Release keys of which no strategy holds anything, whenever their number has doubled; `before` gets them."""
        if not self.types.keys or len(self.keys) < 2 * self._crowd:
            return
        held = _union([each.held_keys() for each in self.strategies])
        idle = np.setdiff1d(self.keys.in_use(), held, assume_unique=True)
        if len(idle):
            if before is not None:
                before(idle)
            self.keys.release(idle)
            if self.silence is not None:
                self.silence.release(idle)
        self._crowd = max(_FEW_KEYS, len(held))

    # ------------------------------------------------------------ adding and removing windows

    def add(self, query: Query, window_id: int, window: Window, *, may_widen: bool) -> int | None:
        """Answer one more window; return the time from which it is complete, None if it has all rows.

        Unless it `may_widen` them, the columns of answers stay as they are: a window with further bounds is rejected.
        """
        missing = [name for name in window.columns if name not in self.types.columns]
        if missing:
            raise InvalidArgumentError(
                f"{window!r} reads the column {missing[0]!r}, which nothing in this stream has read so far"
            )
        resolved = window.resolve(self.types.time)
        tables = self._tables_of(query)
        if not may_widen:
            _require_same_bounds(window, self.tables.schema, tables.schema)
        plan = _with(self.plan, window_id, resolved)
        complete_from = self._complete_from(plan, window_id, resolved)
        self.query, self.tables = query, tables
        self.plan, self.reach, self._particular = plan, reach_of(plan.windows.values()), _particular(plan)
        return complete_from

    def _complete_from(self, plan: Plan, window_id: int, window: Window) -> int | None:
        held_from = self._give(plan, window_id, window)
        if held_from == BEFORE_TIME:
            return None
        return held_from + window.lead_in

    def _give(self, plan: Plan, window_id: int, window: Window) -> int:
        """Give a window to a strategy that can add it, or to a new one, which begins with the rows of another.

        If none holds rows, it begins with the next one.

        Returns the time from which that strategy has all rows.
        """
        for each in self.strategies:
            try:
                return each.add(window_id, window, _with(each.plan, window_id, window))
            except UnsupportedOperationError:
                continue
        alone = replace(plan, windows={window_id: window})
        able = chosen_for(alone, self.forced.strategy)  # the forced one, if it can answer it
        (new,) = strategies_for(alone, replace(self.forced, strategy=able))
        held = [rows for each in self.strategies if (rows := each.rows_held()) is not None]
        self.strategies = [*self.strategies, new]
        complete = new.begin(min(held, key=lambda rows: rows.complete_from)) if held else None
        if complete is not None:
            return complete
        since = self.progress.seen if self.progress.seen == BEFORE_TIME else self.progress.seen + 1
        new.begin_at(since)  # what is added to it later has no earlier rows either
        return since

    def remove(self, window_id: int) -> None:
        """Stop answering a window."""
        kept = []
        for each in self.strategies:
            if window_id not in each.plan.windows:
                kept.append(each)
            elif len(each.plan.windows) > 1:
                each.remove(window_id, _without(each.plan, window_id))
                kept.append(each)
        self.strategies = kept
        self.plan = _without(self.plan, window_id)  # the columns of answers stay

    # ------------------------------------------------------------ some keys

    def save_keys(self, keys: Array) -> KeyedState:
        """Return what `ask` needs of some keys, ascending, which are renumbered in their order. O(their state)."""
        parts = [each.save_keys(keys) for each in self.strategies]
        return KeyedState(*(_numbered(getattr(each, name) for each in parts) for name in KEYED))

    def load_keys(self, arrays: Mapping[str, Array], keys: int) -> None:
        """Replace the state of all strategies by the arrays of a `KeyedState` of so many keys."""
        for i, each in enumerate(self.strategies):
            prefix = f"{i}."
            mine = {name.removeprefix(prefix): held for name, held in arrays.items() if name.startswith(prefix)}
            each.load_keys(mine, keys)

    # ------------------------------------------------------------ state

    def restore_point(self) -> RestorePoint:
        """Return a callback that restores the current state."""
        # A strategy that cannot fail is unchanged when a push is rejected: rows are validated before any is kept. If it
        # is interrupted all the same, by Ctrl-C or lack of memory, the stream is no longer consistent.
        self._has_begun = False
        may_fail = self.is_published or any(each.may_fail for each in self.strategies)
        parts = [each.restore_point() for each in self.strategies] if may_fail else []
        parts += [self.keys.restore_point(), self.progress.restore_point()]
        if self.silence is not None:
            parts.append(self.silence.restore_point())
        self._undo = None if may_fail else parts
        mine = vars(self).copy()

        def restore() -> bool:
            whole = self._undo is None or not self._has_begun
            vars(self).update(mine)
            for each in parts:
                each()
            return whole

        return restore

    def be_careful(self, latest: int) -> None:
        """Make strategies restorable if the time `latest` may open so many windows that the call is rejected.

        Call it before any strategy takes a row or advances. O(1), or O(state) if times jump that far.
        """
        if self._undo is not None:
            span, keys = latest - self.progress.watermark, max(1, len(self.keys))
            if any(each.may_open_many(span, keys) for each in self.strategies):
                self._undo += [Strategy.restore_point(each) for each in self.strategies]
                self._undo = None

    def groups(self) -> list[dict[str, Any]]:
        """Return which strategy answers which windows, in the form `regroup` takes."""
        return [{"name": name_of(each), "windows": list(each.plan.windows)} for each in self.strategies]

    def go_on_after(self, adopted: tuple[int, int]) -> None:
        """Note at which watermark the stream went on with the state of another query, and how late rows came to it."""
        self.plan = replace(self.plan, adopted=adopted)

    def regroup(self, groups: Sequence[Mapping[str, Any]]) -> None:
        """Create the strategies of a snapshot, empty, whatever would be chosen now."""
        plan = replace(self.plan, merge=self.forced.merge)
        self.strategies = [
            STRATEGIES[each["name"]](replace(plan, windows={i: plan.windows[i] for i in each["windows"]}))
            for each in groups
        ]


def _particular(plan: Plan) -> list[Window]:
    """Return the windows that reject some values."""
    return [each for each in plan.windows.values() if type(each).require_values is not Window.require_values]


def _require_same_bounds(window: Window, held: pa.Schema, needed: pa.Schema) -> None:
    """Reject a window whose bounds the answers of a stream have no fields for: tables of one stream fit together."""
    before, after = ({each.name: each.type for each in schema.field("window").type} for schema in (held, needed))
    further = [name for name, kind in after.items() if before.get(name) != kind]
    if further:
        how = "of another type than in" if further[0] in before else "which are not in"
        raise UnsupportedOperationError(
            f"{window!r} has the bounds {' and '.join(further)}, {how} the answers of this stream, whose columns stay "
            "as they are: begin the stream with a query that has such a window; remove() may let it go at once"
        )


def _with(plan: Plan, window_id: int, window: Window) -> Plan:
    return replace(plan, windows={**plan.windows, window_id: window})


def _without(plan: Plan, window_id: int) -> Plan:
    return replace(plan, windows={i: each for i, each in plan.windows.items() if i != window_id})


def _numbered(named: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what strategies have by name, under their numbers."""
    return {f"{i}.{name}": held for i, each in enumerate(named) for name, held in each.items()}


def _union(keys: list[Array]) -> Array:
    """Return all of some ascending keys, ascending. O(1) for one array."""
    return keys[0] if len(keys) == 1 else np.unique(np.concatenate(keys))
