"""Random queries on Spark itself: the stream, however rows are cut into batches, the finite DataFrame, and `run` agree.

`MUNTIN_SPARK_CASES` says how many; few unless said, since each takes seconds.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from queries import oracle, strategies, streams
from queries.test_stream import same
from spark.feed import Feed
from spark.test_batch import drawn, frame_of

import muntin.spark

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
def test_stream_and_batch_are_run(seed: int, plain_session: Any, tmp_path: Path) -> None:
    query, rows, chance = case(seed)
    asked, local = streams.asked(query), streams.Stream(query, rows)
    local.schema = SCHEMA
    table = local.table(rows)
    due = local.push(rows)
    whole = due + local.close()
    run = local.results(asked.run(table))
    about = f"{query}\n{rows}"
    assert same(run, whole), about
    assert same(local.results(asked.spark(frame_of(plain_session, table)).toArrow()), run), about

    feed = Feed(plain_session, tmp_path, SCHEMA)
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
