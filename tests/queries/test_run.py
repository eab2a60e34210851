"""`Query.run` against the oracle: every transcript's rows at once, and random queries."""

from __future__ import annotations

from typing import Any

import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from queries import oracle, strategies, transcript
from queries.test_transcripts import query_words
from queries.transcript import Case
from sampling import examples, some

from muntin import Query, agg, window
from muntin.aggregators.states import close
from muntin.errors import ColumnError, ColumnTypeError, InvalidArgumentError
from muntin.kernels.cache import uncompiled

CASES = transcript.load()

pytestmark = pytest.mark.compiled


def asked(query: oracle.Query) -> Query:
    """Return the oracle's query as the product's."""
    words = {name: getattr(query, name) for name in ("windows", "aggregates", "key", "time", "partial", "emit_empty")}
    return Query(**words)


def as_table(rows: list[dict[str, Any]], query: oracle.Query) -> pa.Table:
    names = list(rows[0])
    kinds = {query.time: query.time_type.logical}
    return pa.table({name: pa.array([row[name] for row in rows], kinds.get(name)) for name in names})


def plain(value: Any) -> Any:
    """Return an Arrow value as the oracle has it: structs as tuples, arrays as lists."""
    if isinstance(value, dict):
        return tuple(plain(each) for each in value.values())
    if hasattr(value, "tolist"):
        value = value.tolist()
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def integers(times: pa.Array) -> list[int]:
    return list(times.cast(pa.int32() if pa.types.is_date32(times.type) else pa.int64()).to_pylist())


def answers(table: pa.Table, query: oracle.Query) -> list[tuple[Any, ...]]:
    """Return the rows of an answer as plain tuples: key, window, aggregates."""
    window = table["window"].combine_chunks()
    ticks = [integers(window.field(name)) for name in ("start", "end")]
    found = []
    for i, row in enumerate(table.to_pylist()):
        assert (row["revision"], row["retracted"]) == (0, False)
        span = (ticks[0][i], ticks[1][i])
        rest = tuple(
            (row["window"].get(low), row["window"].get(high))
            for low, high in (("from_row", "to_row"), ("from_value", "to_value"))
        )
        at = row["window"].get("at")
        span = (*span, None if at is None else integers(pa.array([at], query.time_type.logical))[0])
        key = tuple(row[name] for name in query.key)
        found.append((key, row["window_id"], span, *rest, [plain(row[name]) for name in query.aggregates]))
    return found


def expected(results: list[oracle.Result]) -> list[tuple[Any, ...]]:
    none = (None, None)
    return [
        (
            r.key,
            r.window_id,
            (r.start, r.end, r.at),
            r.rows or none,
            r.values or none,
            [plain(v) for v in r.aggregates.values()],
        )
        for r in results
    ]


