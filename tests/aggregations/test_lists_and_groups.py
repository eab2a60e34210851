"""Lists of values, modes, histograms and aggregates by a second column, beside plain loops over the rows."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import statistics
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

import muntin
from muntin import Query, agg, aggregators, rows, slide, window
from muntin.aggregations.aggregation import Aggregation
from muntin.errors import AggregationOverflowError, ColumnTypeError, DefinitionError
from muntin.kernels.cache import uncompiled
from muntin.testing import laws

Row = dict[str, Any]
NAN = float("nan")
EDGES = [-1.0, 0, 2.5]


def order(value: Any) -> Any:
    """Null before all, NaN behind all."""
    return (0, 0) if value is None else (2, 0) if value != value else (1, value)


def known(found: list[Row], column: str = "v") -> list[Any]:
    return [row[column] for row in found if row[column] is not None]


def one(value: Any) -> Any:
    """Every NaN is this one, every zero the positive one."""
    return math.nan if value != value else value + 0.0 if isinstance(value, float) else value


def or_none(answer: list[Any]) -> list[Any] | None:
    return answer or None


def mode(values: list[Any]) -> Any:
    counted = Counter(map(one, values))
    return min(counted, key=lambda value: (-counted[value], order(value))) if counted else None


def histogram(values: list[Any]) -> list[int]:
    counts = [0] * (len(EDGES) + 1)
    for value in values:
        counts[len(EDGES) if value != value else sum(value >= edge for edge in EDGES)] += 1
    return counts


def groups(found: list[Row], result: Callable[[list[Row]], Any], top: int | None = None) -> list[Row] | None:
    members: dict[Any, list[Row]] = {}
    for row in found:
        value = row["p"] if row["p"] is None else one(row["p"])
        members.setdefault(value, []).append(row)
    answer = [{"value": value, "result": result(members[value])} for value in sorted(members, key=order)]
    if top is not None:
        answer.sort(key=lambda each: order(each["result"]), reverse=True)
    return or_none(answer[:top])


def total(found: list[Row]) -> Any:
    return sum(known(found, "n")) if known(found, "n") else None


def mean(found: list[Row]) -> Any:
    return statistics.fmean(known(found, "n")) if known(found, "n") else None


def joined(found: list[Row]) -> Any:
    return "-".join(known(found, "s")) if known(found, "s") else None


PLAIN: dict[str, tuple[Aggregation, Callable[[list[Row]], Any]]] = {
    "first two": (agg.first_k("v", 2), lambda found: or_none(known(found)[:2])),
    "last two": (agg.last_k("s", k=2), lambda found: or_none(known(found, "s")[-2:])),
    "last where": (agg.last_k("n", 3, where="ok"), lambda f: or_none(known([r for r in f if r["ok"]], "n")[-3:])),
    "bottom": (agg.bottom_k("v", 3), lambda found: or_none(sorted(known(found), key=order)[:3])),
    "mode": (agg.mode("v"), lambda found: mode(known(found))),
    "mode of texts": (agg.mode("s"), lambda found: mode(known(found, "s"))),
    "histogram": (agg.histogram("v", edges=EDGES), lambda found: histogram(known(found))),
    "sums": (agg.per("p", agg.sum("n")), lambda found: groups(found, total)),
    "top sums": (agg.per("p", agg.sum("n"), top=2), lambda found: groups(found, total, 2)),
    "top means": (agg.per("p", agg.mean("n"), top=1), lambda found: groups(found, mean, 1)),
    "counts where": (
        agg.per("p", agg.count(), top=3, where="ok"),
        lambda found: groups([row for row in found if row["ok"]], len, 3),
    ),
    "counts of those that are ok": (
        agg.per("p", agg.count(where="ok")),
        lambda found: groups(found, lambda each: sum(row["ok"] is True for row in each)),
    ),
    "texts": (agg.per("p", agg.concat("s", "-"), top=2), lambda found: groups(found, joined, 2)),
    "medians": (
        agg.per("p", agg.median("n")),
        lambda found: groups(
            found, lambda each: float(statistics.median(known(each, "n"))) if known(each, "n") else None
        ),
    ),
    "distinct": (
        agg.per("p", agg.count_distinct("s"), top=2),
        lambda found: groups(found, lambda each: len(set(known(each, "s"))), 2),
    ),
    "last of each": (
        agg.per("p", agg.last("s")),
        lambda found: groups(found, lambda each: known(each, "s")[-1] if known(each, "s") else None),
    ),
    "extremes": (
        agg.per("p", agg.range("n"), top=2),
        lambda f: groups(
            f, lambda each: max(known(each, "n")) - min(known(each, "n")) if known(each, "n") else None, 2
        ),
    ),
}
"""Each aggregation, and what it is of the rows of a window in event order."""
PUSHED = ["first two", "last two", "mode", "histogram", "sums", "top sums", "texts", "medians"]
"""A few of every class of state: streams have no line for any of them."""

FLOATS = st.one_of(st.none(), st.sampled_from([NAN, 0.0, -0.0, 1.5, 2.5, -1.0, math.inf]))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "t": st.integers(0, 20),
            "k": st.sampled_from("ab"),
            "v": FLOATS,
            "p": FLOATS,
            "n": st.one_of(st.none(), st.integers(-3, 9)),
            "s": st.one_of(st.none(), st.sampled_from(["x", "y", ""])),
            "ok": st.sampled_from([True, True, False, None]),
        }
    ),
    min_size=1,
    max_size=25,
)
SCHEMA = pa.schema(
    {"t": pa.int64(), "k": pa.string(), "v": pa.float64(), "p": pa.float64(), "n": pa.int64(), "s": pa.string()}
    | {"ok": pa.bool_()}
)
AGGREGATES = {name: made for name, (made, _) in PLAIN.items()}
WINDOWS = [window.tumbling(5), window.sliding(8, every=2), window.trailing(6), window.trailing(6, hop=3)]


def table(found: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(found, SCHEMA)


def holds(at: int, row: Row, bounds: Row, key: str) -> bool:
    if row["k"] != key:
        return False
    if at == 3:  # begins with a multiple of its hop
        return bool(bounds["start"] <= row["t"] <= bounds["end"])
    if at < 2:
        return bool(bounds["start"] <= row["t"] < bounds["end"])
    return bool(bounds["start"] < row["t"] <= bounds["end"])


def plain(found: list[Row], answer: Row, names: list[str]) -> list[Any]:
    ordered = sorted(found, key=lambda row: row["t"])  # stable: equal times stay in order of arrival
    held = [row for row in ordered if holds(answer["window_id"], row, answer["window"], answer["k"])]
    return [PLAIN[name][1](held) for name in names]


def shown(answers: pa.Table, names: list[str]) -> list[str]:
    """Return answers in one order, as texts in which NaN equals itself."""
    read = [
        (row["k"], row["window_id"], *row["window"].values(), *(row[n] for n in names)) for row in answers.to_pylist()
    ]
    return sorted(map(repr, read))


@given(ROWS)
@settings(deadline=None, max_examples=examples(40))
def test_run_is_the_plain_loop(found: list[Row]) -> None:
    answers = Query(WINDOWS, AGGREGATES, key="k", time="t").run(table(found))
    for answer in answers.to_pylist():
        expected = plain(found, answer, list(PLAIN))
        assert repr([answer[name] for name in PLAIN]) == repr(expected), answer["window"]


@given(ROWS, st.data())
@settings(deadline=None, max_examples=examples(30))
def test_streams_restored_anywhere_end_where_run_does(found: list[Row], data: st.DataObject) -> None:
    """However rows are disordered: but rows of equal time stay in order of arrival."""
    delays = data.draw(st.lists(st.integers(0, 4), min_size=21, max_size=21))
    pushed = sorted(found, key=lambda row: row["t"] + delays[row["t"]])
    query = Query(WINDOWS, {n: AGGREGATES[n] for n in PUSHED}, key="k", time="t", watermark=2, allowed_lateness=9)
    stream, emitted = query.stream(), []
    for row in pushed:
        emitted.append(stream.push(table([row])))
        if data.draw(st.booleans()):
            stream = query.stream(stream.snapshot())
    emitted.append(stream.close())
    answers = muntin.latest(pa.concat_tables(emitted))
    expected = query.run(table(found))
    assert answers.schema == expected.schema
    assert shown(answers, PUSHED) == shown(expected, PUSHED)


@given(ROWS)
@settings(deadline=None, max_examples=examples(20))
def test_over_and_ask_are_the_plain_loop(found: list[Row]) -> None:
    query = Query(window.trailing(6), AGGREGATES, key="k", time="t", watermark=30)
    points = pa.table({"k": ["a", "b", "a", "c"], "t": [4, 11, 20, 20]})
    stream = query.stream()
    stream.push(table(found))
    asked = stream.ask(points).to_pylist()
    assert repr(asked) == repr(query.over(table(found), at=points).to_pylist())
    for row in [*query.over(table(found)).to_pylist(), *asked]:
        answer = {"k": row["k"], "window_id": 2, "window": {"start": row["t"] - 6, "end": row["t"]}}
        assert repr([row[name] for name in PLAIN]) == repr(plain(found, answer, list(PLAIN)))


@given(ROWS, st.integers(1, 6))
@settings(deadline=None, max_examples=examples(10))
def test_slide_is_the_plain_loop(found: list[Row], width: int) -> None:
    answers = slide(table(found), AGGREGATES, range=width).to_pylist()
    for at, answer in enumerate(answers):
        held = found[max(0, at + 1 - width) : at + 1]
        assert repr([answer[name] for name in PLAIN]) == repr([PLAIN[name][1](held) for name in PLAIN])


@pytest.mark.compiled
def test_compiled_and_plain_answers_are_equal() -> None:
    at = range(600)
    found = {"t": at, "k": ["a"] * 600, "p": [i * 7 % 11 for i in at], "n": [i * i % 23 for i in at]}
    asked = {
        "sums": agg.per("p", agg.sum("n")),
        "means": agg.per("p", agg.mean("n"), top=3),
        "bins": agg.histogram("n", edges=[3, 9.5, 30]),
        "mode": agg.mode("n"),
    }
    query = Query(window.sliding(100, every=7), asked, key="k", time="t")
    with uncompiled():
        expected = query.run(found)
    assert query.run(found) == expected


# ---------------------------------------------------------------- types


DAY = dt.datetime(2024, 5, 1)
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integers": (pa.int32(), [3, 1, 3, 2]),
    "unsigned": (pa.uint64(), [2**62, 1, 2**62, 2]),
    "floats": (pa.float32(), [3.5, 1.0, 3.5, 2.0]),
    "texts": (pa.string(), ["c", "a", "c", "b"]),
    "bytes": (pa.binary(), [b"c", b"a", b"c", b"b"]),
    "decimals": (pa.decimal128(9, 2), [decimal.Decimal(n) / 4 for n in (3, 1, 3, 2)]),
    "times": (pa.timestamp("us", "UTC"), [(DAY + dt.timedelta(n)).replace(tzinfo=dt.UTC) for n in (3, 1, 3, 2)]),
    "dates": (pa.date32(), [DAY.date() + dt.timedelta(n) for n in (3, 1, 3, 2)]),
    "durations": (pa.duration("ms"), [dt.timedelta(n) for n in (3, 1, 3, 2)]),
    "booleans": (pa.bool_(), [True, False, True, False]),
}


@pytest.mark.parametrize("name", VALUES)
def test_every_type_of_column(name: str) -> None:
    """Answers have the type of the column, in `run` and in a stream that is restored halfway."""
    kind, cells = VALUES[name]
    found = pa.table({"t": [0, 1, 2, 3], "v": pa.array(cells, kind)})
    asked = {
        "first": agg.first_k("v", 2),
        "last": agg.last_k("v", 2),
        "bottom": agg.bottom_k("v", 2),
        "mode": agg.mode("v"),
        "per": agg.per("v", agg.max("v"), top=2),
        "counts": agg.per("v", agg.count()),
    }
    query = Query(window.tumbling(10), asked, time="t")
    answers = query.run(found)
    assert [answers.schema.field(each).type for each in ("first", "mode")] == [pa.list_(kind), kind]
    struct = pa.list_(pa.struct([("value", kind), ("result", kind)]))
    assert answers.schema.field("per").type == struct
    (row,) = answers.to_pylist()
    counted = sorted(Counter(cells).items())
    top = sorted(set(cells), reverse=True)[:2]
    assert (row["first"], row["last"], row["bottom"]) == (cells[:2], cells[2:], sorted(cells)[:2])
    assert row["mode"] == (cells[0] if name != "booleans" else False)
    assert row["per"] == [{"value": value, "result": value} for value in top]
    assert row["counts"] == [{"value": value, "result": count} for value, count in counted]
    stream = query.stream()
    stream.push(found.slice(0, 2))
    stream = query.stream(stream.snapshot())
    stream.push(found.slice(2))
    assert stream.close() == answers


@pytest.mark.parametrize(
    ("kind", "edges", "cells", "counts"),
    [
        (pa.int8(), [-200, 0.5, 3, 1000], [-128, 0, 1, 3, 127, None], [0, 2, 1, 2, 0]),
        (pa.uint64(), [-5, 1, 2**63, 2**70], [0, 1, 2**63 - 1, 2**63, 2**64 - 1], [0, 1, 2, 2, 0]),
        (pa.int64(), [-math.inf, 2**53 + 1, math.inf], [-(2**63), 2**53, 2**53 + 1, 2**63 - 1], [0, 2, 2, 0]),
        (pa.float64(), [-math.inf, 0, math.inf], [-math.inf, -1, -0.0, math.inf, NAN], [0, 2, 1, 2]),
        (
            pa.decimal128(5, 1),
            [0.1, decimal.Decimal("0.3")],
            [decimal.Decimal(n) / 10 for n in (0, 1, 2, 3)],
            [1, 2, 1],
        ),
        (pa.bool_(), [1], [True, False, True], [1, 2]),
        (pa.timestamp("s"), [DAY], [DAY, DAY - dt.timedelta(seconds=1)], [1, 1]),
        (pa.date32(), [DAY.date()], [DAY.date(), DAY.date() - dt.timedelta(1)], [1, 1]),
        (pa.duration("s"), [dt.timedelta(1)], [dt.timedelta(0), dt.timedelta(1)], [1, 1]),
    ],
    ids=str,
)
def test_bins_are_exact(kind: pa.DataType, edges: list[Any], cells: list[Any], counts: list[int]) -> None:
    found = pa.table({"t": range(len(cells)), "v": pa.array(cells, kind)})
    query = Query(window.tumbling(100), {"bins": agg.histogram("v", edges=edges)}, time="t")
    assert query.run(found)["bins"].to_pylist() == [counts]


def test_no_rows_are_zeros_in_bins_and_null_elsewhere() -> None:
    asked = {name: AGGREGATES[name] for name in ("histogram", "last two", "mode", "sums")}
    query = Query(window.tumbling(5), asked, time="t", emit_empty=True)
    answers = query.run(table([{"t": 1}, {"t": 11}]).drop_columns("k")).to_pylist()
    assert [[row[name] for name in asked] for row in answers] == [
        [[0, 0, 0, 0], None, None, [{"value": None, "result": None}]],
        [[0, 0, 0, 0], None, None, None],
        [[0, 0, 0, 0], None, None, [{"value": None, "result": None}]],
    ]
    before = Query(window.trailing(5), asked, time="t").stream().ask({"t": [3]})
    assert before["histogram"].to_pylist() == [[0, 0, 0, 0]]


# ---------------------------------------------------------------- groups


def test_nested_groups_and_lists_as_results() -> None:
    found = {"a": ["x", "x", "y"], "b": [1, 2, 1], "v": [5, 6, 7]}
    nested = agg.per("a", agg.per("b", agg.sum("v"), top=1))
    assert slide(found, nested, range=3).tolist()[-1] == [
        {"value": "x", "result": [{"value": 2, "result": 6}]},
        {"value": "y", "result": [{"value": 1, "result": 7}]},
    ]
    lists = slide(pa.table(found), agg.per("a", agg.collect("v"), top=1), range=3)
    assert lists.type == pa.list_(pa.struct([("value", pa.string()), ("result", pa.list_(pa.int64()))]))
    assert lists.to_pylist()[-1] == [{"value": "y", "result": [7]}]
    m4 = slide(pa.table(found), agg.per("a", agg.m4("v"), top=1), range=3).to_pylist()[-1]
    assert m4 == [{"value": "y", "result": {"min": 7, "max": 7, "first": 7, "last": 7}}]


def test_results_in_order_of_size_and_equal_ones_by_value() -> None:
    found = {"p": ["c", "b", "a", None, "d", "d"], "n": [NAN, 1.0, 1.0, 1.0, None, None]}
    answer = slide(found, agg.per("p", agg.sum("n"), top=9), range=6).tolist()[-1]
    assert [each["value"] for each in answer] == ["c", None, "a", "b", "d"]
    few = slide(found, agg.per("p", agg.sum("n"), top=2), range=6).tolist()[-1]
    assert [each["value"] for each in few] == ["c", None]


def test_many_groups_in_states_merged_and_restored() -> None:
    """More than are noted before they are merged, so that parts of all sizes meet."""
    count = 3000
    found = {"t": range(count), "p": [i * i % 613 for i in range(count)], "n": range(count)}
    query = Query(window.sliding(1000, every=250), {"top": agg.per("p", agg.sum("n"), top=5)}, time="t")
    stream, emitted = query.stream(), []
    for at in range(0, count, 333):
        emitted.append(stream.push({name: list(cells)[at : at + 333] for name, cells in found.items()}))
        stream = query.stream(stream.snapshot())
    emitted.append(stream.close())
    answers = query.run(found)
    assert pa.concat_tables(emitted) == answers
    for row in answers.to_pylist():
        sums: Counter[int] = Counter()
        for at in range(max(0, row["window"]["start"]), min(count, row["window"]["end"])):
            sums[at * at % 613] += at
        best = sorted(sums.items(), key=lambda each: (-each[1], each[0]))[:5]
        assert row["top"] == [{"value": value, "result": result} for value, result in best]


def test_the_first_and_last_of_rows_that_come_late() -> None:
    query = Query(
        window.tumbling(10), {"first": agg.first_k("v", 2), "last": agg.last_k("v", 2)}, time="t", watermark=9
    )
    stream = query.stream()
    for t, v in ((5, "c"), (3, "a"), (7, "e"), (5, "d"), (3, "b")):
        stream.push({"t": [t], "v": [v]})
    assert stream.close().select(["first", "last"]).to_pylist() == [{"first": ["a", "b"], "last": ["d", "e"]}]


@pytest.mark.parametrize("counts", [(2, 5), (5, 2)])
def test_groups_merge_in_order_whichever_are_more(counts: tuple[int, int]) -> None:
    made = agg.per("p", agg.concat("s"))
    parts = []
    for name, count in zip("xy", counts, strict=True):
        state = made.neutral()
        for i in range(count):
            state = made.combine(state, made.lift(f"p{i}", name))
        made.lower(state)  # merges them
        parts.append(state)
    answer = made.lower(made.combine(*parts))
    assert [each["result"] for each in answer[:2]] == ["xy", "xy"]
    assert len(answer) == max(counts)


def test_too_many_values_are_an_error_that_changes_nothing() -> None:
    query = Query(window.tumbling(10), {"n": agg.per("p", agg.count(), most=2)}, time="t")
    stream = query.stream()
    stream.push({"t": [0, 1, 2], "p": ["a", "b", "a"]})
    with pytest.raises(AggregationOverflowError, match=r"'p' has 3 distinct values in a window, and most is 2; give"):
        stream.push({"t": [3], "p": ["c"]})
    assert stream.close()["n"].to_pylist() == [[{"value": "a", "result": 2}, {"value": "b", "result": 1}]]


@pytest.mark.parametrize("frame", [window.tumbling(20), window.trailing(9), window.session(9)], ids=repr)
def test_columns_of_nulls_that_get_a_type_later(frame: Any) -> None:
    asked = {
        "sums": agg.per("p", agg.sum("n")),
        "greatest": agg.per("p", agg.max("n"), top=2),
        "lists": agg.per("p", agg.collect("n")),
        "nested": agg.per("p", agg.per("n", agg.count())),
        "mode": agg.mode("n"),
    }
    query = Query(frame, asked, time="t")
    first = pa.table({"t": [1, 2], "p": pa.array([None, None]), "n": pa.array([None, None])})
    second = pa.table({"t": [3], "p": ["a"], "n": pa.array([None])})
    third = pa.table({"t": [4, 5], "p": ["a", None], "n": [-2.5, -7.0]})
    stream, emitted = query.stream(), []
    for each in (first, second, third):
        emitted.append(stream.push(each))
        stream = query.stream(stream.snapshot())
    answers = pa.concat_tables([*emitted, stream.close()], promote_options="permissive")
    whole = query.run(pa.concat_tables([first, second, third], promote_options="permissive"))
    assert muntin.latest(answers).to_pylist() == whole.to_pylist()


def test_integers_that_become_floats_in_an_aggregator() -> None:
    inner = aggregators.TwoStacks(agg.per("p", agg.sum("v")))
    inner.insert(0, ("a", None))
    inner.insert(1, ("a", 2))
    inner.insert(2, ("b", 2.5))
    assert inner.query() == [{"value": "a", "result": 2.0}, {"value": "b", "result": 2.5}]
    again = aggregators.TwoStacks.restore(inner.snapshot(), agg.per("p", agg.sum("v")))
    again.insert(3, ("b", 1))
    assert again.query() == [{"value": "a", "result": 2.0}, {"value": "b", "result": 3.5}]
    again.check()


def test_what_groups_show_of_themselves() -> None:
    made = agg.per("p", agg.sum("v", where="ok"), top=3, where="open")
    assert repr(made) == "agg.per('p', agg.sum('v', where='ok'), top=3, most=10000, where='open')"
    assert made.reads == ("p", "v", "ok", "open")
    assert made == agg.per("p", agg.sum("v", where="ok"), top=3, where="open")
    assert made != agg.per("p", agg.sum("v"), top=3, where="open")
    assert (made.commutative, made.kind) == (True, "algebraic")
    assert not agg.per("p", agg.concat("v")).commutative
    assert agg.per("p", agg.median("v")).kind == "holistic"
    laws.check(made)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: agg.per("p", "sum"), "give an aggregation for each value"),
        (lambda: agg.per(3, agg.count()), "named by a string, not by 3"),
        (lambda: agg.per("p", agg.count(), top=0), "top is 0; it must be an integer, at least 1"),
        (lambda: agg.per("p", agg.count(), most=2.5), "most is 2.5"),
        (lambda: agg.per("p", agg.time_weighted_mean("v")), "asks where its window ends"),
        (lambda: agg.histogram("v", edges=[]), "edges is empty"),
        (lambda: agg.histogram("v", edges=[1, 1]), "edges has 1 behind 1; they must ascend"),
        (lambda: agg.histogram("v", edges=[0, NAN]), "edges has nan"),
        (lambda: agg.histogram("v", edges="abc"), "edges is 'abc'; give a list"),
        (lambda: agg.histogram("v", edges=5), "edges is 5; give a list"),
        (lambda: agg.last_k("v", 0), "k is 0"),
        (lambda: agg.first_k("v", 1.5), "k is 1.5; it must be an integer"),
        (lambda: agg.bottom_k("v", 0), "k is 0"),
    ],
)
def test_parameters_that_mean_nothing(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        make()


def test_columns_that_do_not_fit() -> None:
    lists = pa.table({"t": [1], "v": [[1]], "d": [DAY]})
    for made, message in (
        (agg.per("v", agg.count()), "'v': it holds list<"),
        (agg.histogram("v", edges=[1]), "takes floating, integer"),
        (agg.histogram("t", edges=[DAY]), "must have numbers"),
    ):
        with pytest.raises(ColumnTypeError, match=message):
            Query(window.tumbling(5), {"a": made}, time="t").run(lists)


def test_frames_by_rows_and_sessions() -> None:
    found = {"t": [1, 2, 9, 10], "p": ["a", "b", "a", "a"], "n": [1, 2, 3, 4]}
    asked = {"top": agg.per("p", agg.sum("n"), top=1), "last": agg.last_k("n", 2)}
    query = Query([window.session(3), window.trailing(rows(2))], asked, time="t")
    answers = query.run(found).to_pylist()
    assert [(row["top"][0]["result"], row["last"]) for row in answers] == [
        (2, [1, 2]),
        (7, [3, 4]),
        (1, [1]),
        (2, [1, 2]),
        (3, [2, 3]),
        (7, [3, 4]),
    ]
