"""Batch queries on Spark: the answer of `Query.run`, and of Spark's own windows where it has them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from queries import oracle, strategies
from queries.test_run import answers, as_table, asked, same

from muntin import Query, agg, rows, window
from muntin.errors import ColumnError, InvalidArgumentError, UnsupportedOperationError

BEGIN = 1_700_000_000_000_000


def frame_of(session: Any, table: pa.Table, partitions: int = 1) -> Any:
    """Return a table as a DataFrame whose partitions hold its rows in order."""
    frame = session.createDataFrame(table)
    return frame.coalesce(1) if partitions == 1 else frame.repartitionByRange(partitions, table.column_names[0])


def listed(table: pa.Table) -> list[str]:
    """Return the rows of an answer as text, in any order; floats are rounded: sums are added in another order."""
    return sorted(repr(_rounded(row)) for row in table.to_pylist())


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return float(f"{value:.9g}") if isinstance(value, float) else value


def calls(count: int, seed: int, keys: int = 5, apart: int = 250_000) -> pa.Table:
    """Return rows in no order, with nulls and equal times among them, and some before 1970."""
    chance = np.random.default_rng(seed)
    times = (np.arange(count) * apart + chance.integers(-3_000_000, 3_000_000, count)) // 100_000 * 100_000
    times += chance.choice([BEGIN, -86_400_000_000], count)
    region = [None if k == 0 else f"region {k}" for k in chance.integers(0, keys, count)]
    length = pa.array(chance.normal(size=count).round(2), mask=chance.random(count) < 0.1)
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "region": pa.array(region, pa.string()),
            "line": pa.array(chance.integers(0, 2, count), pa.int32()),
            "len": length,
        }
    )


MANY = Query(
    [
        window.sliding("20 seconds", every="5 seconds"),
        window.session("4 seconds"),
        window.tumbling(rows(7)),
        window.trailing("3 seconds"),
        window.trailing(rows(4)),
    ],
    {"n": agg.count(), "most": agg.max("len"), "mean": agg.mean("len"), "all": agg.collect("line")},
    key=["region", "line"],
    time="ts",
)


def test_equals_run(session: Any) -> None:
    """Several windows, several keys with nulls among them; the columns and types are known without running."""
    table = calls(2000, seed=1)
    answer = MANY.spark(frame_of(session, table))
    truth = MANY.run(table)
    assert answer.columns == truth.column_names
    found = answer.toArrow()
    assert listed(found) == listed(truth)
    assert found.schema.field("window").type.names == truth.schema.field("window").type.names
