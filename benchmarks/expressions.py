"""`columns=` and `where=` of a query, against the same by hand with pyarrow.compute: at most 1.3 times its time.

Sales of 1,000 shops: revenue is price times pieces, and rows without a price, or of other countries, are left out. By
hand each step is a kernel of Arrow, then a filter, then the query over the columns that are left. Both run on one
thread; the last line is the expressions alone, without windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from harness import OURS, Entrant, Figure, race, rounds_for, rows_for

from muntin import Query, agg, window
from muntin.query.computing import computed_rows, without_expressions

ROWS = 5_000_000
COUNTRIES = ["DE", "FR", "ES", "IT", "US"]
EXPRESSED = Query(
    window.sliding("1 hour", every="5 minutes"),
    {"revenue": agg.sum("revenue"), "most": agg.max("revenue")},
    key="shop",
    columns={"revenue": "price * pieces"},
    where="price > 0 AND country IN ('DE', 'FR', 'ES')",
)
TEXTS = Query(
    window.tumbling("1 hour"),
    {"n": agg.count(), "high": agg.max("cents")},
    key="zone",
    columns={
        "zone": "CASE WHEN country = 'US' THEN 'north' ELSE LOWER(country) END",
        "cents": "CAST(price * 100 AS BIGINT) % 1000",
    },
    where="country LIKE '_S' OR pieces BETWEEN 2 AND 7",
)


def drawn(rows: int) -> pa.Table:
    """Return sales in order of their times; one of ten has no price."""
    chance = np.random.default_rng(1)
    times = np.sort(chance.integers(0, 86_400 * 10**6, rows))
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us")),
            "shop": chance.integers(0, 1000, rows),
            "price": pa.array(chance.integers(-50, 1000, rows) / 4, mask=chance.random(rows) < 0.1),
            "pieces": pa.array(chance.integers(0, 10, rows), pa.int32()),
            "country": pa.array(COUNTRIES).take(pa.array(chance.integers(0, 5, rows))),
        }
    )


def revenue_by_hand(data: pa.Table) -> pa.Table:
    """Prepare the rows of the first query."""
    here = pc.is_in(data["country"], value_set=pa.array(["DE", "FR", "ES"]))
    data = data.filter(pc.and_(pc.greater(data["price"], 0.0), here))
    return data.append_column("revenue", pc.multiply(data["price"], data["pieces"].cast(pa.float64())))


def texts_by_hand(data: pa.Table) -> pa.Table:
    """Prepare the rows of the second query."""
    some = pc.and_(pc.greater_equal(data["pieces"], 2), pc.less_equal(data["pieces"], 7))
    data = data.filter(pc.or_(pc.match_like(data["country"], "_S"), some))
    zone = pc.if_else(pc.equal(data["country"], "US"), "north", pc.utf8_lower(data["country"]))
    whole = pc.cast(pc.trunc(pc.multiply(data["price"], 100.0)), pa.int64(), safe=False)
    cents = pc.subtract(whole, pc.multiply(pc.divide(whole, 1000), 1000))
    return data.append_column("zone", zone).append_column("cents", cents)


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures: a query of numbers, one of texts, and the expressions alone."""
    data = drawn(rows_for(quick, ROWS))
    ways: dict[str, tuple[Query, Callable[[pa.Table], pa.Table]]] = {
        "numbers": (EXPRESSED, revenue_by_hand),
        "texts and CASE": (TEXTS, texts_by_hand),
    }
    for what, (query, by_hand) in ways.items():
        plain = without_expressions(query)
        if query.run(data) != plain.run(by_hand(data)):
            raise AssertionError(f"{what}: the answers differ")
        ours, theirs = (lambda q=query: q.run(data)), (lambda q=plain, hand=by_hand: q.run(hand(data)))
        yield _ratio(f"{what}, {len(data) / 1e6:g} M rows", ours, theirs, len(data), rounds_for(quick, 7))
    alone = (lambda: computed_rows(EXPRESSED, data)), (lambda: revenue_by_hand(data))
    yield _ratio(f"numbers alone, {len(data) / 1e6:g} M rows", *alone, len(data), rounds_for(quick, 15))


def _ratio(what: str, ours: Callable[[], object], by_hand: Callable[[], object], rows: int, rounds: int) -> Figure:
    times = race([Entrant(OURS, ours, rows), Entrant("by hand", by_hand, rows)], rounds)
    value = times[OURS].median / times["by hand"].median
    return Figure("expressions", what, value, 1.3, at_least=False, unit=" times", times=times)
