"""`explain`: what is said of every kind of window and every strategy, and that it is what happens."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from queries import definitions
from queries.streams import Clock

from muntin import ProcessingTime, Query, agg, policies, rows, window
from muntin.errors import ColumnError, InvalidArgumentError, UnsupportedOperationError
from muntin.plans.expected import edges_per_tick, slices_of_window
from muntin.streams.changing.changelog import Changelog
from muntin.streams.decisions import Facts, decide
from muntin.streams.mergers import merger_names
from muntin.streams.plan import STRATEGIES
from muntin.types import column_type
from muntin.windows.base import Context, Measure

SUM = {"total": agg.sum("v")}
SCHEMA = {"t": pa.int64(), "v": pa.float64(), "k": pa.string(), "km": pa.float64(), "mark": pa.bool_()}
SCHEMA |= {"departs": pa.bool_()}

KINDS: dict[str, tuple[Any, Context, Measure, str, str, float | None]] = {
    # the window, its context and measure, what must be kept and the rule that says so, edges a unit of time
    "tumbling": (window.tumbling(10), Context.FREE, Measure.TIME, "nothing", "out of order, commutative", 0.1),
    "sliding": (window.sliding(10, every=4), Context.FREE, Measure.TIME, "nothing", "out of order, commutative", 0.5),
    "cumulative": (
        window.cumulative(20, every=5),
        Context.FREE,
        Measure.TIME,
        "nothing",
        "out of order, commutative",
        0.2,
    ),
    "session": (window.session(5), Context.FORWARD_FREE, Measure.TIME, "nothing", "out of order, commutative", 0.2),
    "trailing": (
        window.trailing(10),
        Context.FORWARD_AWARE,
        Measure.TIME,
        "rows",
        "out of order, context aware but no session",
        None,
    ),
    "tumbling rows": (window.tumbling(rows(10)), Context.FREE, Measure.ROWS, "rows", "out of order, by rows", None),
    "sliding rows": (
        window.sliding(rows(10), every=rows(2)),
        Context.FREE,
        Measure.ROWS,
        "rows",
        "out of order, by rows",
        None,
    ),
    "trailing rows": (window.trailing(rows(10)), Context.FREE, Measure.ROWS, "rows", "out of order, by rows", None),
    "rows every": (
        window.sliding(rows(10), every=5),
        Context.FORWARD_AWARE,
        Measure.MULTI,
        "rows",
        "out of order, context aware but no session",
        None,
    ),
    "delta": (window.delta("km", 10), Context.FREE, Measure.DELTA, "nothing", "out of order, commutative", None),
    "punctuated": (
        window.punctuated("mark"),
        Context.FORWARD_FREE,
        Measure.PUNCTUATION,
        "rows",
        "out of order, context aware but no session",
        None,
    ),
    "policy": (
        window.policy(policies.sum_at_most("v", 10)),
        Context.FORWARD_AWARE,
        Measure.POLICY,
        "rows",
        "out of order, context aware but no session",
        None,
    ),
    "own, context free": (
        definitions.Shifts(),
        Context.FREE,
        Measure.TIME,
        "nothing",
        "out of order, commutative",
        pytest.approx(3 / 24, rel=0.01),
    ),
    "own, context aware": (
        definitions.Trips(),
        Context.FORWARD_AWARE,
        Measure.TIME,
        "rows",
        "out of order, context aware but no session",
        None,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["assumed", "schema"])
def test_every_kind_of_window(kind: str, schema: Any) -> None:
    definition, context, measure, kept, rule, edges = KINDS[kind]
    query = Query(definition, SUM, key="k", time="t")
    plan = query.explain(schema)
    (said,) = plan.windows
    assert (said.window, said.context, said.measure) == (repr(definition), context.value, measure.value)
    assert (said.must_keep, said.rule) == (kept, rule)
    assert said.edges == edges
    (store,) = plan.stores
    assert said.strategy == store.strategy
    if said.strategy == "rows":
        assert said.kept == "rows"
        assert repr(definition) in said.not_by["slices"]
        if schema is not None:
            values = sum(column_type(SCHEMA[name]).physical.itemsize for name in query.reads)
            assert 8 + values < store.row_bytes <= 8 + values + 3 * 8  # the time, numbers of windows, a share of a leaf
    else:
        assert said.kept == kept
    if said.strategy == "slices":
        assert not said.not_by
        assert (store.bytes is None) == kind.startswith("own")  # of these nobody knows how long they are
    assert {each.aggregates for each in said.run} == {("total",)}
    assert bool(plan.assumed) == (schema is None)
    assert repr(definition) in str(plan)


BY_CODE = definitions.Trips()
IN_ROWS: dict[str, tuple[Any, dict[str, Any], str, str, str]] = {
    # the window, options of the query, why no slices answer it, whether these would be split, how rows would leave them
    "trailing": (window.trailing(10), {}, "a slice has rows already", "split", "never"),
    "leading": (window.leading(10), {}, "a slice has rows already", "split", "never"),
    "frame": (window.frame(5, 3), {}, "a slice has rows already", "split", "never"),
    "trailing rows": (window.trailing(rows(10)), {}, "is not by time", "whole", "invert"),
    "sliding rows": (window.sliding(rows(10), every=rows(2)), {}, "is not by time", "whole", "invert"),
    "rows every": (window.sliding(rows(3), every=5), {}, "a slice has rows already", "split", "never"),
    "delta": (window.delta("km", 10), {}, "is not by time", "whole", "never"),
    "punctuated": (window.punctuated("mark"), {}, "a slice has rows already", "split", "never"),
    "policy": (window.policy(policies.at_most_rows(5)), {}, "a slice has rows already", "split", "never"),
    "own": (BY_CODE, {}, "a slice has rows already", "split", "never"),
    "empty": (window.tumbling(10), {"emit_empty": True}, "windows without rows have no slices", "whole", "never"),
}
ANSWERED = {
    "trailing": "a range of times",
    "leading": "a range of times",
    "frame": "a range of times",
    "trailing rows": "a range of row numbers",
    "sliding rows": "a range of row numbers",
    "rows every": "the multiple before which it ends",
    "delta": "reads all rows of the key",
    "punctuated": "marks are in a tree of their own",
    "policy": "asked about new rows",
    "own": "on_tuple runs once for each row",
    "empty": "whether it holds rows or not",
}


@pytest.mark.parametrize("kind", IN_ROWS)
def test_windows_over_rows_in_order(kind: str) -> None:
    definition, options, why_no_slices, split, removal = IN_ROWS[kind]
    integers = {"total": agg.sum("n")}
    query = Query(definition, integers, key="k", time="t", allowed_lateness=5, **options)
    plan = query.explain({**SCHEMA, "n": pa.int64()})
    (said,) = plan.windows
    (store,) = plan.stores
    assert (said.strategy, said.kept) == ("rows", "rows")
    assert why_no_slices in said.not_by["slices"]
    assert said.not_by["tiles"] == f"{definition!r} is neither a trailing frame with a hop nor a lifetime"
    leaf = decide(Facts.of([definition], integers.values()))
    assert (said.must_keep, said.rule, said.why) == (leaf.kept.answer, leaf.kept.rule, leaf.kept.why)
    assert (said.split.answer, said.split.rule, said.split.why) == (split, leaf.split.rule, leaf.split.why)
    assert (said.removal.answer, said.removal.rule, said.removal.why) == (removal, leaf.removal.rule, leaf.removal.why)
    assert ANSWERED[kind] in said.how
    text = " ".join(str(plan).split())
    assert " ".join(said.how.split()) in text
    assert f"would {'be split' if split == 'split' else 'never be split'}" in text
    compares = kind in ("rows every", "delta", "punctuated", "own", "empty")  # others have a number beside each row
    assert store.note == ("more for emitted windows that may still change" if compares else "")


def test_tiles() -> None:
    plan = Query(window.trailing(10, hop=2), SUM, time="t").explain(SCHEMA)
    (said,) = plan.windows
    assert (said.strategy, said.kept, said.must_keep) == ("tiles", "nothing", "rows")
    assert "a range of tiles and rows" in said.how
    text = " ".join(str(plan).split())
    assert "none is kept by the strategy tiles; slices would keep rows" in text
    assert "each row is combined into its tile" in text
    assert "bytes a tile, up to 7 at a time" in text


def test_the_strategy_is_the_one_that_runs() -> None:
    windows = [each[0] for each in KINDS.values()]
    query = Query(windows, SUM, key="k", time="t")
    stream = query.stream()
    assert [each.strategy for each in stream.explain().windows] == [each.strategy for each in query.explain().windows]
    stream.push({"t": [1], "v": [1.0], "k": ["a"], "km": [1.0], "mark": [True], "departs": [True]})
    running = stream.explain()
    assert [each.strategy for each in running.windows] == [each.strategy for each in query.explain(SCHEMA).windows]
    assert {i for store in running.stores for i in store.window_ids} == set(range(len(windows)))


# ---------------------------------------------------------------- strategies and mergers


@pytest.mark.parametrize("strategy", [name for name, each in STRATEGIES.items() if each is not Changelog])
def test_every_strategy(strategy: str) -> None:
    others = {
        "tiles": window.trailing(10, hop=2),
        "rows": window.trailing(10),
        "states": window.tumbling(rows(10)),
    }
    first = others.get(strategy, window.tumbling(10))
    query = Query([first, window.trailing(rows(3))], SUM, time="t", ordered=True)
    plan = query.explain(SCHEMA, strategy)
    assert plan.windows[0].strategy == strategy
    assert plan.stores[0].strategy == strategy
    assert plan.stores[0].merge[0].aggregates == ("total",)
    if strategy == "tuple_tree":
        assert [each.kept for each in plan.windows] == ["rows", "rows"]
        assert "slices would keep nothing (in order)" in " ".join(str(plan).split())
    else:
        assert plan.windows[0].kept == ("rows" if strategy == "rows" else "nothing")
        assert strategy in plan.windows[1].not_by or plan.windows[1].strategy == strategy
    stream = query.stream(strategy=strategy)
    stream.push({"t": [1, 2, 30], "v": [1.0, 2.0, 3.0]})
    assert [each.strategy for each in stream.explain().windows] == [each.strategy for each in plan.windows]


def test_a_strategy_that_answers_nothing_is_refused() -> None:
    query = Query(window.punctuated("mark"), SUM, time="t")
    with pytest.raises(UnsupportedOperationError, match="'pairs' can answer none"):
        query.explain(strategy="pairs")
    with pytest.raises(InvalidArgumentError, match="no strategy 'none'"):
        query.explain(strategy="none")
    with pytest.raises(InvalidArgumentError, match="no merge 'none'"):
        query.explain(merge="none")


@pytest.mark.parametrize("merge", merger_names())
def test_every_merger(merge: str) -> None:
    plan = Query(window.sliding(10, every=2), {"n": agg.count()}, time="t").explain(merge=merge)
    (chosen,) = plan.stores[0].merge
    assert (chosen.aggregator, chosen.why) == (merge, "it was asked for")


def test_what_merges() -> None:
    aggregates = {"high": agg.max("v"), "middle": agg.median("v")}
    few = Query(window.sliding(64, every=1), aggregates, time="t").explain(SCHEMA)
    many = Query(window.sliding(65, every=1), aggregates, time="t").explain(SCHEMA)
    assert [each.aggregator for each in few.stores[0].merge] == ["two_stacks", "selection"]
    assert [each.aggregator for each in many.stores[0].merge] == ["flat_fat", "selection"]
    assert "up to 65 slices" in many.stores[0].merge[0].why
    assert many.windows[0].kept == "values"
    assert many.stores[0].value_bytes == 16
    assert many.stores[0].bytes is None  # it depends on how many values come


def test_what_runs_over_a_table() -> None:
    def run_by(definition: Any, kind: str = "double") -> list[tuple[str, bool]]:
        plan = Query(definition, SUM, time="t").explain({"t": pa.int64(), "v": pa.type_for_alias(kind)})
        return [(each.aggregator, bool(each.when)) for each in plan.windows[0].run]

    assert run_by(window.tumbling(5)) == [("recalculate", False)]
    assert run_by(window.sliding(5, every=2)) == [("two_stacks", True), ("boundary", True)]
    assert run_by(window.sliding(5, every=2), "int64") == [("subtract_on_evict", False)]
    assert run_by(window.trailing(rows(2))) == [("recalculate", False)]
    assert run_by(window.trailing(rows(3))) == [("two_stacks", False)]
    assert run_by(window.sliding(rows(3000), every=rows(2000))) == [("boundary", False)]
    assert run_by(window.session(5)) == [("recalculate", False)]
    assert run_by(window.sliding(rows(3), every=5)) == [("two_stacks", True), ("boundary", True)]


def test_rules_of_promised_order() -> None:
    in_order = Query(window.tumbling(10), SUM, time="t", ordered=True).explain(SCHEMA)
    assert (in_order.windows[0].rule, in_order.windows[0].kept) == ("in order", "nothing")
    assert "is refused" in in_order.order
    aware = Query(window.trailing(10), SUM, time="t", ordered=True).explain(SCHEMA)
    assert aware.windows[0].rule == "in order, forward context aware"


# ---------------------------------------------------------------- numbers


def test_edges() -> None:
    assert edges_per_tick([window.tumbling(10), window.tumbling(15)]) == 4 / 30
    assert edges_per_tick([window.tumbling(10), window.tumbling(20)]) == 0.1
    assert edges_per_tick([window.tumbling(10, offset=3), window.tumbling(10)]) == 0.2
    assert edges_per_tick([window.tumbling(10), window.session(4)]) == 0.1 + 0.25
    assert edges_per_tick([window.tumbling(10), window.trailing(4)]) is None
    large = [window.tumbling(n) for n in (1_000_003, 1_000_033)]  # they do not come around again in a million edges
    assert edges_per_tick(large) == pytest.approx(2 / 1_000_018, rel=1e-3)
    assert edges_per_tick([definitions.Doubling()]) == pytest.approx(0)
    assert slices_of_window(window.sliding(100, every=10), 0.1) == 10
    assert slices_of_window(window.session(5), 0.2) is None


def test_edges_are_counted_by_the_second() -> None:
    query = Query(window.tumbling("2 minutes"), SUM, time="t")
    for unit in ("s", "ms", "us", "ns"):
        plan = query.explain({**SCHEMA, "t": pa.timestamp(unit)})
        assert (plan.unit, plan.windows[0].edges) == ("second", pytest.approx(1 / 120))
    days = Query(window.tumbling("2 days"), SUM, time="t").explain({**SCHEMA, "t": pa.date32()})
    assert days.windows[0].edges == pytest.approx(1 / 2 / 86_400)
    assert Query(window.tumbling(120), SUM, time="t").explain(SCHEMA).unit == "unit of time"


@pytest.mark.parametrize(
    "definitions_", [[window.sliding(300, every=10)], [window.tumbling(50)], [window.session(5), window.tumbling(50)]]
)
def test_bytes_are_about_what_a_stream_takes(definitions_: Any) -> None:
    query = Query(definitions_, SUM, key="k", time="t", watermark=20, allowed_lateness=30)
    stream = query.stream()
    times, keys = np.repeat(np.arange(1_000), 4), np.tile(["a", "b", "c", "d"], 1_000)
    gaps = times % 25 < 15  # so that there are sessions
    for part in np.array_split(np.flatnonzero(gaps), 100):
        stream.push({"t": times[part], "k": keys[part], "v": np.ones(len(part))})
    said, now = query.explain(SCHEMA, keys=4), stream.explain()
    assert said.bytes is not None
    assert now.stores[0].now is not None
    least = 0 if any("session" in each.window for each in said.windows) else said.bytes / 4
    assert least < now.stores[0].now["bytes"] <= said.bytes * 1.1  # of sessions only the most is known
    assert now.stores[0].now["slices"] <= 4 * said.stores[0].slices
    assert said.bytes == 4 * said.stores[0].bytes


def test_rows_that_are_kept() -> None:
    query = Query(window.trailing(rows(50)), SUM, key="k", time="t", watermark=20)
    plan = query.explain(SCHEMA, keys=10, rows_per_second=2)
    (store,) = plan.stores
    assert (store.row_count, store.row_time, store.row_bytes) == (50, 20, 19)
    assert plan.bytes == 10 * (50 + 20 * 2) * 19
    assert query.explain(SCHEMA).bytes is None  # nobody has said how many rows come
    assert Query(window.trailing(rows(50)), SUM, time="t").explain(SCHEMA).stores[0].bytes == 50 * 19
    stream = query.stream()
    for t in range(0, 400, 10):
        stream.push({"t": np.repeat(np.arange(t, t + 10), 2), "v": np.ones(20), "k": ["a"] * 20})
    (running,) = stream.explain().stores
    assert running.now is not None
    assert running.now["kept"] == pytest.approx(50 + 20 * 2, rel=0.1)


# ---------------------------------------------------------------- types


def test_types_that_are_assumed() -> None:
    def assumed(definition: Any, aggregate: Any, **words: Any) -> dict[str, str]:
        return dict(Query(definition, {"x": aggregate}, time="t", **words).explain().assumed)

    assert assumed(window.tumbling(10), agg.count()) == {"t": "int64"}
    assert assumed(window.tumbling("1 hour"), agg.sum("v")) == {"t": "timestamp[us]", "v": "double"}
    assert assumed(window.tumbling("1 nanosecond"), agg.sum("v")) == {"t": "timestamp[ns]", "v": "double"}
    assert assumed(window.trailing(rows(3)), agg.bit_and("v")) == {"t": "int64", "v": "int64"}
    assert assumed(window.punctuated("v"), agg.any("v")) == {"t": "int64", "v": "bool"}
    policy = window.policy(policies.at_most_duration("1 hour"))
    assert assumed(policy, agg.count()) == {"t": "timestamp[us]"}
    assert assumed(window.trailing(rows(2)), agg.count(), emit_early=ProcessingTime("1 second")) == {
        "t": "timestamp[us]"
    }


def test_any_schema_will_do() -> None:
    query = Query(window.tumbling(10), SUM, key="k", time="t")
    table = pa.table({"t": [1], "k": ["a"], "v": [1.5]})
    types = dict(zip(table.column_names, table.schema.types, strict=True))
    plans = [query.explain(each) for each in (table.schema, types, table)]
    plans += [query.explain({"t": [1], "k": ["a"], "v": [1.5]})]
    assert len({str(each) for each in plans}) == 1
    with pytest.raises(ColumnError, match="no column 'v'"):
        query.explain({"t": pa.int64(), "k": pa.string()})
    with pytest.raises(ColumnError, match="no column 'k'"):
        query.explain({"t": pa.int64(), "v": pa.int64()})
    with pytest.raises(InvalidArgumentError, match="schema is a int"):
        query.explain(3)
    for name, value in (("keys", 0), ("keys", 1.5), ("rows_per_second", -1), ("rows_per_second", True)):
        with pytest.raises(InvalidArgumentError, match=name):
            query.explain(**{name: value})


def test_nothing_is_read_of_a_query_by_the_clock() -> None:
    plan = Query(window.tumbling("1 minute"), SUM, time=None).explain()
    assert "not possible" in plan.run
    assert plan.time_type == "timestamp[us]"
    assert dict(plan.assumed) == {"v": "double"}


# ---------------------------------------------------------------- streams


def test_facts_of_streams() -> None:
    plain = Query(window.tumbling(10), SUM, time="t")
    said = plain.explain(SCHEMA)
    assert "the greatest time seen, or" in said.watermark
    assert "never changes" in said.lateness
    assert "no window" in said.early
    assert "waits" in said.idle
    words = {"watermark": 5, "allowed_lateness": 7, "idle_timeout": 9, "emit_early": 11}
    said = replace(plain, **words).explain(SCHEMA)
    for text, number in ((said.watermark, 5), (said.lateness, 7), (said.idle, 9), (said.early, 11)):
        assert f" {number}" in text
    assert "by the clock" in replace(plain, emit_early=ProcessingTime(3)).explain(SCHEMA).early


def test_a_running_stream() -> None:
    stream = Query([window.tumbling(10), window.trailing(5)], SUM, key="k", time="t").stream(clock=Clock())
    assert stream.explain().now is None
    stream.push({"t": [1, 3, 12], "k": ["a", "b", "a"], "v": [1.0, 2.0, 3.0]})
    added = stream.add(window.tumbling(4))
    stream.remove(0)
    plan = stream.explain()
    assert [each.window_id for each in plan.windows] == [1, added]
    assert plan.windows[1].complete_from == stream.complete_from(added)
    assert plan.now == stream.metrics()
    assert plan.keys == 2
    assert [dict(store.now or {}) for store in plan.stores] == [
        each.metrics() for each in stream._state.resolved.strategies
    ]
    assert "was added while rows came" in str(plan)
    assert f"kept {stream.metrics()['kept']}" in str(plan)


def test_a_stream_without_windows() -> None:
    stream = Query(window.tumbling(10), SUM, time="t").stream(strategy="slices")
    stream.remove(0)
    assert stream.explain().windows == ()
    assert "in short    there is no window" in str(stream.explain())
    stream.push({"t": [1], "v": [1.0]})
    assert stream.explain().stores == ()


# ---------------------------------------------------------------- text

GOLDEN = """\
query
  in short    windows 0, 1: slices keep the values of rows, sorted; window 2: rows are kept for as long
              as a window needs them
  aggregates  longest = agg.max('len'), middle = agg.median('len')
  key         region
  time        ts, timestamp[ms]
