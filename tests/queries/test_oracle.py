"""The oracle against itself: what a stream says last is what `final` says, and every row is accounted for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import oracle, strategies
from queries.strategies import KINDS, Advance, Push
from sampling import examples

from muntin import agg, window
from muntin.types import INT64


def in_any_order(results: list[Any]) -> list[str]:
    return sorted(map(repr, results))


def final(query: oracle.Query, rows: list[dict[str, Any]]) -> list[str]:
    names = ("windows", "aggregates", "key", "time", "partial", "emit_empty", "time_type")
    return in_any_order(oracle.complete_answer(**{name: getattr(query, name) for name in names}, rows=rows))


def play(stream: oracle.Stream, steps: list[Any]) -> list[oracle.Result]:
    emitted = []
    for step in steps:
        emitted += stream.push(step.rows) if isinstance(step, Push) else stream.advance(step.watermark)
    return emitted + stream.close()


@pytest.mark.parametrize("kind", [*KINDS, "several"])
@given(data=st.data())
@settings(max_examples=examples(15))
def test_a_stream_ends_where_run_does(kind: str, data: st.DataObject) -> None:
    """However rows are cut and disordered, as long as none comes after the lateness."""
    chosen = strategies.ANY_KIND if kind == "several" else st.just(kind)
    query = data.draw(strategies.queries(chosen))
    table = data.draw(strategies.tables())
    slack = query.delay + max(0, query.lateness - 1)  # exactly at the lateness is too late
    pushes = data.draw(strategies.cuts(data.draw(strategies.disordered(table, slack))))
    stream = oracle.Stream(query)
    emitted = play(stream, pushes)
    assert in_any_order(oracle.latest(query, emitted)) == final(query, table)
    if all(isinstance(each, oracle.ALL_TIMES) for each in query.windows):
        assert stream.late == []


@given(data=st.data())
def test_in_order_nothing_is_revised(data: st.DataObject) -> None:
    """Unless rows of one time, or at the end of a session, are cut apart."""
    query = data.draw(strategies.queries())
    table = data.draw(strategies.tables())
    stream = oracle.Stream(query)
    emitted = play(stream, [Push(table)])
    assert all(result.revision == 0 and not result.retracted for result in emitted)
    assert in_any_order(emitted) == final(query, table)


@given(data=st.data())
def test_every_row_is_in_a_window_or_late(data: st.DataObject) -> None:
    query = data.draw(strategies.queries(st.sampled_from(["tumbling", "session", "punctuated"]), 1))
    query = replace(query, windows=query.windows[:1], aggregates={"n": agg.count()})
    table = data.draw(strategies.tables())
    pushes = data.draw(strategies.cuts(data.draw(st.permutations(table))))
    stream = oracle.Stream(query)
    emitted = play(stream, data.draw(strategies.advances(pushes)))
    counted = sum(result.aggregates["n"] for result in oracle.latest(query, emitted))
    assert counted + len(stream.late) == len(table)


@given(data=st.data())
def test_revisions_follow_one_another(data: st.DataObject) -> None:
    query = data.draw(strategies.queries())
    table = data.draw(strategies.tables())
    pushes = data.draw(strategies.cuts(data.draw(st.permutations(table))))
    emitted = play(oracle.Stream(query), data.draw(strategies.advances(pushes)))
    last: dict[Any, oracle.Result] = {}
    for result in emitted:
        name = (result.key, result.window_id, result.name)
        before = last.get(name)
        assert result.revision == (0 if before is None else before.revision + 1)
        assert not (result.retracted and (before is None or before.retracted))
        last[name] = result


@given(data=st.data())
def test_what_is_settled_stays(data: st.DataObject) -> None:
    """When the watermark has passed the end of a window by time and the lateness, it is not emitted again."""
    query = data.draw(strategies.queries(st.sampled_from(["sliding", "tumbling", "cumulative", "session", "trailing"])))
    table = data.draw(strategies.tables())
    pushes = data.draw(strategies.cuts(data.draw(st.permutations(table))))
    stream = oracle.Stream(query)
    for step in data.draw(strategies.advances(pushes)):
        before = stream.watermark
        emitted = stream.advance(step.watermark) if isinstance(step, Advance) else stream.push(step.rows)
        for result in emitted:
            assert result.end is not None
            assert result.end <= stream.watermark or result.retracted
            assert result.end + max(1, query.lateness) > before


@given(strategies.tables(), st.integers(1, 6), st.integers(0, 5))
def test_ones_own_sessions_are_those_built_in(table: list[dict[str, Any]], gap: int, lateness: int) -> None:
    def answers(definition: Any) -> tuple[list[str], list[Any]]:
        query = oracle.Query([definition], {"n": agg.count()}, key=["k"], allowed_lateness=lateness)
        stream = oracle.Stream(query)
        return in_any_order(play(stream, [Push([row]) for row in table[::2] + table[1::2]])), stream.late

    assert answers(strategies.definitions.Silence(gap)) == answers(window.session(gap))


@given(strategies.tables(), st.one_of(KINDS["sliding"], KINDS["tumbling"], KINDS["cumulative"]))
def test_the_edges_of_a_window_tell_the_same_windows(table: list[dict[str, Any]], definition: Any) -> None:
    """The oracle finds windows of its own by `next_edge` and `ended`, and those built in by arithmetic."""
    own = strategies.definitions.Delegated(definition.resolve(INT64))
    answers = [final(oracle.Query([each], {"all": agg.collect("v")}, key=["k"]), table) for each in (own, definition)]
    assert answers[0] == answers[1]
