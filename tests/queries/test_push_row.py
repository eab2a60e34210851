"""`push_row` means what `push` of a table of one row means: call by call, error by error."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from muntin import Query, agg, rows, window
from muntin.errors import (
    AggregationOverflowError,
    ColumnError,
    ColumnTypeError,
    InvalidArgumentError,
    MuntinError,
    UnsupportedOperationError,
)

SUMS = {"n": agg.count(), "total": agg.sum("v"), "last": agg.last("w")}
WINDOWS = [window.sliding(10, every=5), window.session(3), window.trailing(rows(2))]


def answer(call: Callable[[], pa.Table]) -> Any:
    """Return what a call returns or raises, as something that can be compared."""
    try:
        table = call()
    except MuntinError as error:
        return type(error), str(error)
    return table.schema, table.to_pylist()


def as_columns(row: dict[str, Any]) -> dict[str, list[Any]]:
    return {name: [cell] for name, cell in row.items()}


KEYS = {
    "string": st.sampled_from(["a", "b", "ä", "", None]),
    "int64": st.sampled_from([0, 1, -1, 2**63 - 1, np.int64(1), None]),
    "bool": st.sampled_from([True, False, np.bool_(True), None]),
    "double": st.sampled_from([0.0, -0.0, math.nan, 1.5, None]),
}
TIMES = st.integers(0, 40) | st.sampled_from([np.int64(7), np.int32(9)])
FLOATS = st.sampled_from([1.5, -2.0, 3, 2**53, np.float64(0.5), np.float32(0.25), True, None])
INTEGERS = st.sampled_from([1, -7, 2**40, np.int64(5), np.int8(5), True, None])
BAD = st.sampled_from(["x", b"x", 2**63, 2**70, 1.5, Decimal(1), [1], object, datetime.date(2020, 1, 1), None])


def row_of(key: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"k": key, "t": TIMES, "v": FLOATS, "w": INTEGERS})


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data(), kind=st.sampled_from(sorted(KEYS)), lateness=st.sampled_from([0, 10]))
def test_rows_one_by_one_are_tables_of_one_row(data: Any, kind: str, lateness: int) -> None:
    first = {
        "k": next(each for each in ("a", 1, True, 1.5) if kind in str(pa.scalar(each).type)),
        "t": 1,
        "v": 2.5,
        "w": 3,
    }
    query = Query(WINDOWS, SUMS, key="k", time="t", watermark=2, allowed_lateness=lateness)
    ours, other = query.stream(), query.stream()
    ours.push(as_columns(first))
    other.push(as_columns(first))
    for row in data.draw(st.lists(row_of(KEYS[kind]), max_size=25)):
        given_row = {name: row[name] for name in "ktvw"}
        if data.draw(st.integers(0, 5)) == 0:
            name = data.draw(st.sampled_from(sorted(row)))
            given_row[name] = data.draw(BAD)
        expected = answer(lambda row=given_row: other.push(as_columns(row)))
        by_name = data.draw(st.booleans())
        cells = (given_row,) if by_name else tuple(given_row.values())
        assert repr(answer(lambda cells=cells: ours.push_row(*cells))) == repr(expected)
        assert ours.snapshot() == other.snapshot()
    assert ours.metrics() == other.metrics()
    assert repr(ours.late.to_pylist()) == repr(other.late.to_pylist())
    assert repr(ours.close().to_pylist()) == repr(other.close().to_pylist())
    ours.check()


def test_the_first_row_resolves_the_types() -> None:
    query = Query(window.tumbling(10), {"high": agg.max("v")}, key="k", time="t")
    stream = query.stream()
    stream.push_row("a", 1, 2)
    with pytest.raises(ColumnTypeError, match="'v' held int64 before, and now double"):
        stream.push_row("a", 2, 2.5)
    out = stream.push_row({"k": "b", "t": 10, "v": 1, "note": "ignored"})
    assert out.select(["k", "high"]).to_pylist() == [{"k": "a", "high": 2}]
    assert out.schema.field("high").type == pa.int64()


def test_values_without_names_are_the_key_the_time_and_what_is_read() -> None:
    aggregates = {"who": agg.arg_max("len", "caller"), "n": agg.count()}
    keyed = Query([window.tumbling(10), window.delta("km", 5.0)], aggregates, key=["zone", "caller"], time="t").stream()
    out = keyed.push_row("north", "ann", 1, 3.0, 0.0)
    out = keyed.push_row("north", "ann", 12, 4.0, 7.0)
    assert out.select(["zone", "caller", "who"]).to_pylist()[0] == {"zone": "north", "caller": "ann", "who": "ann"}
    without_key = Query(window.tumbling(10), {"total": agg.sum("v")}, time="t").stream()
    assert without_key.push_row(1, 2.0).num_rows == 0
    assert without_key.push_row(10, 3.0)["total"].to_pylist() == [2.0]
    only_times = Query(window.tumbling(10), {"n": agg.count()}, time="t").stream()
    assert [only_times.push_row(t).num_rows for t in (1, 2, 10)] == [0, 0, 1]
    by_clock = Query(window.tumbling(10), {"n": agg.count()}, key="k", time=None).stream(clock=lambda: 5_000)
    assert by_clock.push_row("a").num_rows == 0
    assert by_clock.close()["n"].to_pylist() == [1]


def test_another_number_of_values_is_refused() -> None:
    stream = Query(window.tumbling(10), {"high": agg.max("v")}, key="k", time="t").stream()
    for row in ((), ("a",), ("a", 1), ("a", 1, 2.0, 3.0)):
        with pytest.raises(InvalidArgumentError, match=f"3 values: k, t, v, in this order; got {len(row)}"):
            stream.push_row(*row)
    stream.push_row("a", 1, 2.0)
    with pytest.raises(InvalidArgumentError, match="got 2"):
        stream.push_row("a", 1)
    with pytest.raises(ColumnError, match="there is no column 'v'; the columns are 'k', 't'"):
        stream.push_row({"k": "a", "t": 1})
    assert stream.metrics()["rows"] == 1


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("x", "'v' held double before, and now string"),
        (2**60 + 1, "'v' held double before, and now int64"),
        (object(), "column 'v': Could not convert"),
        (2**70, "column 'v': "),
    ],
)
def test_a_refused_row_changes_nothing(cell: Any, message: str) -> None:
    stream = Query(window.sliding(10, every=5), {"high": agg.max("v")}, key="k", time="t").stream()
    stream.push_row("a", 1, 2.0)
    before = stream.snapshot()
    with pytest.raises(MuntinError, match=message):
        stream.push_row("new", 2, cell)
    with pytest.raises(MuntinError, match=message):
        stream.push({"k": ["new"], "t": [2], "v": [cell]})
    with pytest.raises(InvalidArgumentError, match="'t' is null in row 0"):
        stream.push_row("new", None, 1.0)
    assert stream.snapshot() == before


def test_a_row_with_which_an_answer_overflows_is_taken_back_with_its_key() -> None:
    stream = Query(window.tumbling(10), {"total": agg.sum("v")}, key="k", time="t").stream()
    stream.push_row("a", 1, 2**62)
    stream.push_row("a", 2, 2**62)
    before = stream.snapshot()
    for _ in range(2):
        with pytest.raises(AggregationOverflowError, match="sum"):
            stream.push_row("new", 10, 1)
        assert stream.snapshot() == before
        assert stream.metrics()["keys"] == 1
    stream.push_row("a", 3, -1)
    assert stream.push_row("new", 10, 1).select(["k", "total"]).to_pylist() == [{"k": "a", "total": 2**63 - 1}]


def test_times_of_any_kind() -> None:
    moment = datetime.datetime(2024, 1, 1, 0, 0, 5)
    stream = Query(window.tumbling("10 seconds"), {"n": agg.count()}, time="t").stream()
    stream.push_row(moment)
    stream.push_row(np.datetime64(moment))
    stream.push_row(pa.scalar(moment).as_py())
    with pytest.raises(ColumnTypeError, match="'t' held timestamp"):
        stream.push_row(5)
    assert stream.push_row(moment + datetime.timedelta(seconds=10))["n"].to_pylist() == [3]


def test_late_rows_are_kept_with_all_their_columns() -> None:
    stream = Query(window.tumbling(10), {"n": agg.count()}, key="k", time="t").stream()
    stream.push_row("a", 25)
    stream.push_row({"k": "a", "t": 3, "note": "too late"})
    stream.push_row("b", 4)
    assert stream.take_late().to_pylist() == [{"k": "a", "t": 3, "note": "too late"}, {"k": "b", "t": 4, "note": None}]
    assert stream.metrics()["dropped"] == 2


def test_late_rows_are_kept_in_the_types_of_the_columns() -> None:
    stream = Query(window.tumbling(10), {"total": agg.sum("v")}, time="t").stream()
    stream.push_row(25, 1.5)
    for cell in (True, 2, None, 3.5):
        stream.push_row(3, cell)
    assert stream.late.to_pydict() == {"t": [3, 3, 3, 3], "v": [1.0, 2.0, None, 3.5]}
    assert stream.late.schema.field("v").type == pa.float64()


def test_keys_that_are_released_are_not_taken_for_others() -> None:
    query = Query(window.tumbling(10), {"n": agg.count()}, key="k", time="t")
    stream, expected = query.stream(), {}
    out = []
    for i in range(1000):
        key = f"key {i % 7}" if i % 3 else f"once {i}"
        expected[(key, i // 10 * 10)] = expected.get((key, i // 10 * 10), 0) + 1
        out += stream.push_row(key, i).to_pylist()
    out += stream.close().to_pylist()
    assert stream.metrics()["keys"] < 400
    assert {(row["k"], row["window"]["start"]): row["n"] for row in out} == expected


def test_a_closed_stream_takes_no_row() -> None:
    stream = Query(window.tumbling(10), {"n": agg.count()}, time="t").stream()
    stream.close()
    with pytest.raises(UnsupportedOperationError, match="closed"):
        stream.push_row(1)