def same(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> bool:
    def place(answer: tuple[Any, ...]) -> str:
        return repr(answer[:5])

    ours, theirs = sorted(ours, key=place), sorted(theirs, key=place)
    heads = [answer[:5] for answer in ours] == [answer[:5] for answer in theirs]
    return heads and all(close(a[5], b[5], 1e-7, 1e-7) for a, b in zip(ours, theirs, strict=True))


def check(query: oracle.Query, rows: list[dict[str, Any]]) -> None:
    truth = expected(oracle.complete_answer(**query_words(query), rows=rows))
    ours = answers(asked(query).run(as_table(rows, query)), query)
    assert same(ours, truth), f"\nours  {sorted(map(repr, ours))}\ntruth {sorted(map(repr, truth))}"


WITH_ROWS = [case for case in CASES if case.rows]


@pytest.mark.parametrize("case", WITH_ROWS, ids=str)
def test_transcripts_at_once(case: Case) -> None:
    with uncompiled():
        check(case.query, case.rows)


@pytest.mark.parametrize("case", some(WITH_ROWS, 6), ids=str)
def test_transcripts_at_once_compiled(case: Case) -> None:
    check(case.query, case.rows)


@given(strategies.queries(), strategies.tables())
@settings(deadline=None, max_examples=examples(150))
def test_random_queries(query: oracle.Query, rows: list[dict[str, Any]]) -> None:
    """Uncompiled, since each set of aggregates would be compiled anew; some transcripts are run compiled."""
    with uncompiled():
        if rows:
            check(query, rows)


def test_bad_tables_are_refused_by_name() -> None:
    query = Query(window.tumbling(10), {"n": agg.count("v")}, key="k", time="t")
    good = {"t": [1, 2], "k": ["a", "b"], "v": [1, 2]}
    with pytest.raises(ColumnError, match="no column 'v'"):
        query.run({"t": [1], "k": ["a"]})
    with pytest.raises(ColumnError, match="no column 'k'"):
        query.run({"t": [1], "v": [1]})
    with pytest.raises(InvalidArgumentError, match="'t' is null in row 1"):
        query.run({**good, "t": [1, None]})
    with pytest.raises(ColumnTypeError, match="time column 't' holds"):
        query.run({**good, "t": [1.5, 2.5]})
    with pytest.raises(InvalidArgumentError, match="a table is needed"):
        query.run([1, 2, 3])
    with pytest.raises(InvalidArgumentError, match="make no table"):
        query.run({**good, "v": [1, 2, 3]})
    for far in (-(2**63) + 3, 2**63 - 3):
        with pytest.raises(InvalidArgumentError, match="'t' goes from .* beyond what int64 can hold"):
            query.run({**good, "t": [far, 0] if far < 0 else [0, far]})
    with pytest.raises(InvalidArgumentError, match="range is '10 minutes'"):
        Query(window.tumbling("10 minutes"), {"n": agg.count()}, time="t").run(good)
    assert (
        query.run(
            {name: pa.array(column, pa.int64())[:0] for name, column in (("t", [1]), ("k", [1]), ("v", [1]))}
        ).num_rows
        == 0
    )


class Stream:
    """A table of another library: known only by Arrow's protocol."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


def test_tables_of_any_kind_give_the_same() -> None:
    table = pa.table({"t": [1, 12, 3], "k": ["a", "b", "a"], "v": [1, None, 3]})
    query = Query(window.tumbling(10), {"n": agg.count("v")}, key="k", time="t")
    truth = query.run(table)
    batch = table.combine_chunks().to_batches()[0]
    for other in (table.to_pydict(), batch, Stream(table), pa.concat_tables([table[:1], table[1:]])):
        assert query.run(other).to_pylist() == truth.to_pylist()
    frame = table.to_pandas(types_mapper={pa.int64(): pandas.Int64Dtype()}.get)  # which has nulls; NaN is a value
    by_pandas, by_polars = query.run(frame), query.run(polars.from_arrow(table))
    assert isinstance(by_pandas, pandas.DataFrame)
    assert by_pandas.to_dict("records") == truth.to_pylist()
    assert isinstance(by_polars, polars.DataFrame)
    assert by_polars.to_dicts() == truth.to_pylist()


def test_many_keys_and_windows_without_rows() -> None:
    """Each key has its own empty windows, and no key's work grows with the number of the others."""
    keys = 3000
    query = Query(window.tumbling(10), {"n": agg.count()}, key="k", time="t", emit_empty=True)
    answer = query.run({"t": [5] * keys + [25] * keys, "k": [*range(keys)] * 2})
    assert answer.num_rows == 3 * keys
    assert answer["n"].to_pylist() == [1, 0, 1] * keys
    assert answer["k"].to_pylist() == [k for k in range(keys) for _ in range(3)]


class Strange(window.Window):
    """Windows that say nothing of where they are."""

    context = window.Context.FREE
    measure = window.Measure.TIME


def test_bad_queries_are_refused() -> None:
    for words, message in (
        ({"windows": []}, "at least one window"),
        ({"windows": ["1 minute"]}, "a window is made by"),
        ({"windows": [Strange()]}, "Strange is a window of no known kind"),
        ({"aggregates": {}}, "at least one aggregate"),
        ({"aggregates": {"n": max}}, "the aggregate 'n' is"),
        ({"aggregates": {"window": agg.count()}}, "column of the answer already"),
        ({"key": ["n"]}, "a key and an aggregate"),
        ({"watermark": "-1 minute"}, "must not be negative"),
        ({"allowed_lateness": -5}, "must not be negative"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            Query(**{"windows": [window.tumbling(5)], "aggregates": {"n": agg.count()}, **words})  # type: ignore[arg-type]
