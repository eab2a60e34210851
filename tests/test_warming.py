"""`muntin.warm`: after it, no answer of the query needs the compiler."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import muntin
from muntin import Query, agg, aggregators, policies, rows, stores, warming, window
from muntin.errors import MuntinError
from muntin.kernels import tiers
from muntin.kernels.background import Background
from muntin.kernels.cache import uncompiled
from muntin.plans.assumed import types_of
from muntin.spark.buckets import Keyed
from muntin.spark.cutter import Cutter, from_table
from muntin.streams.driven import DrivenStream
from muntin.streams.slices import pane_set

pytestmark = [pytest.mark.compiled, pytest.mark.slow]

SCHEMA = {"ts": pa.timestamp("us"), "k": pa.string(), "v": pa.float64()}
QUERIES: dict[str, Callable[[], Query]] = {
    "by time": lambda: Query(
        [window.sliding("12 s", every="3 s"), window.session("4 s")], {"high": agg.max("v")}, key="k"
    ),
    "late": lambda: Query(
        [window.tumbling("5 s"), window.session("4 s")], {"high": agg.max("v")}, key="k", allowed_lateness="1 minute"
    ),
    "by rows": lambda: Query([window.tumbling(rows(3))], {"high": agg.max("v")}, key="k", allowed_lateness="1 minute"),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that are asked of the compiler."""
    names: list[str] = []
    submit = Background.submit
    others = set(threading.enumerate()) - {threading.current_thread()}  # of earlier tests, such as a live page

    def noting(self: Background, path: Path, kernel: str, signature: Any, estimate: float) -> Any:
        if threading.current_thread() not in others:
            names.append(kernel)
        return submit(self, path, kernel, signature, estimate)

    monkeypatch.setattr(Background, "submit", noting)
    return names


@pytest.mark.parametrize("name", QUERIES)
def test_nothing_is_left_to_compile(name: str, asked: list[str]) -> None:
    query = QUERIES[name]()
    muntin.warm(query, SCHEMA)
    asked.clear()
    rng = random.Random(3)
    token = tiers._patient.set(False)
    try:
        stream = query.stream()
        for i in range(30):
            seconds = [max(0, 3 * i + rng.randint(-20, 4)) for _ in range(20)]
            table = pa.table(
                {
                    "ts": pa.array(np.array(seconds, "M8[s]").astype("M8[us]")),
                    "k": [rng.choice("abc") for _ in seconds],
                    "v": [None if rng.random() < 0.1 else rng.random() for _ in seconds],
                }
            )
            stream.push(table)
            query.run(table)
        query.stream(stream.snapshot()).close()
    finally:
        tiers._patient.reset(token)
    assert asked == []


def test_nothing_is_left_to_compile_where_spark_cuts_rows_into_slices(asked: list[str]) -> None:
    query = Query(window.tumbling("12 s"), {"high": agg.max("v")}, key="k")
    muntin.warm(query, SCHEMA)
    asked.clear()
    times = np.arange(100).astype("M8[s]").astype("M8[us]")
    table = pa.table({"ts": times, "k": [str(i % 3) for i in range(100)], "v": np.arange(100.0)})
    token = tiers._patient.set(False)
    try:
        cutter, stream = Cutter.of(query, table.schema), DrivenStream(query, table.schema)
        assert cutter is not None
        assert stream.slices
        cut = cutter.cut(table, Keyed.of([table["k"]], table.num_rows, 4))
        stream.take_slices(*from_table(cut[0], stream.slices[0]))
        stream.set_watermark(100_000_000)
        assert stream.emit().num_rows == 24
    finally:
        tiers._patient.reset(token)
    assert asked == []


