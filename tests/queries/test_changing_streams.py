"""Streams of rows that change: after the last push the latest answers are those of `run` over the rows that stay."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import oracle, strategies
from queries.changelogs import OP, changelogs, surviving
from queries.streams import Stream, asked
from queries.test_stream import same
from sampling import examples

import muntin
from muntin import Query, agg, rows, window
from muntin.errors import (
    ColumnError,
    ColumnTypeError,
    InvalidArgumentError,
    SnapshotError,
    UnsupportedOperationError,
)
from muntin.kernels.cache import uncompiled
from muntin.streams.driven import DrivenStream
from muntin.streams.regrouping import regrouped

SCHEMA = {"t": pa.int64(), "k": pa.string(), "v": pa.int64(), "km": pa.int64(), "mark": pa.bool_(), OP: pa.string()}
WORDS = ("windows", "aggregates", "key", "time", "watermark", "partial", "emit_empty")


class Changing(Stream):
    """A stream of changes of the product."""

    def __init__(self, query: oracle.Query, changes: list[dict[str, Any]], lateness: int, **options: Any) -> None:
        super().__init__(query, changes)
        self.schema = pa.schema([field.with_type(pa.string()) if field.name == OP else field for field in self.schema])
        words = {name: getattr(query, name) for name in WORDS}
        self.asked = Query(**words, allowed_lateness=lateness, changes=OP, **options)
        self.stream = self.asked.stream()

    def restart(self) -> None:
        self.stream = self.asked.stream(self.stream.snapshot())


def final(query: oracle.Query, tables: list[pa.Table], stream: Stream) -> list[oracle.Result]:
    found = [each for each in tables if each.num_rows]
    return stream.results(muntin.latest(pa.concat_tables(found))) if found else []


def without_revision(results: list[oracle.Result]) -> list[oracle.Result]:
    return [replace(each, revision=0) for each in results]


def reads(query: oracle.Query) -> list[str]:
    return [name for name in asked(query).inputs if name != OP]


def cut(draw: Any, changes: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    places = sorted(draw(st.lists(st.integers(0, len(changes)), max_size=6)))
    if draw(st.booleans()):
        return [[row] for row in changes]
    return [changes[a:b] for a, b in zip([0, *places], [*places, len(changes)], strict=True)]


def check(query: oracle.Query, pushes: list[list[dict[str, Any]]], restarts: set[int], **options: Any) -> None:
    changes = [row for push in pushes for row in push]
    if not changes:
        return
    lateness = 10_000  # every window can still be revised
    stream = Changing(query, changes, lateness, **options)
    tables = []
    for number, push in enumerate(pushes):
        tables.append(stream.stream.push(stream.table(push)))
        stream.stream.check()
        if number in restarts:
            stream.restart()
    tables.append(stream.stream.close())
    stay = survivors_of(pushes, reads(query))
    ours = without_revision(final(query, tables, stream))
    complete = {
        name: getattr(query, name) for name in ("windows", "aggregates", "key", "time", "partial", "emit_empty")
    }
    truth = oracle.complete_answer(**complete, rows=stay) if stay else []
    if query.emit_empty:  # a row that was deleted has been seen: windows without rows are emitted up to its time
        latest = max((row[query.time] for row in stay), default=-1000)
        there = {(each.key, each.window_id, each.start, each.end) for each in truth}
        ours = [r for r in ours if r.end is None or r.end <= latest or (r.key, r.window_id, r.start, r.end) in there]
    assert same(ours, truth), f"\nours  {ours}\ntruth {truth}"


def survivors_of(pushes: list[list[dict[str, Any]]], names: list[str]) -> list[dict[str, Any]]:
    """Return the rows that stay: a deletion may only come before its row in the same push."""
    alive: list[dict[str, Any]] = []
    for push in pushes:
        alive = surviving([{**row, OP: None} for row in alive] + push, names)
    return alive


@pytest.mark.parametrize("kind", [*strategies.KINDS, "several"])
@given(data=st.data())
@settings(deadline=None, max_examples=examples(25))
def test_the_latest_answers_are_those_of_the_rows_that_stay(kind: str, data: st.DataObject) -> None:
    chosen = strategies.ANY_KIND if kind == "several" else st.just(kind)
    query = data.draw(strategies.queries(chosen))
    table = data.draw(strategies.tables())
    changes = data.draw(changelogs(table))
    early = data.draw(strategies.EARLY.filter(lambda each: not isinstance(each, muntin.ProcessingTime)))
    pushes = cut(data.draw, changes)
    with uncompiled():
        check(query, pushes, data.draw(st.sets(st.integers(0, 10), max_size=2)), emit_early=early)


INVERTED = {
    "n": agg.count(),
    "values": agg.count("v"),
    "total": agg.sum("v"),
    "mean": agg.mean("v"),
    "marked": agg.sum("v", where="mark"),
    "any": agg.any("mark"),
    "all": agg.all("mark"),
    "bits": agg.bit_xor("v"),
}
BY_TIME = st.sampled_from(["sliding", "tumbling", "cumulative"])


@st.composite
def inverted(draw: Any) -> tuple[oracle.Query, list[list[dict[str, Any]]]]:
    """Return queries that slices answer without rows, and changelogs whose deletions all take back a row."""
    query = draw(strategies.queries(BY_TIME))
    names = draw(st.lists(st.sampled_from(sorted(INVERTED)), min_size=1, max_size=3, unique=True))
    query = replace(query, aggregates={name: INVERTED[name] for name in names}, emit_empty=False)
    return query, cut(draw, draw(changelogs(draw(strategies.tables()), wrong=False)))


@given(inverted(), st.sets(st.integers(0, 10), max_size=2))
@settings(deadline=None, max_examples=examples(150))
def test_slices_take_rows_out_of_their_states(case: tuple[oracle.Query, Any], restarts: set[int]) -> None:
    query, pushes = case
    with uncompiled():
        plan = Query(**{name: getattr(query, name) for name in WORDS}, changes=OP).explain(SCHEMA)
        assert {each.strategy for each in plan.windows} == {"slices"}
        check(query, pushes, restarts)


SLICED = Query(
    window.tumbling(10),
    {"n": agg.count(), "spent": agg.sum("v")},
    key="card",
    time="t",
    changes=OP,
    allowed_lateness=100,
)
KEPT = replace(SLICED, aggregates={"n": agg.count(), "high": agg.max("v")})
FRAMES = replace(KEPT, windows=window.trailing(10))
BOTH = pytest.mark.parametrize("query", [SLICED, KEPT], ids=["slices", "rows"])


def rows_of(*lines: tuple[str, int, int, str]) -> dict[str, list[Any]]:
    return dict(zip(("card", "t", "v", OP), map(list, zip(*lines, strict=True)), strict=True))


def emitted(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return the windows of an answer: start, count, revision, whether retracted."""
    return [(r["window"]["start"], r["n"], r["revision"], r["retracted"]) for r in table.to_pylist()]


