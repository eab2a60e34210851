"""`Query.over`, five windows of four aggregates beside rows and at points, against DuckDB: at least twice as fast.

Card payments of 20,000 cards over 90 days; count, sum, maximum and mean of the last hour, six hours, day, week and 30
days, excluding rows with the row's own time. DuckDB has one frame per window; at points it sorts rows and points
together, its fastest way. Both run on one thread.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
from harness import OURS, Entrant, Figure, against_fastest, check_entrants, rounds_for, rows_for

from muntin import Query, agg, window

ROWS, POINTS, CARDS = 5_000_000, 500_000, 20_000
DAYS = 90 * 86_400 * 10**6
WINDOWS = {"hour": "1 hour", "six": "6 hours", "day": "1 day", "week": "7 days", "month": "30 days"}
QUERY = Query(
    {name: window.trailing(length, closed="left") for name, length in WINDOWS.items()},
    {"n": agg.count(), "spent": agg.sum("v"), "high": agg.max("v"), "mean": agg.mean("v")},
    key="card",
)


def drawn(count: int, seed: int) -> pa.Table:
    """Return rows in order of their times, which are distinct."""
    chance = np.random.default_rng(seed)
    times = np.sort(chance.integers(0, DAYS // 2, count)) * 2 + seed % 2
    table = {"ts": pa.array(times, pa.timestamp("us")), "card": chance.integers(0, CARDS, count), "i": np.arange(count)}
    return pa.table({**table, "v": chance.integers(0, 1000, count) / 4})  # sums of quarters are exact


def asked_of_duckdb(source: str, where: str = "") -> str:
    """Return the query in SQL: one frame per window."""
    columns = ", ".join(
        f"count(v) OVER {name} AS n_{name}, sum(v) OVER {name} AS spent_{name}, max(v) OVER {name} AS high_{name}, "
        f"avg(v) OVER {name} AS mean_{name}"
        for name in WINDOWS
    )
    frames = ", ".join(
        f"{name} AS (PARTITION BY card ORDER BY ts RANGE BETWEEN INTERVAL '{length}' PRECEDING "
        "AND INTERVAL '1 microsecond' PRECEDING)"
        for name, length in WINDOWS.items()
    )
    return f"SELECT * FROM (SELECT ts, card, v, i, {columns} FROM {source} WINDOW {frames}) {where} ORDER BY i"


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures: beside the rows, and at points."""
    data, points = drawn(rows_for(quick, ROWS), 2), drawn(rows_for(quick, POINTS), 3).drop_columns(["v"])
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute("CREATE TABLE data AS SELECT * FROM data")
    connection.execute("CREATE TABLE points AS SELECT * FROM points")
    both = "(SELECT ts, card, v, -1 AS i FROM data UNION ALL SELECT ts, card, NULL, i FROM points)"
    beside, at = asked_of_duckdb("data"), asked_of_duckdb(both, "WHERE i >= 0")
    ways = {
        f"beside {len(data) / 1e6:g} M rows": (lambda: QUERY.over(data), beside, len(data)),
        f"at {len(points) / 1e6:g} M points, {len(data) / 1e6:g} M rows": (
            lambda: QUERY.over(data, points),
            at,
            len(data),
        ),
    }
    for what, (ours, sql, rows) in ways.items():
        entrants = [
            Entrant(OURS, ours, rows),
            Entrant("DuckDB", lambda sql=sql: connection.sql(sql).to_arrow_table(), rows),
        ]
        shown = [Entrant(each.name, lambda run=each.run: run()["spent_month"].to_numpy(), rows) for each in entrants]
        check_entrants(shown, what)
        yield against_fastest(
            "over", f"5 windows x 4 aggregates {what}", entrants, target=2.0, rounds=rounds_for(quick, 3)
        )
