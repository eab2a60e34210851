"""`where=`: rows for which a boolean column is not true are skipped, on every path from rows to answers.

Random streams, windows and aggregators have such aggregations among theirs (`cases.py`, `queries/strategies.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import muntin
from muntin import Query, agg, aggregators, rows, window
from muntin.aggregators.states import close
from muntin.cli.query_file import parse_query
from muntin.errors import ColumnError, ColumnTypeError, DefinitionError, MuntinError
from muntin.kernels.cache import uncompiled

COUNT = 40


@agg.define(state={"n": "i8", "total": "f8"})
class mean_of_own:
    def lift(v):
        return (1, v)

    def combine(a, b):
        return (a.n + b.n, a.total + b.total)

    def lower(s):
        return s.total / s.n


def table(seed: int = 0) -> pa.Table:
    chance = np.random.default_rng(seed)
    return pa.table(
        {
            "t": np.sort(chance.integers(0, 60, COUNT)),
            "v": pa.array(chance.integers(-9, 9, COUNT).astype(float), mask=chance.random(COUNT) < 0.2),
            "paid": pa.array(chance.random(COUNT) < 0.5, mask=chance.random(COUNT) < 0.2),
            "big": pa.array(chance.random(COUNT) < 0.3),
        }
    )


def nulled(data: pa.Table, condition: str) -> pa.Table:
    """Return the rows with a null wherever the condition is not true: what every aggregation skips anyway."""
    true = pa.compute.fill_null(data[condition], False)
    return data.set_column(1, "v", pa.compute.if_else(true, data["v"], None))


ASKED: dict[str, Any] = {
    "sum": agg.sum,
    "last": agg.last,
    "std": agg.std,
    "collect": agg.collect,
    "median": agg.median,
    "count": agg.count,
    "own": mean_of_own,
}


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.compiled)])
def test_slide_equals_the_same_with_nulls(compiled: bool) -> None:
    data = table()
    asked = {f"{name} {where}": make("v", where=where) for name, make in ASKED.items() for where in ("paid", "big")}

    def answers() -> None:
        ours = muntin.slide(data, asked, range=5)
        for where in ("paid", "big"):
            truth = muntin.slide(nulled(data, where), {name: make("v") for name, make in ASKED.items()}, range=5)
            for name in ASKED:
                assert close(ours[f"{name} {where}"].to_pylist(), truth[name].to_pylist()), name

    if compiled:
        answers()
    else:
        with uncompiled():
            answers()


def test_two_conditions_and_none_in_one_query() -> None:
    data = table(1)
    query = Query(
        [window.tumbling(10), window.trailing(rows(4)), window.session(3)],
        {"n": agg.count(), "paid": agg.count(where="paid"), "big": agg.sum("v", where="big"), "all": agg.sum("v")},
        time="t",
    )
    with uncompiled():
        answers = query.run(data).to_pylist()
        stream = query.stream()
        pushed = [stream.push(data.slice(0, 13)), stream.push(data.slice(13))]
        stream = query.stream(stream.snapshot())
        pushed.append(stream.close())
    of_rows = data.to_pylist()
    for each in answers:
        bounds = each["window"]
        if each["window_id"] == 1:
            members = of_rows[bounds["from_row"] : bounds["to_row"]]
        else:
            members = [row for row in of_rows if bounds["start"] <= row["t"] < bounds["end"]]
        assert each["n"] == len(members)
        assert each["paid"] == sum(row["paid"] is True for row in members)
        for name, kept in (("big", [row for row in members if row["big"]]), ("all", members)):
            values = [row["v"] for row in kept if row["v"] is not None]
            assert each[name] == (sum(values) if values else None)
    assert sorted(map(repr, pa.concat_tables(pushed).to_pylist())) == sorted(map(repr, answers))


def test_aggregators_take_the_condition_behind_the_value() -> None:
    values = [(5, True), (9, False), (7, None), (None, True), (2, True)]
    for kind in (aggregators.TwoStacks, aggregators.Fiba, aggregators.SubtractOnEvict):
        one, many = (kind(agg.sum("v", where="ok"), compiled=False) for _ in range(2))
        for t, value in enumerate(values):
            one.insert(t, value)
        many.bulk_insert(range(5), values)
        assert one.query() == many.query() == 7
        one.bulk_evict(0)
        assert one.query() == 2
        assert kind.restore(one.snapshot(), agg.sum("v", where="ok"), compiled=False).query() == 2


def test_declared_types_are_those_of_the_values() -> None:
    window = aggregators.TwoStacks(agg.sum("v", where="ok"), dtype="f8", compiled=False)
    window.insert(0, (1, True))
    assert window.query() == 1.0
    with pytest.raises(ColumnTypeError, match="the column 'ok' holds int64; where= takes a column of booleans"):
        window.insert(1, (1, 1))
    assert window.query() == 1.0


def test_words_and_equality() -> None:
    made = agg.quantile("v", 0.9, where="ok")
    assert repr(made) == "agg.quantile('v', q=0.9, where='ok')"
    assert made != agg.quantile("v", 0.9)
    assert made == agg.quantile("v", 0.9, where="ok")
    assert made.unfiltered == agg.quantile("v", 0.9)
    assert made.fingerprint != agg.quantile("v", 0.9, where="other").fingerprint
    assert agg.count(where="ok").reads == ("ok",)
    assert repr(agg.count(where="ok")) == "agg.count(where='ok')"


def test_query_files() -> None:
    text = '[[windows]]\ntumbling = 10\n[aggregates]\na = "sum(v, where=paid)"\nn = "count(where=paid)"\n'
    text += 'q = { agg = "quantile", columns = ["v"], q = 0.5, where = "big" }\n'
    asked = {"a": agg.sum("v", where="paid"), "n": agg.count(where="paid"), "q": agg.quantile("v", 0.5, where="big")}
    assert parse_query(text).aggregates == asked


def test_explain_and_warm_know_the_condition() -> None:
    query = Query(window.tumbling("1 hour"), {"paid": agg.sum("v", where="ok")})
    assert "ok is bool" in str(query.explain())
    with uncompiled():
        muntin.warm(agg.sum("v", where="ok"))


def test_a_column_of_nulls_is_true_nowhere() -> None:
    data = pa.table({"t": [1, 2], "v": [1, 2], "ok": pa.nulls(2)})
    query = Query(window.tumbling(10), {"n": agg.count(where="ok"), "v": agg.sum("v", where="ok")}, time="t")
    with uncompiled():
        assert query.run(data).select(["n", "v"]).to_pylist() == [{"n": 0, "v": None}]


def test_what_is_refused() -> None:
    data = {"t": [1, 2], "v": [1.0, 2.0], "flag": [0, 1], "paid": [True, False]}
    query = Query(window.tumbling(10), {"x": agg.sum("v", where="flag")}, time="t")
    refused = "agg.sum.'v', where='flag'.: the column 'flag' holds int64; where= takes a column of booleans"
    stream = query.stream()
    for call in (query.run, stream.push, lambda rows: muntin.slide(rows, query.aggregates["x"], range=2)):
        with pytest.raises(ColumnTypeError, match=refused):
            call(data)
    missing = Query(window.tumbling(10), {"x": agg.sum("v", where="payed")}, time="t")
    for call in (missing.run, missing.stream().push, lambda rows: muntin.slide(rows, missing.aggregates, range=2)):
        with pytest.raises(ColumnError, match="there is no column 'payed'; .*did you mean 'paid'"):
            call(data)
    with pytest.raises(DefinitionError, match="sum: where is True; give the name of a boolean column"):
        agg.sum("v", where=True)
    with pytest.raises(MuntinError, match="are needed; give a mapping or a table"):
        muntin.slide([1.0], agg.sum("v", where="paid"), range=2)
    with pytest.raises(DefinitionError, match="lift has a parameter 'where', which every aggregation takes already"):

        @agg.define(state="f8")
        class taken:
            def lift(v, *, where):
                return v

            def combine(a, b):
                return a + b
