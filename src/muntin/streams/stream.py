"""`Query.stream`: rows come in pushes, windows go out as they are due."""

from __future__ import annotations

import time as system_time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from muntin import _html
from muntin.columns import Column, pick, select
from muntin.durations import BEFORE_TIME, END_OF_TIME
from muntin.errors import ColumnTypeError, InvalidArgumentError, UnsupportedOperationError
from muntin.keys.table import KeyTable
from muntin.plans.explain import Subject, explain, explain_running
from muntin.plans.query_plan import QueryPlan
from muntin.query.plan import Plan, Types, resolve
from muntin.query.query import Query
from muntin.streams import snapshots
from muntin.streams.plan import STRATEGIES, Forced, chosen_for, strategies_for
from muntin.streams.progress import Progress
from muntin.streams.strategy import Batch, Strategy
from muntin.tables.answers import Answers, AnswerTables
from muntin.tables.run import as_table, reach_of, require_order, require_room, time_column
from muntin.types import INT64, Array, ColumnType, assignable, column_type
from muntin.windows.base import Window

_FEW_KEYS = 64


class Stream:
    """A query over rows that keep coming. Made by `Query.stream`.

    Each call returns a table of the windows that are due, or have changed since they were emitted; its columns and
    types are the same for every call from the first push with rows on, which settles the types of the columns. A call
    that raises an error has changed nothing.

    >>> from muntin import Query, agg, window
    >>> stream = Query(window.tumbling(10), {"n": agg.count()}, time="t", allowed_lateness=5).stream()
    >>> stream.push({"t": [1, 4, 12]}).select(["window", "n", "revision"]).to_pylist()
    [{'window': {'start': 0, 'end': 10}, 'n': 2, 'revision': 0}]
    >>> stream.push({"t": [5]}).select(["window", "n", "revision"]).to_pylist()
    [{'window': {'start': 0, 'end': 10}, 'n': 3, 'revision': 1}]
    >>> stream.close().select(["window", "n", "revision"]).to_pylist()
    [{'window': {'start': 10, 'end': 20}, 'n': 1, 'revision': 0}]
    """

    def __init__(
        self,
        query: Query,
        snapshot: bytes | None = None,
        *,
        strategy: str = "auto",
        merge: str = "auto",
        clock: Callable[[], int] | None = None,
    ) -> None:
        if clock is not None and not callable(clock):
            raise InvalidArgumentError(f"clock is {clock!r}; give a function that returns the time as an integer")
        self._query = query
        self._forced = Forced(strategy, merge)
        self._clock = system_time.time_ns if clock is None else clock
        self._windows: dict[int, Window] = dict(enumerate(query.windows))
        self._settled: _Settled | None = None
        self._told: int | None = None  # a watermark that came before the first row
        self._closed = False
        self._counts = {"rows": 0, "late": 0, "dropped": 0}
        self._late: list[pa.Table] = []
        self._late_schema: pa.Schema | None = None
        self._complete_from: dict[int, Any] = {}
        if snapshot is not None:
            snapshots.restore(self, snapshot)

    # ------------------------------------------------------------ rows in, windows out

    def push(self, table: Any) -> pa.Table:
        """Take rows, in any order; return the windows that are due or have changed.

        A row that no window takes any more is in `late`. Amortised O(1) combines a row and window definition in order,
        whatever the strategy; what else it costs is the strategy's to say.
        """
        self._require_open()
        data = as_table(table)
        if self._settled is None and not data.num_rows:
            return self._nothing()
        with self._all_or_nothing():
            settled = self._settle(data)
            idle = self._advance_by_clock()
            batch, latest = settled.batch(data, self._counts["rows"])
            before = settled.progress.watermark
            taken = np.zeros(data.num_rows, np.bool_)
            for each in settled.strategies:
                taken |= each.take(batch, before)
            if data.num_rows:
                settled.progress.reached(latest)
            answers = idle + self._emit()
            self._count(data, batch.times < before, ~taken)
            out = self._table(answers)
        self._release_keys()
        return out

    def advance(self, watermark: Any) -> pa.Table:
        """Say that no row before this time is expected any more; return the windows that are due.

        An integer in the unit of the time column; for dates and timestamps also a `datetime`, a `datetime64`, an Arrow
        scalar or an ISO string. A watermark never goes back: an earlier one changes nothing.

        >>> from muntin import Query, agg, window
        >>> stream = Query(window.tumbling(10), {"n": agg.count()}, time="t").stream()
        >>> stream.push({"t": [1]}).num_rows, stream.advance(10).num_rows
        (0, 1)
        """
        self._require_open()
        settled = self._settled
        if settled is None:
            told = _ticks(watermark, None)
            self._told = told if self._told is None else max(self._told, told)
            return self._nothing()
        told = _ticks(watermark, settled.plan.time_type)
        with self._all_or_nothing():
            answers = self._advance_by_clock()
            settled.progress.told(told, told)
            out = self._table(answers + self._emit())
        self._release_keys()
        return out

    def tick(self) -> pa.Table:
        """Do what is due by the clock: the watermark of an idle stream goes on, and early results are given."""
        self._require_open()
        if self._settled is None:
            return self._nothing()
        with self._all_or_nothing():
            out = self._table(self._advance_by_clock() + self._emit())
        self._release_keys()
        return out

    def close(self) -> pa.Table:
        """Return all that is left: every window that holds rows, but for those by rows that never filled.

        The stream takes no more rows. Closing it again returns nothing.
        """
        if self._closed or self._settled is None:
            self._closed = True
            return self._nothing()
        settled = self._settled
        with self._all_or_nothing():
            answers = [a for each in settled.strategies for a in each.emit(END_OF_TIME, settled.progress.horizon)]
            out = self._table(answers)
        self._closed = True
        return out

    def _advance_by_clock(self) -> list[Answers]:
        settled = self._require_settled()
        return self._emit() if settled.progress.is_idle() else []

    def _emit(self, early: bool | None = None) -> list[Answers]:
        settled = self._require_settled()
        progress = settled.progress
        early = progress.is_early() if early is None else early
        return [
            answers
            for each in settled.strategies
            for answers in each.emit(progress.watermark, progress.horizon, early=early)
        ]

    # ------------------------------------------------------------ late rows

    @property
    def late(self) -> pa.Table:
        """The rows that no window took, in the order of arrival, since the start or since `take_late`."""
        if not self._late:
            return pa.table({}) if self._late_schema is None else self._late_schema.empty_table()
        if len(self._late) > 1:
            self._late = [pa.concat_tables(self._late, promote_options="permissive").combine_chunks()]
        return self._late[0]

    def take_late(self) -> pa.Table:
        """Return the rows that no window took, and forget them, so that they take no memory.

        >>> from muntin import Query, agg, window
        >>> stream = Query(window.tumbling(10), {"n": agg.count()}, time="t").stream()
        >>> _ = stream.push({"t": [25]}), stream.push({"t": [3, 27]})
        >>> stream.take_late().to_pydict(), stream.late.num_rows
        ({'t': [3]}, 0)
        """
        late = self.late
        self._late = []
        return late

    def _count(self, data: pa.Table, behind: Array, late: Array) -> None:
        self._counts["rows"] += data.num_rows
        self._counts["late"] += int(np.count_nonzero(behind))
        self._counts["dropped"] += int(np.count_nonzero(late))
        self._late_schema = self._late_schema or data.schema
        if late.any():
            self._late = [*self._late, data.filter(pa.array(late))]

    # ------------------------------------------------------------ windows that come and go

    def add(self, window: Window) -> int:
        """Answer one more window from now on; return its window_id.

        It starts with the rows that are still held for the others; `complete_from` says from when on it is complete.

        >>> from muntin import Query, agg, window
        >>> stream = Query(window.tumbling(10), {"n": agg.count()}, time="t").stream()
        >>> _ = stream.push({"t": [1, 11, 12]})
        >>> stream.add(window.tumbling(20)), stream.complete_from(1)
        (1, 10)
        >>> stream.close().select(["window", "window_id", "n"]).to_pylist()[1]
        {'window': {'start': 0, 'end': 20}, 'window_id': 1, 'n': 2}
        """
        self._require_open()
        windows = (*self._query.windows, window)
        query = replace(self._query, windows=windows)
        window_id = len(windows) - 1
        if self._settled is not None:
            with self._all_or_nothing():
                self._complete_from[window_id] = self._settled.add(query, window_id, window)
        self._query = query
        self._windows[window_id] = window
        return window_id

    def remove(self, window_id: int) -> None:
        """Answer a window no more. The others keep their numbers."""
        self._require_open()
        if window_id not in self._windows:
            known = ", ".join(map(str, self._windows))
            raise InvalidArgumentError(f"there is no window {window_id!r}; there are {known or 'none'}")
        if self._settled is not None:
            with self._all_or_nothing():
                self._settled.remove(window_id)
        del self._windows[window_id]

    def complete_from(self, window_id: int) -> Any:
        """Return the time from which on a window is complete: one that begins earlier may lack rows.

        None for those that have been there from the start.
        """
        if window_id not in self._windows:
            raise InvalidArgumentError(f"there is no window {window_id!r}")
        return self._complete_from.get(window_id)

    @property
    def query(self) -> Query:
        """The query as it is now, with the windows that were added: it restores a snapshot of this stream."""
        return self._query

    # ------------------------------------------------------------ what is known of it

    @property
    def watermark(self) -> int | None:
        """The watermark, in the unit of the time column; None before the first row."""
        if self._settled is None:
            return self._told
        reached = self._settled.progress.watermark
        return None if reached == BEFORE_TIME else reached

    def metrics(self) -> dict[str, int | None]:
        """Return counts: rows, those behind the watermark (late), those that no window took (dropped), and of state.

        `slices`, `splits` and `merges` are what has happened to slices, `kept` how many rows are held as they are,
        `keys` and `bytes` what is known now. O(1) but for object columns.
        """
        totals = dict.fromkeys(("slices", "splits", "merges", "kept", "keys", "bytes"), 0)
        if self._settled is not None:
            for each in self._settled.strategies:
                for name, count in each.metrics().items():
                    totals[name] = totals.get(name, 0) + count
            totals["keys"] = len(self._settled.keys)
            totals["bytes"] += self._settled.keys.nbytes
        return {**self._counts, **totals, "watermark": self.watermark}

    def explain(self) -> QueryPlan:
        """Say how this stream answers each window, and what is there now. O(windows); see `Query.explain`.

        >>> from muntin import Query, agg, window
        >>> stream = Query(window.tumbling(10), {"n": agg.count()}, time="t").stream()
        >>> _ = stream.push({"t": [1, 12]})
        >>> stream.explain().stores[0].now["slices"]
        1
        """
        settled = self._settled
        if settled is None:
            return explain(self._query, forced=self._forced, windows=self._windows)
        subject = Subject(self._query, self._windows, settled.plan, settled.strategies, self._forced, {})
        return explain_running(subject, self._complete_from, self.metrics())

    def __repr__(self) -> str:
        """Say what it answers, and how far it has come."""
        counts = self.metrics()
        closed = ", closed" if self._closed else ""
        said = f"{counts['rows']} rows, {counts['late']} late, watermark {counts['watermark']}{closed}"
        return f"<Stream of {self._query!r}: {said}>"

    def _repr_html_(self) -> str:
        """Return a table, for notebooks."""
        return _html.table(f"Stream of {self._query!r}", self.metrics().items())

    def snapshot(self) -> bytes:
        """Return the whole state as bytes, from which `Query.stream` goes on. O(state).

        >>> from muntin import Query, agg, window
        >>> query = Query(window.tumbling(10), {"n": agg.count()}, time="t")
        >>> stream = query.stream()
        >>> _ = stream.push({"t": [1, 2]})
        >>> query.stream(stream.snapshot()).close()["n"].to_pylist()
        [2]
        """
        return snapshots.save(self)

    def check(self) -> None:
        """Raise `InvariantError` where the state contradicts itself."""
        if self._settled is not None:
            for each in self._settled.strategies:
                each.check()

    # ------------------------------------------------------------ within

    def _require_open(self) -> None:
        if self._closed:
            raise UnsupportedOperationError("the stream is closed; begin another one with Query.stream")

    def _require_settled(self) -> _Settled:
        assert self._settled is not None
        return self._settled

    def _settle(self, data: pa.Table) -> _Settled:
        """Settle the types of the columns by the first rows."""
        if self._settled is None:
            query = self._query
            types = Types.of(query, data.schema)
            self._settled = _Settled(query, self._windows, types, self._forced, self._clock)
            if self._told is not None:
                self._settled.progress.told(self._told, self._told)
        return self._settled

    def _nothing(self) -> pa.Table:
        """Return an empty table; before the first row, of what is known of the types."""
        if self._settled is not None:
            return self._settled.tables.schema.empty_table()
        kinds = dict.fromkeys(self._query.key, pa.null())
        bounds = pa.struct([("start", pa.null()), ("end", pa.null())])
        kinds |= {"window": bounds, "window_id": pa.int64(), **dict.fromkeys(self._query.aggregates, pa.null())}
        return pa.schema({**kinds, "revision": pa.int64(), "retracted": pa.bool_()}).empty_table()

    def _table(self, answers: list[Answers]) -> pa.Table:
        settled = self._require_settled()
        return settled.tables.table(answers, settled.keys.take).combine_chunks()

    def _release_keys(self) -> None:
        if self._settled is not None:
            self._settled.release_keys()

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Bring everything back to where it was, should what comes fail."""
        settled, counts, late = self._settled, dict(self._counts), list(self._late)
        complete, schema = dict(self._complete_from), self._late_schema
        undo = None if settled is None else settled.undo()
        try:
            yield
        except BaseException:
            self._settled, self._counts, self._late = settled, counts, late
            self._complete_from, self._late_schema = complete, schema
            if undo is not None:
                undo()
            raise


class _Settled:
    """What a stream has once the types of its columns are settled."""

    def __init__(
        self,
        query: Query,
        windows: dict[int, Window],
        types: Types,
        forced: Forced,
        clock: Callable[[], int],
    ) -> None:
        self.query = query
        self.types = types
        self.forced = forced
        self.plan = resolve(query, types, windows)
        self._reach = reach_of(self.plan.windows.values())
        self.progress = Progress(query, types.time, clock)
        self.tables = AnswerTables(self.plan)
        self.keys = KeyTable(list(types.keys.values()))
        self.strategies: list[Strategy] = strategies_for(self.plan, forced)
        self._crowd = _FEW_KEYS

    # ------------------------------------------------------------ rows

    def batch(self, data: pa.Table, arrived: int) -> tuple[Batch, int]:
        """Return a table's rows as strategies take them, and the latest time; refuse what does not fit."""
        columns = {name: _fitting(data, name, kind) for name, kind in self.types.columns.items()}
        keys = [_as_type(pick(data, name, data.column_names), kind, name) for name, kind in self.types.keys.items()]
        times = self._times(data)
        if self.query.ordered:
            require_order(times, self.query.time, after=self.progress.seen)
        numbers = self.number_keys(keys, data.num_rows)
        return Batch(numbers, times, columns, arrived), int(times.max(initial=BEFORE_TIME))

    def number_keys(self, keys: list[Any], rows: int) -> Array:
        """Return the number of each row's key."""
        return self.keys.numbers(keys, rows)

    def _times(self, data: pa.Table) -> Array:
        name, kind = self.query.time, self.plan.time_type
        if name is None:
            return np.full(data.num_rows, self.progress.time_of_rows(), np.int64)
        column = pick(data, name, data.column_names)
        if kind.family != "integer" and column.type != kind.logical:
            column = _as_type(column, kind.logical, name)
        times = time_column(pa.table({name: column}), name)
        if times.type != kind and data.num_rows:
            raise ColumnTypeError(
                f"the time column {name!r} holds {times.type}; it held {kind} before, and must stay so"
            )
        require_room(times, name, self._reach)
        return times.values.astype(np.int64)

    def release_keys(self) -> None:
        """Forget keys of which no strategy holds anything, whenever there are twice as many as there were."""
        if not self.types.keys or len(self.keys) < 2 * self._crowd:
            return
        held = np.unique(np.concatenate([each.held_keys() for each in self.strategies]))
        idle = np.setdiff1d(self.keys.in_use(), held, assume_unique=True)
        if len(idle):
            self.keys.release(idle)
        self._crowd = max(_FEW_KEYS, len(held))

    # ------------------------------------------------------------ windows

    def add(self, query: Query, window_id: int, window: Window) -> Any:
        missing = [name for name in window.columns if name not in self.types.columns]
        if missing:
            raise InvalidArgumentError(
                f"{window!r} reads the column {missing[0]!r}, which nothing in this stream has read so far"
            )
        resolved = window.resolve(self.plan.time_type)
        plan = replace(self.plan, windows={**self.plan.windows, window_id: resolved})
        complete = self._add(plan, window_id, resolved)
        self.query, self.plan, self._reach = query, plan, reach_of(plan.windows.values())
        self.tables = AnswerTables(plan)
        return complete

    def _add(self, plan: Plan, window_id: int, window: Window) -> int | None:
        """Give a window to a strategy; return from when on it has all rows."""
        held_from = self._strategy_for(plan, window_id, window)
        if held_from == BEFORE_TIME:
            return None
        return held_from + window.lead_in

    def _strategy_for(self, plan: Plan, window_id: int, window: Window) -> int:
        """Give a window to a strategy that can take it on, or to one of its own, which begins with the next row."""
        for each in self.strategies:
            try:
                return each.add(window_id, window, _with(each.plan, window_id, window))
            except UnsupportedOperationError:
                continue
        alone = replace(plan, windows={window_id: window})
        able = chosen_for(alone, self.forced.strategy)  # the one that was asked for, where that can answer it
        self.strategies = [*self.strategies, *strategies_for(alone, replace(self.forced, strategy=able))]
        return self.progress.seen if self.progress.seen == BEFORE_TIME else self.progress.seen + 1

    def kept_by(self, groups: list[dict[str, Any]]) -> None:
        """Keep windows as a snapshot has them, whatever would be chosen now."""
        plan = replace(self.plan, merge=self.forced.merge)
        self.strategies = [
            STRATEGIES[each["name"]](replace(plan, windows={i: plan.windows[i] for i in each["windows"]}))
            for each in groups
        ]

    def remove(self, window_id: int) -> None:
        kept = []
        for each in self.strategies:
            if window_id not in each.plan.windows:
                kept.append(each)
            elif len(each.plan.windows) > 1:
                each.remove(window_id, _without(each.plan, window_id))
                kept.append(each)
        self.strategies = kept
        self.plan = _without(self.plan, window_id)

    # ------------------------------------------------------------ state

    def undo(self) -> Callable[[], None]:
        # What cannot fail changes nothing when something else is refused: rows are looked at before any of it is kept.
        undos = [each.undo() for each in self.strategies] if any(each.may_fail for each in self.strategies) else []
        mine = dict(vars(self))
        progress, keys = self.progress.save(), self.keys.mark()

        def back() -> None:
            self.__dict__.update(mine)
            for each in undos:
                each()
            self.progress.load(progress)
            self.keys.forget_since(keys)

        return back


