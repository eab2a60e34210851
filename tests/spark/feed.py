"""Micro-batches as files: one parquet file each, read one at a time; answers are collected batch by batch."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from muntin import Query


class Feed:
    """A directory of files that Spark reads as a stream, with a checkpoint beside it."""

    def __init__(self, session: Any, where: Path, schema: pa.Schema) -> None:
        from pyspark.sql.pandas.types import from_arrow_schema

        self.session, self.where, self.schema = session, where, schema
        self.spark_schema = from_arrow_schema(schema, prefer_timestamp_ntz=True)
        self.files = 0
        (where / "in").mkdir(parents=True)

    def add(self, rows: list[dict[str, Any]] | pa.Table) -> None:
        """Add a micro-batch."""
        table = rows
        if isinstance(rows, list):
            table = pa.table({f.name: pa.array([row[f.name] for row in rows], f.type) for f in self.schema})
        path = self.where / "in" / f"{self.files:04}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + self.files,) * 2)
        self.files += 1

    def frame(self) -> Any:
        reader = self.session.readStream.schema(self.spark_schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.where / "in"))

    def run(self, query: Query, **options: Any) -> list[pa.Table]:
        """Answer all that has been added and not been answered; return the answers of each batch."""
        return self.collect(query.spark(self.frame(), **options))

    def collect(self, answers: Any, mode: str = "append", checkpoint: str = "checkpoint") -> list[pa.Table]:
        from pyspark.sql import is_remote

        writer = answers.writeStream.option("checkpointLocation", str(self.where / checkpoint))
        writer = writer.trigger(availableNow=True)
        # On Connect a function would run in one more process of the server's: it can tell this one nothing. Files are
        # only appended to, which gives the same rows.
        if is_remote():
            return self._by_sink(writer, self.where / f"answers of {checkpoint}", answers.schema)
        return self._by_function(writer.outputMode(mode))

    def _answer(self, writer: Any) -> None:
        """Answer all that there is. Spark gives each Python worker ten seconds to start; a busy machine takes more."""
        from pyspark.errors import StreamingQueryException

        while True:
            self.query = writer.start()
            try:
                return self.query.awaitTermination()
            except StreamingQueryException as error:
                if "Python worker failed to connect back" not in str(error):
                    raise

    def _by_function(self, writer: Any) -> list[pa.Table]:
        batches: dict[int, pa.Table] = {}

        def note(frame: Any, number: int) -> None:
            batches[number] = frame.toArrow()

        self._answer(writer.foreachBatch(note))
        return [table for _, table in sorted(batches.items())]

    def _by_sink(self, writer: Any, sink: Path, schema: Any) -> list[pa.Table]:
        """Read what Spark's sink of files has noted of each batch."""
        log = sink / "_spark_metadata"
        before = {path.name for path in log.glob("[0-9]*")}
        self._answer(writer.option("path", str(sink)))
        numbers = sorted(int(path.name) for path in log.glob("[0-9]*") if path.name not in before)
        return [self._read(log / str(number), schema) for number in numbers]

    def _read(self, log: Path, schema: Any) -> pa.Table:
        names = [Path(json.loads(line)["path"]).name for line in log.read_text().splitlines()[1:]]
        files = [str(log.parents[1] / name) for name in names]
        reader = self.session.read.schema(schema)
        return (reader.parquet(*files) if files else self.session.createDataFrame([], schema)).toArrow()
