"""The columns of answers: known before the rows, and the same whether `run` or a stream answers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from muntin import Query, agg, rows, window
from muntin.query.plan import resolve

INPUT = pa.schema(
    {"ts": pa.timestamp("s"), "k": pa.string(), "v": pa.int32(), "x": pa.float64(), "w": pa.string(), "on": pa.bool_()}
)
AGGREGATES = {
    "n": agg.count(),
    "high": agg.max("v"),
    "late": agg.arg_max("ts", "w"),
    "mean": agg.mean("v"),
    "all": agg.collect("v"),
    "words": agg.collect_distinct("w"),
    "text": agg.concat("w"),
    "line": agg.linear_regression("v", "x"),
    "four": agg.m4("x"),
    "sketch": agg.bloom("v"),
    "middle": agg.median("x"),
}
WINDOWS = {
    "time": [window.sliding("1 minute", every="20 seconds"), window.session("5 seconds")],
    "rows": [window.tumbling(rows(2)), window.trailing("10 seconds")],
    "last rows": [window.sliding(rows(2), every="10 seconds")],
    "values": [window.delta("x", 1), window.punctuated("on")],
    "whole values": [window.delta("v", 10)],
    "everything": [window.delta("v", 10), window.delta("x", 1.5), window.trailing(rows(3)), window.tumbling("1 hour")],
}


def table(nulls: bool) -> pa.Table:
    value: Any = (lambda each: None) if nulls else (lambda each: each)
    columns = {
        "ts": [1, 2, 70, 71],
        "k": ["a", None, "a", "b"],
        "v": [value(each) for each in (3, 1, 2, 30)],
        "x": [value(each) for each in (0.5, 1.5, 2.5, 3.0)],
        "w": [value(each) for each in ("p", "q", "r", "s")],
        "on": [value(each) for each in (True, False, False, True)],
    }
    return pa.table([pa.array(columns[field.name], field.type) for field in INPUT], schema=INPUT)


@pytest.mark.parametrize("name", WINDOWS)
def test_every_answer_has_the_schema_of_the_plan(name: str) -> None:
    query = Query(WINDOWS[name], AGGREGATES, key="k")
    schema = resolve(query, INPUT).answer_schema
    assert not [field.name for field in schema if pa.types.is_null(field.type)]
    assert query.run(INPUT.empty_table()).schema == schema
    for nulls in (False, True):
        answers = query.run(table(nulls))
        assert answers.schema == schema
        stream = query.stream()
        assert stream.push(table(nulls)).schema == schema
        closed = stream.close()
        assert closed.schema == schema


def test_bounds_stand_in_the_order_of_the_contract_whatever_the_windows() -> None:
    bounds = ["start", "end", "from_row", "to_row", "from_value", "to_value"]
    for windows in (WINDOWS["everything"], WINDOWS["everything"][::-1]):
        kind = resolve(Query(windows, {"n": agg.count()}), INPUT).answer_schema.field("window").type
        assert [field.name for field in kind] == bounds
        assert kind.field("from_value").type == pa.float64()
    (whole,) = WINDOWS["whole values"]
    kind = resolve(Query(whole, {"n": agg.count()}), INPUT).answer_schema.field("window").type
    assert kind.field("to_value").type == pa.int64()


@agg.define(state="object")
class first_letter:
    """Knows nothing of words that never came, so that only its results tell their type."""

    def lift(w):  # type: ignore[no-untyped-def]
        return {"p": 1, "q": 2.5, "r": 3, "s": 4}[w]

    def combine(a, b):  # type: ignore[no-untyped-def]
        return a

    def lower(s):  # type: ignore[no-untyped-def]
        return s


def test_a_type_that_only_results_tell_is_theirs() -> None:
    query = Query(window.tumbling("1 minute"), {"it": first_letter("w")}, key="k")
    assert resolve(query, INPUT).answer_schema.field("it").type == pa.null()
    answers = query.run(table(nulls=False))
    assert sorted(answers["it"].to_pylist()) == [1, 2.5, 3, 4]
    stream = query.stream()
    pushed = [stream.push(table(nulls=False)), stream.close()]
    assert sorted(value for each in pushed for value in each["it"].to_pylist()) == [1, 2.5, 3, 4]
