"""`agg.count_distinct` against sets, for every type of column, and `state="distinct"` as a user's own tool.

Random streams, tables and aggregators have it among their aggregations (`cases.py`, `queries/strategies.py`).
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

import muntin
from muntin import Query, agg, window
from muntin.aggregators import TwoStacks
from muntin.errors import DefinitionError, UnsupportedOperationError
from muntin.kernels.cache import uncompiled

NAN = float("nan")
D = decimal.Decimal
MOMENTS = [datetime.datetime(1960, 1, 1), datetime.datetime(2024, 2, 29, 12, 0, 0, 5)]
VALUES: dict[str, tuple[Any, list[Any]]] = {
    "floats": (pa.float64(), [0.0, -0.0, NAN, 1.5, float("inf"), -float("inf")]),
    "small floats": (pa.float32(), [0.0, -0.0, NAN, 1.5]),
    "integers": (pa.int64(), [-(2**63), 2**63 - 1, 0, 7]),
    "unsigned": (pa.uint64(), [2**64 - 1, 0, 2**63]),
    "booleans": (pa.bool_(), [True, False]),
    "texts": (pa.string(), ["", "a", "A", "ä"]),
    "bytes": (pa.binary(), [b"", b"a"]),
    "decimals": (pa.decimal128(5, 2), [D("1.00"), D("-1.00"), D("0.10")]),
    "timestamps": (pa.timestamp("us"), MOMENTS),
    "nanoseconds": (pa.timestamp("ns"), [0, 1, -1]),
    "days": (pa.date32(), [moment.date() for moment in MOMENTS]),
    "durations": (pa.duration("s"), [datetime.timedelta(1), datetime.timedelta(-1)]),
    "lists": (pa.list_(pa.int64()), [[], [1], [1, 2]]),
    "structs": (pa.struct({"a": pa.int64()}), [{"a": 1}, {"a": None}]),
}


def token(value: Any) -> Any:
    if isinstance(value, float) and value != value:
        return "NaN"
    return repr(value) if isinstance(value, list | dict) else value


def expected(values: list[Any], first: int, last: int) -> int:
    return len({token(value) for value in values[first:last] if value is not None})


@pytest.mark.parametrize("kind", VALUES)
def test_every_type_by_every_engine(kind: str) -> None:
    logical, choices = VALUES[kind]

    @given(st.lists(st.one_of(st.none(), st.sampled_from(choices)), min_size=1, max_size=30), st.integers(1, 7))
    @settings(max_examples=examples(15))
    def run(values: list[Any], width: int) -> None:
        column = pa.array(values, logical)
        truth = [expected(values, max(0, i + 1 - width), i + 1) for i in range(len(values))]
        data = pa.table({"t": range(len(values)), "v": column})
        with uncompiled():
            assert muntin.slide(column, agg.count_distinct("v"), range=width).to_pylist() == truth
            for windows in (window.tumbling(width), window.sliding(2 * width, every=width)):
                query = Query(windows, {"n": agg.count_distinct("v")}, time="t", watermark=100)
                stream, half = query.stream(), len(values) // 2
                stream.push(data.slice(half))
                stream.push(data.slice(0, half))
                emitted = query.stream(stream.snapshot()).close().to_pylist()
                ran = query.run(data).to_pylist()
                assert sorted(map(repr, emitted)) == sorted(map(repr, ran))
                for row in ran:
                    assert row["n"] == expected(values, max(0, row["window"]["start"]), row["window"]["end"])

    run()


def test_streams_merge_slices_in_any_order() -> None:
    chance = np.random.default_rng(3)
    values = chance.choice([0.0, -0.0, NAN, 1.0, 2.0, 3.0], 400)
    times = chance.permutation(400)
    data = pa.table({"t": times, "v": values, "s": [f"{v}" for v in values]})
    asked = {"v": agg.count_distinct("v"), "s": agg.count_distinct("s"), "middle": agg.median("t")}
    query = Query([window.sliding(60, every=7), window.session(3)], asked, time="t", watermark=500)
    with uncompiled():
        stream = query.stream()
        for low in range(0, 400, 57):
            stream.push(data.slice(low, 57))
            stream.check()
            stream = query.stream(stream.snapshot())
        emitted, run = stream.close(), query.run(data)
    assert sorted(map(repr, emitted.to_pylist())) == sorted(map(repr, run.to_pylist()))
    in_order = values[np.argsort(times)].tolist()
    for row in run.filter(pa.compute.equal(run["window_id"], 0)).to_pylist():
        assert row["v"] == expected(in_order, max(0, row["window"]["start"]), row["window"]["end"])


@agg.define(state="distinct", result="f8", commutative=True)
class share_of_ten:
    def lower(s, *, most=10):
        return None if len(s) == most else len(s) / most


def test_an_own_aggregation_of_distinct_values() -> None:
    with uncompiled():
        assert muntin.slide([1, 1, 2], share_of_ten("v", most=2), range=3).tolist()[:2] == [0.5, 0.5]
        assert muntin.slide(pa.array([1, 1, 2]), share_of_ten("v", most=2), range=3).to_pylist()[2] is None
        both = {"share": share_of_ten("v"), "n": agg.count_distinct("v"), "paid": agg.count_distinct("v", where="ok")}
        data = {"v": [1, 2, 2], "ok": [False, True, True]}
        assert {name: each.tolist() for name, each in muntin.slide(data, both, range=2).items()} == {
            "share": [0.1, 0.2, 0.1],
            "n": [1, 2, 1],
            "paid": [0, 1, 1],
        }
        held = TwoStacks(agg.count_distinct("v"), compiled=False)
        held.bulk_insert(range(4), [NAN, NAN, None, 1.0])
        assert TwoStacks.restore(held.snapshot(), agg.count_distinct("v"), compiled=False).query() == 2


def test_what_is_refused() -> None:
    with pytest.raises(
        DefinitionError, match='wrong defines .lift.; with state="distinct" it has lower and check only'
    ):

        @agg.define(state="distinct")
        class wrong:
            def lift(v):
                return v

    with pytest.raises(UnsupportedOperationError, match="distinct_counts runs counts of distinct values only, not"):
        muntin.slide([1, 2], agg.max("v"), range=2, aggregator="distinct_counts")
    with uncompiled():
        forced = muntin.slide([1, 2, 1], agg.count_distinct("v"), range=2, aggregator="two_stacks")
    assert forced.tolist() == [1, 2, 2]
    assert "in NumPy, by distinct_counts" in muntin.explain([1, 2], agg.count_distinct("v"), range=2)


def test_frames_are_those_of_duckdb() -> None:
    import duckdb

    values = np.random.default_rng(4).choice([0.0, -0.0, NAN, 1.0, 2.0, 3.0, 4.0], 300)
    data = pa.table({"t": range(300), "v": values})
    frame = "order by t rows between 6 preceding and current row"
    connection = duckdb.connect()
    theirs = connection.from_arrow(data).query("data", f"select count(distinct v) over ({frame}) from data")
    assert muntin.slide(values, agg.count_distinct("v"), range=7).tolist() == [n for (n,) in theirs.fetchall()]
