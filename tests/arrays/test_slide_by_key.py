"""`slide` with keys, closed bounds and a least number of rows, against plain recomputation, pandas and polars."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from muntin import agg, explain, slide
from muntin.errors import ColumnError, InvalidArgumentError, OutOfOrderError
from muntin.kernels.cache import uncompiled

CLOSED = ("right", "left", "both", "neither")
CLOSED_IN_POLARS = {"neither": "none"}
AGGREGATES = {"ids": agg.collect("i"), "total": agg.sum("v"), "n": agg.count()}
SALES = {"ts": [1, 1, 2, 9, 3], "store": ["a", "b", "a", "a", "b"], "value": [1, 2, 4, 8, 16]}


def holds(place: int, here: int, length: int, closed: str) -> bool:
    left = place >= here - length if closed in ("left", "both") else place > here - length
    return left and (place <= here if closed in ("right", "both") else place < here)


@pytest.mark.parametrize("closed", CLOSED)
@given(
    times=st.lists(st.integers(-20, 20), max_size=25),
    keys=st.lists(st.sampled_from(["a", "b", None]), min_size=25, max_size=25),
    length=st.integers(1, 15),
    least=st.integers(0, 4),
    by_rows=st.booleans(),
)
@settings(deadline=None, max_examples=examples(25))
def test_rows_of_a_key_in_any_order(
    closed: str, times: list[int], keys: list[Any], length: int, least: int, by_rows: bool
) -> None:
    count = len(times)
    table = pa.table({"t": pa.array(times, pa.int64()), "k": pa.array(keys[:count], pa.string()), "i": range(count)})
    table = table.append_column("v", pa.array([i % 7 for i in range(count)], pa.int64()))
    with uncompiled():
        options: Any = {"range": length, "times": None if by_rows else "t", "closed": closed, "min_rows": least}
        found = slide(table, AGGREGATES, by="k", threads=1 + count % 3, **options)
    assert found.num_rows == count
    rows = list(enumerate(zip(times, keys, strict=False)))
    for i, (t, k) in rows:
        mine = [(j, other) for j, (other, key) in rows if key == k]
        if by_rows:
            held = [j for n, (j, _) in enumerate(mine) if holds(n, mine.index((i, t)), length, closed)]
        else:
            held = [j for j, other in sorted(mine, key=lambda row: row[1]) if holds(other, t, length, closed)]
        row = found.slice(i, 1).to_pylist()[0]
        full = len(held) >= least
        assert row["n"] == (len(held) if full else None)
        assert row["total"] == (sum(j % 7 for j in held) if held and full else None)
        assert (row["ids"] or []) == (held if full else [])


@pytest.mark.parametrize("closed", CLOSED)
def test_closed_is_that_of_pandas_and_polars(closed: str) -> None:
    """Where no two times are equal: of those that are, pandas sees the rows before."""
    chance = np.random.default_rng(5)
    stamps = np.cumsum(chance.choice([1, 2, 30, 60], 400)).astype("M8[s]")
    frame = pandas.DataFrame({"ts": stamps, "v": chance.integers(0, 100, 400).astype(float)})
    ours = slide(frame, agg.sum("v"), range="1 minute", times="ts", closed=closed, min_rows=1)
    theirs = frame.rolling("60s", on="ts", closed=closed, min_periods=1)["v"].sum()
    assert np.allclose(ours, theirs, equal_nan=True)
    assert ours.isna().any() == (closed in ("left", "neither"))
    table = polars.from_pandas(frame)
    ours = slide(table, {"s": agg.sum("v")}, range="1 minute", times="ts", closed=closed)["s"].fill_null(0.0)
    assert isinstance(ours, polars.Series)
    theirs = table.select(s=polars.col("v").rolling_sum_by("ts", "60s", closed=CLOSED_IN_POLARS.get(closed, closed)))[
        "s"
    ].fill_null(0.0)
    assert np.allclose(ours, theirs)


def test_one_kind_in_the_same_kind_out() -> None:
    sums = {"rev": agg.sum("value"), "p50": agg.quantile("value", 0.5)}
    options = {"range": 7, "times": "ts", "by": "store", "closed": "right", "min_rows": 1}
    frame = pandas.DataFrame(SALES, index=list("vwxyz"))
    found = slide(frame, sums, **options)
    assert list(found.index) == list("vwxyz")
    assert found["rev"].tolist() == [1, 2, 5, 8, 18]
    found = slide(polars.DataFrame(SALES), sums, **options)
    assert isinstance(found, polars.DataFrame)
    assert found["rev"].to_list() == [1, 2, 5, 8, 18]
    found = slide({name: np.array(column) for name, column in SALES.items()}, sums, **options)
    assert isinstance(found["rev"], np.ndarray)
    assert found["rev"].tolist() == [1, 2, 5, 8, 18]
    assert slide(pa.table(SALES), sums, **options)["rev"].to_pylist() == [1, 2, 5, 8, 18]


def test_keys_of_several_columns_and_as_an_array() -> None:
    table = {"a": [1, 1, 2, 1], "b": ["x", "y", "x", "x"], "v": [1, 2, 4, 8]}
    assert slide(table, agg.sum("v"), range=9, by=["a", "b"]).tolist() == [1, 2, 4, 9]
    assert slide(np.array([1, 2, 4, 8]), agg.sum("v"), range=9, by=np.array([5, 6, 5, 5])).tolist() == [1, 2, 5, 13]
    assert slide([1, 2, 4], agg.sum("v"), range=9, by=["u", "v", "u"]).tolist() == [1, 2, 5]


def test_series_of_polars() -> None:
    found = slide(polars.Series("v", [1, None, 5, 2]), agg.max("v"), range=2)
    assert isinstance(found, polars.Series)
    assert (found.name, found.to_list()) == ("v", [1, 1, 5, 5])


def test_few_rows_are_null_in_every_kind_of_window() -> None:
    assert slide(np.arange(4.0), agg.sum("v"), range=3, min_rows=2).tolist()[1:] == [1, 3, 6]
    assert np.isnan(slide(np.arange(4.0), agg.sum("v"), range=3, min_rows=2)[0])
    counted = slide(np.arange(4), agg.count(), range=2, slide=2, times=np.array([0, 1, 5, 9]), min_rows=1)
    assert counted.tolist() == [2, None, 1, None, 1]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"closed": "rihgt"}, InvalidArgumentError, "closed is 'rihgt'; it is one of right"),
        ({"by": "shop"}, ColumnError, "no column 'shop'"),
        ({"by": "store", "slide": 2}, InvalidArgumentError, "by is 'store': .* leave slide out"),
        ({"closed": "left", "partial": False}, InvalidArgumentError, "leave partial=False out"),
        ({"by": [1, 2]}, InvalidArgumentError, "2 keys for 5 rows"),
        ({"min_rows": -1}, InvalidArgumentError, "min_rows is -1"),
        ({"min_rows": 1.5}, InvalidArgumentError, "min_rows is 1.5"),
        ({"by": "store", "return_windows": True}, InvalidArgumentError, "return_windows is for windows without by"),
        ({"closed": "left"}, OutOfOrderError, "times must be sorted: row 4 has 3"),
        ({"by": "store", "range": 0}, InvalidArgumentError, "range is 0; it must be positive"),
        ({"by": "store", "range": "1 day"}, InvalidArgumentError, "the times are integers"),
        ({"by": "store", "times": [1, None, 2, 3, 4]}, InvalidArgumentError, "the time of row 1 is null"),
        ({"by": "store", "times": "value_"}, ColumnError, "no column 'value_'"),
    ],
)
def test_refusals(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        slide(SALES, {"rev": agg.sum("value")}, **{"range": 3, "times": "ts", **options})


def test_ranges_and_times_at_the_ends_of_int64() -> None:
    times = np.array([-(2**63) + 1, -(2**63) + 2, 2**62])
    ones = np.ones(3)
    assert slide(ones, agg.sum("v"), range=5, times=times, closed="both").tolist() == [1, 2, 1]
    with pytest.raises(InvalidArgumentError, match="more than int64 can hold"):
        slide(ones, agg.sum("v"), range=2**64, times=times, closed="both")
    assert slide(ones, agg.sum("v"), range=2**63 - 1, times=times, closed="both").tolist() == [1, 2, 1]
    near = np.array([-(2**61), 0, 2**61])
    assert slide(ones, agg.count(), range=2**63 - 1, times=near, closed="left").tolist() == [0, 1, 2]


def test_explain_takes_the_same_words() -> None:
    text = explain(SALES, {"rev": agg.sum("value")}, range=7, times="ts", by="store", closed="both")
    assert text.startswith("5 rows, 5 windows of 2 rows at most")
