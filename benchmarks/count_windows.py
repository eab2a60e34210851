"""Windows by rows out of order, against an aggregate tree on tuples: at least as fast.

One key, 100,000 rows per second of event time in pushes of 100,000; 20 % of the rows come up to 2 s late, which is the
watermark's delay. Tumbling windows of 1,000 to 20,000 rows. The tree is slow, and gets only the first rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import rivals
from charts import Chart
from harness import OURS, Entrant, Figure, against_fastest, check_equal, rounds_for, rows_for

from muntin import Query, agg, rows, window

COUNTS = (1, 10, 100, 1000)
SECONDS = 10
RATE = 100_000
DELAY = 2_000_000
"""Times are in microseconds."""

rivals.register()


def pushes(rate: int) -> list[pa.Table]:
    """Return a push for each second."""
    rng = np.random.default_rng(16)
    count = rate * SECONDS
    times = np.arange(count) * (1_000_000 // rate)
    arrival = times + np.where(rng.random(count) < 0.2, rng.integers(0, DELAY, count), 0)
    times = times[np.argsort(arrival, kind="stable")]
    values = rng.integers(0, 1_000_000, count)
    return [pa.table({"t": times[i : i + rate], "v": values[i : i + rate]}) for i in range(0, count, rate)]


def answers(query: Query, tables: list[pa.Table], strategy: str) -> Any:
    """Return the answers of a stream, by window."""
    stream = query.stream(strategy=strategy)
    emitted = pa.concat_tables([stream.push(table) for table in tables])
    bounds = emitted["window"].combine_chunks()
    order = np.lexsort((bounds.field("from_row").to_numpy(), emitted["window_id"].to_numpy()))
    return emitted["x"].to_numpy()[order]


def run(quick: bool) -> Iterator[Figure]:
    """Yield one figure per aggregation and number of windows."""
    tables = pushes(rows_for(quick, RATE))
    lines: dict[str, list[float | None]] = {}
    for name, aggregation in (("sum", agg.sum("v")), ("max", agg.max("v"))):
        for count in COUNTS:
            windows = [window.tumbling(rows(int(n))) for n in np.linspace(1_000, 20_000, count)]
            query = Query(windows, {"x": aggregation}, time="t", watermark=DELAY)
            first = tables[:3]
            what = f"{name}, {count} tumbling windows of 1,000 to 20,000 rows, 20 % out of order by up to 2 s"
            check_equal(answers(query, first, "tuple_tree"), answers(query, first, "auto"), what)
            entrants = [
                Entrant(OURS, lambda q=query: answers(q, tables, "auto"), sum(map(len, tables))),
                Entrant("aggregate tree", lambda q=query, f=first: answers(q, f, "tuple_tree"), sum(map(len, first))),
            ]
            figure = against_fastest("count_windows", what, entrants, target=1.0, rounds=rounds_for(quick, 3))
            for entrant, timing in figure.times.items():
                lines.setdefault(f"{entrant}, {name}", []).append(1e9 / timing.median)
            last = name == "max" and count == COUNTS[-1]
            yield replace(figure, chart=chart(lines)) if last else figure


def chart(lines: dict[str, list[float | None]]) -> Chart:
    """Return rows per second over the number of windows."""
    title = "Figure 16: windows by rows, 20 % out of order"
    return Chart("figure_16_count_windows", title, "windows", "rows a second", COUNTS, lines)
