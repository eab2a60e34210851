"""SQL that `Query.to_sql` writes for Spark: Spark answers it as the query does."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin import Query, agg, window
from muntin.statements.functions import WRITTEN

COUNT = 40
OTHERS = {"arg_max": ("v", "i"), "arg_min": ("v", "i"), "correlation": ("v", "x"), "covariance": ("v", "x")}
FLAGS = ("all", "any")
WHOLE = ("bit_and", "bit_or", "bit_xor")
AGGREGATES = {
    "n": agg.count(),
    "of_v": agg.count("v", where="f"),
    "distinct": agg.count_distinct("i"),
    "a_quantile": agg.quantile("v", 0.3),
} | {
    f"a_{name}": getattr(agg, name)(*OTHERS.get(name, ("f" if name in FLAGS else "i" if name in WHOLE else "v",)))
    for name in WRITTEN["spark"]
    if name != "quantile"
}
BESIDE_ROWS = ("n", "of_v", "a_quantile", "a_arg_max", "a_std", "a_sum")  # Spark takes long to plan all of them
WINDOWS = {
    "sliding": window.sliding("10 minutes", every="5 minutes", offset="3 minutes"),
    "sessions": window.session("4 minutes"),
    "frames": window.frame("5 minutes", "7 minutes"),
}


def readings() -> pa.Table:
    """Return rows of two keys, no two of a key at the same time, some values null, none twice."""
    chance = np.random.default_rng(5)
    minutes = chance.permutation(np.arange(COUNT)) * 2
    return pa.table(
        {
            "k": ["a" if odd else "b" for odd in chance.random(COUNT) < 0.5],
            "ts": pa.array([datetime.datetime(2024, 5, 1) + datetime.timedelta(minutes=int(m)) for m in minutes]),
            "v": pa.array(chance.permutation(COUNT) / 4.0, mask=chance.random(COUNT) < 0.1),
            "x": chance.integers(0, 99, COUNT) / 8.0,
            "i": chance.integers(0, 7, COUNT),
            "f": chance.random(COUNT) < 0.5,
        }
    )


def in_order(table: pa.Table, names: list[str]) -> list[list[Any]]:
    """Return rows by their key and time, times without a zone, floats for comparison."""
    rows = [[_comparable(row[name]) for name in names] for row in table.select(names).to_pylist()]
    return sorted(rows, key=lambda row: row[:2])


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return [_comparable(value[bound]) for bound in ("start", "end")]
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    return pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value


@pytest.mark.parametrize("kind", WINDOWS)
def test_spark_answers_what_is_written(session: Any, kind: str) -> None:
    framed = WINDOWS[kind].is_frame
    aggregates = {name: AGGREGATES[name] for name in (BESIDE_ROWS if framed else AGGREGATES)}
    query = Query(WINDOWS[kind], aggregates, key="k")
    session.createDataFrame(readings()).createOrReplaceTempView("readings")
    found = session.sql(query.to_sql("readings", dialect="spark")).toArrow()
    found = found.rename_columns([name.removeprefix("session_") for name in found.column_names])
    names = ["k", "ts" if framed else "window", *aggregates]
    expected = query.over(readings()) if framed else query.run(readings())
    assert in_order(found, names) == in_order(expected, names)