@BOTH
def test_emitted_windows_are_revised_and_retracted(query: Query) -> None:
    stream = query.stream()
    first = rows_of(("a", 1, 5, "insert"), ("a", 2, 6, "insert"), ("a", 11, 7, "insert"))
    assert emitted(stream.push(first)) == [(0, 2, 0, False)]
    assert emitted(stream.push(rows_of(("a", 2, 6, "delete")))) == [(0, 1, 1, False)]
    # An update leaves as many rows as there were.
    update = rows_of(("a", 1, 5, "update_preimage"), ("a", 1, 9, "update_postimage"))
    changed = stream.push(update)
    assert emitted(changed) == [(0, 1, 2, False)]
    assert changed.to_pylist()[0].get("spent", 9) == changed.to_pylist()[0].get("high", 9) == 9
    assert emitted(stream.push(rows_of(("a", 1, 9, "-D")))) == [(0, None, 3, True)]
    assert emitted(stream.push(rows_of(("a", 3, 4, "+I")))) == [(0, 1, 4, False)]
    assert stream.metrics()["unmatched"] == 0
    assert emitted(stream.close()) == [(10, 1, 0, False)]


@BOTH
def test_an_update_that_moves_a_row_changes_both_windows_and_both_keys(query: Query) -> None:
    stream = query.stream()
    stream.push(rows_of(("a", 1, 5, "c"), ("a", 2, 5, "c"), ("b", 2, 5, "c"), ("a", 25, 5, "c")))
    moved = stream.push(rows_of(("a", 1, 5, "-U"), ("a", 12, 5, "+U"), ("a", 2, 5, "-U"), ("b", 2, 5, "+U")))
    found = {(r["card"], *each) for r, each in zip(moved.to_pylist(), emitted(moved), strict=True)}
    assert found == {("a", 0, None, 1, True), ("a", 10, 1, 0, False), ("b", 0, 2, 1, False)}


