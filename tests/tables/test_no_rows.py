"""Tables without rows, of any kind: every entry takes them, and what has no type gets one from the query."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cases import CASES

import muntin
from muntin import Query, agg, rows, window

TYPED = pa.table(
    {"ts": pa.array([], pa.timestamp("us")), "k": pa.array([], pa.string()), "v": pa.array([], pa.float64())}
)
NAMES = TYPED.column_names
TABLES = {
    "Arrow": TYPED,
    "Arrow without chunks": pa.Table.from_batches([], TYPED.schema),
    "Arrow without types": pa.table({name: pa.nulls(0) for name in NAMES}),
    "batch": pa.RecordBatch.from_arrays([pa.array([], field.type) for field in TYPED.schema], schema=TYPED.schema),
    "lists": {name: [] for name in NAMES},
    "arrays": {"ts": np.array([], "M8[us]"), "k": np.array([], object), "v": np.array([])},
    "pandas": TYPED.to_pandas(),
    "pandas without types": pd.DataFrame(columns=NAMES),
    "pandas of lists": pd.DataFrame({name: [] for name in NAMES}),
    "polars": pl.from_arrow(TYPED),
    "polars without types": pl.DataFrame({name: [] for name in NAMES}),
}
AGGREGATES = {"n": agg.count(), "high": agg.max("v"), "mean": agg.mean("v"), "all": agg.collect("k")}
WINDOWS = Query([window.tumbling("1 hour"), window.session("5 minutes")], AGGREGATES, key="k")
FRAMES = Query([window.trailing("1 hour"), window.trailing(rows(3))], AGGREGATES, key="k")
ROWS = pa.table({"ts": pa.array([1, 2], pa.timestamp("us")), "k": ["a", "b"], "v": [1.0, 2.0]})


@pytest.mark.parametrize("name", TABLES)
def test_every_entry_takes_a_table_without_rows(name: str) -> None:
    table = TABLES[name]
    answers = WINDOWS.run(table)
    for found in (
        answers,
        muntin.latest(answers),
        FRAMES.over(table),
        FRAMES.over(ROWS, at=table),
        WINDOWS.stream(history=table).close(),
        WINDOWS.stream().push(table),
        muntin.slide(table, AGGREGATES, range="1 hour", times="ts", by="k"),
        muntin.slide(table, AGGREGATES, range="1 hour", times="ts"),
        muntin.slide(table, AGGREGATES, range=3),
    ):
        assert _rows(found) == 0
    stream = FRAMES.stream()
    stream.push(ROWS)
    assert stream.push(table).num_rows == 0
    assert _rows(stream.ask(table)) == 0
    assert sorted(FRAMES.over(ROWS)["n_w0"].to_pylist()) == [1, 1]


def _rows(table: Any) -> int:
    return len(next(iter(table.values()))) if isinstance(table, dict) else len(table)


@pytest.mark.parametrize("name", ["Arrow without types", "lists"])
def test_what_has_no_type_gets_one_from_the_query(name: str) -> None:
    schema = WINDOWS.run(TABLES[name]).schema
    assert schema.field("window").type == pa.struct({"start": pa.timestamp("us"), "end": pa.timestamp("us")})
    assert (schema.field("n").type, schema.field("mean").type) == (pa.int64(), pa.float64())
    by_number = Query(window.tumbling(10), {"n": agg.count()})
    assert by_number.run({"ts": []}).schema.field("window").type.field("start").type == pa.int64()
    fine = Query(window.tumbling("1500 nanoseconds"), {"n": agg.count()})
    assert fine.run({"ts": []}).schema.field("window").type.field("start").type == pa.timestamp("ns")


def test_rows_without_a_time_are_refused_whatever_the_type_of_the_column() -> None:
    nothing = {"ts": [None], "k": ["a"], "v": [1.0]}
    for call in (WINDOWS.run, FRAMES.over, WINDOWS.stream().push):
        with pytest.raises(muntin.errors.MuntinError, match="the time column 'ts' is null in row 0"):
            call(nothing)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_aggregation_of_columns_without_types(case: Any) -> None:
    query = Query(window.tumbling("1 hour"), {"x": case.aggregation})
    table: dict[str, list[Any]] = {name: [] for name in ("ts", *query.reads)}
    assert query.run(table).num_rows == 0
    assert muntin.latest(query.run(pd.DataFrame(table))).empty


def test_the_latest_of_an_empty_frame_of_pandas_keeps_its_columns() -> None:
    answers = WINDOWS.run(ROWS.to_pandas()).iloc[:0]
    found = muntin.latest(answers)
    assert list(found.columns) == list(answers.columns)
    assert found.dtypes.equals(answers.dtypes)
    with pytest.raises(muntin.errors.MuntinError, match="there is no column 'window_id'"):
        muntin.latest(answers.drop(columns="window_id"))
