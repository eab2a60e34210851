"""Snapshots by other groups of keys: streams that go on from them answer as those would have that wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from muntin import Query, agg, policies, rows, window
from muntin.errors import SnapshotError
from muntin.streams.driven import DrivenStream
from muntin.streams.regrouping import known_keys, regrouped

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.string(), "v": pa.float64(), "mark": pa.bool_()})
KEYS = "abcdefg"


class Fives(window.ContextFree):
    def next_edge(self, t: int) -> int:
        return t - t % 5 + 5

    def ended(self, previous: int, watermark: int) -> Iterator[tuple[int, int]]:
        return ((end - 5, end) for end in range(self.next_edge(previous), watermark + 1, 5))


class Marked(window.ContextAware):
    columns = ("mark",)

    def on_tuple(self, t: int, values: Any, edges: window.Edges) -> None:
        if values["mark"]:
            edges.add(t)


def asks(windows: Any, **aggregates: Any) -> Query:
    return Query(windows, aggregates, key="k", time="t", allowed_lateness=9)


SUMS, ALL = {"sum": agg.sum("v"), "max": agg.max("v")}, {"all": agg.collect("v"), "median": agg.median("v")}
QUERIES = {
    "slices": asks([window.sliding(10, every=5), window.session(3)], **SUMS, **ALL, n=agg.count_distinct("v")),
    "edges of one's own": asks(Fives(), **SUMS),
    "windows by rows": asks([window.tumbling(rows(3)), window.sliding(rows(4), every=rows(2))], **SUMS),
    "rows": asks([window.tumbling(rows(3)), window.trailing(10), window.sliding(rows(3), every=5)], **ALL),
    "policies": asks([window.policy(policies.sum_at_most("v", 20)), window.policy(policies.at_most_rows(3))], **SUMS),
    "delta": asks(window.delta("t", 3, every=2), **SUMS),
    "marks": asks([window.punctuated("mark"), Marked()], **SUMS),
    "tiles": asks(window.trailing(100, hop=10), **SUMS),
}
JOINS = {name for name in QUERIES if name not in ("edges of one's own", "rows", "delta", "marks")}


def table_of(seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    times = np.maximum(0, np.sort(chance.integers(0, 90, 90)) - chance.choice([0, 0, 0, 3, 8, 14], 90))
    value = pa.array(chance.integers(0, 9, 90).astype(float), mask=chance.random(90) < 0.1)
    keys, marks = chance.choice(list(KEYS), 90).tolist(), chance.random(90) < 0.2
    return pa.table([pa.array(times), pa.array(keys), value, pa.array(marks)], SCHEMA)


def regroup(streams: list[DrivenStream], query: Query, count: int) -> list[DrivenStream]:
    saved = [
        (each, [place(key, count) for key in known_keys(each)[0].to_pylist()])
        for each in (stream.save() for stream in streams)
    ]
    made = []
    for i in range(count):
        groups = [(snapshot, np.array(places, np.int64) == i) for snapshot, places in saved]
        made.append(DrivenStream.load(query, SCHEMA, regrouped([each for each in groups if each[1].any()] or groups)))
        made[-1].check()
    return made


def place(key: str, count: int) -> int:
    return ord(key) % count


def answers(query: Query, table: pa.Table, counts: tuple[int, ...]) -> list[str]:
    """Return all answers of streams that share the keys: another number of them for each third of the rows."""
    streams = [DrivenStream(query, SCHEMA) for _ in range(counts[0])]
    found, now, times = [], counts[0], table["t"].to_pylist()
    for at in range(0, len(times), 10):
        if counts[at // 30] != now:
            now = counts[at // 30]
            streams = regroup(streams, query, now)
        part = table.slice(at, 10)
        places = pa.array([place(key, now) for key in part["k"].to_pylist()])
        for i, each in enumerate(streams):
            if at:
                each.set_watermark(max(times[:at]) - 6)
                found.append(each.emit())
            each.take(part.filter(pc.equal(places, i)))
            if at:
                found.append(each.emit())
    for each in streams:
        each.set_watermark(10**6)
        found.append(each.emit())
    return sorted(map(repr, pa.concat_tables(found).to_pylist()))


@pytest.mark.parametrize("name", QUERIES)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=examples(1), deadline=None)
def test_answers_are_the_same(name: str, seed: int) -> None:
    """Dividing always is possible, joining where what is joined can be told apart; the others are refused, by name."""
    table, query = table_of(seed), QUERIES[name]
    truth = answers(query, table, (2, 2, 2))
    assert answers(query, table, (2, 4, 4)) == truth
    refused = nullcontext() if name in JOINS else suppress(SnapshotError)
    with refused:
        assert answers(query, table, (2, 6, 3)) == truth


def test_what_cannot_be_joined() -> None:
    """Streams that have not come equally far, or of other windows."""
    query = QUERIES["slices"]
    some, other = (DrivenStream(query, SCHEMA) for _ in range(2))
    for i, each in enumerate((some, other)):
        each.take(table_of(0).filter(pc.equal(table_of(0)["k"], KEYS[i])))
        each.set_watermark(30 + i)
        each.emit()
    both = [(each.save(), np.ones(1, np.bool_)) for each in (some, other)]
    with pytest.raises(SnapshotError, match="how far they have come differs among them"):
        regrouped(both)
    snapshot = both[0][0]
    snapshot.arrays["0.more"] = np.zeros(1)  # type: ignore[index]
    with pytest.raises(SnapshotError, match="the state holds '0.more', which cannot be divided by key"):
        regrouped(both[:1])
    snapshot.header["core"]["strategies"][0]["name"] = "mine"
    with pytest.raises(SnapshotError, match="what the strategy 'mine' keeps cannot be divided by key"):
        regrouped(both[:1])
