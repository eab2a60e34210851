"""`slide` max by time, "1 hour" over 10 days of irregular stamps, against polars and pandas: at least 8 times as fast.

10 M float64 rows, exponential gaps of whole nanoseconds, all stamps distinct. muntin's window is (time - 1 hour, time]
and holds all rows of that time; pandas' ends with the row itself, so all three agree only on distinct stamps. For
polars the stamps are marked as sorted, else it sorts them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import polars as pl
from harness import OURS, Entrant, Figure, against_fastest, check_entrants, rounds_for, rows_for

import muntin
from muntin import agg

ROWS = 10_000_000
TEN_DAYS = 10 * 86400 * 10**9


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figure."""
    rows = rows_for(quick, ROWS)
    random = np.random.default_rng(4)
    gaps = random.exponential(TEN_DAYS / rows, rows).astype(np.int64) + 1
    times = (np.datetime64("2024-01-01", "ns").astype(np.int64) + np.cumsum(gaps)).view("M8[ns]")
    values = random.standard_normal(rows)
    frame = pl.DataFrame({"t": times, "v": values}).with_columns(pl.col("t").set_sorted())
    by_polars = pl.col("v").rolling_max_by("t", window_size="1h", closed="right")
    series = pd.Series(values, index=pd.DatetimeIndex(times))
    entrants = [
        Entrant(OURS, lambda: muntin.slide(values, agg.max("v"), range="1 hour", times=times), rows),
        Entrant("polars", lambda: frame.select(by_polars).to_series(), rows),
        Entrant("pandas", lambda: series.rolling("1h").max(), rows),
    ]
    what = f"max, range '1 hour', 10 days, {rows / 1e6:g} M rows"
    check_entrants(entrants, what)
    yield against_fastest("slide_by_time", what, entrants, target=8.0, rounds=rounds_for(quick))
