"""`Query.stream`: rows in by pushes, windows out as they become due."""

from __future__ import annotations

import threading
import time as system_time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from muntin import _html
from muntin.durations import END_OF_TIME
from muntin.errors import InvalidArgumentError, TooManyWindowsError, UnsupportedOperationError
from muntin.kernels.tiers import working_on
from muntin.layouts import empty_table
from muntin.plans.explain import Subject, explain, explain_running
from muntin.plans.query_plan import QueryPlan
from muntin.query.query import Query
from muntin.restoring import all_or_nothing
from muntin.snapshots import Snapshot
from muntin.streams import snapshots
from muntin.streams.adopting import go_on, learn_types
from muntin.streams.asking import ask
from muntin.streams.core import StreamCore
from muntin.streams.late_rows import LateRows
from muntin.streams.plan import Forced
from muntin.streams.reading import as_time, read_watermark
from muntin.streams.row_reading import Row, row_of
from muntin.streams.state import StreamState
from muntin.streams.steps import Step
from muntin.tables.answers import Answers
from muntin.tabular import as_table
from muntin.turns import changing, exclusive
from muntin.types import Array, is_whole
from muntin.windows.base import Window

_NO_KEYS = np.zeros(0, np.int64)


class Publisher(Protocol):
    """Publishes what a stream keeps of its keys, so that other processes can ask."""

    def begin(self, state: StreamState) -> None:
        """Publish all of a stream, in place of whatever was published."""

    def push(self, state: StreamState, changed: Array) -> None:
        """Publish the keys that a call changed, by their numbers; all if the windows have changed."""

    def note(self, columns: list[pa.Array]) -> None:
        """Remove these keys with the next batch, unless they are there again."""

    def metrics(self) -> Mapping[str, int]:
        """Return what was published."""

    def close(self) -> None:
        """Close the connections."""


