"""A Spark query that goes on with the checkpoint of another one: in a model of the workers, and on Spark."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest
from queries import strategies
from queries.strategies import drawn
from queries.test_adopting import SCHEMA, Asked, asked, identity, matching, table
from sampling import some
from spark.feed import Feed
from spark.model import Machine

import muntin
from muntin import Query, agg, window
from muntin.errors import InvalidArgumentError, SnapshotError, UnsupportedOperationError
from muntin.streams.begun import first_instant
from muntin.types import INT64

NEVER = 10**9
_KINDS = sorted(strategies.KINDS)


def answers(machine: Machine, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for table in machine.tables(rows) for row in table.to_pylist()]


def batches_of(chance: random.Random) -> list[list[dict[str, Any]]]:
    rows = drawn(strategies.tables(40), chance.randrange(10**6))
    rows = [row | {"t": row["t"] + 40, "k": chance.choice("abcdefg")} for row in rows]  # Spark's watermark begins at 0
    rows = drawn(strategies.disordered(rows, 9), chance.randrange(10**6))
    cuts = sorted(chance.choices(range(len(rows) + 1), k=6))
    return [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)] + [[], []]


@pytest.mark.parametrize("seed", some(range(600), 30))
def test_pairs_of_queries_in_the_model(seed: int) -> None:
    """Buckets are converted when they are first called, some only after a plain restart."""
    chance = random.Random(seed)
    common = [drawn(strategies.KINDS[k], chance.randrange(10**6), tries=3) for k in chance.choices(_KINDS, k=2)]
    one, other = asked(chance, common), asked(chance, common)
    options = {"watermark": chance.choice([0, 3, 8]), "allowed_lateness": chance.choice([0, 1, 10, 30])}
    sliced = chance.random() < 0.5
    old, new = one.query(**options), other.query(**options)
    batches = batches_of(chance)
    cut = chance.randint(1, 5)
    first, whole = Machine(old, SCHEMA, sliced=sliced), Machine(new, SCHEMA, sliced=sliced)
    for rows in batches[:cut]:
        answers(first, rows)
        answers(whole, rows)
    seen = max((row["t"] for rows in batches[:cut] for row in rows), default=-NEVER)
    refusal = ""
    try:
        machine = first.gone_on(new, sliced=sliced, adopt=True)
        found = answers(machine, batches[cut])
    except SnapshotError as error:
        refusal = str(error)
    if refusal:
        assert "tiles" in refusal  # these never held what an aggregate needs
        return
    expected = answers(whole, batches[cut])
    for rows in batches[cut + 1 :]:
        restart = {"adopt": True} if not batches[cut] else {"has_adopted": True}
        machine = machine.gone_on(new, sliced=sliced, **restart)
        found += answers(machine, rows)
        expected += answers(whole, rows)
    places = matching(old, new)
    kept = {each for each in old.aggregates if old.aggregates[each] == new.aggregates.get(each)}
    right = {identity(each): each for each in expected if each["window_id"] in places.values()}
    mine = {identity(each): each for each in found if each["window_id"] in places.values()}
    assert mine.keys() == right.keys()
    for key, each in mine.items():
        begins = each["window"]["start"]
        if begins is not None:
            begins += first_instant(new.windows[each["window_id"]].resolve(INT64))
        for name in new.aggregates:
            if name in kept or each["retracted"] or begins is None or begins > seen:
                assert each[name] == right[key][name], (name, each)
            else:  # a bucket of whose rows none came before does not know that the window had begun
                assert each[name] is None or each[name] == right[key][name]


def machine_of(query: Query, rows: list[dict[str, Any]]) -> Machine:
    machine = Machine(query, SCHEMA)
    machine.tables(rows)
    return machine


def row(t: int, k: str, v: int | None = None) -> dict[str, Any]:
    return {"t": t, "k": k, "v": v, "km": None, "mark": None}


OLD = Asked([window.tumbling(10)], ["n"]).query()
NEW = Query(window.tumbling(10), {"n": agg.count(), "high": agg.max("v")}, key="k", time="t")


def test_without_adopt_it_is_refused() -> None:
    machine = machine_of(OLD, [row(1, "a"), row(2, "b"), row(3, "c"), row(4, "d")])
    before = copy.deepcopy(machine.store)
    with pytest.raises(SnapshotError, match="adopt=True"):
        machine.gone_on(NEW).tables([row(5, "a", 3)])
    woken = machine.gone_on(NEW)
    woken.watermark = 1000
    with pytest.raises(SnapshotError, match="adopt=True"):  # without rows
        woken.tables([])
    machine.store.values, machine.store.timers = before.values, before.timers
    by_value = Query(window.tumbling(10), {"n": agg.count()}, key="v", time="t")
    with pytest.raises(SnapshotError, match="its key is k"):
        machine.gone_on(by_value, adopt=True).tables([row(5, "a", 3)])


def test_a_plain_restart_converts_what_was_not_called() -> None:
    """It is told by the checkpoint that the query has adopted it."""
    machine = machine_of(OLD, [row(1, "a"), row(2, "b"), row(3, "c"), row(4, "d")])
    machine = machine.gone_on(NEW, adopt=True)
    machine.tables([row(5, "a", 3)])
    machine = machine.gone_on(NEW, has_adopted=True)
    machine.tables([row(6, each, 4) for each in "abcd"])
    machine.tables([row(25, "a", 4)])
    machine = machine.gone_on(NEW)
    found = {each["k"]: (each["n"], each["high"]) for each in answers(machine, [row(44, "d", 5)])}
    assert found == {"a": (3, None), "b": (2, None), "c": (2, None), "d": (2, None)}
    last = answers(machine, [row(60, "b", 5)])
    assert [(each["k"], each["n"], each["high"]) for each in last] == [("a", 1, 4)]


def test_on_spark(session: Any, tmp_path: Path) -> None:
    """What `can_adopt` says of a checkpoint, a restart that adopts it, a plain one, and what is refused."""
    feed = Feed(session, tmp_path, SCHEMA)
    path = str(tmp_path / "checkpoint")
    feed.add([row(t, "abcd"[t % 4], t) for t in range(16)])
    with pytest.raises(SnapshotError, match="holds no state yet"):
        muntin.can_adopt(path, NEW)
    feed.run(OLD, buckets=2)
    found = muntin.can_adopt(path, NEW)
    assert found
    assert list(found) == ["the aggregate 'high' is added"]
    by_value = Query(window.tumbling(10), {"n": agg.count()}, key="v", time="t")
    assert not muntin.can_adopt(path, by_value)
    with pytest.raises(SnapshotError, match="adopt=True"):
        NEW.spark(feed.frame(), checkpoint=path)
    with pytest.raises(SnapshotError, match="its key is k"):
        by_value.spark(feed.frame(), checkpoint=path, adopt=True)
    with pytest.raises(InvalidArgumentError, match="give the path as checkpoint="):
        NEW.spark(feed.frame(), adopt=True)
    with pytest.raises(UnsupportedOperationError, match="first micro-batch"):
        NEW.spark(feed.frame(), checkpoint=path, adopt=True, history=session.range(1))
    feed.add([row(t, "abcd"[t % 4], t) for t in range(16, 36)])
    found = feed.run(NEW, checkpoint=path, adopt=True)
    assert muntin.can_adopt(path, NEW)
    assert not list(muntin.can_adopt(path, NEW))
    feed.add([row(t, "abcd"[t % 4], t) for t in range(36, 60)])
    found += feed.run(NEW, checkpoint=path)
    feed.add([row(99, "a", 1)])
    found += feed.run(NEW, buckets=2)  # not told of the path
    rows = sorted((r["window"]["start"], r["k"], r["n"], r["high"]) for table in found for r in table.to_pylist())
    right = sorted((r["window"]["start"], r["k"], r["n"], r["high"]) for r in NEW.run(all_rows()).to_pylist())
    assert rows == [(start, k, n, None if start < 20 else high) for start, k, n, high in right if 10 <= start < 90]


def all_rows() -> Any:
    return table([row(t, "abcd"[t % 4], t) for t in range(60)] + [row(99, "a", 1)])
