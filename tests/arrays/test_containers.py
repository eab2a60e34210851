"""Arrays in and out: NumPy, Arrow and pandas come back as they went in, types and nulls included."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from muntin import agg, slide
from muntin.errors import (
    AggregationOverflowError,
    ColumnError,
    ColumnTypeError,
    InvalidArgumentError,
    NotInvertibleError,
    OutOfOrderError,
)

STAMP = np.array([0], "M8[s]")
NATS = np.array(["2024-01-01", "NaT"], "M8[s]")
TABLE = {"a": [1], "b": [2]}
UNEVEN = {"a": [1], "b": [1, 2]}
MAX = agg.max("v")


def test_numpy() -> None:
    out = slide(np.array([1, 2, 3], np.int16), agg.max("v"), range=2)
    assert isinstance(out, np.ndarray)
    assert out.dtype == np.int16
    assert slide(np.arange(3, dtype=np.float32), agg.min("v"), range=2).dtype == np.float32
    assert slide(np.array([], float), agg.max("v"), range=2).tolist() == []
    assert slide(np.arange(10.0)[::-2], agg.max("v"), range=2).tolist() == [9.0, 9.0, 7.0, 5.0, 3.0]
    big = np.array([2**64 - 1, 2**63], np.uint64)
    assert slide(big, agg.max("v"), range=2).tolist() == [2**64 - 1, 2**64 - 1]


def test_numpy_nulls() -> None:
    masked = np.ma.MaskedArray([1, 2, 3], [True, False, False])
    out = slide(masked, agg.sum("v"), range=2)
    assert isinstance(out, np.ma.MaskedArray)
    assert out.tolist() == [None, 2, 5]
    stamps = np.array(["NaT", "2024-01-02", "2024-01-01"], "M8[us]")
    out = slide(stamps, agg.max("v"), range=2)
    assert np.isnat(out[0])
    assert out[1:].tolist() == stamps[[1, 1]].tolist()
    assert out.dtype == stamps.dtype


def test_arrow() -> None:
    out = slide(pa.array([1, None, 3]), agg.sum("v"), range=1)
    assert isinstance(out, pa.Array)
    assert out.to_pylist() == [1, None, 3]
    assert out.type == pa.int64()
    chunked = pa.chunked_array([[1.5, None], [], [2.5]])
    out = slide(chunked, agg.mean("v"), range=2)
    assert isinstance(out, pa.ChunkedArray)
    assert out.to_pylist() == [1.5, 1.5, 2.5]
    nan = pa.array([float("nan"), None, 1.0])
    assert str(slide(nan, agg.max("v"), range=1).to_pylist()) == "[nan, None, 1.0]"
    assert slide(nan, agg.max("v", skip_nan=True), range=1).to_pylist() == [None, None, 1.0]
    one = slide(pa.array([1.0, 2.0]), agg.std("v"), range=2)
    assert one.to_pylist()[0] is None, "Spark's standard deviation of one row is null"
    sliced = pa.array([9, 1, None, 3, 9]).slice(1, 3)
    assert slide(sliced, agg.sum("v"), range=3).to_pylist() == [1, 1, 4]


def test_arrow_tables_and_types() -> None:
    day = datetime.date(2024, 1, 1)
    table = pa.table(
        {
            "d": pa.array([day, None, day + datetime.timedelta(3)]),
            "t": pa.array([1, 2, 3], pa.timestamp("ms", "UTC")),
            "x": pa.array([Decimal("1.10"), Decimal("2.25"), None], pa.decimal128(10, 2)),
            "b": pa.array([True, None, False]),
            "w": pa.array(["b", "a", None]).dictionary_encode(),
        }
    )
    out = slide(
        table,
        {
            "d": agg.max("d"),
            "span": agg.range("t"),
            "t": agg.last("t"),
            "x": agg.sum("x"),
            "mean": agg.mean("x"),
            "all": agg.all("b"),
            "w": agg.min("w"),
            "words": agg.collect("w"),
        },
        range=3,
    )
    assert isinstance(out, pa.Table)
    last = out.to_pylist()[-1]
    assert last["d"] == day + datetime.timedelta(3)
    assert last["span"] == datetime.timedelta(milliseconds=2)
    assert out.schema.field("t").type == pa.timestamp("ms", "UTC")
    assert last["x"] == Decimal("3.35")
    assert last["mean"] == Decimal("1.675")
    assert last["all"] is False
    assert last["w"] == "a"
    assert last["words"] == ["b", "a"]
    struct = slide(table, agg.m4("d"), range=3)
    assert struct.type == pa.struct([(n, pa.date32()) for n in ("min", "max", "first", "last")])
    bits = slide(table["d"], agg.bloom("v", bits=64), range=1)
    assert bits.type == pa.list_(pa.uint8(), 8)
    assert bits.to_pylist()[1] is None


def test_pandas() -> None:
    series = pd.Series([1.0, 3.0, np.nan], index=list("abc"), name="load")
    out = slide(series, agg.max("v"), range=2)
    assert isinstance(out, pd.Series)
    assert list(out.index) == list("abc")
    assert out.name == "load"
    assert out.tolist()[:2] == [1.0, 3.0]
    assert np.isnan(out["c"]), "NaN is a number here, the greatest"
    assert slide(series, agg.max("v", skip_nan=True), range=2)["c"] == 3.0
    frame = pd.DataFrame({"a": [1, 2, 3], "s": ["x", None, "z"]}, index=[7, 8, 9])
    out = slide(frame, {"m": agg.max("a"), "l": agg.last("s")}, range=2)
    assert isinstance(out, pd.DataFrame)
    assert out["m"].tolist() == [1, 2, 3]
    assert out["l"].tolist() == ["x", "x", "z"]
    assert list(out.index) == [7, 8, 9]
    assert len(slide(frame, agg.max("a"), range=2, partial=False)) == 2
    nullable = pd.Series([1, None, 3], dtype="Int64")
    assert slide(nullable, agg.sum("v"), range=1).isna().tolist() == [False, True, False]
    stamps = pd.Series(pd.date_range("2024-01-01", periods=3, freq="30s"))
    assert slide(series.reset_index(drop=True), agg.count(), range="1 minute", times=stamps).tolist() == [1, 2, 2]


def test_matches_pandas_and_duckdb_style_windows() -> None:
    rng = np.random.default_rng(3)
    values = pd.Series(rng.normal(size=300))
    for width in (1, 2, 17, 300):
        rolling = values.rolling(width, min_periods=1)
        np.testing.assert_allclose(slide(values, agg.mean("v"), range=width), rolling.mean(), atol=1e-12)
        # Variances, since that of two close values is as exact in pandas as the values that have passed were large.
        np.testing.assert_allclose(slide(values, agg.std("v"), range=width) ** 2, rolling.var(), atol=1e-12)
        np.testing.assert_allclose(
            slide(values, agg.quantile("v", 0.3), range=width), rolling.quantile(0.3), atol=1e-12
        )


def test_a_single_column_may_have_any_name() -> None:
    assert slide([1, 2], agg.max("whatever"), range=2).tolist() == [1, 2]
    assert slide({"a": [1, 2], "b": [5, 6]}, agg.max("b"), range=1).tolist() == [5, 6]


def test_times_by_name() -> None:
    table = pa.table({"v": [1, 2, 3], "ts": [0, 5, 20]})
    assert slide(table, agg.sum("v"), range=10, times="ts").to_pylist() == [1, 3, 3]


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (
            ColumnError,
            "no column 'x'; the columns are 'a', 'b'",
            lambda: slide({"a": [1], "b": [2]}, agg.max("x"), range=1),
        ),
        (ColumnError, "'a', 'b' are needed", lambda: slide([1], agg.arg_max("a", "b"), range=1)),
        (ColumnTypeError, "mean of column 'v'.*string", lambda: slide(["a"], agg.mean("v"), range=1)),
        (InvalidArgumentError, "'last 50' is no duration", lambda: slide([1], agg.max("v"), range="last 50")),
        (InvalidArgumentError, "give times= too", lambda: slide([1], agg.max("v"), range="50 s")),
        (InvalidArgumentError, "range is 0", lambda: slide([1], agg.max("v"), range=0)),
        (InvalidArgumentError, "range is -3", lambda: slide([1], agg.max("v"), range=-3)),
        (InvalidArgumentError, "slide is 0", lambda: slide([1], agg.max("v"), range=1, slide=0)),
        (InvalidArgumentError, "range is 1.5", lambda: slide([1], agg.max("v"), range=1.5)),
        (InvalidArgumentError, "give times= too", lambda: slide([1], agg.max("v"), range="1 hour")),
        (InvalidArgumentError, "times are integers", lambda: slide([1], agg.max("v"), range="1 hour", times=[1])),
        (
            InvalidArgumentError,
            "'fortnight' is no unit",
            lambda: slide([1], MAX, range="1 fortnight", times=STAMP),
        ),
        (InvalidArgumentError, "months", lambda: slide([1], agg.max("v"), range="1 month", times=STAMP)),
        (
            InvalidArgumentError,
            "no whole number",
            lambda: slide([1], MAX, range="1500 milliseconds", times=STAMP),
        ),
        (InvalidArgumentError, "2 times for 1 rows", lambda: slide([1], agg.max("v"), range=1, times=[1, 2])),
        (
            InvalidArgumentError,
            "the time of row 1 is null",
            lambda: slide([1, 2], MAX, range=1, times=pa.array([1, None])),
        ),
        (InvalidArgumentError, "the time of row 1 is null", lambda: slide([1, 2], MAX, range=1, times=NATS)),
        (InvalidArgumentError, "the time of row 0 is null", lambda: slide([1, 2], MAX, range=1, times=NATS[::-1])),
        (InvalidArgumentError, "times are double", lambda: slide([1], agg.max("v"), range=1, times=[1.5])),
        (
            OutOfOrderError,
            "row 2 has 4, after 5 in row 1",
            lambda: slide([1, 2, 3], MAX, range=1, times=[1, 5, 4]),
        ),
        (InvalidArgumentError, "no aggregator 'magic'", lambda: slide([1], agg.max("v"), range=1, aggregator="magic")),
        (InvalidArgumentError, "threads is 0", lambda: slide([1], agg.max("v"), range=1, threads=0)),
        (InvalidArgumentError, "such as agg.max", lambda: slide([1], max, range=1)),
        (InvalidArgumentError, "at least one aggregation", lambda: slide([1], {}, range=1)),
        (
            InvalidArgumentError,
            "column 'b' has 2 rows",
            lambda: slide(UNEVEN, agg.arg_max("a", "b"), range=1),
        ),
        (
            NotInvertibleError,
            "agg.max",
            lambda: slide([1, 2, 3], MAX, range=2, aggregator="subtract_on_evict"),
        ),
        (AggregationOverflowError, "does not fit int64", lambda: slide([2**62, 2**62], agg.sum("v"), range=2)),
        (AggregationOverflowError, "range of a window", lambda: slide([2**63 - 1, -(2**63)], agg.range("v"), range=2)),
    ],
)
def test_errors(error: type[Exception], match: str, call) -> None:
    with pytest.raises(error, match=match):
        call()


def test_a_sum_that_passes_through_an_overflow_is_right() -> None:
    top = 2**63 - 1
    values = np.array([top, top, -top, -top, 5])
    assert slide(values, agg.sum("v"), range=4, partial=False).tolist() == [0, 5 - top]
    for aggregator in ("two_stacks", "recalculate"):
        assert slide(values, agg.sum("v"), range=5, partial=False, aggregator=aggregator).tolist() == [5]
