"""Random queries: the stream, however rows are cut into batches, the finite DataFrame, and `run` agree.

Many are played to the parts of the pipeline, and some to Spark itself: `MUNTIN_SPARK_CASES` says how many; few unless
said, since each takes seconds.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from queries import oracle, strategies, streams
from queries.strategies import drawn
from queries.test_stream import same
from sampling import examples
from spark.feed import Feed
from spark.model import Machine
from spark.test_batch import frame_of

import muntin.spark
from muntin.kernels.cache import uncompiled
from muntin.spark import memory
from muntin.windows.kinds.punctuated import Punctuated

CASES = int(os.environ.get("MUNTIN_SPARK_CASES", "3"))
KEYS = ((), ("k",), ("k", "mark"))
SCHEMA = pa.schema({"t": pa.int64(), "k": pa.string(), "v": pa.int64(), "km": pa.int64(), "mark": pa.bool_()})


def case(seed: int) -> tuple[oracle.Query, list[dict[str, Any]], random.Random]:
    """Return a query and rows, each of which comes so early that no window is ever revised."""
    chance = random.Random(seed)
    slack = chance.choice([0, 2, 7])
    lateness = chance.choice([0, 5])
    query = drawn(strategies.queries(), seed)
    query = replace(query, key=KEYS[seed % 3], watermark=slack + 1, allowed_lateness=lateness)
    rows: list[dict[str, Any]] = []
    while len(rows) < 15:
        rows = drawn(strategies.tables(60), chance.randrange(1 << 30))
    return query, drawn(strategies.disordered(rows, slack), chance.randrange(1 << 30)), chance


@pytest.mark.parametrize("seed", range(CASES))
def test_stream_and_batch_are_run(seed: int, session: Any, tmp_path: Path) -> None:
    query, rows, chance = case(seed)
    asked, local = streams.asked(query), streams.Stream(query, rows)
    local.schema = SCHEMA
    table = local.table(rows)
    due = local.push(rows)
    whole = due + local.close()
    run = local.results(asked.run(table))
    about = f"{query}\n{rows}"
    assert same(run, whole), about
    assert same(
        local.results(asked.spark(frame_of(session, table), path=chance.choice(["auto", "python"])).toArrow()), run
    ), about

    feed = Feed(session, tmp_path, SCHEMA)
    cuts = sorted(chance.randrange(len(rows)) for _ in range(chance.choice([1, 2, 3])))
    for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        feed.add(rows[low:high])
    late = chance.random() < 0.5
    answers = pa.concat_tables(feed.run(asked, late=late, buckets=chance.choice([1, 3])))
    if late:
        is_late = answers["late"].combine_chunks().is_valid()
        lost = answers["late"].combine_chunks().filter(is_late).to_pylist()
        answers = answers.filter(pa.compute.invert(is_late))
        assert sorted(map(repr, lost)) == sorted(map(repr, local.late)), about
    assert same(local.results(answers), due), f"cuts {cuts}, late {late}: {about}"
    counts = muntin.spark.progress(feed.query)
    assert (counts.rows, counts.dropped) == (len(rows), len(local.late))
    assert counts.windows == len(due)


def played(data: st.DataObject, query: oracle.Query, rows: list[dict[str, Any]]) -> tuple[Machine, list[oracle.Result]]:
    """Play rows, cut into batches, to the parts of the pipeline; return what these say."""
    machine = Machine(query, SCHEMA, data.draw(st.integers(1, 3)), sliced=data.draw(st.booleans()))
    with pytest.MonkeyPatch.context() as patch, uncompiled():
        patch.setattr("muntin.spark.bucket.MEMORY", memory.Memory(data.draw(st.sampled_from([0, 1 << 20]))))
        patch.setattr("muntin.spark.cutter._FEW", 0)
        said = [each for push in data.draw(strategies.cuts(rows)) for each in machine.batch(push.rows)]
        return machine, said + machine.batch([])


@given(data=st.data())
@settings(max_examples=examples(30))
def test_the_parts(data: st.DataObject) -> None:
    slack = data.draw(st.sampled_from([0, 2, 7]))
    query = replace(data.draw(strategies.queries()), key=data.draw(st.sampled_from(KEYS)), watermark=slack + 1)
    rows = data.draw(strategies.disordered(data.draw(strategies.tables(40)), slack))
    assume(rows)
    local = streams.Stream(query, rows)
    local.schema = SCHEMA
    with uncompiled():
        due = local.push(rows)
    machine, said = played(data, query, rows)
    assert same(said, due)
    assert (machine.counts["rows"], machine.counts["dropped"]) == (len(rows), len(local.late))


@given(data=st.data())
@settings(max_examples=examples(30))
def test_the_parts_early(data: st.DataObject) -> None:
    """Early results change nothing of the last word on a window that is due."""
    slack = data.draw(st.sampled_from([0, 2, 7]))
    query = replace(data.draw(strategies.queries()), key=data.draw(st.sampled_from(KEYS)), watermark=slack + 1)
    rows = data.draw(strategies.disordered(data.draw(strategies.tables(40)), slack))
    assume(rows)
    local = streams.Stream(query, rows)
    local.schema = SCHEMA
    with uncompiled():
        due = local.push(rows)
    early = replace(query, emit_early=data.draw(st.sampled_from([1, 4, 10])))
    _, said = played(data, early, rows)
    # Of rows of equal time these give windows of equal names.
    alike = [i for i, each in enumerate(query.windows) if each.each_row or isinstance(each, Punctuated)]
    last = {repr(each) for each in oracle.latest(early, said)}
    missing = [each for each in due if each.window_id not in alike and repr(each) not in last]
    assert not missing
