"""The words that people use, beside the libraries they know them from.

`window.lifetime()` beside polars' `cum_sum`: the running sum of each of 10,000 keys, rows in the order of their times,
which are distinct. polars adds up the rows of a key as they stand; muntin finds that they are in the order of their
times, and aggregates a frame for each. Both run on one thread. At least half as fast.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
import pyarrow as pa
from harness import OURS, Entrant, Figure, against_fastest, check_entrants, rounds_for, rows_for

from muntin import Query, agg, window

ROWS, KEYS = 10_000_000, 10_000


def lifetime(quick: bool) -> Iterator[Figure]:
    """Yield how a running sum of each key compares with polars' `cum_sum().over(key)`."""
    count, chance = rows_for(quick, ROWS), np.random.default_rng(1)
    data = pa.table(
        {
            "t": np.arange(count),
            "k": chance.integers(0, KEYS, count),
            "v": chance.integers(0, 1000, count) / 4,  # sums of quarters are exact
        }
    )
    frame = pl.from_arrow(data)
    query = Query(window.lifetime(), {"total": agg.sum("v")}, key="k", time="t")
    running = pl.col("v").cum_sum().over("k")
    for what, keyed, asked in (
        (f"a running sum of {KEYS:,} keys, {count / 1e6:g} M rows", query, running),
        (f"a running sum of one key, {count / 1e6:g} M rows", Query(query.windows, query.aggregates, time="t"), None),
    ):
        expression = pl.col("v").cum_sum() if asked is None else asked
        entrants = [
            Entrant(OURS, lambda keyed=keyed: keyed.over(data)["total"].to_numpy(), count),
            Entrant("polars", lambda each=expression: frame.select(each)["v"].to_numpy(), count),
        ]
        check_entrants(entrants, what)
        yield against_fastest("words", what, entrants, target=0.5, rounds=rounds_for(quick, 5))


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    yield from lifetime(quick)
