"""The same queries over the same rows wherever Spark runs: transcripts as files of rows, and all that they answer.

Classic sessions and Spark Connect play them in test_transcripts_on_spark, a declarative pipeline in test_pipelines, and
a standalone cluster in test_cluster.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from queries import oracle, streams, transcript
from spark.model import Expected, as_spark_has_it

from muntin.spark.clock import Clock

SAMPLE = ("sessions: a late row makes one session of two", "clocks: early, and changed until it is due")


@dataclass(frozen=True)
class Played:
    """A transcript with times as Spark has them, and a folder for its rows."""

    query: oracle.Query
    batches: list[list[dict[str, Any]]]
    folder: Path

    @classmethod
    def of(cls, case: transcript.Case, folder: Path) -> Played:
        query, batches = as_spark_has_it(case.query, [step.rows for step in case.steps if step.action == "push"])
        return cls(query, batches, folder)

    @property
    def player(self) -> streams.Stream:
        return streams.Stream(self.query, [row for batch in self.batches for row in batch])

    def write(self) -> None:
        """Write the rows, a file for each micro-batch."""
        (self.folder / "in").mkdir(parents=True)
        for number, batch in enumerate(self.batches):
            path = self.folder / "in" / f"{number:04}.parquet"
            pq.write_table(self.player.table(batch), path)
            os.utime(path, (1_700_000_000 + number,) * 2)

    def answers(self, session: Any) -> Any:
        """Return a streaming DataFrame of the answers, of which Spark is asked nothing."""
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(self.player.schema)
        rows = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))
        return streams.asked(self.query).spark(rows, schema=schema, buckets=2)

    def expected(self) -> Iterator[list[oracle.Result]]:
        """Yield what each batch answers: the oracle, told the watermark of the batches before."""
        expected, clock = Expected(self.query), Clock.of(self.query.time_type, self.query.time)
        delay = int(clock.delay(self.query.watermark, self.query.time_type).split()[0])
        told = 0
        for batch in [*self.batches, []]:
            yield expected.batch(batch, clock.ticks(told))
            told = max([told, *(clock.micros(row[self.query.time]) // 1000 - delay for row in batch)])

    def require(self, table: pa.Table) -> None:
        """Require that these are all answers, whichever batches gave them."""
        wanted = [result for batch in self.expected() for result in batch]
        assert sorted(map(repr, self.player.results(table))) == sorted(map(repr, wanted))
        assert wanted


def sample(where: Path) -> list[Played]:
    """Return the transcripts that are played everywhere, each with a folder of its own."""
    cases = [case for case in transcript.load() if case.name in SAMPLE]
    assert len(cases) == len(SAMPLE)
    return [Played.of(case, where / f"played {number}") for number, case in enumerate(cases)]


def define(where: Path) -> None:
    """Define a streaming table for each, in a declarative pipeline."""
    from pyspark import pipelines as dp
    from pyspark.sql import SparkSession

    session = SparkSession.active()
    for number, each in enumerate(sample(where)):
        dp.table(name=f"played_{number}")(_table(each, session))


def _table(each: Played, session: Any) -> Any:
    def table() -> Any:
        return each.answers(session)

    return table
