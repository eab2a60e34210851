"""`Query.spark` for streaming DataFrames: rows are packed, grouped by bucket, answered, and unpacked."""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.engines.spark import buckets as spread
from muntin.engines.spark import needs
from muntin.engines.spark.bucket import COUNTS, RESULT_DDL, Job
from muntin.engines.spark.clock import Clock
from muntin.engines.spark.own import send_by_value
from muntin.engines.spark.pack import PACKED_DDL, Packer
from muntin.engines.spark.progress import OBSERVED
from muntin.engines.spark.schemas import arrow_schema, known_to_spark, spark_schema
from muntin.engines.spark.unpack import LATE, Unpacker
from muntin.engines.told import ToldStream
from muntin.errors import ColumnError, InvalidArgumentError
from muntin.slicing.question import ProcessingTime, Question
from muntin.types import ColumnType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CLOCK_COLUMN = "muntin_time"
"""The time of rows of a query that has no time column."""


def streaming(question: Question, frame: DataFrame, *, buckets: int | None, late: bool) -> DataFrame:
    """Return a streaming DataFrame of the answers to a query over another one."""
    from pyspark.sql import functions as F

    from muntin.engines.spark.processor import Processor

    session = frame.sparkSession
    needs.apply_settings(session)
    require_possible(question, late)
    require_no_watermark(frame)
    send_by_value(question)
    if question.time is None:
        frame = frame.withColumn(CLOCK_COLUMN, F.current_timestamp())
        question = replace(question, time=CLOCK_COLUMN)
    count = _count(buckets, session, keyed=bool(question.key))
    schema = arrow_schema(frame)
    require_columns(question, schema)
    if not late:
        used = dict.fromkeys((*question.key, question.time, *question.columns))
        schema = pa.schema([schema.field(name) for name in used])
    sample = ToldStream(question, schema)
    time = sample.time_type
    require_clock(question, time)
    clock = Clock.of(time, str(question.time))
    job = Job(question, schema, clock, count, late)
    answers = known_to_spark(sample.schema)
    if late:
        answers = answers.append(pa.field(LATE, pa.struct(list(known_to_spark(schema)))))
    packer = Packer(
        schema,
        question.key,
        str(question.time),
        clock,
        spread.labels(count),
        None if late else question,
        wakes=isinstance(question.emit_early, ProcessingTime),
    )
    rows = frame.select(*(_column(frame, name) for name in schema.names))
    packed = rows.mapInArrow(packer, PACKED_DDL).withWatermark("clock", clock.delay(question.watermark, time))
    # The rows that tell the time have told it; Spark would drop some of them, and count those as late.
    grouped = (
        packed.where(F.col("clock").isNull())
        .select("bucket", "task", "part", "sliced", "clock", "data")
        .groupBy("bucket")
    )
    mode = "Update"
    results = grouped.transformWithState(Processor(job), RESULT_DDL, mode, "EventTime")
    counted = results.observe(f"{OBSERVED} {uuid.uuid4().hex[:8]}", *(F.sum(name).alias(name) for name in COUNTS))
    return counted.select("answers", "late_rows").mapInArrow(Unpacker(answers, late), spark_schema(answers))


def require_possible(question: Question, late: bool) -> None:
    """Refuse what Spark's watermark cannot do."""
    if question.idle_timeout is not None:
        raise InvalidArgumentError(
            f"idle_timeout is {question.idle_timeout!r}; on Spark the watermark is Spark's own, which waits for rows"
        )
    taken = (*question.key, *question.aggregates)
    if late and LATE in taken:
        raise InvalidArgumentError(f"{LATE!r} is the column of late rows; give the key or aggregate another name")


def require_no_watermark(frame: Any) -> None:
    """Refuse a second watermark: Spark would, but only in the second batch."""
    plan = frame._jdf.queryExecution().analyzed().toString()
    if re.search(r"^\W*EventTimeWatermark", plan, re.MULTILINE):
        raise InvalidArgumentError(
            "the DataFrame has a watermark already, and Spark allows one: leave withWatermark out, and say "
            "Query(..., watermark=...)"
        )


def require_clock(question: Question, time: ColumnType) -> None:
    """Refuse early results by a clock whose unit is not known."""
    if isinstance(question.emit_early, ProcessingTime) and time.family == "integer":
        raise InvalidArgumentError(
            f"emit_early is {question.emit_early!r}, but the times in {question.time!r} are integers, and Spark's "
            "clock does not know their unit: cast the column to a timestamp, or give emit_early as an integer"
        )


def require_columns(question: Question, schema: pa.Schema) -> None:
    """Refuse columns that are not there, or twice."""
    for name in dict.fromkeys((*question.key, str(question.time), *question.columns)):
        if schema.names.count(name) != 1:
            problem = "no column" if name not in schema.names else "more than one column"
            raise ColumnError(f"there is {problem} {name!r}; the columns are {', '.join(map(repr, schema.names))}")


def _count(buckets: int | None, session: Any, *, keyed: bool) -> int:
    if buckets is None:
        partitions = int(session.conf.get("spark.sql.shuffle.partitions"))
        buckets = spread.default_count(session.sparkContext.defaultParallelism, partitions)
    if isinstance(buckets, bool) or not isinstance(buckets, int) or not 1 <= buckets <= 1 << 15:
        raise InvalidArgumentError(f"buckets is {buckets!r}; give a number from 1 to {1 << 15}")
    return buckets if keyed else 1


def _column(frame: DataFrame, name: str) -> Column:
    return frame["`" + name.replace("`", "``") + "`"]