@pytest.mark.parametrize("kind", [window.tumbling("1 s"), window.sliding("10 s", every="1 s")], ids=repr)
def test_nothing_is_left_to_compile_for_many_keys(kind: Any, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(kind, {"high": agg.max("v")}, key="k")
    muntin.warm(query, SCHEMA)
    asked.clear()
    monkeypatch.setattr(pane_set, "MANY_KEYS", 100)
    token = tiers._patient.set(False)
    try:
        stream = query.stream()
        for second in range(40):
            times = np.full(100, second - 2 * (second == 30)).astype("M8[s]").astype("M8[us]")
            values = [None if second % 7 == 0 and i == 3 else float(i) for i in range(100)]
            stream.push(pa.table({"ts": times, "k": [str(i) for i in range(100)], "v": values}))
        (held,) = stream._state.resolved.strategies[0].sets
        assert not held.is_by_key
    finally:
        tiers._patient.reset(token)
    assert asked == []


WINDOWS: dict[str, Callable[[], Any]] = {
    "Fiba": lambda: aggregators.Fiba(agg.max("v"), dtype="f8"),
    "Fiba of arity 8": lambda: aggregators.Fiba(agg.max("v"), min_arity=8),
    "Daba": lambda: aggregators.Daba({"high": agg.max("v"), "rows": agg.count()}),
    "Boundary": lambda: aggregators.Boundary(agg.max("v"), threads=2),
    "MonoidTree": lambda: aggregators.MonoidTree(agg.max("v"), policy=policies.at_most_rows(20)),
    "FlatFat": lambda: aggregators.FlatFat(agg.max("v")),
    "Enforced": lambda: aggregators.Enforced(aggregators.Daba(agg.max("v")), policies.sum_at_most("v", 20.0)),
    "stored": lambda: aggregators.MonoidTree(agg.max("v"), store=stores.Memory(), chunk_pairs=4),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_nothing_is_left_to_compile_for_a_window_driven_by_hand(name: str, asked: list[str]) -> None:
    built = WINDOWS[name]()
    muntin.warm(built)
    assert len(built) == 0
    asked.clear()
    token = tiers._patient.set(False)
    try:
        drive(WINDOWS[name](), random.Random(1))
        drive(built, random.Random(2))
    finally:
        tiers._patient.reset(token)
    assert asked == []


def drive(held: Any, rng: random.Random) -> None:
    """Call whatever a window has, in random order."""
    now = 0
    calls = ["insert", "bulk_insert", "late", "evict", "bulk_evict", "evict_at", "query", "range_query", "snapshot"]
    calls += [
        each for each in ("range_queries", "update", "bulk_evict_at", "rank", "nth", "items") if hasattr(held, each)
    ]
    for _ in range(200):
        now += 3
        old = now - rng.randrange(60)
        times = np.sort(np.array([now + rng.randrange(3) for _ in range(rng.randrange(2, 12))]))
        call = rng.choice(calls)
        arguments: dict[str, tuple[Any, ...]] = {
            "insert": (now, 1.5),
            "bulk_insert": (times, np.ones(len(times))),
            "late": (times - rng.randrange(60), np.ones(len(times))),
            "bulk_evict": (old,),
            "evict_at": (old,),
            "range_query": (old, now),
            "range_queries": ([old, old], [now, old]),
            "update": (old, 2.5),
            "bulk_evict_at": ([old],),
            "rank": (old,),
            "nth": (0,),
        }
        with contextlib.suppress(MuntinError, LookupError, AttributeError):
            answer = getattr(held, {"late": "bulk_insert"}.get(call, call))(*arguments.get(call, ()))
            if call == "items":
                list(answer)
        now = max(now, int(times[-1]))


def test_aggregations_are_compiled_for_a_class_of_windows(asked: list[str]) -> None:
    muntin.warm({"high": agg.max("v")}, aggregator=aggregators.Daba, dtype={"v": "i4"})
    asked.clear()
    token = tiers._patient.set(False)
    try:
        held = aggregators.Daba(agg.max("v"), dtype="i4")
        held.bulk_insert([1, 2, 3], np.array([3, 2, 1], "i4"))
        assert held.query() == 3
    finally:
        tiers._patient.reset(token)
    assert asked == []
    with pytest.raises(MuntinError, match="aggregator is 'Dabba'"):
        muntin.warm(agg.max("v"), aggregator="Dabba")


def test_a_window_that_is_warmed_keeps_its_rows() -> None:
    with uncompiled():
        held = aggregators.Fiba(agg.concat("v"))
        held.bulk_insert(np.array(["2024-01-01", "2024-01-02"], "M8[s]"), ["a", "b"])
        before = held.snapshot()
        muntin.warm(held)
        assert held.snapshot() == before


def test_types_are_assumed_where_none_are_given(asked: list[str]) -> None:
    query = QUERIES["by time"]()
    muntin.warm(query)
    asked.clear()
    muntin.warm(query)
    assert asked == []


def test_what_cannot_be_compiled_is_refused() -> None:
    with pytest.raises(MuntinError, match="a query or aggregations"):
        muntin.warm(3)  # type: ignore[arg-type]
    with pytest.raises(MuntinError, match="'v'"):
        muntin.warm(QUERIES["by time"](), {"ts": pa.timestamp("us"), "k": pa.string()})


def test_every_type_of_column_has_a_sample() -> None:
    """By which its kernels are compiled; here they only run."""
    kinds = [pa.int8(), pa.uint64(), pa.float32(), pa.bool_(), pa.date32(), pa.decimal128(10, 2), pa.timestamp("ns")]
    for kind in kinds:
        query = Query(window.tumbling("5 s"), {"last": agg.last("v")}, key="k")
        schema = {**SCHEMA, "v": kind}
        with uncompiled():
            muntin.warm(query, schema)
        samples = list(warming._samples(query, types_of(query, schema)[0]))
        assert {sample["v"].type for sample in samples} == {kind}
        assert {sample["v"].null_count for sample in samples} == {0, 1}
