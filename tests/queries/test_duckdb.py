"""Against DuckDB, which is asked as the test runs: its window frames are our trailing windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from muntin import Query, agg, rows, window

AGGREGATES = {
    "n": agg.count(),
    "present": agg.count("v"),
    "total": agg.sum("v"),
    "low": agg.min("v"),
    "high": agg.max("v"),
    "oldest": agg.first("i"),
    "mean": agg.mean("v"),
}
SAME = """count(*) OVER w, count(v) OVER w, (sum(v) OVER w)::BIGINT, min(v) OVER w, max(v) OVER w,
          first(i ORDER BY t, i) OVER w, avg(v) OVER w"""
FRAMES = {
    "the last row": (window.trailing(rows(1)), "ORDER BY t, i ROWS 0 PRECEDING"),
    "7 rows": (window.trailing(rows(7)), "ORDER BY t, i ROWS 6 PRECEDING"),
    "more rows than there are": (window.trailing(rows(5_000)), "ORDER BY t, i ROWS 4999 PRECEDING"),
    "one second": (window.trailing("1 second"), "ORDER BY t RANGE INTERVAL '999999 microseconds' PRECEDING"),
    "a minute": (window.trailing("1 minute"), "ORDER BY t RANGE INTERVAL '59999999 microseconds' PRECEDING"),
    "more time than there is": (window.trailing("52 weeks"), "ORDER BY t RANGE INTERVAL '364 days' PRECEDING"),
}


def table(count: int = 1_500) -> pa.Table:
    """Return rows of three keys in no order, some of them at the same time, some values null."""
    chance = np.random.default_rng(11)
    micros = np.cumsum(chance.choice([0, 1, 400_000, 1_000_000, 30_000_000], count, p=[0.3, 0.1, 0.3, 0.2, 0.1]))
    order = np.argsort(np.arange(count) + chance.integers(0, 40, count), kind="stable")
    order = order[np.argsort(np.searchsorted(np.unique(micros), micros[order]) // 30, kind="stable")]
    values = chance.integers(-50, 50, count)
    return pa.table(
        {
            "t": pa.array(micros[order] + 1_700_000_000_000_000, pa.timestamp("us")),
            "k": pa.array(chance.choice(["a", "b", "c"], count)),
            "v": pa.array(values, pa.int64(), mask=chance.random(count) < 0.1),
            "i": pa.array(np.arange(count), pa.int64()),  # among rows of equal time the one that came first
        }
    )


def by_duckdb(data: pa.Table, frame: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("data", data)
        asked = f"SELECT k, t, {SAME} FROM data WINDOW w AS (PARTITION BY k {frame})"
        return connection.execute(asked).fetchall()


def by_run(query: Query, data: pa.Table) -> pa.Table:
    return query.run(data)


def by_stream(query: Query, data: pa.Table) -> pa.Table:
    stream = query.stream()
    said = [stream.push(data[i : i + 100]) for i in range(0, data.num_rows, 100)]
    said.append(stream.close())
    assert stream.metrics()["dropped"] == 0
    return pa.concat_tables(said)


@pytest.mark.parametrize("answer", [by_run, by_stream])
@pytest.mark.parametrize("name", FRAMES)
def test_frames(name: str, answer: Callable[[Query, pa.Table], pa.Table]) -> None:
    definition, frame = FRAMES[name]
    data = table()
    found = answer(Query(definition, AGGREGATES, key="k", time="t", watermark="1 day"), data)
    assert not any(found["retracted"].to_pylist())
    said = [(row["k"], row["window"]["end"], *(row[each] for each in AGGREGATES)) for row in found.to_pylist()]
    assert len(said) == data.num_rows
    assert sorted(said, key=repr) == sorted(by_duckdb(data, frame), key=repr)


def test_the_rows_are_out_of_order() -> None:
    times = table()["t"].to_numpy()
    assert (np.diff(times) < np.timedelta64(0)).sum() > 100
    assert len(np.unique(times)) < len(times)
