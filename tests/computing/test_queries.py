"""Queries with columns= and where=: the answers of the same query over rows that were computed and filtered by hand."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from muntin import Query, agg, window
from muntin.errors import (
    ColumnError,
    ColumnTypeError,
    InvalidArgumentError,
    OutOfOrderError,
    SnapshotError,
    SqlError,
    UnsupportedOperationError,
)
from muntin.query.computing import without_expressions
from muntin.streams.facts import facts

COLUMNS = {"revenue": "price * pieces", "zone": "UPPER(SUBSTRING(country, 1, 1))", "big": "pieces > 5", "unused": "1"}
WHERE = "price > 0 AND country IN ('de', 'fr', 'es')"
AGGREGATES = {"total": agg.sum("revenue"), "n": agg.count(where="big"), "last": agg.last("price")}
EXPRESSED = Query(
    {"hour": window.trailing(20), "before": window.trailing(10, closed="left")},
    AGGREGATES,
    key="zone",
    time="t",
    watermark=5,
    columns=COLUMNS,
    where=WHERE,
)
WINDOWED = replace(EXPRESSED, windows=[window.sliding(20, every=5), window.session(4), window.delta("revenue", 50.0)])


def rows(draw: random.Random, count: int = 300) -> pa.Table:
    def maybe(value: Any) -> Any:
        return None if draw.random() < 0.1 else value

    return pa.table(
        {
            "t": pa.array([i + draw.randint(-4, 4) for i in range(count)]),
            "price": pa.array([maybe(draw.randint(-2, 9) / 4) for _ in range(count)], pa.float64()),
            "pieces": pa.array([maybe(draw.randint(0, 9)) for _ in range(count)], pa.int32()),
            "country": [maybe(draw.choice(["de", "fr", "es", "it"])) for _ in range(count)],
            "note": [f"row {i}" for i in range(count)],
        }
    )


def by_hand(table: pa.Table) -> pa.Table:
    """Compute the columns and leave rows out as somebody without expressions would."""
    kept = pc.and_kleene(
        pc.greater(table["price"], 0.0),
        pc.if_else(
            pc.is_null(table["country"]),
            pa.scalar(None, pa.bool_()),
            pc.is_in(table["country"], pa.array(["de", "fr", "es"])),
        ),
    )
    table = table.filter(kept)
    return (
        table.append_column("revenue", pc.multiply(table["price"], table["pieces"].cast(pa.float64())))
        .append_column("zone", pc.ascii_upper(pc.utf8_slice_codeunits(table["country"], 0, 1)))
        .append_column("big", pc.greater(table["pieces"], 5))
    )


def plain(query: Query) -> Query:
    return without_expressions(query)


def cut(table: pa.Table, draw: random.Random) -> list[pa.Table]:
    places = sorted({0, table.num_rows, *(draw.randrange(table.num_rows) for _ in range(6))})
    return [table.slice(a, b - a) for a, b in pairwise(places)]


def test_run_answers_as_over_computed_rows() -> None:
    table = rows(random.Random(1)).sort_by("t")
    assert WINDOWED.run(table) == plain(WINDOWED).run(by_hand(table))
    assert WINDOWED.run(table, threads=2) == plain(WINDOWED).run(by_hand(table))


@pytest.mark.parametrize("kind", ["arrow", "mapping", "pandas", "polars"])
def test_over_returns_the_rows_that_the_condition_holds_for(kind: str) -> None:
    table = rows(random.Random(2)).drop_columns(["pieces"]).append_column("pieces", pa.array([3, 7] * 150))
    table = table.set_column(1, "price", pc.fill_null(table["price"], -1.0))  # pandas has NaN for null
    expected = plain(EXPRESSED).over(by_hand(table)).drop_columns(["revenue", "zone", "big"])
    given: Any = {
        "arrow": table,
        "mapping": table.to_pydict(),
        "pandas": table.to_pandas(),
        "polars": pl.from_arrow(table),
    }[kind]
    found = EXPRESSED.over(given)
    if kind == "pandas":
        kept = [
            place for place, note in enumerate(table["note"].to_pylist()) if note in set(expected["note"].to_pylist())
        ]
        assert isinstance(found, pd.DataFrame)
        assert found.index.tolist() == kept
    names = expected.column_names
    assert (list(found.columns) if kind in ("pandas", "polars") else found.column_names) == names
    cells = {"pandas": pa.Table.from_pandas, "polars": pl.DataFrame.to_arrow}
    found = cells[kind](found) if kind in cells else found
    for name in names:
        one, other = (each[name].to_pylist() for each in (found, expected))
        assert [None if x != x else x for x in one] == other, name


def test_batches_are_computed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from muntin.streams import batched_run

    table = rows(random.Random(9)).sort_by("t")
    query = replace(EXPRESSED, windows=window.sliding(20, every=5), aggregates={"total": agg.sum("revenue")})
    whole = query.run(table)
    for most in (10, 10_000):
        monkeypatch.setattr(batched_run, "MOST_ROWS", most)
        monkeypatch.setattr(batched_run, "ROWS_AT_ONCE", 50)
        assert query.run(table.to_reader(max_chunksize=37)) == whole
        assert query.run(pl.from_arrow(table).lazy()).to_arrow().equals(pl.from_arrow(whole).to_arrow())
    assert EXPRESSED.over(table.to_reader(max_chunksize=37)) == EXPRESSED.over(table)
    listed = table.to_pylist()
    assert query.run(listed)["total"].to_pylist() == whole["total"].to_pylist()
    stream, other = query.stream(), query.stream()
    assert stream.push(listed[:100]) == other.push(table.slice(0, 100))
    sparse = [{"t": 120, "country": "de", "price": 1.0}]
    assert stream.push(sparse) == other.push({"t": [120], "country": ["de"], "price": [1.0], "pieces": [None]})
    assert stream.close() == other.close()


def test_points_have_the_key_and_the_time_as_they_were_computed() -> None:
    table = rows(random.Random(3))
    points = pa.table({"zone": ["D", "F", "X", "E"], "t": [50, 120, 10, 299]})
    assert EXPRESSED.over(table, at=points) == plain(EXPRESSED).over(by_hand(table), at=points)
    stream = EXPRESSED.stream(history=table)
    late = points.slice(3)
    assert stream.ask(late) == plain(EXPRESSED).stream(history=by_hand(table)).ask(late)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("query", [EXPRESSED, WINDOWED], ids=["frames", "windows"])
def test_streams_answer_call_by_call_as_over_computed_rows(query: Query, seed: int) -> None:
    draw = random.Random(seed)
    stream, other = query.stream(), plain(query).stream()
    for part in cut(rows(draw), draw):
        assert stream.push(part) == other.push(by_hand(part))
        assert stream.watermark == other.watermark
        counts, others = stream.metrics(), other.metrics()
        assert {**counts, "bytes": 0} == {**others, "bytes": 0}
        assert stream.late == other.late
        if draw.random() < 0.5:
            stream = query.stream(stream.snapshot())
    assert stream.close() == other.close()


def test_rows_that_are_left_out_move_no_watermark_and_are_not_late() -> None:
    query = Query(window.tumbling(10), {"n": agg.count()}, time="t", where="ok")
    stream = query.stream()
    stream.push({"t": [25], "ok": [True]})
    assert stream.push({"t": [3, 99, 98], "ok": [False, None, False]}).num_rows == 0
    assert (stream.watermark, stream.late.num_rows) == (25, 0)
    counts = stream.metrics()
    assert (counts["rows"], counts["late"], counts["dropped"]) == (1, 0, 0)
    stream.push({"t": [3], "ok": [True]})
    assert stream.late.to_pydict() == {"t": [3], "ok": [True]}


def test_ordered_holds_for_the_rows_that_are_left() -> None:
    query = Query(window.tumbling(10), {"n": agg.count()}, time="t", where="ok", ordered=True)
    assert query.run({"t": [1, 9, 2], "ok": [True, False, True]})["n"].to_pylist() == [2]
    with pytest.raises(OutOfOrderError):
        query.run({"t": [1, 9, 2], "ok": [True, True, True]})


def test_single_rows_are_computed_too() -> None:
    query = Query(
        window.tumbling(10),
        {"total": agg.sum("revenue")},
        key="k",
        time="t",
        columns={"revenue": "a * b"},
        where="a > 0",
    )
    assert query.inputs == ("k", "t", "a", "b")
    stream = query.stream()
    stream.push_row("x", 1, 2, 3)
    stream.push_row({"k": "x", "t": 2, "a": -1, "b": 3})
    stream.push_row({"k": "x", "t": 3, "a": 10, "b": 1})
    assert stream.close()["total"].to_pylist() == [16]
    with pytest.raises(InvalidArgumentError, match="4 values: k, t, a, b"):
        query.stream().push_row("x", 1, 2)


def test_time_key_and_shadowed_columns_are_computed() -> None:
    query = Query(
        window.tumbling("1 minute"),
        {"high": agg.max("v")},
        key="k",
        time="ts",
        columns={"ts": "CAST(ts AS TIMESTAMP)", "k": "k % 2", "v": "v * 2"},
    )
    table = pa.table({"ts": [0, 59, 60], "k": [1, 3, 5], "v": [1, 2, 3]})
    found = query.run(table)
    assert found["high"].to_pylist() == [4, 6]
    assert found["k"].to_pylist() == [1, 1]
    assert found.schema.field("window").type.field("start").type == pa.timestamp("us", "UTC")
    stream = query.stream()
    stream.push(table)
    assert stream.close()["high"].to_pylist() == [6]
    beside = replace(query, windows=window.trailing("1 hour")).over(table)
    assert beside.to_pydict() == {"ts": [0, 59, 60], "k": [1, 3, 5], "v": [1, 2, 3], "high": [2, 4, 6]}


def test_only_what_is_read_is_needed() -> None:
    query = Query(window.tumbling(10), {"n": agg.sum("b2")}, time="t", columns={"b2": "b * 2", "c2": "c * 2"})
    assert query.inputs == ("t", "b")
    assert query.computed == ("b2",)
    assert query.run({"t": [1], "b": [4]})["n"].to_pylist() == [8]


def test_types_of_the_first_rows_stay() -> None:
    query = Query(window.tumbling(10), {"total": agg.sum("r")}, time="t", columns={"r": "a + 1"})
    stream = query.stream()
    stream.push({"t": [1], "a": [2.5]})
    stream.push({"t": [2], "a": [2]})
    before = stream.snapshot()
    with pytest.raises(ColumnTypeError, match="column 'a' held double before, and now string"):
        stream.push({"t": [3], "a": ["x"]})
    assert stream.snapshot() == before
    again = query.stream(before)
    again.push({"t": [2], "a": [2]})
    with pytest.raises(ColumnTypeError, match="held double before"):
        again.push({"t": [3], "a": ["x"]})
    assert again.close()["total"].to_pylist() == [9.5]


def test_a_refused_push_changes_nothing() -> None:
    stream = EXPRESSED.stream()
    with pytest.raises(ColumnError, match=r"there is no column 'country'"):
        stream.push({"t": [1], "price": [1.0], "pieces": [2]})
    with pytest.raises(ColumnTypeError, match=r"columns\['revenue'\]: \* does not take"):
        stream.push({"t": [1], "price": [True], "pieces": [2], "country": ["de"]})
    stream.push(rows(random.Random(4)))
    before = stream.snapshot()
    with pytest.raises(ColumnError):
        stream.push({"t": [1]})
    assert stream.snapshot() == before


def test_a_state_of_other_expressions_is_refused() -> None:
    stream = EXPRESSED.stream()
    stream.push(rows(random.Random(5)))
    state = stream.snapshot()
    spaced = replace(EXPRESSED, columns={**COLUMNS, "revenue": "price   *pieces"}, where=WHERE.replace("AND", "and"))
    spaced.stream(state)
    with pytest.raises(SnapshotError, match=r"its column revenue is price \* pieces, this one's is price"):
        replace(EXPRESSED, columns={**COLUMNS, "revenue": "price"}).stream(state)
    with pytest.raises(SnapshotError, match="its where is price > 0 AND country IN .*, this one's is none"):
        replace(EXPRESSED, where=None).stream(state)
    with pytest.raises(SnapshotError, match="its where is none, this one's is price > 1"):
        replace(plain(EXPRESSED), where="price > 1").stream(
            plain(EXPRESSED).stream(history=by_hand(rows(random.Random(5)))).snapshot()
        )


def test_facts_of_a_query_without_expressions_are_as_ever() -> None:
    known = facts(plain(EXPRESSED))
    assert not [name for name in known if name == "where" or name.startswith("column ")]


def test_what_is_no_expression_is_refused_when_the_query_is_made() -> None:
    for options in ({"columns": "price * 2"}, {"columns": {"a": 5}}, {"columns": {"": "a"}}, {"where": 5}):
        with pytest.raises(InvalidArgumentError):
            Query(window.tumbling(10), {"n": agg.count()}, **options)  # type: ignore[arg-type]
    with pytest.raises(SqlError, match=r"line 1, column 9: columns\['a'\]: there is no function sqrt"):
        Query(window.tumbling(10), {"n": agg.count()}, columns={"a": "price + sqrt(b)"})
    with pytest.raises(SqlError, match="where: this is no expression"):
        Query(window.tumbling(10), {"n": agg.count()}, where="price >")


def test_without_the_parser_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(UnsupportedOperationError, match=r"pip install 'muntin\[sql\]'"):
        Query(window.tumbling(10), {"n": agg.count()}, where="price > 1")
    Query(window.tumbling(10), {"n": agg.count()})


def test_no_rows_are_answered() -> None:
    empty = rows(random.Random(6)).slice(0, 0)
    assert WINDOWED.run(empty).num_rows == 0
    assert EXPRESSED.over(empty).num_rows == 0
    assert WINDOWED.run(rows(random.Random(6)).set_column(1, "price", pa.array([-1.0] * 300))).num_rows == 0
    assert WINDOWED.stream().push(empty).num_rows == 0


def test_explain_says_what_is_computed() -> None:
    text = str(EXPRESSED.explain(rows(random.Random(7)).schema))
    assert "revenue = price * pieces" in text
    assert "unused" not in text
    assert "price > 0 AND country IN ('de', 'fr', 'es')" in text
    assert repr(EXPRESSED).endswith(f"columns={COLUMNS!r}, where={WHERE!r})")
    assert eval(repr(EXPRESSED), {"Query": Query, "agg": agg, "window": window}) == EXPRESSED
    assert Query(window.tumbling(10), {"n": agg.count()}, columns={}) == Query(window.tumbling(10), {"n": agg.count()})
