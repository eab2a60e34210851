"""A stream saved by one query and resumed by another: refused, or as if it had never stopped."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sampling import some

from muntin import Query, agg, policies, rows, stores, window
from muntin.aggregators import Fiba, FlatFat, MonoidTree, TwoStacks
from muntin.errors import InvalidArgumentError, SnapshotError, StoreError
from muntin.streams.driven import DrivenStream
from muntin.streams.facts import differences, facts
from muntin.streams.regrouping import regrouped
from muntin.streams.stream import Stream

QUERIES = 200
SCHEMA = pa.schema(
    {
        "t": pa.timestamp("ms"),
        "k": pa.string(),
        "v": pa.float64(),
        "w": pa.int64(),
        "name": pa.string(),
        "mark": pa.bool_(),
    }
)

# ---------------------------------------------------------------- random queries over one schema

AGGREGATES: list[Callable[[str], Any]] = [
    lambda _: agg.count(),
    lambda _: agg.count("name"),
    agg.sum,
    agg.min,
    agg.max,
    agg.mean,
    agg.std,
    agg.var,
    agg.first,
    agg.last,
    agg.median,
    agg.count_distinct,
    agg.collect,
    agg.collect_distinct,
    lambda column: agg.quantile(column, 0.9),
    lambda column: agg.sum(column, where="mark"),
    lambda column: agg.median(column, where="mark"),
    lambda column: agg.arg_max(column, "name"),
    lambda column: agg.arg_min(column, "w"),
    lambda column: agg.top_k(column, 2),
    lambda column: agg.max(column, skip_nan=True),
    lambda column: agg.ewm_mean(column, half_life="2 seconds"),
    agg.time_weighted_mean,
    lambda _: agg.concat("name"),
    lambda _: agg.max("name"),
    lambda _: agg.min("name"),
]
SECONDS: list[Callable[[int], Any]] = [
    lambda n: f"{n} seconds",
    lambda n: f"{n * 1000} milliseconds",
    lambda n: f"{n}s",
    lambda n: datetime.timedelta(seconds=n),
    lambda n: np.timedelta64(n, "s"),
    lambda n: n * 1000,
]
"""Ways to write some seconds; the last is in the unit of the times, and is a fact of its own."""
WINDOWS: list[Callable[[Callable[[int], Any]], Any]] = [
    lambda s: window.tumbling(s(4)),
    lambda s: window.tumbling(s(60)),
    lambda s: window.sliding(s(6), every=s(2)),
    lambda s: window.cumulative(s(6), every=s(2)),
    lambda s: window.session(s(2)),
    lambda s: window.trailing(s(5)),
    lambda s: window.trailing(s(8), hop=s(2)),
    lambda s: window.trailing(s(5), closed="left", delay=s(1)),
    lambda s: window.leading(s(2)),
    lambda s: window.frame(s(2), s(1)),
    lambda _: window.tumbling(rows(4)),
    lambda _: window.sliding(rows(6), every=rows(2)),
    lambda _: window.trailing(rows(3)),
    lambda _: window.frame(rows(2), rows(1)),
    lambda s: window.sliding(rows(3), every=s(2)),
    lambda _: window.delta("w", 4, every=2),
    lambda _: window.punctuated("mark"),
    lambda s: window.policy(policies.at_most_duration(s(3))),
]


Named = list[tuple[str, Callable[[str], Any], str]]
CHANGES = ["order", "order", "order", "order", "windows", "changed", "swapped", "renamed", "added", "removed", "option"]


def family(chance: random.Random, size: int, spellings: Sequence[Callable[[int], Any]] = SECONDS) -> list[Query]:
    """Return a random query and others that are like it: reordered, renamed, spelled otherwise, or changed."""
    kinds = [(f"a{i}", chance.choice(AGGREGATES), chance.choice("vw")) for i in range(chance.randint(2, 5))]
    windows = [chance.choice(WINDOWS) for _ in range(chance.choice([1, 1, 2, 3]))]
    delays, key = (chance.randint(0, 3), chance.choice([0, 0, 5])), chance.choice([(), ("k",)])
    further = chance.choice([{}, {}, {}, {"partial": True}, {"ordered": True}, {"early": 3}, {"forget": 90}])

    def query(
        named: Named,
        windows: list[Callable[[Callable[[int], Any]], Any]],
        **changes: Any,
    ) -> Query:
        spell = chance.choice(spellings if chance.random() < 0.3 else spellings[:-1])
        options: dict[str, Any] = {name: value for name, value in further.items() if name in ("partial", "ordered")}
        if "early" in further:
            options["emit_early"] = spell(3)
        if "forget" in further:
            options["forget_after"] = spell(90)
        options |= {"key": key, "watermark": spell(delays[0]), "allowed_lateness": spell(delays[1]), **changes}
        given: Any = [each(spell) for each in windows]
        if chance.random() < 0.3:  # no answer of a stream has the names of its windows
            given = {chance.choice("xyz") + str(i): each for i, each in enumerate(given)}
        return Query(given, {n: make(column) for n, make, column in named}, time="t", **options)

    made = [query(kinds, windows)]
    while len(made) < size:
        held, changes, change = list(windows), {}, chance.choice(CHANGES)
        if change == "windows":
            change_windows(chance, held)
        elif change == "option":
            changes = chance.choice([{"watermark": 7}, {"key": "name"}, {"ordered": True}, {"emit_empty": True}])
        named = changed(chance, kinds, change)
        try:
            made.append(query(named, held, **changes))
        except InvalidArgumentError:
            continue
    return made


def changed(chance: random.Random, kinds: Named, change: str) -> Named:
    """Return aggregates in another order, and changed in this way."""
    named = chance.sample(kinds, len(kinds))
    if change == "changed":
        named[0] = (named[0][0], chance.choice(AGGREGATES), chance.choice("vw"))
    elif change == "swapped":
        named[:2] = [(named[0][0], *named[1][1:]), (named[1][0], *named[0][1:])]
    elif change == "renamed":
        named[0] = ("more", *named[0][1:])
    elif change == "added":
        named.append(("more", chance.choice(AGGREGATES), chance.choice("vw")))
    elif change == "removed":
        named.pop()
    return named


def change_windows(chance: random.Random, windows: list[Any]) -> None:
    """Put windows into another order, append one, or remove one."""
    change = chance.choice(["order", "added", "removed"])
    if change == "order":
        chance.shuffle(windows)
    elif change == "added":
        windows.append(chance.choice(WINDOWS))
    else:
        windows.pop()


def some_rows(chance: random.Random, start: int, count: int) -> pa.Table:
    seconds = sorted(chance.randint(0, 12) for _ in range(count))
    return pa.table(
        {
            "t": [(start + each) * 1000 for each in seconds],
            "k": [chance.choice("ab") for _ in seconds],
            "v": [chance.choice([None, chance.randint(-9, 9) / 2]) for _ in seconds],
            "w": [start + each for each in seconds],
            "name": [chance.choice(["x", "y", "z", None]) for _ in seconds],
            "mark": [chance.random() < 0.3 for _ in seconds],
        },
    ).cast(SCHEMA)


PUSHES = [some_rows(random.Random(start), start, 14) for start in (0, 13, 26, 60)]
"""In time order, for the queries that ask for that; the windows before a save are open after it."""
SAVED = 2


def answers(tables: list[pa.Table], names: list[str]) -> list[str]:
    """Return what windows held, in no order: that of the definitions of equal times is not promised."""
    whole = pa.concat_tables(tables, promote_options="permissive")
    assert whole.column_names == names
    return sorted(map(repr, whole.to_pylist()))


def names_of(query: Query) -> list[str]:
    return [*query.key, "window", "window_id", *query.aggregates, "revision", "retracted"]


@dataclass
class Played:
    """A query with its state after some pushes, and what its own stream went on to answer."""

    query: Query
    family: int
    data: bytes
    facts: dict[str, str]
    whole: Any

    @classmethod
    def of(cls, query: Query, family: int) -> Played:
        stream = query.stream()
        for table in PUSHES[:SAVED]:
            stream.push(table)
        data = stream.snapshot()
        return cls(query, family, data, facts(query), rest_of(stream))


def rest_of(stream: Stream) -> Any:
    """Return what a stream answers from the save on, and what it counts."""
    tables = [stream.push(table) for table in PUSHES[SAVED:]]
    answered = answers([*tables, stream.close()], names_of(stream.query))
    return answered, stream.late, stream.metrics()["rows"]


@pytest.fixture(scope="module")
def played() -> list[Played]:
    chance = random.Random(7)
    made: list[Played] = []
    while len(made) < QUERIES:
        number = len(made)
        for query in family(chance, 6):
            with suppress(InvalidArgumentError):  # some options exclude each other
                made.append(Played.of(query, number))
    return made[:QUERIES]


def test_every_pair_of_queries(played: list[Played]) -> None:
    """40,000 pairs: whatever differs is refused, and whatever does not answers like the stream that was never saved.

    Of pairs that have nothing in common, a sample; in a thorough run all.
    """
    resumed = reordered = refused = 0
    unlike = [(one, other) for one, other in product(played, played) if one.family != other.family]
    for one, other in some(unlike, 9):
        if one.facts != other.facts:
            with pytest.raises(SnapshotError):
                other.query.stream(one.data)
    for one, other in product(played, played):
        if one.facts == other.facts:
            stream = other.query.stream(one.data)
            stream.check()
            assert rest_of(stream) == other.whole, (one.query, other.query)
            resumed += 1
            reordered += list(one.query.aggregates) != list(other.query.aggregates)
        elif one.family == other.family:
            with pytest.raises(SnapshotError) as refusal:
                other.query.stream(one.data)
            found = differences(one.facts, other.query).values()
            assert found
            assert all(text in str(refusal.value) for text in found)
            refused += 1
    assert resumed > 2 * QUERIES
    assert reordered > QUERIES
    assert refused > QUERIES


@pytest.mark.parametrize("kind", [TwoStacks, FlatFat, MonoidTree, Fiba])
def test_aggregators_refuse_another_order(kind: Any) -> None:
    """Their states are by place, and their fingerprints, too."""
    held = {"hi": agg.max("v"), "lo": agg.min("v"), "n": agg.count()}
    made = kind(held, compiled=False)
    for i in range(5):
        made.insert(i, float(i))
    assert kind.restore(made.snapshot(), dict(held), compiled=False).query() == {"hi": 4.0, "lo": 0.0, "n": 5}
    with pytest.raises(SnapshotError, match="another aggregation"):
        kind.restore(made.snapshot(), dict(reversed(held.items())), compiled=False)


def test_stores_refuse_another_order() -> None:
    held = {"hi": agg.max("v"), "lo": agg.min("v")}
    store = stores.Memory()
    with MonoidTree(held, store=store, window_id="w", compiled=False) as tree:
        for i in range(5):
            tree.insert(i, float(i))
    with MonoidTree.open(store, "w", held, compiled=False) as tree:
        assert tree.query() == {"hi": 4.0, "lo": 0.0}
    with pytest.raises(StoreError, match="another aggregation"):
        MonoidTree.open(store, "w", dict(reversed(held.items())), compiled=False)


def test_states_of_one_order_join_those_of_another() -> None:
    """The buckets of a checkpoint are written one by one: after a restart some have the new order, others the old."""
    held = {"hi": agg.max("v"), "lo": agg.min("v"), "all": agg.collect("v"), "mid": agg.median("w")}
    query = Query([window.sliding(6000, every=2000), window.session(2000)], held, key="k", time="t")
    turned = replace(query, aggregates=dict(reversed(held.items())))
    saved, whole = [], DrivenStream(query, SCHEMA)
    for asked, key in ((query, "a"), (turned, "b")):
        stream = DrivenStream(asked, SCHEMA)
        mine = PUSHES[0].filter(pc.equal(PUSHES[0]["k"], key))
        for each in (stream, whole):
            each.take(mine)
        saved.append((stream.save(), np.ones(1, np.bool_)))
    joined = DrivenStream.load(query, SCHEMA, regrouped(saved))
    joined.check()
    for each in (joined, whole):
        each.set_watermark(100_000)
    assert answers([joined.emit()], names_of(query)) == answers([whole.emit()], names_of(query))
