"""`muntin.Query`: one question, answered over a finite table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from muntin.engines import batch
from muntin.slicing.question import Question


class Query(Question):
    """Windows over rows, and what to compute of each.

    `aggregates` are named; `key` is a column, or several, of which each combination of values has windows of its own;
    `time` is the column of event times. At the end every window that holds a row is an answer, but for windows by rows
    that never filled (`partial=True` gives those too); `emit_empty=True` adds windows by time that hold none.

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
