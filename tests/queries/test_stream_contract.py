"""What a stream promises besides its windows: types, errors that change nothing, snapshots, keys, clocks."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from queries.definitions import Trips
from queries.streams import Clock

from muntin import ProcessingTime, Query, agg, policies, rows, window
from muntin.aggregators import TwoStacks
from muntin.errors import (
    AggregationOverflowError,
    ColumnError,
    ColumnTypeError,
    InvalidArgumentError,
    SnapshotError,
    UnsupportedOperationError,
)
from muntin.snapshots import Snapshot
from muntin.streams.regrouping import regrouped

GOLDEN = Path(__file__).parent / "golden"
COUNT = {"n": agg.count()}


def numbers(table: pa.Table) -> list[Any]:
    return [(row["window"]["start"], row["n"], row["revision"], row["retracted"]) for row in table.to_pylist()]


# ---------------------------------------------------------------- types and errors


def test_every_table_has_the_same_schema() -> None:
    aggregates = {"all": agg.collect("v"), "who": agg.arg_max("v", "k"), "mid": agg.median("v"), **COUNT}
    windows = [window.tumbling(10), window.trailing(rows(2)), window.delta("v", 5)]
    stream = Query(windows, aggregates, key="k", time="t").stream()
    table = pa.table({"t": [1], "k": ["a"], "v": pa.array([None], pa.int32())})
    tables = [stream.push(table), stream.push(table[:0]), stream.advance(3), stream.advance(30), stream.tick()]
    tables += [stream.push({"t": [41], "k": ["b"], "v": pa.array([7], pa.int32())}), stream.close(), stream.close()]
    assert len({each.schema for each in tables}) == 1
    schema = tables[0].schema
    assert schema.field("all").type == pa.list_(pa.int32())
    assert schema.field("who").type == pa.string()
    names = ["start", "end", "from_row", "to_row", "from_value", "to_value"]
    assert [field.name for field in schema.field("window").type] == names
    assert sum(each.num_rows for each in tables) > 0


def test_types_stay_as_they_were_at_first() -> None:
    stream = Query(window.tumbling(10), {"sum": agg.sum("v")}, key="k", time="t").stream()
    stream.push({"t": [1], "k": ["a"], "v": [1.5]})
    stream.push({"t": [2], "k": ["a"], "v": [2]})  # integers fit into floats
    with pytest.raises(ColumnTypeError, match="'v' held double before, and now string"):
        stream.push({"t": [3], "k": ["a"], "v": ["x"]})
    with pytest.raises(ColumnTypeError, match="'v' held double before, and now int64"):
        stream.push({"t": [3], "k": ["a"], "v": [2**60 + 1]})
    with pytest.raises(ColumnTypeError, match="'k' held string before, and now int64"):
        stream.push({"t": [3], "k": [1], "v": [1.0]})
    with pytest.raises(ColumnTypeError, match="time column 't' holds timestamp"):
        stream.push({"t": pa.array([3], pa.timestamp("s")), "k": ["a"], "v": [1.0]})
    assert stream.close()["sum"].to_pylist() == [3.5]


def test_a_refused_push_changes_nothing() -> None:
    query = Query([window.tumbling(10), Trips()], {"sum": agg.sum("v")}, key="k", time="t")
    stream = query.stream()
    good = {"t": [1], "k": ["a"], "v": [2**62], "departs": [True]}
    stream.push(good)
    before = stream.snapshot()
    with pytest.raises(ColumnError, match="no column 'v'"):
        stream.push({name: good[name] for name in ("t", "k", "departs")})
    with pytest.raises(InvalidArgumentError, match="'t' is null in row 1"):
        stream.push({"t": [1, None], "k": ["a", "new"], "v": [1, 1], "departs": [True, True]})
    with pytest.raises(InvalidArgumentError, match="a table is needed"):
        stream.push([1, 2])
    with pytest.raises(AggregationOverflowError):
        stream.push({"t": [2, 3, 40], "k": ["a", "a", "b"], "v": [2**62] * 3, "departs": [False] * 3})
    assert stream.snapshot() == before
    assert stream.metrics()["keys"] == 1
    assert stream.push({"t": [12], "k": ["a"], "v": [0], "departs": [False]})["sum"].to_pylist() == [2**62]


def test_a_first_push_that_is_refused_settles_nothing() -> None:
    stream = Query(window.tumbling(10), {"sum": agg.sum("v")}, time="t").stream()
    with pytest.raises(ColumnTypeError):
        stream.push({"t": [1], "v": ["text"]})
    stream.push({"t": [1], "v": [2.5]})
    assert stream.close()["sum"].to_pylist() == [2.5]


def test_a_closed_stream_takes_no_more() -> None:
    stream = Query(window.tumbling(10), COUNT, time="t").stream()
    assert stream.close().num_rows == 0
    for call in (lambda: stream.push({"t": [1]}), lambda: stream.advance(1), stream.tick):
        with pytest.raises(UnsupportedOperationError, match="closed"):
            call()
    assert stream.close().num_rows == 0


def test_bad_arguments_are_refused() -> None:
    for words, message in (
        ({"idle_timeout": 0}, "idle_timeout is 0"),
        ({"idle_timeout": "soon"}, "'soon' is no duration"),
        ({"emit_early": -1}, "emit_early is -1"),
        ({"time": ""}, "time is ''"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            Query(window.tumbling(10), COUNT, **words)
    with pytest.raises(InvalidArgumentError, match="ProcessingTime is 0"):
        ProcessingTime(0)
    query = Query(window.tumbling(10), COUNT, time="t")
    with pytest.raises(InvalidArgumentError, match="no strategy 'magic'"):
        query.stream(strategy="magic")
    with pytest.raises(InvalidArgumentError, match="clock is 5"):
        query.stream(clock=5)
    with pytest.raises(InvalidArgumentError, match="only a stream can tell"):
        Query(window.tumbling(10), COUNT, time=None).run({"v": [1]})
    stream = query.stream()
    with pytest.raises(InvalidArgumentError, match="before the first row"):
        stream.advance("2024-01-01")
    stream.push({"t": [1]})
    with pytest.raises(InvalidArgumentError, match="the times are integers"):
        stream.advance("2024-01-01")
    with pytest.raises(InvalidArgumentError, match="int64"):
        stream.advance(2**63)


@pytest.mark.parametrize(
    "watermark",
    [
        1704067210,
        datetime.datetime(2024, 1, 1, 0, 0, 10),
        np.datetime64("2024-01-01T00:00:10", "ms"),
        "2024-01-01T00:00:10",
        pa.scalar(datetime.datetime(2024, 1, 1, 0, 0, 10), pa.timestamp("us")),
    ],
)
def test_watermarks_of_every_kind(watermark: Any) -> None:
    stream = Query(window.tumbling("10 seconds"), COUNT, time="t").stream()
    stream.push({"t": pa.array([1704067201], pa.timestamp("s"))})
    assert stream.advance(watermark)["n"].to_pylist() == [1]
    assert stream.watermark == 1704067210
    with pytest.raises(InvalidArgumentError, match="is no timestamp"):
        stream.advance("noon")
    with pytest.raises(InvalidArgumentError, match="is no timestamp"):
        stream.advance(np.datetime64("2024-01-01T00:00:10.5", "ms"))


# ---------------------------------------------------------------- late rows, keys, metrics


def test_late_rows_are_counted_and_can_be_taken() -> None:
    stream = Query(window.tumbling(10), COUNT, time="t", allowed_lateness=5).stream()
    assert stream.late.num_rows == 0
    stream.push({"t": [23], "note": ["a"]})
    stream.push({"t": [3, 14, 21, 2], "note": ["b", "c", "d", "e"]})
    assert stream.late.to_pylist() == [{"t": 3, "note": "b"}, {"t": 2, "note": "e"}]
    stream.push({"t": [4]})
    assert stream.late["note"].to_pylist()[-1] is None
    metrics = stream.metrics()
    assert (metrics["rows"], metrics["late"], metrics["dropped"], metrics["watermark"]) == (6, 5, 3, 23)
    assert stream.take_late().num_rows == 3
    assert stream.late.num_rows == 0
    assert stream.metrics()["dropped"] == 3


def test_idle_keys_are_released() -> None:
    query = Query([window.tumbling(10), window.session(3), window.trailing(5)], COUNT, key=["k", "l"], time="t")
    stream = query.stream()
    for start in range(0, 1500, 10):
        keys = [start, start + 1]
        stream.push({"t": [start, start + 1], "k": keys, "l": ["x", None]})
        stream.check()
    metrics = stream.metrics()
    assert metrics["keys"] < 200
    assert metrics["kept"] < 20
    assert metrics["bytes"] < 200_000


def test_many_keys_that_come_and_go() -> None:
    """What keys sleep and which are looked at must not matter: the last word is that of `run`."""
    random = np.random.default_rng(5)
    count = 3000
    times = np.arange(count) // 3 + random.integers(-4, 5, count)
    keys = (np.arange(count) // 100 + random.integers(0, 40, count)).astype(str)
    table = pa.table({"t": times, "k": keys, "v": random.integers(0, 100, count)})
    windows = [window.sliding(20, every=10), window.session(3), window.tumbling(rows(4)), window.trailing(7)]
    query = Query(windows, {"all": agg.collect("v")}, key="k", time="t", watermark=8)
    stream = query.stream()
    tables = []
    for start in range(0, count, 50):
        tables.append(stream.push(table[start : start + 50]))
        stream.check()
    ours = pa.concat_tables([*tables, stream.close()]).to_pylist()
    assert sorted(map(repr, ours)) == sorted(map(repr, query.run(table).to_pylist()))
    assert stream.late.num_rows == 0


def test_what_is_kept_is_bounded() -> None:
    windows = [
        window.sliding(10, every=5),
        window.cumulative(20, every=5),
        window.trailing(rows(4)),
        window.sliding(rows(6), every=rows(2)),
        window.sliding(rows(3), every=7),
        window.punctuated("mark"),
        window.delta("t", 10, every=5),
        window.policy(policies.at_most_duration(8)),
    ]
    stream = Query(windows, COUNT, time="t", allowed_lateness=3).stream()
    for start in range(0, 600, 10):
        stream.push({"t": [*range(start, start + 10)], "mark": [i == 4 for i in range(10)]})
        stream.check()
    assert stream.metrics()["kept"] < 60
    assert stream.metrics()["dropped"] == 0


# ---------------------------------------------------------------- windows that come and go


def test_a_window_that_comes_later_begins_with_what_is_held() -> None:
    stream = Query(window.tumbling(10), COUNT, time="t").stream()
    assert numbers(stream.push({"t": [1, 11, 12]})) == [(0, 1, 0, False)]
    added = stream.add(window.tumbling(20))
    assert (added, stream.complete_from(added), stream.complete_from(0)) == (1, 10, None)
    assert numbers(stream.push({"t": [25]})) == [(10, 2, 0, False), (0, 2, 0, False)]
    stream.remove(0)
    out = stream.push({"t": [45]})
    assert (out["window_id"].to_pylist(), numbers(out)) == ([1], [(20, 1, 0, False)])
    again = stream.query.stream(stream.snapshot())
    assert numbers(again.close()) == numbers(stream.close()) == [(40, 1, 0, False)]
    with pytest.raises(InvalidArgumentError, match="no window 0"):
        again.complete_from(0)


@pytest.mark.parametrize("base", [window.tumbling(10), window.trailing(30, hop=10), window.tumbling(rows(5))], ids=repr)
@pytest.mark.parametrize(
    "later",
    [
        window.trailing(20),
        window.sliding(20, every=5),
        window.tumbling(20),
        window.session(5),
        window.trailing(20, hop=5),
    ],
    ids=repr,
)
def test_windows_that_come_later_are_complete_from_when_they_say(base: window.Window, later: window.Window) -> None:
    """Also the second and the third, which find slices and rows that were kept for the first."""

    def some(begin: int, end: int) -> dict[str, list[int]]:
        return {"t": [t for t in range(begin, end) if t % 13 < 7 or t < 40]}

    stream, whole = Query(base, COUNT, time="t").stream(), Query([base, later], COUNT, time="t").stream()
    out = [stream.push(some(0, 27))]
    truth = [whole.push(some(0, 27)), whole.push(some(27, 33)), whole.push(some(33, 90)), whole.close()]
    known = {tuple(row["window"].values()): row["n"] for t in truth for row in t.to_pylist() if row["window_id"] == 1}
    added = [stream.add(later), stream.add(later)]
    out.append(stream.push(some(27, 33)))
    added.append(stream.add(later))
    stream = stream.query.stream(stream.snapshot())
    added.append(stream.add(later))
    out += [stream.push(some(33, 90)), stream.close()]
    for each in added:
        since = stream.complete_from(each)
        assert since is not None
        found = [row for row in pa.concat_tables(out).to_pylist() if row["window_id"] == each]
        complete = {tuple(row["window"].values()): row["n"] for row in found if row["window"]["start"] >= since}
        assert complete == {name: n for name, n in known.items() if name[0] >= since}
        assert complete


def test_answers_keep_their_columns_for_the_life_of_a_stream() -> None:
    """A window whose bounds have further fields is declared from the start, and may be removed at once."""
    further = [window.trailing(rows(2)), window.leading(5), window.delta("v", 4)]
    data = {"t": [1, 2, 3], "v": [1, 2, 3]}
    plain = Query(window.tumbling(10), {"sum": agg.sum("v")}, time="t").stream()
    plain.push(data)
    before = plain.snapshot()
    for each, names in zip(further, ("from_row and to_row", "at", "from_value and to_value"), strict=True):
        with pytest.raises(
            UnsupportedOperationError, match=f"bounds {names}, .* begin the stream with a query that has"
        ):
            plain.add(each)
    assert plain.snapshot() == before
    assert plain.add(window.trailing(5)) == 1
    query = Query([window.tumbling(10), *further], {"sum": agg.sum("v")}, time="t")
    for pushed in (True, False):
        stream = query.stream()
        out = [stream.push(data)] if pushed else []
        for i in (1, 2, 3):
            stream.remove(i)
        stream.add(window.frame(2, 2))
        out.append(stream.push({"t": [14], "v": [4]}))
        stream = stream.query.stream(stream.snapshot())
        assert stream.add(window.sliding(rows(4), every=rows(2))) == 5
        out += [stream.push({"t": [25, 26, 27, 28], "v": [5, 6, 7, 8]}), stream.close()]
        assert len({each.schema for each in out}) == 1
        assert out[0].schema.field("window").type.num_fields == 7
        assert set(pa.concat_tables(out[-2:])["window_id"].to_pylist()) == {0, 4, 5}
    stream = query.stream()
    stream.push(data)
    with pytest.raises(UnsupportedOperationError, match="from_value and to_value, of another type"):
        stream.add(window.delta("v", 4.5))


def test_windows_are_added_and_removed_before_the_first_row() -> None:
    stream = Query(window.tumbling(10), COUNT, time="t").stream()
    assert stream.add(window.session(2)) == 1
    stream.remove(0)
    with pytest.raises(InvalidArgumentError, match="there is no window 0; there are 1"):
        stream.remove(0)
    stream.push({"t": [1, 2]})
    assert stream.close()["window_id"].to_pylist() == [1]


def test_a_window_that_cannot_be_added_changes_nothing() -> None:
    stream = Query(window.tumbling(10), COUNT, time="t").stream()
    stream.push({"t": [1], "mark": [True]})
    before = stream.snapshot()
    with pytest.raises(InvalidArgumentError, match="reads the column 'mark'"):
        stream.add(window.punctuated("mark"))
    with pytest.raises(InvalidArgumentError, match="a window is made by"):
        stream.add("1 hour")
    with pytest.raises(InvalidArgumentError, match="the times are integers"):
        stream.add(window.tumbling("1 hour"))
    assert stream.snapshot() == before


# ---------------------------------------------------------------- clocks


def test_rows_without_a_time_get_the_clocks() -> None:
    clock = Clock(1_700_000_000_000_000_000)
    stream = Query(window.tumbling("10 seconds"), COUNT, time=None).stream(clock=clock)
    stream.push({"v": [1, 2]})
    clock.now += 11 * 10**9
    out = stream.push({"v": [3]})
    assert out["n"].to_pylist() == [2]
    assert out.schema.field("window").type.field("start").type == pa.timestamp("us")
    start = out["window"].to_pylist()[0]["start"]
    assert start == datetime.datetime(2023, 11, 14, 22, 13, 20)


def test_an_idle_stream_goes_on_with_the_clock() -> None:
    clock = Clock(5 * 10**9)
    query = Query(window.tumbling("10 seconds"), COUNT, time="t", watermark="2 seconds", idle_timeout="1 minute")
    stream = query.stream(clock=clock)
    stream.push({"t": pa.array([1000], pa.timestamp("s"))})
    clock.now += 59 * 10**9
    assert stream.tick().num_rows == 0
    clock.now += 10**9
    assert stream.tick()["n"].to_pylist() == [1]
    assert stream.watermark == 1000 - 2 + 60


def test_early_results_by_the_clock() -> None:
    clock = Clock()
    stream = Query(window.tumbling(100), COUNT, time="t", emit_early=ProcessingTime(10)).stream(clock=clock)
    assert stream.push({"t": [1]}).num_rows == 0
    clock.now = 10
    assert numbers(stream.tick()) == [(0, 1, 0, False)]
    clock.now = 20
    assert stream.tick().num_rows == 0
    assert stream.push({"t": [2]}).num_rows == 0
    clock.now = 30
    assert numbers(stream.push({"t": [3]})) == [(0, 3, 1, False)]
    assert stream.close().num_rows == 0


# ---------------------------------------------------------------- snapshots


def everything() -> Query:
    """A query of every kind of window, for the golden files.

    A new one is written by `python -m queries.test_stream_contract`, in tests/; older ones are kept,
    to be read, or to be refused by name.
    """
    windows = [
        window.sliding("10 seconds", every="5 seconds"),
        window.cumulative("20 seconds", every="5 seconds"),
        window.session("3 seconds"),
        window.trailing("4 seconds"),
        window.sliding(rows(4), every=rows(2)),
        window.trailing(rows(3)),
        window.sliding(rows(2), every="5 seconds"),
        window.delta("km", 10.0, every=5.0),
        window.punctuated("mark"),
        window.policy(policies.at_most_rows(2)),
    ]
    aggregates = {"n": agg.count(), "sum": agg.sum("v"), "all": agg.collect("name"), "mid": agg.median("v")}
    return Query(windows, aggregates, key=["k", "name"], time="t", watermark="3 seconds", allowed_lateness="9 seconds")


@pytest.mark.parametrize(
    "made",
    [window.sliding(2, every=1), window.tumbling(3), window.session(1), window.trailing(2), window.leading(2)],
    ids=str,
)
@pytest.mark.parametrize("aggregate", [agg.count(), agg.collect("t")], ids=str)
def test_windows_that_a_watermark_before_any_row_made_final_are_not_emitted(made: Any, aggregate: Any) -> None:
    """As after a row that is too old to matter."""
    query = Query(made, {"n": aggregate}, time="t", allowed_lateness=30)
    emitted = []
    for before in ([], [-500]):
        stream = query.stream()
        stream.push(pa.table({"t": pa.array(before, pa.int64())}))
        stream.advance(31)
        emitted.append([row for row in stream.push({"t": [-1, 0, 2]}).to_pylist() if row["window"]["start"] > -300])
    assert emitted[0] == emitted[1]
    assert len(emitted[0]) < query.run({"t": [-1, 0, 2]}).num_rows


def some_rows(start: int) -> pa.Table:
    count = 12
    seconds = [start + (i * 7) % 11 for i in range(count)]
    return pa.table(
        {
            "t": pa.array(seconds, pa.timestamp("s")),
            "k": [i % 2 for i in range(count)],
            "name": ["a", None, "b"] * 4,
            "v": pa.array([None if i == 5 else i / 2 for i in range(count)]),
            "km": pa.array([float(each) for each in seconds]),
            "mark": [i % 5 == 0 for i in range(count)],
        }
    )


def as_a_set(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def test_the_golden_snapshot_is_read_as_ever() -> None:
    stream = everything().stream()
    stream.push(some_rows(0))
    stream.push(some_rows(15))
    restored = everything().stream((GOLDEN / "stream.snapshot").read_bytes())
    restored.check()
    for each in (stream, restored):
        each.push(some_rows(21))
    assert restored.late.equals(stream.late)
    assert as_a_set(restored.close()) == as_a_set(stream.close())  # frames of another strategy come in another order
    assert restored.metrics()["rows"] == 36


def test_a_snapshot_of_the_first_version_is_refused() -> None:
    data = (GOLDEN / "stream-1.snapshot").read_bytes()
    with pytest.raises(SnapshotError, match="has version 1, and this version of muntin reads versions 2 to 3; let"):
        everything().stream(data)
    with pytest.raises(SnapshotError, match="has version 1"):
        regrouped([(Snapshot.decode(data), np.ones(2, np.bool_))])


def test_the_snapshot_of_version_2_is_read() -> None:
    stream = everything().stream()
    stream.push(some_rows(0))
    stream.push(some_rows(15))
    data = (GOLDEN / "stream-2.snapshot").read_bytes()
    restored = everything().stream(data)
    restored.check()
    for each in (stream, restored):
        each.push(some_rows(21))
    assert as_a_set(restored.close()) == as_a_set(stream.close())
    with pytest.raises(SnapshotError, match="has version 2, and must be of version 3 here"):
        regrouped([(Snapshot.decode(data), np.ones(2, np.bool_))])


def test_snapshots_of_other_queries_are_refused() -> None:
    query = Query(window.tumbling(10), COUNT, key="k", time="t")
    stream = query.stream()
    stream.push({"t": [1], "k": ["a"]})
    data = stream.snapshot()
    for words, message in (
        (
            {"windows": window.tumbling(20)},
            r"its window 0 is window.tumbling\(10\), this one's is window.tumbling\(20\)",
        ),
        ({"windows": [window.tumbling(10)] * 2}, "its window 1 is none"),
        ({"aggregates": {"n": agg.count("k")}}, "its aggregate n"),
        ({"key": ()}, "its key is k"),
        ({"time": "ts"}, "its time is t"),
        ({"watermark": 3}, "its watermark is 0"),
        ({"partial": True}, "its partial is False"),
        ({"emit_early": 5}, "its emit_early is None"),
    ):
        other = {"windows": window.tumbling(10), "aggregates": COUNT, "key": "k", "time": "t", **words}
        with pytest.raises(SnapshotError, match=message):
            Query(**other).stream(data)
    known = Snapshot.decode(data)
    for name, array in {"0.0.states": np.zeros(1, [("p0_value", "i8"), ("p1_value", "i8")]), "0.0.low": None}.items():
        arrays = {each: kept for each, kept in {**known.arrays, name: array}.items() if kept is not None}
        with pytest.raises(SnapshotError, match=f"kept {name[2:]!r} otherwise; let that version finish"):
            query.stream(replace(known, arrays=arrays).encode())
    for damaged in (data[:-1], data[:60] + b"?" + data[61:], b"", b"not one"):
        with pytest.raises(SnapshotError):
            query.stream(damaged)
    with pytest.raises(SnapshotError, match="not of a stream"):
        query.stream(TwoStacks(agg.sum("v"), compiled=False).snapshot())


def test_a_stream_without_rows_has_a_snapshot_too() -> None:
    query = Query(window.tumbling(10), COUNT, time="t")
    stream = query.stream()
    stream.advance(15)
    again = query.stream(stream.snapshot())
    assert again.watermark == 15
    assert again.push({"t": [3, 18]}).num_rows == 0
    assert again.late["t"].to_pylist() == [3]


if __name__ == "__main__":
    golden = everything().stream()
    golden.push(some_rows(0))
    golden.push(some_rows(15))
    (GOLDEN / "stream.snapshot").write_bytes(golden.snapshot())