class Stream:
    """A query over rows as they arrive. Created by `Query.stream`.

    Each call returns a table of the windows that are due, or have changed since they were emitted. Its columns and
    types are the same for every call after the first push with rows, which resolves the column types. A call that
    raises an error changes nothing; if it was interrupted (Ctrl-C, out of memory) and cannot be rolled back, later
    calls are refused. One thread at a time: a call during another is refused.

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
        adopt: bool = False,
        history: Any = None,
        strategy: str = "auto",
        merge: str = "auto",
        clock: Callable[[], int] | None = None,
        most_late: int | None = 1_000_000,
        publisher: Publisher | None = None,
    ) -> None:
        self._turn = threading.Lock()  # held by the thread whose call is running
        self._halfway = False
        """Whether a call was interrupted and could not be rolled back completely."""
        self._publisher: Publisher | None = None
        self._observers: tuple[Callable[[Step], object], ...] = ()
        if clock is not None and not callable(clock):
            raise InvalidArgumentError(f"clock is {clock!r}; give a function that returns the time as an integer")
        self._state = StreamState(
            query,
            Forced(strategy, merge),
            clock=system_time.time_ns if clock is None else clock,
            windows=dict(enumerate(query.windows)),
            most_late=_checked_most(most_late),
        )
        if not isinstance(adopt, bool):
            raise InvalidArgumentError(f"adopt is {adopt!r}; it is True or False")
        if adopt and snapshot is None:
            raise InvalidArgumentError("adopt=True goes on with the state of another query: give its snapshot")
        if adopt:
            assert snapshot is not None
            rows = None if history is None else self._state.computed(as_table(history))[0]
            go_on(self._state, Snapshot.decode(snapshot), history=rows)
        elif snapshot is not None and history is not None:
            raise InvalidArgumentError(
                "a stream begins with a snapshot or a history, not with both: leave one out; with adopt=True a history "
                "completes the aggregates that are new"
            )
        elif snapshot is not None:
            snapshots.load(self._state, Snapshot.decode(snapshot))
        elif history is not None:
            self.push(history)  # what was due by then is not emitted
        if publisher is not None:
            publisher.begin(self._state)
        self._publisher = publisher

    # ------------------------------------------------------------ rows in, windows out

    @exclusive
    def push(self, table: Any) -> pa.Table:
        """Take rows, in any order; return the windows that are due or have changed.

        A row that no window takes is in `late`. Amortised O(1) combines per row and window definition in order. A late
        row takes O(1) into a slice, else O(log n) for n rows of its key, and answers the windows that hold it again.
        More only for `window.delta` while the values of a key do not ascend with time (all its rows), and for windows
        of your own code, which runs for each row.
        """
        self._require_open()
        core, expressions = self._state.core, self._state.expressions
        seen = [] if core is None else [*core.types.columns]  # a row of a list may leave these out
        seen += [] if expressions is None else expressions.inputs.names
        return self._observed(self._push, as_table(table, self.query.inputs, seen))

    @exclusive
    def push_row(self, *row: Any) -> pa.Table:
        """Take one row, with the effect of `push` of a one-row table; return the same, in less time.

        A row is a mapping of columns to values, or the bare values: the key columns in the order of `Query.key`, the
        time column unless it is None, and then the other columns that aggregates and windows read, each once, in the
        order in which the query names them.

        Numbers, and strings as keys, are read without a table; cells of other types through Arrow. Costs what `push`
        costs for one row.

        >>> from muntin import Query, agg, window
        >>> query = Query(window.tumbling(10), {"high": agg.max("v")}, key="k", time="t")
        >>> stream = query.stream()
        >>> stream.push_row("a", 1, 2.5).num_rows, stream.push_row({"k": "a", "t": 4, "v": 7.0}).num_rows
        (0, 0)
        >>> stream.push_row("b", 12, 1.5).select(["k", "high"]).to_pylist()
        [{'k': 'a', 'high': 7.0}]
        """
        self._require_open()
        core = self._state.core
        names = self.query.inputs if core is None else core.row_reader.names
        return self._observed(self._push, row_of(row, names))

    def _push(self, data: pa.Table | Row) -> pa.Table:
        state = self._state
        data, expressions = state.computed(data)
        if state.core is None and not data.num_rows:
            return self._nothing()
        with working_on(data.num_rows), all_or_nothing(state, self):
            state.expressions = expressions
            core = state.core or state.resolve(data.schema)
            if core.lacks_types and data.num_rows:
                core = learn_types(state, data.schema)
            answers = _follow_clock(core)
            batch = state.take(data)
            if data.num_rows:
                core.progress.see(batch.latest)
            try:
                out = core.table(answers + _emit(core))
            except TooManyWindowsError as error:
                row = f"row {int(np.argmax(batch.times))} of this push, whose time is {batch.latest}"
                raise TooManyWindowsError(f"{error} (the latest row is {row})") from None
            self._publish(batch.keys)
        with changing(self):
            self._release_keys(core)
        return out

    def _publish(self, changed: Array) -> None:
        """Publish keys that have new rows, and the watermark; all keys if the windows have changed."""
        if self._publisher is not None:
            self._publisher.push(self._state, changed)

    def _release_keys(self, core: StreamCore) -> None:
        """Release keys of which nothing is held; what is published of them is removed with the next batch."""
        published = self._publisher
        if published is None:
            core.release_keys()
        else:
            core.release_keys(lambda idle: published.note(core.keys.take(idle)))

    @exclusive
    def advance(self, watermark: Any) -> pa.Table:
        """Declare that no row before this time is expected; return the windows that are due.

        An integer in the unit of the time column; for dates and timestamps also a `datetime`, a `datetime64`, an Arrow
        scalar or an ISO string. The watermark never goes back: an earlier time changes nothing.

        >>> from muntin import Query, agg, window
        >>> stream = Query(window.tumbling(10), {"n": agg.count()}, time="t").stream()
        >>> stream.push({"t": [1]}).num_rows, stream.advance(10).num_rows
        (0, 1)
        """
        self._require_open()
        return self._observed(self._advance, watermark)

    def _advance(self, watermark: Any) -> pa.Table:
        state = self._state
        core = state.core
        if core is None:
            first = read_watermark(watermark, None)
            state.first_watermark = max(first, first if state.first_watermark is None else state.first_watermark)
            return self._nothing()
        reached = read_watermark(watermark, core.types.time)
        with all_or_nothing(state, self):
            answers = _follow_clock(core)
            core.be_careful(reached)
            core.progress.set_watermark(reached, reached)
            out = core.table(answers + _emit(core))
            self._publish(_NO_KEYS)
        with changing(self):
            self._release_keys(core)
        return out

    @exclusive
    def tick(self) -> pa.Table:
        """Return the windows due by the clock: an idle stream's watermark advances, and early results are emitted."""
        self._require_open()
        return self._observed(self._tick)

    def _tick(self) -> pa.Table:
        core = self._state.core
        if core is None:
            return self._nothing()
        with all_or_nothing(self._state, self):
            out = core.table(_follow_clock(core) + _emit(core))
            self._publish(_NO_KEYS)
        with changing(self):
            self._release_keys(core)
        return out

    @exclusive
    def close(self) -> pa.Table:
        """Return all that is left: every window that holds rows, except windows by rows that never filled.

        The stream takes no more rows. Closing it again returns nothing.
        """
        return self._observed(self._close)

    def _close(self) -> pa.Table:
        state = self._state
        core = state.core
        if state.closed or core is None:
            state.closed = True
            out = self._nothing()
        else:
            with all_or_nothing(state, self):
                core.be_careful(END_OF_TIME)
                out = core.table(core.close())
                state.closed = True
        if self._publisher is not None:
            self._publisher.close()  # what is published stays
        return out

    # ------------------------------------------------------------ observers

    def observe(self, observer: Callable[[Step], object]) -> Callable[[], None]:
        """Call `observer` with a `Step` after each call that takes rows or emits windows; return a function to stop it.

        The call is complete by then. An exception in an observer propagates to the caller; a slow observer delays the
        caller. It may use `metrics` and `explain`, but not call the stream. O(1) per call, nothing without observers.

        >>> from muntin import Query, agg, window
        >>> stream = Query(window.tumbling(10), {"n": agg.count()}, time="t").stream()
        >>> end = stream.observe(lambda step: print(step.rows.num_rows, "rows,", step.answers.num_rows, "window"))
        >>> _ = stream.push({"t": [1, 4, 12]})
        3 rows, 1 window
        >>> end()
        """
        if not callable(observer):
            raise InvalidArgumentError(
                f"an observer is called with each step of a stream; {observer!r} cannot be called"
            )
        self._observers = (*self._observers, observer)

        def end() -> None:
            self._observers = tuple(each for each in self._observers if each is not observer)

        return end

    def _observed(self, call: Callable[..., pa.Table], *given: Any) -> pa.Table:
        """Make a call, and notify the observers."""
        if not self._observers:
            return call(*given)
        begun = system_time.perf_counter()
        answers = call(*given)
        taken = given[0] if given and isinstance(given[0], pa.Table | Row) else None
        step = Step(taken, answers, system_time.perf_counter() - begun)
        for each in self._observers:
            each(step)
        return answers

    # ------------------------------------------------------------ points in, answers of frames out

    @exclusive
    def ask(self, points: Any) -> Any:
        """Return points, each with what the frames of its key hold at its time, without changing the stream.

        Points are rows with the key and the time, in any order; without a time column, the time is the stream's
        greatest. There is one more column per frame and aggregate, named as in `Query.over`; pandas returns pandas,
        polars returns polars, everything else an Arrow table. Points are not rows: they are in no aggregate. For an
        unknown key frames hold nothing, and a frame that ends after the last row holds what has arrived so far.

        Every point from the watermark on is answered, and earlier ones as long as all rows of their frames are held;
        others raise an error that names the earliest time that can be answered. For frames only: the query's other
        windows are left out. O(log n) per key, and O(1) combines per row between the first frame of a key and its last;
        p unsorted points take O(p log p).

        >>> from muntin import Query, agg, window
        >>> query = Query(window.trailing(10), {"n": agg.count(), "spent": agg.sum("v")}, key="card", time="t")
        >>> stream = query.stream()
        >>> _ = stream.push({"t": [1, 5, 9], "card": ["a", "b", "a"], "v": [3, 4, 5]})
        >>> stream.ask({"card": ["a", "b", "c"]}).to_pydict()
        {'card': ['a', 'b', 'c'], 'n': [2, 1, 0], 'spent': [8, 4, None]}
        >>> stream.ask({"card": ["a", "a"], "t": [15, 30]})["n"].to_pylist()
        [1, 0]
        """
        self._require_open()
        return ask(self._state, points)

    # ------------------------------------------------------------ late rows

    @property
    @exclusive
    def late(self) -> pa.Table:
        """The rows that no window took, in the order of arrival, since the start or since `take_late`.

        Only the last `most_late` are kept; the metric `late_let_go` counts the dropped ones.
        """
        late = self._state.late
        table = late.table()
        if len(late.tables) > 1:
            self._state.late = LateRows((table,), late.schema)  # cached for the next call
        return table

    @exclusive
    def take_late(self) -> pa.Table:
        """Return the rows that no window took, and clear them to free their memory.

        >>> from muntin import Query, agg, window
        >>> stream = Query(window.tumbling(10), {"n": agg.count()}, time="t").stream()
        >>> _ = stream.push({"t": [25]}), stream.push({"t": [3, 27]})
        >>> stream.take_late().to_pydict(), stream.late.num_rows
        ({'t': [3]}, 0)
        """
        late = self._state.late
        self._state.late = LateRows(schema=late.schema)
        return late.table()

    # ------------------------------------------------------------ adding and removing windows

    @exclusive
    def add(self, window: Window) -> int:
        """Answer one more window from now on; return its window_id.

        It starts with the rows still held for the others; `complete_from` returns the time from which it is complete.
        All answers of a stream have the same columns: a window whose bounds need further fields (`from_row`,
        `from_value`, `at`) is rejected, once rows have come, unless the query had such a window from the start, which
        may have been removed since. O(slices held), O(n log n) for n rows held.

        >>> from muntin import Query, agg, window
        >>> stream = Query(window.tumbling(10), {"n": agg.count()}, time="t").stream()
        >>> _ = stream.push({"t": [1, 11, 12]})
        >>> stream.add(window.tumbling(20)), stream.complete_from(1)
        (1, 10)
        >>> stream.close().select(["window", "window_id", "n"]).to_pylist()[1]
        {'window': {'start': 0, 'end': 20}, 'window_id': 1, 'n': 2}
        """
        self._require_open()
        with all_or_nothing(self._state, self):
            window_id = self._state.add(window)
            self._publish(_NO_KEYS)
        return window_id

    @exclusive
    def remove(self, window_id: int) -> None:
        """Stop answering a window. The others keep their numbers."""
        self._require_open()
        self._require_window(window_id)
        with all_or_nothing(self._state, self):
            self._state.remove(window_id)
            self._publish(_NO_KEYS)

    def complete_from(self, window_id: int) -> Any:
        """Return the time from which a window is complete: one that begins earlier may lack rows.

        None for windows present from the start.
        """
        self._require_window(window_id)
        return self._state.complete_from.get(window_id)

    @property
    def query(self) -> Query:
        """The query with its current windows, including added ones: it restores a snapshot of this stream."""
        return self._state.query

    # ------------------------------------------------------------ inspection

    @property
    def watermark(self) -> int | None:
        """The watermark, in the unit of the time column; None before the first row."""
        return self._state.watermark

    @property
    def watermark_time(self) -> np.datetime64 | int | None:
        """The watermark as a time: a `datetime64` in UTC, if times are timestamps or dates. O(1).

        >>> import numpy as np
        >>> from muntin import Query, agg, window
        >>> stream = Query(window.tumbling("1h"), {"n": agg.count()}, time="ts", watermark="10s").stream()
        >>> _ = stream.push({"ts": np.array(["2024-03-01T09:30:15"], "M8[s]")})
        >>> stream.watermark_time
        np.datetime64('2024-03-01T09:30:05')
        """
        watermark, core = self._state.watermark, self._state.core
        return watermark if watermark is None or core is None else as_time(watermark, core.plan.time_type)

    def metrics(self) -> dict[str, int | None]:
        """Return counts: rows, those behind the watermark (late), those that no window took (dropped), and of state.

        `late_let_go` counts rows dropped from `late` because nobody took them, `forgotten` keys silent for longer than
        the query's `forget_after`. `slices` are those held, `merges` how often two became one, `splits` how often one
        became two: never, since windows that need it are answered from rows in order. `kept` counts the rows held as
        they are; `keys` and `bytes` are current. `watermark` is in the unit of the time column;
        `watermark_time` is the same as a time. O(1) except for object columns.
        """
        published = {} if self._publisher is None else self._publisher.metrics()
        return {**self._state.metrics(), **published}

    def explain(self) -> QueryPlan:
        """Return how this stream answers each window, with its current state. O(windows); see `Query.explain`.

        >>> from muntin import Query, agg, window
        >>> stream = Query(window.tumbling(10), {"n": agg.count()}, time="t").stream()
        >>> _ = stream.push({"t": [1, 12]})
        >>> stream.explain().stores[0].now["slices"]
        1
        """
        state = self._state
        core = state.core
        if core is None:
            return explain(state.query, forced=state.forced, windows=state.windows)
        subject = Subject(state.query, state.windows, core.plan, core.strategies, state.forced, {})
        return explain_running(subject, state.complete_from, state.metrics())

    def __repr__(self) -> str:
        """Return the windows and the progress."""
        counts = self.metrics()
        closed = ", closed" if self._state.closed else ""
        progress = f"{counts['rows']} rows, {counts['late']} late, watermark {self.watermark_time}{closed}"
        return f"<Stream of {self.query!r}: {progress}>"

    def _repr_html_(self) -> str:
        """Return a table, for notebooks."""
        counts = {**self.metrics(), "watermark": self.watermark_time}
        return _html.table(f"Stream of {self.query!r}", counts.items())

    @exclusive
    def snapshot(self) -> bytes:
        """Return the whole state as bytes, from which `Query.stream` resumes. O(state).

        >>> from muntin import Query, agg, window
        >>> query = Query(window.tumbling(10), {"n": agg.count()}, time="t")
        >>> stream = query.stream()
        >>> _ = stream.push({"t": [1, 2]})
        >>> query.stream(stream.snapshot()).close()["n"].to_pylist()
        [2]
        """
        return snapshots.save(self._state).encode()

    @exclusive
    def check(self) -> None:
        """Raise `InvariantError` if the state is inconsistent."""
        if self._state.core is not None:
            for each in self._state.core.strategies:
                each.check()

    # ------------------------------------------------------------ internal

    def _require_open(self) -> None:
        if self._state.closed:
            raise UnsupportedOperationError("the stream is closed; begin another one with Query.stream")

    def _require_window(self, window_id: Any) -> None:
        known = self._state.windows
        if not isinstance(window_id, int | np.integer) or window_id not in known:
            raise InvalidArgumentError(
                f"there is no window {window_id!r}; there are {', '.join(map(str, known)) or 'none'}"
            )

    def _nothing(self) -> pa.Table:
        """Return an empty table; before the first row, with the types known so far."""
        if self._state.core is not None:
            return empty_table(self._state.core.tables.schema)
        kinds = dict.fromkeys(self.query.key, pa.null())
        bounds = pa.struct([("start", pa.null()), ("end", pa.null())])
        kinds |= {"window": bounds, "window_id": pa.int64(), **dict.fromkeys(self.query.aggregates, pa.null())}
        return pa.schema({**kinds, "revision": pa.int64(), "retracted": pa.bool_()}).empty_table()


def _checked_most(rows: Any) -> int | None:
    """Return how many late rows to keep; reject what is not a number."""
    if rows is None:
        return None
    if not is_whole(rows) or rows < 0:
        raise InvalidArgumentError(f"most_late is {rows!r}; give a number of rows, or None to keep all late ones")
    return int(rows)


def _follow_clock(core: StreamCore) -> list[Answers]:
    """Move the watermark of an idle stream with the clock; return the windows that become due."""
    core.progress.look_at_clock()
    if not core.progress.follow_clock():
        return []
    core.be_careful(END_OF_TIME)
    return _emit(core)


def _emit(core: StreamCore) -> list[Answers]:
    return core.emit(early=core.progress.begin_early())