@BOTH
def test_a_deletion_before_its_row_in_the_same_push_finds_it(query: Query) -> None:
    stream = query.stream()
    assert emitted(stream.push(rows_of(("a", 1, 5, "d"), ("a", 1, 5, "c"), ("a", 2, 6, "c"), ("a", 11, 7, "c")))) == [
        (0, 1, 0, False)
    ]
    assert stream.late.num_rows == 0


@BOTH
def test_a_deletion_without_a_row_is_late_and_unmatched(query: Query) -> None:
    stream = query.stream()
    stream.push(rows_of(("a", 1, 5, "c"), ("a", 11, 5, "c")))
    out = stream.push(rows_of(("b", 1, 5, "d"), ("a", 21, 5, "d"), ("a", 1, 5, "d"), ("a", 1, 5, "d")))
    assert emitted(out) == [(0, None, 1, True)]
    assert stream.metrics()["unmatched"] == 3
    assert stream.metrics()["dropped"] == 0
    assert stream.watermark == 11, "a deletion does not move the watermark"
    assert stream.take_late().select(["card", "t"]).to_pylist() == [
        {"card": "b", "t": 1},
        {"card": "a", "t": 21},
        {"card": "a", "t": 1},
    ]


@BOTH
def test_a_deletion_of_a_row_that_no_window_can_lose_any_more_is_late(query: Query) -> None:
    stream = replace(query, allowed_lateness=5).stream()
    stream.push(rows_of(("a", 1, 5, "c"), ("a", 15, 5, "c")))
    assert stream.push(rows_of(("a", 1, 5, "d"))).num_rows == 0
    assert stream.metrics()["unmatched"] == 1


def test_a_row_that_is_held_but_in_no_window_that_still_changes_is_not_taken_back() -> None:
    stream = replace(FRAMES, allowed_lateness=0).stream()
    stream.push(rows_of(("a", 20, 5, "c"), ("a", 25, 5, "c"), ("a", 30, 5, "c")))
    assert stream.metrics()["kept"] == 3
    assert stream.push(rows_of(("a", 20, 5, "d"))).num_rows == 0
    assert (stream.metrics()["unmatched"], stream.metrics()["kept"]) == (1, 3)


@pytest.mark.parametrize(("length", "merger"), [(4, "lazy"), (20, "two_stacks"), (200, "flat_fat")])
def test_rows_are_taken_out_however_slices_are_merged(length: int, merger: str) -> None:
    """Folds of slices that lost a row must not be used again."""
    query = replace(SLICED, windows=window.sliding(length, every=2), allowed_lateness=1_000)
    assert query.explain(SCHEMA | {"card": pa.string()}).stores[0].merge[0].aggregator == merger
    chance = np.random.default_rng(length)
    stream, alive, answers = query.stream(), list[tuple[str, int, int]](), []
    for t in range(0, 400, 2):
        lines = [("ab"[int(chance.integers(2))], t, int(chance.integers(100)), "c")]
        if t % 6 == 4:
            gone = alive.pop(int(chance.integers(max(0, len(alive) - 9), len(alive))))
            lines.append((*gone, "d"))
        alive += [line[:3] for line in lines[:1]]
        answers.append(stream.push(rows_of(*lines)))
        stream.check()
    answers.append(stream.close())
    last = muntin.latest(pa.concat_tables(answers)).select(["card", "window", "n", "spent"])
    plain = replace(query, changes=None).run(rows_of(*[(*line, "c") for line in alive]))
    assert sorted(map(str, last.to_pylist())) == sorted(map(str, plain.select(last.column_names).to_pylist()))


def test_only_kept_rows_tell_values_apart() -> None:
    wrong = rows_of(("a", 1, 5, "c"), ("a", 1, 6, "d"))
    for query, unmatched in ((SLICED, 0), (KEPT, 1)):
        stream = query.stream()
        stream.push(wrong)
        assert stream.metrics()["unmatched"] == unmatched
    stream = SLICED.stream(strategy="changelog")
    stream.push(wrong)
    assert stream.metrics()["unmatched"] == 1


