"""`muntin.spark.warm`: compiles on every executor before data arrives."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.query.query import Query
from muntin.spark import needs
from muntin.spark.explained import default_parallelism
from muntin.spark.schemas import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def warm(session: SparkSession, query: Query, schema: Any = None, *, tasks: int | None = None) -> list[str]:
    """Compile everything a query needs on the machines of a session's executors; return their names.

    Runs `tasks` tasks, by default as many as there are slots, so that every executor gets one: on each machine one of
    them compiles, and the others wait for it. `schema` is as in `muntin.warm`; a DataFrame will do. Seconds once per
    machine, then next to nothing.
    """
    needs.require_packages()
    from muntin.spark.shipped import Shipped

    known = arrow_schema(schema) if hasattr(schema, "sparkSession") else schema
    count = default_parallelism(session) if tasks is None else tasks
    found = session.range(count, numPartitions=count).mapInArrow(Shipped(_Warm(query, known)), "machine string")
    return sorted({row["machine"] for row in found.collect()})


class _Warm:
    """The function of a task."""

    def __init__(self, query: Query, schema: Any) -> None:
        self.query = query
        self.schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Compile, and yield the machine's name."""
        from muntin.warming import warm

        for _ in batches:
            pass
        warm(self.query, self.schema)
        yield pa.RecordBatch.from_pylist([{"machine": socket.gethostname()}])
