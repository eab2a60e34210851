"""`muntin.Query`: one question, answered over a finite table or a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.engines import batch
from muntin.engines.explain import explain
from muntin.engines.explained import QueryPlan
from muntin.engines.stream import Stream
from muntin.slicing.plan import Forced
from muntin.slicing.question import Question

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Query(Question):
    """Windows over rows, and what to compute of each.

    `aggregates` are named; `key` is a column, or several, of which each combination of values has windows of its own;
    `time` is the column of event times. At the end every window that holds a row is an answer, but for windows by rows
    that never filled (`partial=True` gives those too); `emit_empty=True` adds windows by time that hold none.

    Of streams: the watermark is the greatest time seen less `watermark`, and a window is emitted when it reaches its
    end; rows that come later still change it for the `allowed_lateness`. With `time=None` each row gets the clock's
    time as it is pushed. When no row has come for the `idle_timeout` by the clock, the watermark goes on with the
    clock. With `emit_early` windows are emitted before they are due, too, whenever event time has moved on by that, or
    the clock, if it is a `ProcessingTime`. `ordered=True` promises that rows come in the order of their times: less is
    kept then, and a row out of order is refused.

    >>> import pyarrow as pa
    >>> from muntin import Query, agg, window
    >>> calls = pa.table({"ts": [1, 4, 12, 3], "region": ["n", "n", "n", "s"], "len": [7, 9, 2, 5]})
    >>> query = Query([window.tumbling(10)], {"longest": agg.max("len")}, key="region", time="ts")
    >>> query.run(calls).select(["region", "window", "longest"]).to_pylist()[0]
    {'region': 'n', 'window': {'start': 0, 'end': 10}, 'longest': 9}
    """

    def run(self, table: Any) -> pa.Table:
        """Return the complete answer for a finite table, whose rows may be in any order.

        O(n log n) to sort the rows where they are not, and O(1) combines a row for each window definition.
        """
        return batch.run(self, table)

    def explain(
        self,
        schema: Any = None,
        strategy: str = "auto",
        merge: str = "auto",
        *,
        keys: int = 1000,
        rows_per_second: float | None = None,
    ) -> QueryPlan:
        """Say how this query would run: what answers each window and why, what is kept, and how much that is.

        `schema` has the types of the columns: an Arrow schema, a mapping of names to Arrow types, or a table. Without
        it they are assumed, and the plan says how. `strategy` and `merge` are as in `stream`. State is reckoned for a
        number of `keys`; where rows are kept, for so many `rows_per_second` of each key (a unit of time, where times
        are integers). No row is read.

        >>> from muntin import Query, agg, window
        >>> query = Query(window.sliding("1 hour", every="1 minute"), {"high": agg.max("v")}, watermark="10 seconds")
        >>> plan = query.explain()
        >>> plan.windows[0].strategy, plan.stores[0].slices, plan.stores[0].bytes
        ('slices', 62, 3112)
        >>> print(plan)
        query
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
          edges       0.01667 a second; a window has up to 60 slices
          in run      high by two_stacks where a slide brings fewer than eight rows (at most three combines a
                      row); high by boundary where it brings eight or more (a row is combined once, into a
                      slice; a window is three combines of slices)
        kept by slices
          windows     0
          slices      0.01667 a second and key, at most
          merged by   high by lazy (a window has up to 60 slices, and a tree pays for more than 64)
          state       32 bytes a slice, up to 62 at a time; up to 3.04 KiB a key, 2.97 MiB for 1,000 keys
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
        return explain(self, schema, Forced(strategy, merge), keys, rows_per_second)

    def stream(
        self,
        snapshot: bytes | None = None,
        *,
        strategy: str = "auto",
        merge: str = "auto",
        clock: Callable[[], int] | None = None,
    ) -> Stream:
        """Return a stream that answers this query as rows come; with a snapshot, one that goes on from there.

        `strategy` forces how rows are kept, for all windows that it can answer (see `explain`); `merge` forces what
        merges slices into windows. `clock` gives the time in nanoseconds, `time.time_ns` unless
        said; where the times of rows are integers, in their unit.

        >>> from muntin import Query, agg, window
        >>> stream = Query(window.session(5), {"n": agg.count()}, time="t").stream()
        >>> stream.push({"t": [1, 2, 9]})["n"].to_pylist()
        [2]
        """
        return Stream(self, snapshot, strategy=strategy, merge=merge, clock=clock)

    def spark(
        self,
        frame: DataFrame,
        *,
        buckets: int | None = None,
        late: bool = False,
        path: str = "auto",
        pieces: int | None = None,
    ) -> DataFrame:
        """Return the answer for a Spark DataFrame as another one, with the same columns as `run` and `stream` have.

        Of a streaming DataFrame: rows are judged by Spark's own watermark, which is recovered from the checkpoint, and
        windows are emitted by the micro-batch after the one that moved it past their end. Keys are hashed into
        `buckets`, each of which is one stateful call; their number is fixed by the checkpoint. With `late=True` there
        is one more column, `late`: rows that no window took come as rows that are null but for it. Early results
        are by what the batches before have seen, or by the time at which a batch began; write them in update mode.

        Of any other: the answer of `run`, whatever the partitions. Rows of a key are brought together and sorted by
        Spark, and a task answers all its keys, chunk by chunk, so that memory does not grow with the partition. A key
        with more than its share of the rows is cut by time into `pieces` that overlap, so that all cores work on it;
        to find such keys Spark counts rows before this returns, unless `pieces` is 1. `path` forces how: "python" as
        said, "native" by Spark's own operators; `muntin.spark.explain` says what is chosen, and why.

        Needs `pip install muntin[spark]`, and Java.
        """
        from muntin.engines.spark import needs

        needs.require_packages()
        if frame.isStreaming:
            from muntin.engines.spark.streaming import streaming

            return streaming(self, frame, buckets=buckets, late=late)
        from muntin.engines.spark.batch import batch, require_batch_options

        require_batch_options(buckets, late)
        return batch(self, frame, path=path, pieces=pieces)