def test_of_equal_rows_one_goes_and_frames_that_look_alike_stay_told_apart() -> None:
    stream = FRAMES.stream()
    answers = [stream.push(rows_of(("a", 1, 5, "c"), ("a", 1, 5, "c"), ("a", 9, 5, "c")))]
    answers.append(stream.push(rows_of(("a", 1, 5, "d"))))
    answers.append(stream.close())
    last = muntin.latest(pa.concat_tables(answers))
    assert sorted((r["window"]["end"], r["n"]) for r in last.to_pylist()) == [(1, 1), (9, 2)]


def test_sums_and_counts_keep_no_rows_and_others_say_that_they_do() -> None:
    for query, strategy, kept in ((SLICED, "slices", "no row is kept"), (KEPT, "changelog", "rows are kept")):
        plan = query.explain(SCHEMA | {"card": pa.string()})
        assert plan.windows[0].strategy == strategy
        assert kept in plan.changes
        assert plan.changes in " ".join(str(plan).split())
        stream = query.stream()
        stream.push(rows_of(*[("a", t, 5, "c") for t in range(9)]))
        assert stream.metrics()["kept"] == (0 if strategy == "slices" else 9)
    assert replace(SLICED, changes=None).explain().changes == ""


def test_rows_are_let_go_when_no_window_can_lose_them() -> None:
    frames = [window.trailing(5), window.session(1), window.sliding(10, every=5), window.trailing(rows(3))]
    frames += [window.sliding(rows(4), every=rows(2)), window.sliding(rows(3), every=5), window.punctuated("mark")]
    for each in frames:
        stream = replace(KEPT, windows=each, allowed_lateness=10).stream()
        most = 0
        for t in range(0, 2_000, 2):
            stream.push({"card": ["a"], "t": [t], "v": [1], OP: ["c"], "mark": [t % 8 == 0]})
            most = max(most, stream.metrics()["kept"])
        assert most < 60, each


def test_floats_are_summed_within_their_bounds_though_rows_were_taken_out() -> None:
    chance = np.random.default_rng(3)
    values = (chance.standard_normal(400) * 10.0 ** chance.integers(-12, 12, 400)).tolist()
    stream = SLICED.stream()
    assert replace(SLICED).explain(SCHEMA | {"card": pa.string(), "v": pa.float64()}).windows[0].strategy == "slices"
    stream.push({"card": ["a"] * 400, "t": [1] * 400, "v": values, OP: ["c"] * 400})
    stream.push({"card": ["a"] * 390, "t": [1] * 390, "v": values[:390], OP: ["d"] * 390})
    (found,) = stream.close()["spent"].to_pylist()
    exact = math.fsum(values[390:])
    assert abs(found - exact) <= 2.0**-53 * abs(exact) + (790 * 2.0**-53) ** 2 * math.fsum(map(abs, values)) * 2
    huge = SLICED.stream()
    huge.push({"card": ["a"] * 3, "t": [1] * 3, "v": [1.7e308, 1.7e308, 3.0], OP: ["c"] * 3})
    huge.push({"card": ["a"] * 2, "t": [1] * 2, "v": [1.7e308, 1.7e308], OP: ["d"] * 2})
    assert huge.close()["spent"].to_pylist() == pytest.approx([3.0], abs=1e293)


def test_an_infinite_value_cannot_be_taken_out_of_a_sum_without_rows() -> None:
    columns = {"card": ["a", "a"], "t": [1, 1], "v": [math.inf, 2.0]}
    stream = SLICED.stream()
    stream.push({**columns, OP: ["c", "c"]})
    with pytest.raises(UnsupportedOperationError, match=r"row 0 takes back inf in column 'v'.*strategy='changelog'"):
        stream.push({**columns, OP: ["d", "d"]})
    stream.push({**columns, OP: ["c", "c"]})
    assert stream.metrics()["rows"] == 4
    kept = SLICED.stream(strategy="changelog")
    kept.push({**columns, OP: ["c", "c"]})
    kept.push({**columns, OP: ["d", "c"]})
    assert kept.close()["spent"].to_pylist() == [4.0]