window 0
  definition  window.sliding('24 hours', every='1 minute')
  class       context free, measured in time
  strategy    slices
  rows        their values are kept, sorted (out of order, holistic and commutative): no state of a
              fixed size stands for a slice: its values are kept, without their order
  splits      slices are never split (context free): the edges follow from the parameters, and no row
              changes them
  removals    no row leaves its slice (not by rows): a late row does not change which slices the others
              are in
  edges       0.01667 a second; a window has up to 1,728 slices
  in run      longest by two_stacks where a slide brings fewer than eight rows (at most three combines a
              row); longest by boundary where it brings eight or more (a row is combined once, into a
              slice; a window is three combines of slices); middle by order_statistics (the window is
              kept sorted, O(log n) a row)
window 1
  definition  window.session('5 minutes')
  class       forward context free, measured in time
  strategy    slices
  rows        their values are kept, sorted (out of order, holistic and commutative): no state of a
              fixed size stands for a slice: its values are kept, without their order
  splits      slices are never split (out of order, sessions): a row only brings sessions together:
              slices become one, and never two
  removals    no row leaves its slice (not by rows): a late row does not change which slices the others
              are in
  edges       at most 0.003333 a second
  in run      longest by recalculate (each row is combined once); middle by order_statistics (the window
              is kept sorted, O(log n) a row)
