"""`muntin.Query`: windows and aggregates over rows with a time and perhaps a key. What to compute, not how.

Each method imports its engine when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, overload

import numpy as np

from muntin import _html
from muntin.aggregations.aggregation import Aggregation
from muntin.errors import InvalidArgumentError, UnsupportedOperationError
from muntin.query.named_windows import Windows
from muntin.showing import show_in_notebooks
from muntin.suggestions import hint
from muntin.windows.base import Window
from muntin.windows.lengths import any_sign, positive, sized

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from muntin.plans.query_plan import QueryPlan
    from muntin.streams.stream import Stream


class FrameLike(Protocol):
    """A pandas, polars or Spark DataFrame, as type checkers see it; Arrow tables and mappings have no `head`."""

    @property
    def columns(self) -> Any:
        """The names of its columns."""

    def head(self, n: int = ...) -> Any:
        """Return its first rows."""


class LazyFrameLike(Protocol):
    """A LazyFrame of polars, as type checkers see it: what comes out is a DataFrame."""

    def collect(self) -> Any:
        """Return a DataFrame."""


Frame = TypeVar("Frame", bound=FrameLike)


@dataclass(frozen=True)
class ProcessingTime:
    """A duration by the clock, in place of one in event time.

    >>> from muntin import ProcessingTime
    >>> ProcessingTime("10 seconds")
    ProcessingTime('10 seconds')
    """

    duration: Any

    def __post_init__(self) -> None:
        """Reject what is not a duration."""
        positive(self.duration, "ProcessingTime")

    def __repr__(self) -> str:
        """Return the expression that creates it."""
        return f"ProcessingTime({self.duration!r})"


_MEANT = {
    "agg": "aggregates",
    "aggregations": "aggregates",
    "aggs": "aggregates",
    "by": "key",
    "delay": "watermark",
    "group_by": "key",
    "keys": "key",
    "on": "time",
    "partition_by": "key",
    "timestamp": "time",
    "ts": "time",
    "window": "windows",
}
"""Names that other libraries use for the options of a query."""
RESERVED = ("window", "window_id", "revision", "retracted")


@dataclass(frozen=True)
class Query:
    """Windows over rows, and what to compute for each.

    `windows` is one window, a list, or a mapping of names to windows; the names are used where windows become columns.
    `aggregates` are named; `key` is one column or several, and each combination of their values has its own windows;
    `time` is the column of event times. The final answer has every window that holds a row, except windows by rows that
    never filled (`partial=True` includes them); `emit_empty=True` adds windows by time without rows.

    On streams the watermark is the greatest time seen less `watermark`, and a window is emitted when the watermark
    reaches its end; later rows still change it within `allowed_lateness`. With `time=None` each row gets the clock's
    time when it is pushed. When no row has arrived for `idle_timeout` by the clock, the watermark follows the clock.
    With `emit_early` windows are also emitted before they are due, whenever event time has advanced by that much, or
    the clock, if it is a `ProcessingTime`. `ordered=True` promises rows in time order: the stream keeps less and
    rejects a row out of order. With `forget_after` a stream forgets keys without a row for that long by the watermark,
    which windows by rows would keep forever: their remaining windows are emitted, and later rows are numbered from 0.

    `changes` is a column that says what a row does, for tables that change: "insert", "update_postimage" and null add
    it; "delete" and "update_preimage" take back one earlier row of the same key, time and values of the columns that
    the query reads, the latest such. The letters of Flink and Debezium are understood, too: "+I", "+U", "-U", "-D",
    and "c", "r", "d".

    `columns` maps names to SQL expressions over the columns of a row, in Spark's dialect and with Spark SQL's types and
    nulls, and the names go wherever one of a column goes: key, time, aggregates, windows. Rows for which the condition
    `where` is false or null are left out before anything else, as if they had never come: they move no watermark, are
    not late, and `over` does not return them. Both need `pip install muntin[sql]`.

    >>> import pyarrow as pa
    >>> from muntin import Query, agg, window
    >>> calls = pa.table({"ts": [1, 4, 12, 3], "region": ["n", "n", "n", "s"], "len": [7, 9, 2, 5]})
    >>> query = Query([window.tumbling(10)], {"longest": agg.max("len")}, key="region", time="ts")
    >>> query.run(calls).select(["region", "window", "longest"]).to_pylist()[0]
    {'region': 'n', 'window': {'start': 0, 'end': 10}, 'longest': 9}
    """

    windows: Windows = Windows()  # noqa: RUF009  # it holds nothing
    aggregates: Mapping[str, Aggregation]  # type: ignore[misc]  # a descriptor is no default
    key: Sequence[str] = ()
    time: str | None = "ts"
    watermark: Any = 0
    allowed_lateness: Any = 0
    partial: bool = False
    emit_empty: bool = False
    idle_timeout: Any = None
    emit_early: Any = None
    ordered: bool = False
    forget_after: Any = None
    changes: str | None = None
    columns: Mapping[str, str] | None = None
    where: str | None = None

    if not TYPE_CHECKING:  # type checkers see the fields, and reject other names themselves

        def __new__(cls, *_given: Any, **named: Any) -> Self:
            """Reject a misspelt option, and suggest the right one."""
            known = [each.name for each in fields(cls)]
            for name in named:
                if name not in known:
                    raise InvalidArgumentError(f"a query has no option {name!r}{hint(name, known, _MEANT)}")
            return super().__new__(cls)

    def __post_init__(self) -> None:
        """Reject invalid options."""
        if not isinstance(self.aggregates, Mapping):
            raise InvalidArgumentError(
                f"aggregates is {self.aggregates!r}; give names to them, such as {{'longest': agg.max('len')}}"
            )
        object.__setattr__(self, "key", _names(self.key))
        object.__setattr__(self, "aggregates", dict(self.aggregates))
        if not self.windows:
            raise InvalidArgumentError("a query needs at least one window, such as window.tumbling('1 minute')")
        for each in self.windows:
            if not isinstance(each, Window):
                raise InvalidArgumentError(f"a window is made by window.tumbling and its like; got {each!r}")
            if type(each).find is Window.find:
                raise each.no_kind()
        if not self.aggregates:
            raise InvalidArgumentError("a query needs at least one aggregate, such as {'n': agg.count()}")
        _require_aggregations(self.aggregates)
        for name in (*self.key, *self.aggregates):
            if name in RESERVED:
                raise InvalidArgumentError(f"{name!r} is a column of the answer already; give it another name")
        twice = set(self.key) & set(self.aggregates)
        if twice:
            raise InvalidArgumentError(f"{min(twice)!r} is a key and an aggregate; give one of them another name")
        self._require_durations()
        self._require_expressions()
        for name in ("partial", "emit_empty", "ordered"):
            _require_flag(name, getattr(self, name))
        self._require_changes()

    def _require_changes(self) -> None:
        name = self.changes
        if name is None:
            return
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(
                f"changes is {name!r}; give the name of the column that says what a row does, such as '_change_type'"
            )
        if name in (*self.key, self.time, *self.reads):
            raise InvalidArgumentError(
                f"changes is {name!r}, which the query also reads as a value, a key or a time: a row and its deletion "
                "would differ there; give the column that only says what a row does"
            )
        if self.time is None:
            raise InvalidArgumentError(
                f"time is None, the clock's time, and changes is {name!r}: a deletion would come at another time than "
                "its row; give the name of a time column"
            )
        if self.ordered:
            raise InvalidArgumentError(
                "ordered is True, and changes is given: a row that is taken back lies before others, so that no order "
                "can be promised; leave ordered out"
            )

    def _require_durations(self) -> None:
        for name in ("watermark", "allowed_lateness"):
            if sized(any_sign(getattr(self, name), name), name) < 0:
                raise InvalidArgumentError(f"{name} is {getattr(self, name)!r}; it must not be negative")
        if self.time is not None and (not isinstance(self.time, str) or not self.time):
            raise InvalidArgumentError(
                f"time is {self.time!r}; give the name of a column, or None for the clock's time"
            )
        if self.idle_timeout is not None:
            positive(self.idle_timeout, "idle_timeout")
        if self.forget_after is not None:
            positive(self.forget_after, "forget_after")
        if self.emit_early is not None and not isinstance(self.emit_early, ProcessingTime):
            positive(self.emit_early, "emit_early")

    def _require_expressions(self) -> None:
        """Read the expressions; reject what is none, at its place."""
        if self.columns is not None and not isinstance(self.columns, Mapping):
            raise InvalidArgumentError(
                f"columns is {self.columns!r}; give names to expressions, such as {{'revenue': 'price * pieces'}}"
            )
        object.__setattr__(self, "columns", dict(self.columns) if self.columns else None)
        for name, text in self.expressions.items():
            if not isinstance(name, str) or not name:
                raise InvalidArgumentError(f"a computed column has the name {name!r}; give it a text")
            if not isinstance(text, str):
                raise InvalidArgumentError(
                    f"the column {name!r} is {text!r}; give an expression of SQL as a text, such as 'price * pieces'"
                )
        if self.where is not None and not isinstance(self.where, str):
            raise InvalidArgumentError(
                f"where is {self.where!r}; give a condition of SQL as a text, such as 'price > 0'"
            )
        if self.computes:
            from muntin.expressions.needs import require_sqlglot

            require_sqlglot("columns= and where= are read")
            _ = self.inputs  # reads all of them

    def __repr__(self) -> str:
        """Return the expression that creates it, without defaults."""
        given = ((each.name, getattr(self, each.name), each.default) for each in fields(self)[2:])
        options = "".join(f", {name}={_shown(value)}" for name, value, default in given if value != default)
        return f"{type(self).__name__}({self.windows.as_given!r}, {self.aggregates!r}{options})"

    def _repr_html_(self) -> str:
        """Return a table, for notebooks."""
        rows: list[tuple[str, object]] = [(f"window {name}", each) for name, each in self.windows.by_name.items()]
        rows += list(self.aggregates.items())
        rows += [(each.name, _shown(getattr(self, each.name))) for each in fields(self)[2:5]]
        return _html.table(type(self).__name__, rows)

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that the aggregates and the windows read."""
        used = [column for each in self.aggregates.values() for column in each.reads]
        return tuple(dict.fromkeys([*used, *(column for each in self.windows for column in each.columns)]))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that rows must have: the key, the time, what aggregates, windows and expressions read."""
        needed = self.needed
        if not self.computes:
            return needed
        from muntin.expressions.rows import WHERE, label, names_of

        read = {name: names_of(text, label(name)) for name, text in self.expressions.items()}
        names = [each for name in needed for each in read.get(name, (name,))]
        return tuple(dict.fromkeys((*names, *(() if self.where is None else names_of(self.where, WHERE)))))

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns of rows once all are computed: key, time, what aggregates and windows read, and `changes`."""
        named = (*self.key, self.time, *self.reads, self.changes)
        return tuple(dict.fromkeys(name for name in named if name is not None))

    @property
    def expressions(self) -> Mapping[str, str]:
        """The computed columns, by their names: `columns`, or none."""
        return self.columns or {}

    @property
    def computed(self) -> tuple[str, ...]:
        """The computed columns that the key, the time, the aggregates or the windows read: the others are not."""
        needed = self.needed
        return tuple(name for name in self.expressions if name in needed)

    @property
    def computes(self) -> bool:
        """Whether rows are prepared by expressions."""
        return bool(self.expressions) or self.where is not None

    @overload
    def run(self, table: LazyFrameLike, *, threads: int = 1) -> Any: ...

    @overload
    def run(self, table: Frame, *, threads: int = 1) -> Frame: ...

    @overload
    def run(self, table: Any, *, threads: int = 1) -> Any: ...

    def run(self, table: Any, *, threads: int = 1) -> Any:
        """Return the complete answer for a finite table, whose rows may be in any order.

        pandas and polars return their own kind, everything else (Arrow, a mapping of columns, a list of rows as
        mappings) an Arrow table. A polars LazyFrame, a pyarrow dataset or a reader of batches is read batch by batch,
        only the columns needed, and returns a polars DataFrame or an Arrow table; windows by time and sessions of
        states of a fixed size hold no rows of it, so it may be larger than memory.

        `threads` number and sort the keys together, then each answers a share of the rows, cut between keys, or inside
        a key that exceeds its share: the answer is the same, in the same order. Only floats of a cut key may differ in
        their last digits, because they are added in a different order.

        O(n log n) to sort the rows if they are not sorted, and O(1) combines per row and window definition.

        >>> from muntin import Query, agg, window
        >>> query = Query(window.tumbling(10), {"n": agg.count()}, key="k", time="t")
        >>> query.run({"t": [1, 12, 3], "k": ["a", "b", "a"]}, threads=2)["n"].to_pylist()
        [2, 1]
        """
        from muntin.batches import BatchSource
        from muntin.tables.run import opened_rows, run

        table = opened_rows(self, table)
        if isinstance(table, BatchSource):
            from muntin.streams.batched_run import run_batches

            return run_batches(self, table, threads)
        return run(self, table, threads)

    @overload
    def over(self, table: LazyFrameLike, at: None = None, *, schema: Any = None, path: str = "auto") -> Any: ...

    @overload
    def over(self, table: Any, at: LazyFrameLike, *, schema: Any = None, path: str = "auto") -> Any: ...

    @overload
    def over(self, table: Frame, at: None = None, *, schema: Any = None, path: str = "auto") -> Frame: ...

    @overload
    def over(self, table: Any, at: Frame, *, schema: Any = None, path: str = "auto") -> Frame: ...

    @overload
    def over(self, table: Any, at: Any = None, *, schema: Any = None, path: str = "auto") -> Any: ...

    def over(self, table: Any, at: Any = None, *, schema: Any = None, path: str = "auto") -> Any:
        """Return the rows of a table, in order and with all columns, each with what its frames hold.

        There is one more column per window and aggregate: `{aggregate}` if the query has one window, else
        `{aggregate}_{window}`, with the name of the window or w0, w1, ... With `at` it returns the points instead: any
        rows with the key and the time, each with what the frames of its key hold at its time. Points are not rows: they
        are in no aggregate. For an unknown key frames hold nothing. pandas returns pandas, with its index, polars
        returns polars (a DataFrame for a LazyFrame), a batch Spark DataFrame another one, everything else an Arrow
        table.

        `schema` is for a Spark DataFrame that must not be analysed, as in `spark`; with points it is a pair, for the
        rows and for the points. `path` is for Spark too: without points, frames of at most 16 rows in all are Spark's
        `rowsBetween` if it has every aggregate; `muntin.spark.explain(query, frame, over=True)` shows what is chosen.

        For frames only: `window.trailing`, `lifetime`, `leading` and `frame`. O(n log n) to sort unsorted rows and
        points, and O(1) combines per row and window, amortised.

        >>> from muntin import Query, agg, window
        >>> query = Query(window.trailing(10, closed="left"), {"spent": agg.sum("v")}, key="card", time="t")
        >>> rows = {"t": [1, 5, 9], "card": ["a", "b", "a"], "v": [3, 4, 5]}
        >>> query.over(rows)["spent"].to_pylist()
        [None, None, 3]
        >>> query.over(rows, at={"t": [9, 10, 30], "card": ["a", "a", "b"]})["spent"].to_pylist()
        [3, 8, None]
        """
        if hasattr(table, "sparkSession"):
            from muntin.spark import needs

            needs.require_packages()
            from muntin.spark.over import over as over_spark

            return over_spark(self, table, at, schema=schema, path=path)
        if schema is not None:
            raise InvalidArgumentError("schema= is for DataFrames of Spark; the types of this table are known")
        if path != "auto":
            raise InvalidArgumentError(f"path is {path!r}, and is for DataFrames of Spark; this table is none")
        from muntin.tables.over import over

        return over(self, table, at)

    def explain(
        self,
        schema: Any = None,
        strategy: str = "auto",
        merge: str = "auto",
        *,
        keys: int = 1000,
        rows_per_second: float | None = None,
    ) -> QueryPlan:
        """Return the plan of this query: what answers each window and why, what is kept, and how much that is.

        `schema` has the column types: an Arrow schema, a mapping of names to Arrow types, or a table. Without it they
        are assumed, and the plan says how. `strategy` and `merge` are as in `stream`. State is estimated for `keys`
        keys; if rows are kept, for `rows_per_second` rows per key (per unit of time if times are integers). No row is
        read.

        >>> from muntin import Query, agg, window
        >>> query = Query(window.sliding("1 hour", every="1 minute"), {"high": agg.max("v")}, watermark="10 seconds")
        >>> plan = query.explain()
        >>> plan.windows[0].strategy, plan.stores[0].slices, plan.stores[0].bytes
        ('slices', 62, 4648)
        >>> print(plan)
        query
          in short    window 0: each row is combined into its slice, and let go, up to 4.54 KiB a key
          aggregates  high = agg.max('v')
          key         none: all rows share their windows
          time        ts, timestamp[us]
          assumed     ts is timestamp[us], v is double; give schema= to have it exact
        window 0
          definition  window.sliding('1 hour', every='1 minute')
          class       context free, measured in time
          strategy    slices
          rows        none is kept (out of order, commutative): a late row is combined with the state of its
                      slice, whose edges do not depend on it
          splits      slices are never split (context free): the edges follow from the parameters, and no row
                      changes them
          removals    no row leaves its slice (not by rows): a late row does not change which slices the others
                      are in
          edges       0.01667 a second; a window has up to 60 slices
          in run      high by two_stacks where a slide brings fewer than eight rows (at most three combines a
                      row); high by boundary where it brings eight or more (a row is combined once, into a
                      slice; a window is three combines of slices)
        kept by slices
          windows     0
          slices      0.01667 a second and key, at most
          merged by   high by two_stacks (windows of one definition slide over up to 60 slices; each takes O(1)
                      combines, amortised)
          state       48 bytes a slice, up to 62 at a time; up to 4.54 KiB a key, 4.43 MiB for 1,000 keys
        run
          how         rows are sorted by time, unless they are in order already; then each window takes one pass
                      over them
        stream
          watermark   the greatest time seen less '10 seconds', or what advance() says; a window is emitted when
                      it reaches its end
          lateness    a window that was emitted never changes; rows that no window takes are in late
          early       no window is emitted before it is due
          idle        the watermark waits for rows
          order       rows come in any order
        """
        from muntin.plans.explain import explain
        from muntin.streams.plan import Forced

        return explain(self, schema, Forced(strategy, merge), keys, rows_per_second)

    def to_sql(self, table: str = "rows", *, dialect: str | None = None) -> str:
        """Return the query as a SELECT, which `muntin.sql` reads back as the same query.

        Without `dialect` it uses Flink's table functions and the names of muntin's aggregations. With "spark" or
        "flink" these engines accept the statement too; an aggregation they lack is rejected, and so is everything SQL
        cannot express. Stream options (`watermark`, `allowed_lateness`, ...) are not part of a SELECT, and are omitted.
        Needs `pip install muntin[sql]`. O(windows and aggregates).

        >>> from muntin import Query, agg, window
        >>> query = Query(window.sliding("24 hours", every="1 minute"), {"peak": agg.max("watts")}, key="plug")
        >>> print(query.to_sql("readings"))
        SELECT plug, window_start, window_end, max(watts) AS peak
        FROM TABLE(HOP(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' DAY))
        GROUP BY plug, window_start, window_end
        >>> print(query.to_sql("readings", dialect="spark"))
        SELECT plug, window, max(watts) AS peak
        FROM readings
        GROUP BY plug, window(ts, '1 day', '1 minute')
        """
        from muntin.statements.sql import require_sqlglot

        require_sqlglot()
        from muntin.statements.writing import to_sql

        return to_sql(self, table, dialect)

    def stream(
        self,
        snapshot: bytes | None = None,
        *,
        adopt: bool = False,
        history: Any = None,
        strategy: str = "auto",
        merge: str = "auto",
        clock: Callable[[], int] | None = None,
        most_late: int | None = 1_000_000,
        serve: str | None = None,
    ) -> Stream:
        """Return a stream that answers this query as rows arrive; with a snapshot, one that resumes from it.

        With `history`, a table of rows in any order, it starts as if these had been pushed before: windows already due
        by then are not emitted, and the others hold them. O(n log n) for n rows.

        With `adopt=True` the snapshot may be of another query, which this one goes on with: windows and aggregates that
        mean the same are kept, others are added or freed, and a new aggregate is null in windows that had begun. See
        `muntin.can_adopt`. O(state).

        `strategy` forces what is kept, for all windows it can answer: "slices", "tiles", "rows", "states", or a
        registered one (see `explain`); `merge` forces what merges slices into windows. `clock` returns the time in
        nanoseconds, or, if the times of rows are integers, in their unit; the default is `time.time_ns`. Of the rows
        that no window took the last `most_late` are kept, all with None; the dropped ones are counted.

        `serve` is the URL of a store, `sqlite:///PATH`, `redis://HOST:PORT/DB` or `postgresql://USER@HOST/DATABASE`:
        each call publishes there what it changed of each key, so that `muntin.serving.open` answers in any process what
        `ask` answers here. For frames only. The stream replaces what was published there before, once it has published
        all that its snapshot or history holds; a call fails, and changes nothing, if the store stays away.

        >>> from muntin import Query, agg, window
        >>> stream = Query(window.session(5), {"n": agg.count()}, time="t").stream()
        >>> stream.push({"t": [1, 2, 9]})["n"].to_pylist()
        [2]
        >>> stream = Query(window.tumbling(5), {"n": agg.count()}, time="t").stream(history={"t": [1, 2, 6]})
        >>> stream.push({"t": [7, 12]})["n"].to_pylist()
        [2]
        """
        from muntin.streams.stream import Stream

        publisher = None
        if serve is not None:
            from muntin.serving import publishing

            publisher = publishing.publisher(self, serve)
        return Stream(
            self,
            snapshot,
            adopt=adopt,
            history=history,
            strategy=strategy,
            merge=merge,
            clock=clock,
            most_late=most_late,
            publisher=publisher,
        )

    def spark(
        self,
        frame: DataFrame,
        *,
        history: DataFrame | None = None,
        schema: Any = None,
        buckets: int | None = None,
        late: bool = False,
        checkpoint: str | None = None,
        adopt: bool = False,
        allow_pickle: bool = False,
        path: str = "auto",
        pieces: int | None = None,
        serve: str | None = None,
    ) -> DataFrame:
        """Return the answer for a Spark DataFrame as another one, with the columns of `run` and `stream`.

        For a streaming DataFrame: lateness is decided by Spark's own watermark, which is recovered from the checkpoint,
        and windows are emitted by the micro-batch after the one that moved it past their end. Keys are hashed into
        `buckets`, each of them one stateful call; the checkpoint fixes their number. Pass the path of the `checkpoint`,
        which the writer gets too, and the number is read from there, whatever the cores are now. With `late=True` there
        is one more column, `late`: rows that no window took are delivered in it, all else null. Early results follow
        what previous batches have seen, or the time at which a batch began; write them in update mode. With `history`,
        a batch DataFrame, it starts as if these rows had arrived before, as in `stream`: windows already due by then
        are not emitted, and its greatest time counts for lateness too. Only the first micro-batch reads it; a restart
        from the checkpoint does not. With `adopt=True` the checkpoint may be of another query, as in `stream`: each
        bucket is converted when it is first called, and later restarts need no `adopt`. `allow_pickle=True` keeps
        states of Python objects in the checkpoint that only pickle can write; whoever can write there can then run code
        in the workers. `serve` is the URL of a store, as in `stream`: tasks publish there what a micro-batch changed of
        each key, before it commits.

        For a batch DataFrame: the answer of `run`, whatever the partitions. Spark groups and sorts the rows of a key,
        and a task answers all its keys, chunk by chunk, so memory does not grow with the partition. A key with more
        than its share of the rows is cut by time into overlapping `pieces`, so that all cores work on it; to find such
        keys Spark counts rows before this returns, unless `pieces` is 1. `path` forces how: "python" as above, "native"
        by Spark's own operators, which are chosen for tumbling windows and frames of at most 16 rows if Spark has every
        aggregate; `muntin.spark.explain` shows what is chosen, and why.

        With `schema` (Spark's, Arrow's, or a mapping of names to Arrow types) only these columns are taken, with these
        types, and the DataFrame is not analysed: functions of a declarative pipeline, whose tables do not exist yet,
        forbid it. The rows of a batch DataFrame are then not looked at beforehand, and no key is cut.

        Needs `pip install muntin[spark]`, and Java.
        """
        from muntin.spark import needs

        needs.require_packages()
        needs.require_frame(frame)
        if self.forget_after is not None:
            raise UnsupportedOperationError(
                f"forget_after is {self.forget_after!r}, which is for streams in one process: Spark tells no bucket "
                "how far the watermark is unless rows come to it. Leave it out, or use stream()"
            )
        from muntin.spark import given

        if schema is not None:
            frame = given.with_schema(frame, schema)
        if frame.isStreaming if schema is None else given.is_streaming(frame):
            from muntin.spark.streaming import require_stream_options, streaming

            require_stream_options(path, pieces)
            return streaming(
                self,
                frame,
                history=history,
                buckets=buckets,
                late=late,
                checkpoint=checkpoint,
                adopt=adopt,
                allow_pickle=allow_pickle,
                serve=serve,
            )
        from muntin.spark.batch import batch, batch_of_given, require_batch_options

        require_batch_options(buckets, late or allow_pickle or adopt, checkpoint, history)
        if serve is not None:
            raise UnsupportedOperationError(
                "serve= is for streaming DataFrames, and this one is finite: Query.stream(history=rows, serve=url) "
                "publishes the features of a table"
            )
        return (batch if schema is None else batch_of_given)(self, frame, path=path, pieces=pieces)


def _names(key: Any) -> tuple[str, ...]:
    """Return the names of the key's columns: none, one or several."""
    if key is None or isinstance(key, str):
        return () if key is None else (key,)
    try:
        names = tuple(key)
    except TypeError:  # such as a Spark column, which cannot be iterated
        names = (key,)
    if not all(isinstance(each, str) for each in names):
        raise InvalidArgumentError(f"key is {key!r}; give the name of a column, or several: key=['region', 'line']")
    return names


def _require_aggregations(aggregates: Mapping[str, Any]) -> None:
    for name, aggregation in aggregates.items():
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError(f"an aggregate has the name {name!r}; give it a text")
        if not isinstance(aggregation, Aggregation):
            raise InvalidArgumentError(f"the aggregate {name!r} is {aggregation!r}; give one like agg.max('v')")


def _require_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgumentError(f"{name} is {value!r}; it is True or False")


def _shown(value: Any) -> str:
    """Return an option's value as text; several columns as a list."""
    if isinstance(value, tuple):
        return repr(value[0]) if len(value) == 1 else repr(list(value))
    return repr(value)


show_in_notebooks()  # if imported in a notebook