@BOTH
def test_bad_input_changes_nothing(query: Query) -> None:
    stream = query.stream()
    stream.push(rows_of(("a", 1, 5, "c")))
    before = stream.snapshot()
    with pytest.raises(InvalidArgumentError, match="the column 'op' holds 'x' in row 1"):
        stream.push(rows_of(("a", 1, 5, "d"), ("a", 1, 5, "x")))
    with pytest.raises(ColumnTypeError, match="'op' holds int64"):
        stream.push({"card": ["a"], "t": [1], "v": [5], OP: [1]})
    with pytest.raises(ColumnError, match="'op'"):
        stream.push({"card": ["a"], "t": [1], "v": [5]})
    with pytest.raises(InvalidArgumentError, match="holds 'x' in row 0"):
        stream.push_row({"card": "a", "t": 1, "v": 5, OP: "x"})
    assert stream.snapshot() == before
    with pytest.raises(SnapshotError, match="its changes is 'op', this one's is none"):
        replace(query, changes=None).stream(before)
    with pytest.raises(SnapshotError, match="its changes is 'op', this one's is 'other'"):
        replace(query, changes="other").stream(before)


@BOTH
def test_rows_pushed_one_by_one_are_taken_back(query: Query) -> None:
    stream = query.stream()
    for row in (("a", 1, 5, "+I"), ("a", 2, 6, "+I"), ("a", 1, 5, "-D"), ("a", 11, 6, None)):
        answers = stream.push_row(*row)
    assert emitted(answers) == [(0, 1, 0, False)]


def test_points_see_the_rows_that_are_left() -> None:
    frames = replace(FRAMES, windows=[window.trailing(10), window.trailing(rows(2)), window.lifetime()])
    stream = frames.stream(history=rows_of(("a", 1, 5, "c"), ("a", 2, 9, "c"), ("b", 3, 4, "c")))
    stream.push(rows_of(("a", 2, 9, "d")))
    names = ["n_w0", "high_w0", "n_w1", "high_w1", "n_w2", "high_w2"]
    asked_at = {"card": ["b", "a", "z"], "t": [3, 4, 4]}
    assert stream.ask(asked_at).select(names).to_pylist() == [
        dict(zip(names, each, strict=True)) for each in ([1, 4] * 3, [1, 5] * 3, [0, None] * 3)
    ]


def test_points_that_reach_rows_let_go_are_refused() -> None:
    stream = replace(FRAMES, windows=[window.trailing(10), window.trailing(rows(2))], allowed_lateness=0).stream()
    stream.push(rows_of(*[("a", t, 5, "c") for t in range(0, 100, 5)]))
    assert stream.ask({"card": ["a"], "t": [96]})["n_w0"].to_pylist() == [2]
    with pytest.raises(InvalidArgumentError, match="may hold rows that the stream has let go"):
        stream.ask({"card": ["a"], "t": [20]})


def test_a_silent_key_is_forgotten_with_its_remaining_windows() -> None:
    query = replace(FRAMES, windows=window.sliding(rows(2), every=rows(1)), partial=True, forget_after=200)
    stream = query.stream()
    stream.push(rows_of(("a", 1, 5, "c"), ("b", 2, 5, "c"), ("a", 2, 5, "c"), ("a", 1, 5, "d")))
    left = stream.push(rows_of(("c", 500, 5, "c")))
    assert {(r["card"], r["n"]) for r in left.to_pylist()} == {("a", 1), ("b", 1)}
    assert stream.metrics()["forgotten"] == 2
    assert stream.push(rows_of(("a", 500, 5, "d")))["n"].to_pylist() == []
    assert stream.metrics()["unmatched"] == 1


@BOTH
def test_states_are_divided_by_key_and_joined(query: Query) -> None:
    """What rescaling on Spark does."""
    schema = pa.schema({"card": pa.string(), "t": pa.int64(), "v": pa.int64(), OP: pa.string()})
    lines = [("a", 1, 5, "c"), ("b", 2, 6, "c"), ("b", 3, 1, "c"), ("a", 2, 6, "c"), ("b", 11, 3, "c")]
    first = pa.table(rows_of(*lines), schema)
    second = pa.table(rows_of(("a", 2, 6, "d"), ("b", 2, 6, "d"), ("b", 15, 3, "c")), schema)
    whole = DrivenStream(query, schema)
    whole.take(first)
    whole.set_watermark(11)
    whole.emit()
    saved = whole.save()
    halves = [
        DrivenStream.load(query, schema, regrouped([(saved, np.array(mask))]))
        for mask in ([True, False], [False, True])
    ]
    both = DrivenStream.load(query, schema, regrouped([(each.save(), np.array([True])) for each in halves]))
    answers = []
    for stream in (whole, both):
        stream.take(second)
        answers.append(sorted(map(str, stream.emit().to_pylist())))
    assert answers[0] == answers[1]
    assert len(answers[0]) == 2
