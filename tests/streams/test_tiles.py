"""Tiles: frames with a hop from merged states, against the oracle, call by call, and how little is kept of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import oracle, strategies
from queries.test_stream import play
from sampling import examples

from muntin import Query, agg, window
from muntin.durations import parse_duration
from muntin.errors import AggregationOverflowError, InvalidArgumentError
from muntin.kernels.cache import uncompiled
from muntin.streams import tiles
from muntin.streams.plan import chosen_for

COMMUTATIVE = {name: strategies.AGGREGATES[name] for name in ("n", "values", "total", "high")}


@st.composite
def queries(draw: Any) -> oracle.Query:
    """Up to four frames with hops of their own, some of them long and coarse."""
    ranges = draw(st.lists(st.integers(1, 60), min_size=1, max_size=4))
    windows = [
        window.trailing(
            each,
            closed=draw(st.sampled_from(["right", "left"])),
            delay=draw(st.sampled_from([0, 0, 3])),
            hop=draw(st.integers(1, max(1, each))),
        )
        for each in ranges
    ]
    names = draw(st.lists(st.sampled_from(sorted(COMMUTATIVE)), min_size=1, unique=True))
    return oracle.Query(
        windows,
        {name: COMMUTATIVE[name] for name in names},
        key=draw(st.sampled_from([(), ("k",)])),
        watermark=draw(st.sampled_from([0, 1, 8])),
        allowed_lateness=draw(st.sampled_from([0, 0, 3, 20])),
        emit_early=draw(st.sampled_from([None, None, 4])),
    )


@given(queries(), st.data())
@settings(deadline=None, max_examples=examples(80))
def test_merged_states_answer_as_rows_do(query: oracle.Query, data: st.DataObject) -> None:
    """Tiles are made after every push, and a stream goes on from a snapshot anywhere."""
    table = data.draw(strategies.tables(40))
    late = st.one_of(strategies.disordered(table, query.delay + query.lateness), st.permutations(table))
    steps = data.draw(strategies.advances(data.draw(strategies.cuts(data.draw(late)))))
    restarts = data.draw(st.sets(st.integers(0, len(steps)), max_size=3))
    with pytest.MonkeyPatch.context() as patch, uncompiled():
        patch.setattr(tiles, "_FEW", 0)
        play(query, table, steps, "auto", restarts)


def chosen(frame: Any, aggregate: Any) -> str:
    from muntin.query.plan import resolve

    plan = resolve(Query(frame, {"it": aggregate}, time="t"), pa.schema({"t": pa.int64(), "v": pa.int64()}))
    return chosen_for(plan)


def test_what_tiles_are_for() -> None:
    assert chosen(window.trailing(10, hop=2), agg.sum("v")) == "tiles"
    assert chosen(window.trailing(10), agg.sum("v")) == "rows"
    assert chosen(window.trailing(10, hop=2), agg.longest_increasing_run("v")) == "rows"
    assert chosen(window.trailing(10, hop=2), agg.median("v")) == "rows"


def test_a_window_that_is_added_has_the_rows_from_then_on() -> None:
    stream = Query(window.trailing(100, hop=10), {"n": agg.count()}, time="t").stream()
    stream.push({"t": list(range(200))})
    window_id = stream.add(window.trailing(30, hop=5))
    found = stream.push({"t": [200, 201]}).to_pylist()
    assert [row["n"] for row in found if row["window_id"] == 0] == [101, 102]
    assert [row["n"] for row in found if row["window_id"] == window_id] == [1, 2]
    with pytest.raises(InvalidArgumentError, match="'w1' at 226.*from 230 on"):
        stream.ask({"t": [226]})
    assert stream.ask({"t": [230]}).to_pydict() == {"t": [230], "n_w0": [72], "n_w1": [2]}


def test_a_sum_that_is_too_large_changes_nothing() -> None:
    stream = Query(window.trailing(100, hop=10), {"total": agg.sum("v")}, time="t").stream()
    stream.push({"t": [1, 2], "v": [2**62, 1]})
    with pytest.raises(AggregationOverflowError, match="agg.sum"):
        stream.push({"t": [3], "v": [2**62]})
    assert stream.push({"t": [4], "v": [5]})["total"].to_pylist() == [2**62 + 6]


@pytest.mark.compiled
def test_old_rows_are_few_states() -> None:
    """Five windows up to 30 days, a row every ten seconds: the state of a key is counted, and is that of its hops."""
    frames = {
        "1 hour": "5 minutes",
        "6 hours": "30 minutes",
        "1 day": "2 hours",
        "7 days": "12 hours",
        "30 days": "2 days",
    }
    windows = {name: window.trailing(name, closed="left", hop=hop) for name, hop in frames.items()}
    query = Query(windows, {"n": agg.count(), "total": agg.sum("v"), "high": agg.max("v")}, key="k")
    times = np.arange(0, 35 * 86_400, 10, dtype=np.int64)
    values = (times // 10 % 97).astype(float)
    stream, last = query.stream(), None
    step = 8_640
    for i in range(0, len(times), step):
        stamps = pa.array(times[i : i + step] * 1_000_000, pa.timestamp("us"))
        last = stream.push({"ts": stamps, "k": ["a"] * len(stamps), "v": values[i : i + step]})
    kept = stream.metrics()
    assert kept["kept"] < 120
    (store,) = query.explain(pa.schema({"ts": pa.timestamp("us"), "k": pa.string(), "v": pa.float64()})).stores
    assert kept["kept"] <= store.slices + 18  # and rows of the last push, of which there may be a few
    assert store.bytes == store.slices * store.slice_bytes < 10_000
    assert kept["bytes"] - stream._state.core.keys.nbytes < 10_000
    for window_id, (name, hop) in enumerate(frames.items()):
        answer = last.filter(pa.compute.equal(last["window_id"], window_id)).to_pylist()[-1]
        end = int(times[-1])
        length, tile = (parse_duration(each) // 10**9 for each in (name, hop))
        held = values[(times >= (end - length) // tile * tile) & (times < end)]
        assert (answer["n"], answer["total"], answer["high"]) == (len(held), held.sum(), held.max())
