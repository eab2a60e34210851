"""The libraries that muntin is measured against, each called in its fastest documented way.

Every call returns one row per row, including short windows at the start. Inputs are already in the library's own array
type, so no conversion is timed; so are the outputs of muntin, bottleneck and numbagg (NumPy).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bottleneck as bn
import duckdb
import numbagg
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from harness import OURS, Entrant

import muntin
from muntin import agg

DUCKDB_ROWS = 2_000_000
"""DuckDB takes 100 to 1000 times as long, so it gets fewer rows, and is only shown."""


class Contest:
    """One data set in the array types of all libraries, and each library's call of an aggregation."""

    def __init__(self, values: np.ndarray[Any, np.dtype[np.float64]]) -> None:
        self.values = values
        self.polars = pl.Series(values)
        self.pandas = pd.Series(values)
        self.few = min(len(values), DUCKDB_ROWS)
        self.database = duckdb.connect()
        self.database.execute("set threads = 1")
        self.database.register("data", pa.table({"v": values[: self.few]}))

    def entrants(self, name: str, width: int, *, duck: bool = True) -> list[Entrant]:
        """Return the competitors for `max`, `min`, `mean` or `std` over `width` rows; muntin first."""
        rows = len(self.values)
        aggregation = getattr(agg, name)("v")
        ddof: dict[str, Any] = {"ddof": 1} if name == "std" else {}
        entrants = [
            Entrant(OURS, lambda: muntin.slide(self.values, aggregation, range=width), rows),
            Entrant("bottleneck", _bottleneck(self.values, name, width, ddof), rows),
            Entrant("polars", lambda: getattr(self.polars, f"rolling_{name}")(width, min_samples=1), rows),
            Entrant("pandas", getattr(self.pandas.rolling(width, min_periods=1), name), rows),
        ]
        if hasattr(numbagg, f"move_{name}"):
            move = getattr(numbagg, f"move_{name}")
            entrants.append(Entrant("numbagg", lambda: move(self.values, window=width, min_count=1), rows))
        if duck:
            note = "" if self.few == rows else f"on {self.few / 1e6:g} M rows"
            entrants.append(
                Entrant("duckdb", lambda: self._duckdb(name, width), self.few, note, rival=False, apart=True)
            )
        return entrants

    def _duckdb(self, name: str, width: int) -> Any:
        function = {"mean": "avg", "std": "stddev_samp"}.get(name, name)
        frame = f"rows between {width - 1} preceding and current row"
        return self.database.sql(f"select {function}(v) over ({frame}) as r from data").to_arrow_table().column("r")


def _bottleneck(values: Any, name: str, width: int, options: dict[str, Any]) -> Callable[[], Any]:
    move = getattr(bn, f"move_{name}")
    return lambda: move(values, width, min_count=1, **options)
