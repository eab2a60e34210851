"""Sorted rows in chunks of any size, and a key in pieces that overlap: the answer is that of `Query.run`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from queries import oracle, strategies
from queries.test_run import answers, as_table, asked, same
from sampling import examples

from muntin import Query, agg, rows, window
from muntin.kernels.cache import uncompiled
from muntin.tables.sorted_rows import SortedStream
from muntin.windows.found import Cut
from muntin.windows.kinds.punctuated import Punctuated
from muntin.windows.kinds.session import Session

FRAMES = ["trailing", "trailing rows", "trailing, closed and delayed", "leading", "frame", "frame of rows"]
BY_TIME_OR_ROWS = st.sampled_from([*FRAMES, "sliding", "tumbling", "cumulative", "sliding rows", "rows every"])


def streamed(stream: SortedStream, table: pa.Table, size: int) -> list[pa.Table]:
    parts = [stream.push(table.slice(i, size)) for i in range(0, table.num_rows, size)]
    return [part for part in [*parts, stream.close()] if part is not None]


def agree(found: list[pa.Table], query: oracle.Query, table: pa.Table) -> None:
    ours = [answer for part in found for answer in answers(part, query)]
    theirs = answers(asked(query).run(table), query)
    assert same(ours, theirs), f"\nours   {sorted(map(repr, ours))}\ntheirs {sorted(map(repr, theirs))}"


@given(strategies.queries(), strategies.tables(), st.integers(1, 12), st.integers(1, 4))
@settings(deadline=None, max_examples=examples(100))
def test_chunks(query: oracle.Query, listed: list[dict[str, Any]], chunk: int, size: int) -> None:
    assume(listed)
    with uncompiled():
        table = as_table(listed, query)
        table = table.append_column("came", pa.array(range(len(listed))))
        ordered = table.sort_by(
            [*((name, "ascending") for name in query.key), ("t", "ascending"), ("came", "ascending")]
        )
        stream = SortedStream(asked(query), arrival="came", horizon=listed[-1]["t"], chunk=chunk)
        agree(streamed(stream, ordered, size), query, table)


@given(strategies.queries(BY_TIME_OR_ROWS), strategies.tables(), st.data())
@settings(deadline=None, max_examples=examples(100))
def test_pieces(query: oracle.Query, listed: list[dict[str, Any]], data: st.DataObject) -> None:
    """Each piece has rows before its cut, as many as its windows need or more."""
    query = replace(query, key=(), emit_empty=False)
    assert not any(isinstance(each, Session | Punctuated) for each in query.windows)
    times = [row["t"] for row in listed]
    places = [i for i in range(1, len(times)) if times[i] > times[i - 1]]
    assume(places)
    chosen = sorted(data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=4, unique=True)))
    offset = data.draw(st.integers(0, 1))
    with uncompiled():
        table = as_table(listed, query)
        found = []
        for low, high in zip([0, *chosen], [*chosen, len(times)], strict=True):
            begin = 0 if not low else max(0, low - 25 - offset)
            since = Cut(times[low], low, begin) if low else None
            until = Cut(times[high], high) if high < len(times) else None
            stream = SortedStream(asked(query), since=since, until=until, chunk=data.draw(st.integers(1, 12)))
            found += streamed(stream, table.slice(begin, high - begin), 3)
        agree(found, query, table)


def test_a_key_begins_where_nothing_is_left_of_the_one_before() -> None:
    """Windows of one row need no row before: the next key's are numbered from its own first one."""
    query = Query(window.tumbling(rows(1)), {"n": agg.count()}, key="k", time="t")
    table = pa.table({"k": ["a", "a", "b"], "t": [5, 6, 1]})
    stream = SortedStream(query, chunk=1)
    found = pa.concat_tables(streamed(stream, table, 1))
    assert [row["from_row"] for row in found["window"].to_pylist()] == [0, 1, 0]


def test_memory_is_that_of_a_chunk() -> None:
    """What is kept of a long key is what its windows need."""
    query = Query([window.trailing(50), window.sliding(rows(70), every=rows(9))], {"n": agg.sum("v")}, time="t")
    stream = SortedStream(query, chunk=1000)
    kept = []
    for i in range(0, 20_000, 100):
        stream.push(pa.table({"t": range(i, i + 100), "v": range(100)}))
        kept.append(sum(part.num_rows for part in stream._waiting))
    assert max(kept) < 1200
    assert min(kept[20:]) <= 80
