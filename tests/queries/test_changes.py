"""Tables that change: `run` and `over` answer as if only the rows had come that no deletion takes back."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import oracle, strategies
from queries.changelogs import OP, changelogs, surviving
from queries.test_run import answers, as_table, asked, expected, same
from queries.test_transcripts import query_words
from sampling import examples

from muntin import Query, agg, rows, window
from muntin.errors import ColumnError, ColumnTypeError, InvalidArgumentError, UnsupportedOperationError
from muntin.kernels.cache import uncompiled
from muntin.tables.changelog import without_deletions

SPENT = Query(
    window.tumbling(10), {"n": agg.count(), "spent": agg.sum("v")}, key="card", time="t", changes=OP, watermark=0
)
FRAMES = Query(
    [window.trailing(10), window.trailing(rows(2))], {"all": agg.collect("v")}, key="card", time="t", changes=OP
)
PAYMENTS = {
    "card": ["a", "a", "b", "a", "a"],
    "t": [1, 2, 3, 2, 12],
    "v": [5, 6, 7, 6, 8],
    OP: ["insert", "insert", None, "delete", "+I"],
}


def reads(query: oracle.Query) -> list[str]:
    return [name for name in asked(query).inputs if name != OP]


@st.composite
def cases(draw: Any) -> tuple[oracle.Query, list[dict[str, Any]]]:
    query = draw(strategies.queries())
    return query, draw(changelogs(draw(strategies.tables())))


@given(cases())
@settings(deadline=None, max_examples=examples(150))
def test_run_answers_as_if_only_the_surviving_rows_had_come(case: tuple[oracle.Query, list[dict[str, Any]]]) -> None:
    query, changes = case
    stay = surviving(changes, reads(query))
    if not changes:
        return
    words = {name: getattr(query, name) for name in ("windows", "aggregates", "key", "time", "partial", "emit_empty")}
    with uncompiled():
        ours = answers(Query(**words, changes=OP).run(as_table(changes, query)), query)
    truth = expected(oracle.complete_answer(**query_words(query), rows=stay)) if stay else []
    assert same(ours, truth), f"\nours  {sorted(map(repr, ours))}\ntruth {sorted(map(repr, truth))}"


@given(changelogs([{"t": t, "card": k, "v": t % 3} for t in (1, 1, 1, 2, 2, 3, 9) for k in "ab"]))
@settings(deadline=None, max_examples=examples(100))
def test_over_answers_beside_the_surviving_rows(changes: list[dict[str, Any]]) -> None:
    stay = surviving(changes, ["t", "card", "v"])
    plain = Query([window.trailing(10), window.trailing(rows(2))], FRAMES.aggregates, key="card", time="t")
    points = pa.table({"card": ["a", "b", "c"], "t": [2, 3, 9]})
    whole, left = (pa.Table.from_pylist(each, as_schema(changes)) for each in (changes, stay))
    with uncompiled():
        assert FRAMES.over(whole).drop_columns(OP).equals(plain.over(left).drop_columns(OP))
        assert FRAMES.over(whole, at=points).equals(plain.over(left, at=points))


def as_schema(rows: list[dict[str, Any]]) -> pa.Schema:
    return pa.schema([pa.field(name, pa.string() if name in ("card", OP) else pa.int64()) for name in rows[0]])


def test_every_kind_of_table_and_of_text() -> None:
    words = [word or "insert" for word in PAYMENTS[OP]]
    plain = SPENT.run(PAYMENTS).select(["card", "n", "spent"]).to_pylist()
    assert plain == [
        {"card": "a", "n": 1, "spent": 5},
        {"card": "a", "n": 1, "spent": 8},
        {"card": "b", "n": 1, "spent": 7},
    ]
    texts = [pa.array(words, pa.large_string()), pa.array(words).dictionary_encode(), pd.Categorical(words), words]
    for text in texts:
        assert SPENT.run({**PAYMENTS, OP: text}).select(["card", "n", "spent"]).to_pylist() == plain
    for table in (pd.DataFrame(PAYMENTS), pl.DataFrame(PAYMENTS), pa.table(PAYMENTS)):
        found = SPENT.run(table)
        assert type(found) is type(table)
        assert len(found) == 3
    assert SPENT.run({**PAYMENTS, OP: pa.nulls(5)})["n"].to_pylist() == [3, 1, 1]


def test_over_returns_the_rows_that_stay_with_their_index_and_other_columns() -> None:
    table = pd.DataFrame({**PAYMENTS, "note": list("vwxyz")}, index=list("mnopq"))
    found = FRAMES.over(table)
    assert found["note"].tolist() == ["v", "x", "z"]
    assert found.index.tolist() == ["m", "o", "q"]
    assert found[OP].tolist() == ["insert", None, "+I"]


def test_a_deletion_takes_the_latest_equal_row_and_only_what_the_query_reads_must_be_equal() -> None:
    table = pa.table({"t": [1, 1, 1, 1], "v": [5, 6, 5, 5], "note": list("abcd"), OP: ["c", "c", "c", "d"]})
    query = Query(window.trailing(10), {"all": agg.collect("v")}, time="t", changes=OP)
    assert query.over(table)["note"].to_pylist() == ["a", "b"]


def test_null_nan_and_both_zeros_are_equal_to_themselves() -> None:
    table = {"t": [1] * 6, "v": [None, math.nan, 0.0, None, math.nan, -0.0], OP: ["c", "c", "c", "d", "d", "d"]}
    query = Query(window.tumbling(10), {"n": agg.count(), "s": agg.sum("v")}, time="t", changes=OP)
    assert query.run({name: pa.array(values, from_pandas=False) for name, values in table.items()}).num_rows == 0


def test_values_of_any_type_are_compared() -> None:
    lists = pa.array([[1], [1, 2], [1]])
    query = Query(window.tumbling(10), {"all": agg.collect("v")}, time="t", changes=OP)
    assert query.run({"t": [1, 1, 1], "v": lists, OP: ["c", "c", "d"]})["all"].to_pylist() == [[[1, 2]]]


def test_a_table_of_deletions_alone_and_one_without_rows() -> None:
    assert SPENT.run({**PAYMENTS, OP: ["delete"] * 5}).num_rows == 0
    assert SPENT.run({name: values[:0] for name, values in PAYMENTS.items()}).num_rows == 0


def test_threads_see_the_same_deletions() -> None:
    count = 300
    rows = [{"card": str(i % 7), "t": i // 3, "v": i % 5, OP: "d" if i % 2 else "c"} for i in range(count)] * 2
    rows = [{**row, OP: "c"} for row in rows[:count]] + rows
    _, stay = without_deletions(SPENT, pa.Table.from_pylist(rows), threads=2)
    assert stay is not None
    assert [rows[i] for i in stay] == surviving(rows, ["card", "t", "v"])


@pytest.mark.parametrize(
    ("word", "said"),
    [("x", "'x' in row 3"), ("INSERT", "'INSERT' in row 3"), ("u", "'update_preimage', and its `after`")],
)
def test_an_unknown_word_is_named_with_its_row(word: str, said: str) -> None:
    wrong = {**PAYMENTS, OP: ["insert", None, "insert", word, word]}
    for call in (SPENT.run, FRAMES.over):
        with pytest.raises(InvalidArgumentError) as error:
            call(wrong)
        assert said in str(error.value)
        assert "'op'" in str(error.value)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ColumnError, match="no column 'op'"):
        SPENT.run({name: PAYMENTS[name] for name in ("card", "t", "v")})
    with pytest.raises(ColumnTypeError, match="'op' holds int64"):
        SPENT.run({**PAYMENTS, OP: [1, 1, 1, 0, 1]})
    with pytest.raises(InvalidArgumentError, match="'t' is null in row 3"):
        SPENT.run({**PAYMENTS, "t": [1, 2, 3, None, 12]})
    for wrong in (
        {"ordered": True},
        {"changes": "card"},
        {"changes": "t"},
        {"changes": "v"},
        {"changes": ""},
        {"changes": 3},
    ):
        words = {"key": "card", "time": "t", "changes": OP, **wrong}
        with pytest.raises(InvalidArgumentError, match="changes"):
            Query(window.tumbling(10), SPENT.aggregates, **words)
    with pytest.raises(UnsupportedOperationError, match="changes is 'op'"):
        SPENT.to_sql()
