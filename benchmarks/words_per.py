"""The three best of 10,000 products of the last hour, every minute: `agg.per(top=3)`, and DuckDB.

Three hours of sales, without a key; most of the products are rare, as in shops. DuckDB first adds up each minute, then
the sixty minutes of each window, ranks them, and keeps three. muntin answers the table (`run`), and a stream that gets
it in fifty pushes. One process, one thread each, in turns; all give the same answers. Flink's window top-N was not run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from harness import OURS, Entrant, Figure, against_fastest, rounds_for, rows_for

from muntin import Query, agg, window
from muntin.kernels.tiers import waiting

ROWS, PRODUCTS, HOURS, PUSHES = 1_000_000, 10_000, 3, 50
BEST = Query(
    window.sliding("1 hour", every="1 minute"), {"best": agg.per("product", agg.sum("amount"), top=3)}, time="ts"
)
SQL = """
WITH minutes AS (
    SELECT time_bucket(INTERVAL 1 MINUTE, ts) AS minute, product, sum(amount) AS amount FROM sales GROUP BY ALL
), windows AS (
    SELECT minute + to_minutes(i::INTEGER) AS last, product, sum(amount) AS amount
    FROM minutes, range(1, 61) AS r(i) GROUP BY ALL
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY last ORDER BY amount DESC, product) AS place FROM windows
)
SELECT last, list(product ORDER BY place), list(amount::BIGINT ORDER BY place)
FROM ranked WHERE place <= 3 GROUP BY last ORDER BY last
"""


def sales(count: int) -> pa.Table:
    """Return sales in the order of their times."""
    chance = np.random.default_rng(1)
    names = np.array([f"product {i}" for i in range(PRODUCTS)])
    seconds = np.sort(chance.integers(0, HOURS * 3600, count))
    product = names[chance.zipf(1.2, count) % PRODUCTS]
    return pa.table({"ts": seconds.astype("M8[s]"), "product": product, "amount": chance.integers(1, 500, count)})


def streamed(data: pa.Table) -> pa.Table:
    """Return what a stream emits that gets the rows in pushes."""
    stream, size = BEST.stream(), -(-data.num_rows // PUSHES)
    emitted = [stream.push(data.slice(at, size)) for at in range(0, data.num_rows, size)]
    return pa.concat_tables([*emitted, stream.close()])


def shown(answers: pa.Table) -> list[Any]:
    """Return answers as DuckDB gives them."""
    return [
        (row["window"]["end"], [each["value"] for each in row["best"]], [each["result"] for each in row["best"]])
        for row in answers.to_pylist()
    ]


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    data = sales(rows_for(quick, ROWS))
    database = duckdb.connect()
    database.execute("SET threads = 1")
    database.register("sales", data)

    def by_duckdb() -> list[Any]:
        return database.execute(SQL).fetchall()

    with waiting():
        expected = by_duckdb()
        if shown(BEST.run(data)) != expected or shown(streamed(data)) != expected:
            raise SystemExit("words_per: the answers differ from those of DuckDB")
        for name, ours in (("a table", BEST.run), ("a stream in 50 pushes", streamed)):
            what = f"top 3 of {PRODUCTS:,} products of an hour, every minute: {name} of {data.num_rows / 1e6:g} M rows"
            entrants = [
                Entrant(OURS, lambda ours=ours: ours(data), data.num_rows),
                Entrant("DuckDB", by_duckdb, data.num_rows),
            ]
            yield against_fastest("words_per", what, entrants, target=0.5, rounds=rounds_for(quick, 5))