window 2
  definition  window.trailing(rows(100))
  class       context free, measured in rows
  strategy    rows; not slices: window.trailing(rows(100)) is not by time; not tiles:
              window.trailing(rows(100)) is neither a trailing frame with a hop nor a lifetime
  rows        they are kept (out of order, by rows): a late row moves the last row of every later slice
              on into the next
  splits      slices would never be split (context free): the edges follow from the parameters, and no
              row changes them
  removals    slices that lose a row would be folded again (by rows, not invertible): nothing takes a
              row out of a state: the slice is folded again
  answered    a window is a range of row numbers; m rows take O(m log n) where n are held, in order
              O(m), and a late row moves later numbers without touching their rows, and revises the
              windows that hold others
  edges       where the rows put them
  in run      longest by two_stacks (at most three combines a row); middle by order_statistics (the
              window is kept sorted, O(log n) a row)
kept by slices
  windows     0, 1
  slices      0.02 a second and key, at most
  merged by   longest by flat_fat (a window has up to 1440 slices, and a tree over them answers it in
              O(log n) combines); middle by selection (found across the sorted values of the slices,
              which stay as they are)
  state       144 bytes a slice, up to 1,731 at a time; 16 bytes for each distinct value of a slice;
              more while a session lasts longer
kept by rows
  windows     2
  merged by   longest by a tree of rows (O(log n) combines a late row, O(1) a row in order and a
              window); middle by a multiset of values (O(log n) for each row that enters a window or
              leaves it)
  state       43 bytes a row, the last 100 rows, and those of the last 70 seconds
