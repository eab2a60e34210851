"""Columns whose types change, grow or do not fit: taken where they can be, refused in clear words where not."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from muntin import Query, agg, aggregators, latest, rows, slide, window
from muntin.errors import AggregationOverflowError, ColumnTypeError

COUNT = {"n": agg.count()}


def with_late_rows(*pushes: Any) -> pa.Table:
    """Return the late rows of some pushes, after a snapshot; asking for them twice, or taking them, is the same."""
    query = Query(window.tumbling(10), COUNT, time="t")
    stream = query.stream()
    stream.push({"t": [100]})
    for each in pushes:
        stream.push(each)
    restored = query.stream(stream.snapshot())
    found = stream.late
    assert found.equals(stream.late)
    assert found.equals(restored.take_late())
    assert stream.take_late().equals(found)
    stream.push({"t": [5], "later": [True]})
    assert stream.late.select(["t", "later"]).to_pylist() == [{"t": 5, "later": True}]
    stream.snapshot()
    return found


def test_late_rows_whose_types_no_type_holds_are_text() -> None:
    found = with_late_rows({"t": [1], "x": [1]}, {"t": [2], "x": ["a"]}, {"t": [3], "x": [{"a": 1}]}, {"t": [4]})
    assert found.schema == pa.schema({"t": pa.int64(), "x": pa.string()})
    assert found["x"].to_pylist() == ["1", "a", "{'a': 1}", None]


def test_late_rows_keep_the_widest_type() -> None:
    narrow = pa.table({"t": pa.array([1], pa.int8()), "x": pa.array([1], pa.int16())})
    found = with_late_rows(narrow, {"t": [2], "x": [2.5]}, {"t": [3], "x": [None]})
    assert found.schema == pa.schema({"t": pa.int64(), "x": pa.float64()})
    assert found.to_pydict() == {"t": [1, 2, 3], "x": [1.0, 2.5, None]}


def test_late_rows_may_have_a_column_twice_that_nothing_reads() -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([7]), pa.array([8])], names=["t", "x", "x"])
    assert with_late_rows(twice, {"t": [2], "x": [9]}).to_pylist() == [
        {"t": 1, "x": 7, "x 2": 8},
        {"t": 2, "x": 9, "x 2": None},
    ]


def categories(number: int, rows: int = 100) -> pd.DataFrame:
    """Return rows whose category holds values that no other number has."""
    names = pd.Categorical([f"{number}-{row}" for row in range(rows)])
    return pd.DataFrame({"t": np.arange(rows), "k": names})


def test_late_rows_of_categories_that_grow() -> None:
    found = with_late_rows(*(categories(number).assign(t=number) for number in range(3)))
    assert len(set(found["k"].to_pylist())) == 300


@pytest.mark.parametrize("kind", [window.tumbling(1000), window.trailing(1000)], ids=repr)
def test_keys_of_categories_that_grow(kind: window.Window) -> None:
    query = Query(kind, COUNT, key="k", time="t", watermark=1000)
    stream = query.stream()
    parts = [stream.push(categories(number)) for number in range(4)]
    stream = query.stream(stream.snapshot())
    parts.append(stream.close())
    answers = pa.concat_tables(parts)
    assert len(set(answers["k"].to_pylist())) == answers.num_rows == latest(answers).num_rows == 400
    whole = query.run(pa.concat_tables([pa.Table.from_pandas(categories(number)) for number in range(4)]))
    assert whole.schema == answers.schema
    by_key = [sorted(each.to_pylist(), key=lambda row: str(row["k"])) for each in (whole, answers)]
    assert by_key[0] == by_key[1]


def test_over_takes_chunks_whose_categories_differ() -> None:
    rows = pa.concat_tables([pa.Table.from_pandas(categories(number)) for number in range(3)])
    out = Query(window.trailing(5), COUNT, key="k", time="t").over(rows)
    assert out["k"].to_pylist() == rows["k"].to_pylist()
    assert set(out["n"].to_pylist()) == {1}


DIGITS = {
    "sum": (pa.decimal128(14, 2), Decimal("0.00")),
    "range": (pa.decimal128(5, 2), Decimal("199.98")),
    "mean": (pa.decimal128(8, 6), Decimal("0.000000")),
    "max": (pa.decimal128(4, 2), Decimal("99.99")),
}


@pytest.mark.parametrize("name", DIGITS)
def test_decimals_have_the_type_that_fits_whatever_the_rows(name: str) -> None:
    kind, answer = DIGITS[name]
    query = Query(window.tumbling(10), {"it": getattr(agg, name)("v")}, time="t")
    wide = pa.table({"t": [1, 2], "v": pa.array([Decimal("99.99"), Decimal("-99.99")], pa.decimal128(4, 2))})
    found = query.run(wide)["it"]
    stream = query.stream()
    stream.push(wide.slice(0, 1))
    stream.push(wide.slice(1))
    assert found.type == query.run(wide.slice(0, 1))["it"].type == kind
    assert found.to_pylist() == stream.close()["it"].to_pylist() == [answer]


def test_sums_of_decimals_of_more_than_38_digits() -> None:
    most, twice = Decimal("4" * 50), Decimal("8" * 50)
    rows = pa.table({"t": [1, 2], "v": pa.array([most, most], pa.decimal256(50, 0))})
    assert Query(window.tumbling(10), {"it": agg.sum("v")}, time="t").run(rows)["it"].to_pylist() == [twice]


FULL = Decimal("9" * 36 + ".99")
WIDE = pa.table({"t": [1, 2, 30], "v": pa.array([FULL, FULL, Decimal(1)], pa.decimal128(38, 2))})
TOO_LARGE = r"agg.sum\('v'\): the answer 19{36}\.98 of a window does not fit decimal128\(38, 2\).* decimal256"


def pushed(each: Any) -> pa.Table:
    stream = Query(each, {"it": agg.sum("v")}, time="t").stream()
    stream.push(WIDE.slice(0, 1))
    before = stream.snapshot()
    try:
        return stream.push(WIDE.slice(1))
    finally:
        assert stream.snapshot() == before


def inserted() -> Any:
    held = aggregators.TwoStacks(agg.sum("v"), dtype=pa.decimal128(38, 2))
    held.bulk_insert([1, 2], WIDE["v"].combine_chunks().slice(0, 2))
    return held.query()


OVERFLOWS = {
    "run": lambda: Query(window.tumbling(10), {"it": agg.sum("v")}, time="t").run(WIDE),
    "over": lambda: Query(window.trailing(10), {"it": agg.sum("v")}, time="t").over(WIDE),
    "push": lambda: pushed(window.tumbling(10)),
    "push, windows by rows": lambda: pushed(window.tumbling(rows(2))),
    "push, frames": lambda: pushed(window.trailing(10)),
    "push, tiles": lambda: pushed(window.trailing(10, hop=5)),
    "slide": lambda: slide(WIDE["v"].combine_chunks(), agg.sum("v"), range=2),
    "query": inserted,
}


@pytest.mark.parametrize("way", OVERFLOWS)
def test_a_sum_of_decimals_that_does_not_fit_is_refused_by_name(way: str) -> None:
    with pytest.raises(AggregationOverflowError, match=TOO_LARGE):
        OVERFLOWS[way]()


def test_a_sum_that_fits_again_is_no_overflow() -> None:
    values = pa.array([FULL, FULL, FULL.copy_negate()], pa.decimal128(38, 2))
    assert slide(values, agg.sum("v"), range=3, times=[1, 1, 1]).to_pylist() == [FULL] * 3


def test_no_digit_is_lost_whatever_the_context_of_the_thread() -> None:
    values = [Decimal("1234567890123456789012345678901.25"), Decimal("-0.75")]
    data = pa.table({"t": [1, 2], "v": pa.array(values, pa.decimal128(34, 2))})
    wanted = {"range": "1234567890123456789012345678902.00", "sum": "1234567890123456789012345678900.50"}
    wanted["mean"] = "617283945061728394506172839450.250000"
    query = Query(window.tumbling(10), {name: getattr(agg, name)("v") for name in wanted}, time="t")
    with localcontext() as context:
        context.prec = 3
        found = query.run(data)
    assert {name: str(found[name][0]) for name in wanted} == wanted


NUMERIC = [agg.product("v"), agg.std("v"), agg.geometric_mean("v"), agg.ewm_mean("v", half_life=2), agg.sum("v")]


@pytest.mark.parametrize("aggregation", NUMERIC, ids=repr)
def test_booleans_are_numbers_over_arrays(aggregation: Any) -> None:
    flags = np.array([True, False, True, True])
    times = np.arange(4)
    found = slide(flags, aggregation, range=3, times=times)
    np.testing.assert_allclose(found, slide(flags.astype(np.int64), aggregation, range=3, times=times))


@pytest.mark.compiled
def test_booleans_are_numbers_compiled_too() -> None:
    assert slide(np.array([True, False, True]), agg.product("v"), range=1).tolist() == [1.0, 0.0, 1.0]


NAIVE, ZONED = pa.timestamp("us"), pa.timestamp("us", "UTC")


@pytest.mark.parametrize("column", ["ts", "seen"])
@pytest.mark.parametrize(("first", "then"), [(NAIVE, ZONED), (ZONED, NAIVE), (ZONED, pa.date32())])
def test_times_with_and_without_a_zone_do_not_mix(column: str, first: pa.DataType, then: pa.DataType) -> None:
    def rows(day: int, kind: pa.DataType) -> pa.Table:
        kinds = {"ts": first, "seen": first, column: kind}
        days = pa.array([day], pa.date32())
        return pa.table({name: days.cast(NAIVE).cast(each) for name, each in kinds.items()})

    query = Query(window.tumbling("1 day"), {"seen": agg.last("seen")})
    stream = query.stream()
    stream.push(rows(1, first))
    before = stream.snapshot()
    for push in (stream.push, lambda table: stream.push_row(table.to_pylist()[0])):
        with pytest.raises(ColumnTypeError, match=f"column '{column}' held .* before, and now .*cast it"):
            push(rows(2, then))
    assert stream.snapshot() == before


def test_zones_of_one_column_may_differ() -> None:
    stream = Query(window.tumbling("1 hour"), COUNT).stream()
    for hour, zone in ((12, "UTC"), (13, "Europe/Berlin")):
        stream.push({"ts": pa.array([hour * 3600], pa.timestamp("s", zone))})
    assert stream.close()["window"].to_pylist()[0]["start"].hour == 13
