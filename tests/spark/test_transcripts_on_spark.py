"""The transcripts, played to Spark itself, as streams and as finite DataFrames: a sample of them.

With `MUNTIN_SPARK_TRANSCRIPTS=all` it is all of them, which takes many minutes; test_transcripts plays all of them to
the parts of the pipeline.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from queries import oracle, streams, transcript
from spark.feed import Feed
from spark.model import Expected, as_spark_has_it
from spark.test_batch import frame_of
from spark.test_transcripts import CASES, in_any_order

from muntin.spark.clock import Clock
from muntin.spark.schemas import known_to_spark

SAMPLE = (
    "time: tumbling with a delayed watermark waits",
    "sessions: a late row makes one session of two",
    "clocks: early, and changed until it is due",
)
ALL = os.environ.get("MUNTIN_SPARK_TRANSCRIPTS") == "all"
PLAYED = CASES if ALL else [case for case in CASES if case.name in SAMPLE]
FINITE = [case for case in transcript.load() if case.rows][:: 1 if ALL else 8]


def rows_of(case: transcript.Case) -> tuple[oracle.Query, list[list[dict[str, Any]]], streams.Stream]:
    """Return a query, its batches, and what reads them, with times as Spark has them."""
    query, batches = as_spark_has_it(case.query, [step.rows for step in case.steps if step.action == "push"])
    return query, batches, streams.Stream(query, [row for batch in batches for row in batch])


@pytest.mark.parametrize("case", PLAYED, ids=str)
def test_stream(case: transcript.Case, session: Any, tmp_path: Path) -> None:
    """Every batch answers what the oracle does that is told the watermark of the batches before."""
    query, batches, player = rows_of(case)
    feed = Feed(session, tmp_path, player.schema)
    for batch in batches:
        feed.add(batch)
    answers = feed.collect(streams.asked(query).spark(feed.frame()), "update")
    expected, clock = Expected(query), Clock.of(query.time_type, query.time)
    delay = int(clock.delay(query.watermark, query.time_type).split()[0])
    told = 0
    for i, batch in enumerate([*batches, []]):
        wanted = expected.batch(batch, clock.ticks(told))
        got = player.results(answers[i]) if i < len(answers) else []
        assert in_any_order(got) == in_any_order(wanted), f"batch {i}"
        told = max([told, *(clock.micros(row[query.time]) // 1000 - delay for row in batch)])


def test_finite(session: Any) -> None:
    """Many of them in one job, each row of an answer as JSON: they are what `run` answers."""
    from pyspark.sql import functions as F

    def as_json(number: int, frame: Any) -> Any:
        return frame.select(F.lit(number).alias("case"), F.to_json(F.struct("*"), {"ignoreNullFields": "false"}))

    found, truth = [], []
    for number, case in enumerate(FINITE):
        query, batches, player = rows_of(case)
        asked, table = streams.asked(query), player.table([row for batch in batches for row in batch])
        run = asked.run(table)
        found.append(as_json(number, asked.spark(frame_of(session, table), pieces=1)))
        truth.append(as_json(number, session.createDataFrame(run.cast(known_to_spark(run.schema)))))
    said, wanted = ([(n, json.loads(text)) for n, text in all_of(each).collect()] for each in (found, truth))
    for number, case in enumerate(FINITE):
        ours, theirs = ([row for n, row in each if n == number] for each in (said, wanted))
        assert in_any_order(ours) == in_any_order(theirs), case.name


def all_of(frames: list[Any]) -> Any:
    """Return the rows of several DataFrames; pairs of pairs, so that the plan is not deep."""
    while len(frames) > 1:
        frames = [a.union(*b) if b else a for a, *b in (frames[i : i + 2] for i in range(0, len(frames), 2))]
    return frames[0]
