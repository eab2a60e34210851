"""A stream that goes on with the state of another query: what stays is as if nothing had changed, what is new is null
in windows that had begun before, and right in all others."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from queries import strategies
from queries.strategies import KINDS, Push, drawn
from sampling import some

import muntin
from muntin import ProcessingTime, Query, agg, rows, window
from muntin.errors import InvalidArgumentError, SnapshotError
from muntin.snapshots import Snapshot
from muntin.streams.begun import first_instant
from muntin.streams.stream import Stream
from muntin.types import INT64

SCHEMA = pa.schema({"t": pa.int64(), "k": pa.string(), "v": pa.int64(), "km": pa.int64(), "mark": pa.bool_()})
AGGREGATES = {
    **strategies.AGGREGATES,
    "newest": agg.last_k("v", 2),
    "most frequent": agg.mode("v"),
    "bins": agg.histogram("v", edges=[5, 10]),
    "best": agg.per("km", agg.sum("v"), top=2),
}
Identity = tuple[Any, ...]


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table({f.name: pa.array([row[f.name] for row in rows], f.type) for f in SCHEMA})


@dataclass
class Asked:
    """One of two queries of a pair."""

    windows: list[Any]
    names: list[str]

    def query(self, **options: Any) -> Query:
        return Query(self.windows, {name: AGGREGATES[name] for name in self.names}, key="k", time="t", **options)


def asked(random: random.Random, common: list[Any]) -> Asked:
    kinds = random.choices(sorted(KINDS), k=random.randint(1, 3))
    windows = [drawn(KINDS[kind], random.randrange(10**6), tries=3) for kind in kinds]
    windows += [each for each in common if random.random() < 0.7]
    random.shuffle(windows)
    return Asked(windows, random.sample(sorted(AGGREGATES), random.randint(1, 4)))


def play(stream: Stream, steps: list[Any]) -> list[dict[str, Any]]:
    out = []
    for step in steps:
        answers = stream.push(table(step.rows)) if isinstance(step, Push) else stream.advance(step.watermark)
        stream.check()
        out += answers.to_pylist()
    return out


def identity(row: dict[str, Any]) -> Identity:
    span = row["window"]
    return row["k"], row["window_id"], *span.values(), row["revision"], row["retracted"]


def compare(adopted: list[dict[str, Any]], whole: list[dict[str, Any]], old: Query, new: Query, latest: int) -> int:
    """Compare what an adopted stream emitted with what a stream emitted that had the query from the start on."""
    kept = {each for each in old.aggregates if old.aggregates[each] == new.aggregates.get(each)}
    places = matching(old, new)
    expected = {identity(row): row for row in whole if row["window_id"] in places.values()}
    found = {identity(row): row for row in adopted if row["window_id"] in places.values()}
    assert found.keys() == expected.keys()
    nulls = 0
    for key, row in found.items():
        resolved = new.windows[row["window_id"]].resolve(INT64)
        start = row["window"]["start"]  # none of a frame by rows that holds none
        begun = start is not None and start + first_instant(resolved) <= latest
        for name in new.aggregates:
            if name in kept or not begun or row["retracted"]:
                assert row[name] == expected[key][name], (name, row, expected[key])
            else:
                assert row[name] is None, (name, row)
                nulls += 1
    return nulls


def matching(old: Query, new: Query) -> dict[int, int]:
    places: dict[int, int] = {}
    for i, each in enumerate(old.windows):
        means = each.spelled().fingerprint
        equal = [j for j, other in enumerate(new.windows) if other.spelled().fingerprint == means]
        same = [j for j in equal if j not in places.values()]
        if same:
            places[i] = i if i in same else same[0]
    return places


def one_pair(seed: int) -> int:
    chance = random.Random(seed)
    common = [drawn(KINDS[kind], chance.randrange(10**6), tries=3) for kind in chance.choices(sorted(KINDS), k=2)]
    options = {
        "watermark": chance.choice([0, 0, 3, 8]),
        "allowed_lateness": chance.choice([0, 1, 10, 30]),
        "emit_early": chance.choice([None, None, 4]),
    }
    one, other = asked(chance, common), asked(chance, common)
    rows = drawn(strategies.tables(30), chance.randrange(10**6))
    rows = drawn(strategies.disordered(rows, 9), chance.randrange(10**6))
    steps = drawn(strategies.advances(drawn(strategies.cuts(rows), chance.randrange(10**6))), chance.randrange(10**6))
    cut = chance.randint(0, len(steps))
    nulls = 0
    for before, after in ((one, other), (other, one)):
        old, new = before.query(**options), after.query(**options)
        first = old.stream()
        play(first, steps[:cut])
        found = muntin.can_adopt(first.snapshot(), new)
        if not found:
            assert "tile" in found.refusals[0]  # these never held what an aggregate needs
            continue
        stream = new.stream(first.snapshot(), adopt=True)
        stream.check()
        whole = new.stream()
        play(whole, steps[:cut])
        again = new.stream(stream.snapshot())  # a plain restart needs no adopt
        found = play(stream, steps[cut:]) + stream.close().to_pylist()
        repeated = play(again, steps[cut:]) + again.close().to_pylist()
        assert found == repeated
        expected = play(whole, steps[cut:]) + whole.close().to_pylist()
        seen = [row["t"] for step in steps[:cut] if isinstance(step, Push) for row in step.rows]
        nulls += compare(found, expected, old, new, max(seen, default=-(2**62)))
    return nulls


@pytest.mark.parametrize("seed", some(range(2500), 40))
def test_pairs_of_queries(seed: int) -> None:
    one_pair(seed)


# ---------------------------------------------------------------- options that may differ


def rows_in_order(chance: random.Random) -> list[dict[str, Any]]:
    return drawn(strategies.tables(40), chance.randrange(10**6))  # type: ignore[no-any-return]


def window_of(chance: random.Random) -> Any:
    return drawn(KINDS[chance.choice(sorted(KINDS))], chance.randrange(10**6), tries=3)


def options_of(chance: random.Random) -> dict[str, Any]:
    return {
        "watermark": chance.choice([0, 1, 5, 9]),
        "allowed_lateness": chance.choice([0, 2, 20]),
        "emit_early": chance.choice([None, None, 3, ProcessingTime(2)]),
        "idle_timeout": chance.choice([None, None, 50]),
    }


@pytest.mark.parametrize("seed", some(range(300), 30))
def test_options_may_differ(seed: int) -> None:
    """Of rows in order, the last word on every window is that of `run`, and revisions are numbered without a gap."""
    chance = random.Random(seed)
    each, names = window_of(chance), chance.sample(sorted(AGGREGATES), 3)
    one = Asked([each, window.tumbling(7)], names)
    other = Asked([window.session(3), each], names)  # of another number
    found = {(row["k"], row["t"]): row for row in rows_in_order(chance)}
    table_rows = list(found.values())  # rows of equal times may have equal frames
    steps = drawn(strategies.cuts(table_rows), chance.randrange(10**6))
    cut = chance.randint(0, len(steps))
    old, new = one.query(**options_of(chance)), other.query(**options_of(chance))
    stream = old.stream(clock=lambda: 0)
    before = [row | {"window_id": 1} for row in play(stream, steps[:cut]) if row["window_id"] == 0]
    stream = new.stream(stream.snapshot(), adopt=True, clock=lambda: 0)
    after = play(stream, steps[cut:]) + stream.close().to_pylist()
    after = [row for row in after if row["window_id"] == 1]
    expected = [row for row in other.query().run(table(table_rows)).to_pylist() if row["window_id"] == 1]
    emissions: dict[Identity, list[dict[str, Any]]] = {}
    for row in before + after:
        emissions.setdefault(identity(row)[:-2], []).append(row)
    for rows_of_one in emissions.values():
        assert [row["revision"] for row in rows_of_one] == list(range(len(rows_of_one)))
    last = {key: rows[-1] for key, rows in emissions.items() if not rows[-1]["retracted"]}
    answers = {key: [row[name] for name in names] for key, row in last.items()}
    assert answers == {identity(row)[:-2]: [row[name] for name in names] for row in expected}


@pytest.mark.parametrize("seed", some(range(300), 30))
def test_another_lateness(seed: int) -> None:
    """Once all that was final before is so by the new lateness, too, nothing tells the streams apart."""
    chance = random.Random(seed)
    each, names = window_of(chance), chance.sample(sorted(AGGREGATES), 3)
    lateness = chance.sample([0, 1, 4, 15], 2)
    old, new = (Asked([each], names).query(allowed_lateness=late) for late in lateness)
    table_rows = rows_in_order(chance)
    place = chance.randint(0, len(table_rows))
    seen = max((row["t"] for row in table_rows[:place]), default=0)
    settled = next((i for i, row in enumerate(table_rows) if row["t"] >= seen + 16), len(table_rows))
    rest = drawn(strategies.disordered(table_rows[settled:], 12), chance.randrange(10**6))
    steps = [Push(table_rows[place:settled]), *drawn(strategies.cuts(rest), chance.randrange(10**6))]
    first, whole = old.stream(), new.stream()
    play(first, [Push(table_rows[:place])])
    play(whole, [Push(table_rows[:place])])
    stream = new.stream(first.snapshot(), adopt=True)
    assert play(stream, steps) == play(whole, steps)
    assert stream.late.to_pylist() == whole.late.to_pylist()
    assert stream.close().to_pylist() == whole.close().to_pylist()


def test_what_was_final_stays_final() -> None:
    """A longer lateness does not bring back rows that are gone: rows for those windows are late."""
    old = Query(window.tumbling(10), {"n": agg.count()}, time="t", allowed_lateness=0)
    new = Query(window.tumbling(10), {"n": agg.count()}, time="t", allowed_lateness=100)
    stream = old.stream()
    stream.push({"t": [1, 2, 25]})
    stream = new.stream(stream.snapshot(), adopt=True)
    assert stream.push({"t": [3, 21]}).num_rows == 0
    assert stream.late.to_pylist() == [{"t": 3}]
    assert stream.push({"t": [35]})["n"].to_pylist() == [2]
    again = new.stream(stream.snapshot())
    for each in (stream, again):
        assert each.push({"t": [4, 22]})["n"].to_pylist() == [3]
        assert each.late.num_rows == 2
    shorter = old.stream(again.snapshot(), adopt=True)
    assert shorter.push({"t": [23]}).num_rows == 0
    assert shorter.late["t"].to_pylist() == [3, 4, 23]


def with_history(seed: int) -> int:
    """Return how many values of new aggregates were compared that only a history has."""
    chance = random.Random(seed)
    common = [drawn(KINDS[kind], chance.randrange(10**6), tries=3) for kind in chance.choices(sorted(KINDS), k=2)]
    options = {"watermark": chance.choice([3, 8]), "allowed_lateness": chance.choice([0, 1, 10, 30])}
    one, other = asked(chance, common), asked(chance, common)
    rows = drawn(strategies.tables(30), chance.randrange(10**6))
    rows = list({(row["k"], row["t"]): row for row in rows}.values())  # rows of equal times may have equal frames
    rows = drawn(strategies.disordered(rows, 3), chance.randrange(10**6))  # none is too late
    steps = drawn(strategies.cuts(rows), chance.randrange(10**6))
    cut = chance.randint(0, len(steps))
    old, new = one.query(**options), other.query(**options)
    taken = [row for step in steps[:cut] for row in step.rows]
    since = chance.choice([None, None, chance.choice([row["t"] for row in taken] or [0])])
    past = [row for row in taken if since is None or row["t"] >= since]
    first, whole = old.stream(), new.stream()
    play(first, steps[:cut])
    play(whole, steps[:cut])
    if not muntin.can_adopt(first.snapshot(), new):
        return 0
    stream = new.stream(first.snapshot(), adopt=True, history=table(past))
    stream.check()
    found = play(stream, steps[cut:]) + stream.close().to_pylist()
    expected = {identity(row): row for row in play(whole, steps[cut:]) + whole.close().to_pylist()}
    least = -(2**62) if len(past) == len(taken) else min((row["t"] for row in past), default=2**62)
    kept = set(matching(old, new).values())
    compared = 0
    for row in found:
        if row["window_id"] in kept:
            start, right = row["window"]["start"], expected[identity(row)]
            begins = start if start is None else start + first_instant(new.windows[row["window_id"]].resolve(INT64))
            for name in new.aggregates:
                is_kept = old.aggregates.get(name) == new.aggregates[name]
                if is_kept or row["retracted"] or begins is None or begins >= least:
                    assert row[name] == right[name], (name, row, right)
                    compared += not is_kept and begins is not None and bool(taken) and begins <= taken[-1]["t"]
                else:
                    assert row[name] is None or row[name] == right[name], (name, row, right)
    return compared


def test_a_history_completes_what_is_new() -> None:
    assert sum(with_history(seed) for seed in some(range(1500), 30)) > 50


def test_a_history_of_other_rows() -> None:
    old = Query(window.trailing(10), {"n": agg.count()}, key="k", time="t")
    new = Query(window.trailing(10), {"n": agg.count(), "high": agg.max("v")}, key="k", time="t")
    stream = old.stream()
    stream.push({"t": [1, 4], "k": ["a", "a"]})
    saved = stream.snapshot()
    with pytest.raises(SnapshotError, match="lacks a row at 4"):
        new.stream(saved, adopt=True, history={"t": [1], "k": ["a"], "v": [2.5]})
    later = {"t": [1, 4, 5], "k": ["a", "a", "a"], "v": [2.5, 1.5, 9.5]}  # the last one was not pushed yet
    stream = new.stream(saved, adopt=True, history=later)
    answers = stream.push({"t": [5, 6], "k": ["a", "a"], "v": [0.5, 0.0]})
    assert [(row["n"], row["high"]) for row in answers.to_pylist()][-1:] == [(4, 2.5)]


def test_a_state_without_rows() -> None:
    old = Query(window.tumbling(10), {"n": agg.count()}, time="t")
    new = Query(window.tumbling(20), {"high": agg.max("v")}, time="t")
    stream = old.stream()
    stream.advance(15)
    stream = new.stream(stream.snapshot(), adopt=True)
    assert stream.watermark == 15
    assert stream.push({"t": [21, 45], "v": [1.5, 2.0]}).to_pylist()[0]["high"] == 1.5


def test_columns_of_which_only_nulls_are_known() -> None:
    """A new aggregate reads a column that no row had so far: its type is that of the first rows with values."""
    old = Query(window.tumbling(10), {"n": agg.count()}, time="t")
    new = Query(window.tumbling(10), {"n": agg.count(), "high": agg.max("v"), "all": agg.collect("v")}, time="t")
    stream = old.stream()
    stream.push({"t": [1]})
    stream = new.stream(stream.snapshot(), adopt=True)
    stream.push(pa.table({"t": [2, 11], "v": pa.nulls(2)}))
    stream = new.stream(stream.snapshot())
    assert stream.push({"t": [12], "v": ["x"]}).num_rows == 0
    stream.check()
    answers = stream.push_row({"t": 25, "v": "y"}).to_pylist()
    assert [(row["n"], row["high"], row["all"]) for row in answers] == [(2, "x", ["x"])]
    plain = new.stream()
    plain.push(pa.table({"t": [2], "v": pa.nulls(1)}))
    plain.push({"t": [3], "v": [2.5]})
    assert plain.close().to_pylist()[0]["high"] == 2.5


def test_keys_that_are_forgotten() -> None:
    frames = window.trailing(rows(2))
    old = Query(frames, {"n": agg.count()}, key="k", time="t")
    new = Query(frames, {"n": agg.count()}, key="k", time="t", forget_after=16)
    stream = old.stream()
    stream.push({"t": [1, 2, 3], "k": ["a", "b", "a"]})
    stream = new.stream(stream.snapshot(), adopt=True)
    stream.push({"t": [60], "k": ["c"]})
    assert stream.metrics()["forgotten"] == 2
    stream = old.stream(stream.snapshot(), adopt=True)
    stream.push({"t": [160, 161], "k": ["a", "c"]})
    assert stream.metrics()["forgotten"] == 2
    assert stream.ask({"k": ["a", "c"]})["n"].to_pylist() == [1, 2]


def test_points_of_frames_that_had_begun() -> None:
    frames = {"time": window.trailing(10), "rows": window.trailing(rows(2)), "tiles": window.trailing(20, hop=5)}
    old = Query(frames, {"n": agg.count()}, key="k", time="t")
    new = Query(frames, {"n": agg.count(), "high": agg.max("v")}, key="k", time="t")
    stream = old.stream()
    stream.push({"t": [1, 8], "k": ["a", "b"]})
    stream = new.stream(stream.snapshot(), adopt=True)
    stream.push({"t": [12, 14], "k": ["a", "a"], "v": [3.0, 5.0]})
    asked = stream.ask({"k": ["a", "a", "b", "c"], "t": [14, 18, 18, 40]}).to_pylist()
    assert [(row["n_time"], row["high_time"]) for row in asked] == [(2, None), (2, 5.0), (0, None), (0, None)]
    assert [(row["n_rows"], row["high_rows"]) for row in asked] == [(2, 5.0), (2, 5.0), (1, None), (0, None)]
    assert [(row["n_tiles"], row["high_tiles"]) for row in asked] == [(3, None), (3, None), (1, None), (0, None)]


def test_computed_columns_that_are_new_or_other() -> None:
    """What reads a column that is computed otherwise is new; a condition must stay."""
    asked = {"t": [1, 4], "v": [2.0, 3.0]}
    old = Query(window.tumbling(10), {"a": agg.sum("x"), "b": agg.sum("v")}, time="t", columns={"x": "v * 2"})
    new = Query(
        window.tumbling(10),
        {"a": agg.sum("x"), "b": agg.sum("v"), "c": agg.max("y")},
        time="t",
        columns={"x": "v * 3", "y": "v + 1"},
    )
    stream = old.stream()
    stream.push(asked)
    found = muntin.can_adopt(stream.snapshot(), new)
    assert dict(found.aggregates) == {"a": "added", "b": "kept", "c": "added"}
    for past, first in ((None, (None, 6.0, None)), (asked, (18.0, 6.0, 4.0))):
        other = new.stream(stream.snapshot(), adopt=True, history=past)
        answers = other.push({"t": [5, 11, 25], "v": [1.0, 4.0, 0.0]}).to_pylist()
        assert [(row["a"], row["b"], row["c"]) for row in answers] == [first, (12.0, 4.0, 5.0)]
    same = Query(window.tumbling(10), {"b": agg.sum("v")}, time="t")
    assert same.stream(stream.snapshot(), adopt=True).close().to_pylist()[0]["b"] == 5.0
    by_value = replace(same, where="v > 2")
    assert not muntin.can_adopt(stream.snapshot(), by_value)
    assert "where" in muntin.can_adopt(stream.snapshot(), by_value).refusals[0]


# ---------------------------------------------------------------- what is refused, and what is told beforehand


def test_what_would_become_of_a_state() -> None:
    old = Query(
        {"m": window.tumbling("60 seconds"), "h": window.tumbling("1h")}, {"n": agg.count(), "low": agg.min("v")}
    )
    stream = old.stream()
    stream.push({"ts": pa.array([0], pa.timestamp("s")), "v": [1.0]})
    new = Query(
        {"d": window.tumbling("1 day"), "minute": window.tumbling("1 minute")},
        {"low": agg.max("v"), "n": agg.count()},
        watermark="5 seconds",
    )
    found = muntin.can_adopt(stream.snapshot(), new)
    assert found
    assert dict(found.windows) == {"d": "added", "minute": "kept", "window.tumbling('1 hour')": "removed"}
    assert dict(found.aggregates) == {"low": "added", "n": "kept"}
    assert any("watermark" in each for each in found)
    with pytest.raises(SnapshotError) as refused:
        new.stream(stream.snapshot())
    for each in ("watermark", "low", "window"):
        assert each in str(refused.value)
    assert "adopt=True" in str(refused.value)
    assert not list(muntin.can_adopt(stream.snapshot(), old))


@pytest.mark.parametrize(
    ("changed", "named"),
    [({"key": "other"}, "key is k"), ({"time": "other"}, "time is t"), ({"emit_empty": True}, "emit_empty")],
)
def test_what_may_not_differ(changed: dict[str, Any], named: str) -> None:
    query = Query(window.tumbling(10), {"n": agg.count()}, key="k", time="t")
    stream = query.stream()
    stream.push({"t": [1], "k": ["a"], "other": [2]})
    snapshot = stream.snapshot()
    other = replace(query, **changed)
    found = muntin.can_adopt(snapshot, other)
    assert not found
    assert named in found.refusals[0]
    with pytest.raises(SnapshotError, match=named):
        other.stream(snapshot, adopt=True)


def test_bad_arguments() -> None:
    query = Query(window.tumbling(10), {"n": agg.count()}, time="t")
    with pytest.raises(InvalidArgumentError, match="give its snapshot"):
        query.stream(adopt=True)
    with pytest.raises(InvalidArgumentError, match="this is int"):
        muntin.can_adopt(5, query)
    with pytest.raises(InvalidArgumentError, match="adopt is 'yes'"):
        query.stream(query.stream().snapshot(), adopt="yes")
    frames = Query(window.trailing(30, hop=5), {"n": agg.count()}, time="t")
    stream = frames.stream()
    stream.push({"t": [1, 50]})
    median = Query(window.trailing(30, hop=5), {"n": agg.count(), "mid": agg.median("v")}, time="t")
    assert not muntin.can_adopt(stream.snapshot(), median)
    with pytest.raises(SnapshotError, match="'mid'"):
        median.stream(stream.snapshot(), adopt=True)


def test_a_state_that_does_not_record_its_latest_row() -> None:
    """Streams of earlier builds did not: any time of a row that is held tells."""
    old = Query([window.tumbling(10), window.trailing(5)], {"n": agg.count()}, time="t")
    new = Query([window.tumbling(10), window.trailing(5)], {"n": agg.count(), "high": agg.max("v")}, time="t")
    stream = old.stream()
    stream.push({"t": [1, 14]})
    saved = Snapshot.decode(stream.snapshot())
    del saved.header["core"]["latest"]
    stream = new.stream(saved.encode(), adopt=True)
    answers = stream.push({"t": [15, 19, 35], "v": [1, 2, 3]}).to_pylist()
    found = {(row["window"]["start"], row["window_id"]): row["high"] for row in answers}
    assert found == {(10, 0): None, (10, 1): None, (14, 1): 2, (30, 1): 3}