run
  how         rows are sorted by key and time, unless they are in order already; then each window takes
              one pass over them
stream
  watermark   the greatest time seen less '10 seconds', or what advance() says; a window is emitted when
              it reaches its end
  lateness    a window that was emitted still changes for '1 minute', with revisions; rows that no
              window takes are in late
  early       no window is emitted before it is due
  idle        after '1 minute' without a row the watermark goes on with the clock
  order       rows come in any order"""


def calls() -> Query:
    return Query(
        windows=[window.sliding("24 hours", every="1 minute"), window.session("5 minutes"), window.trailing(rows(100))],
        aggregates={"longest": agg.max("len"), "middle": agg.median("len")},
        key=["region"],
        time="ts",
        watermark="10 seconds",
        allowed_lateness="1 minute",
        idle_timeout="1 minute",
    )


CALLS = pa.schema({"ts": pa.timestamp("ms"), "region": pa.string(), "len": pa.int32()})


def test_the_text() -> None:
    plan = calls().explain(CALLS, keys=2)
    assert str(plan) == GOLDEN
    assert repr(plan) == str(plan)
    assert max(map(len, str(plan).splitlines())) <= 104


def test_for_notebooks_and_programs() -> None:
    plan = Query(window.tumbling(10), {"a<b": agg.max("v")}, time="t").explain(SCHEMA)
    html = plan._repr_html_()
    assert html.startswith("<table>")
    assert "a&lt;b = agg.max" in html
    assert html.count("<tr>") == sum(1 + len(lines) for _, lines in plan.sections())
    assert json.loads(json.dumps(plan.to_dict()))["windows"][0]["strategy"] == "slices"
    assert plan.unit == "unit of time"