def _with(plan: Plan, window_id: int, window: Window) -> Plan:
    return replace(plan, windows={**plan.windows, window_id: window})


def _without(plan: Plan, window_id: int) -> Plan:
    return replace(plan, windows={i: each for i, each in plan.windows.items() if i != window_id})


def _fitting(data: pa.Table, name: str, kind: ColumnType) -> Column:
    """Return a column in the type that it had at first."""
    column = pick(data, name, data.column_names)
    return select({name: _as_type(column, kind.logical, name)}, (name,))[name]


def _as_type(column: Any, kind: Any, name: str) -> Any:
    """Return an Arrow column cast to a type; refuse one that does not fit it safely."""
    plain = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    wanted = kind.value_type if pa.types.is_dictionary(kind) else kind
    if column.type == kind or (plain == wanted and kind == wanted and column.type != plain):
        return column
    empty = column.null_count == len(column)
    try:
        if empty or assignable(column_type(plain), column_type(wanted)):
            return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ColumnTypeError(f"column {name!r} held {kind} before, and now {column.type}: {error}") from error
    raise ColumnTypeError(f"column {name!r} held {kind} before, and now {column.type}; cast it before it is pushed")


def _ticks(value: Any, kind: ColumnType | None) -> int:
    """Return a time as an integer in the unit of the time column."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
        if not BEFORE_TIME < value < END_OF_TIME:
            raise InvalidArgumentError(f"the watermark is {value}, which is no time that int64 can hold")
        return int(value)
    if kind is None:
        raise InvalidArgumentError(
            f"the watermark is {value!r}, and before the first row the type of the time column is not known; "
            f"give an integer, or push rows first"
        )
    if kind == INT64:
        raise InvalidArgumentError(f"the watermark is {value!r}, but the times are integers: give an integer")
    try:
        scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value)
        moved = scalar.cast(kind.logical)
        ticks = moved.cast(pa.int32() if kind.physical.itemsize == 4 else pa.int64()).as_py()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise InvalidArgumentError(f"the watermark is {value!r}, which is no {kind}: {error}") from error
    if ticks is None:
        raise InvalidArgumentError(f"the watermark is {value!r}; it must be a time")
    return int(ticks)
