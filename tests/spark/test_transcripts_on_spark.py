"""The transcripts, played to Spark itself, as streams and as finite DataFrames: a sample of them.

With `MUNTIN_SPARK_TRANSCRIPTS=all` it is all of them, which takes many minutes; test_transcripts plays all of them to
the parts of the pipeline. The sample is played by a declarative pipeline and a cluster as well: see `played`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from queries import streams, transcript
from spark.feed import Feed
from spark.played import SAMPLE, Played
from spark.test_batch import frame_of
from spark.test_transcripts import CASES, in_any_order

from muntin.spark.schemas import known_to_spark

ALL = os.environ.get("MUNTIN_SPARK_TRANSCRIPTS") == "all"
PLAYED = CASES if ALL else [case for case in CASES if case.name in SAMPLE]
FINITE = [case for case in transcript.load() if case.rows][:: 1 if ALL else 8]


@pytest.mark.connect
@pytest.mark.parametrize("case", PLAYED, ids=str)
def test_stream(case: transcript.Case, session: Any, tmp_path: Path) -> None:
    """Every batch answers what the oracle does that is told the watermark of the batches before."""
    played = Played.of(case, tmp_path)
    feed = Feed(session, tmp_path, played.player.schema)
    for batch in played.batches:
        feed.add(batch)
    answers = feed.collect(played.answers(session), "update")
    for i, wanted in enumerate(played.expected()):
        got = played.player.results(answers[i]) if i < len(answers) else []
        assert in_any_order(got) == in_any_order(wanted), f"batch {i}"


def test_finite(session: Any) -> None:
    """Many of them in one job, each row of an answer as JSON: they are what `run` answers."""
    from pyspark.sql import functions as F

    def as_json(number: int, frame: Any) -> Any:
        return frame.select(F.lit(number).alias("case"), F.to_json(F.struct("*"), {"ignoreNullFields": "false"}))

    found, truth = [], []
    for number, case in enumerate(FINITE):
        played = Played.of(case, Path())
        asked, table = (
            streams.asked(played.query),
            played.player.table([row for each in played.batches for row in each]),
        )
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
