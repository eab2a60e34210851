"""`Query.spark` for streaming DataFrames: rows are packed, grouped by bucket, answered, and unpacked."""

from __future__ import annotations

import uuid
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.errors import ColumnError, InvalidArgumentError, UnsupportedOperationError
from muntin.query.computing import expression_facts
from muntin.query.plan import default_time, resolve
from muntin.query.query import ProcessingTime, Query
from muntin.query.timing import Timing
from muntin.spark import buckets as spread
from muntin.spark import history as past
from muntin.spark import needs
from muntin.spark.bucket import COUNTS, PACKED_ANSWERS, RESULT, Job, order_of
from muntin.spark.checkpoint import ADOPTED, saved_facts
from muntin.spark.clock import Clock
from muntin.spark.collations import require_bytewise
from muntin.spark.computed import computed
from muntin.spark.constants import constant_columns, with_constants, without_constants
from muntin.spark.explained import default_parallelism, has_watermark
from muntin.spark.given import known_as
from muntin.spark.names import inner_schema, with_inner_names
from muntin.spark.pack import PACKED, Packer
from muntin.spark.progress import OBSERVED
from muntin.spark.schemas import arrow_schema, known_to_spark, spark_schema
from muntin.spark.triggers import refusing_triggers
from muntin.spark.unpack import LATE, Unpacker
from muntin.types import ColumnType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CLOCK_COLUMN = "muntin_time"
"""The time column of a query without one."""


def streaming(
    query: Query,
    frame: DataFrame,
    *,
    history: DataFrame | None = None,
    buckets: int | None = None,
    late: bool = False,
    checkpoint: str | None = None,
    allow_pickle: bool = False,
    adopt: bool = False,
    serve: str | None = None,
) -> DataFrame:
    """Return a streaming DataFrame of the answers to a query over another one."""
    from pyspark.sql import functions as F

    from muntin.spark.processor import Processor
    from muntin.spark.shipped import FOR_STREAMS, Shipped, Stateful

    session = frame.sparkSession
    needs.apply_settings(session)
    require_adoption(adopt, checkpoint, history)
    require_names(query, late)
    require_no_watermark(frame)
    serve = None if serve is None else served_at(query, serve)
    if history is not None:
        past.require_history(history, frame)
    expressions = expression_facts(query)
    history = None if history is None else computed(query, history)[1]
    query, frame = computed(query, frame)
    if query.time is None:
        frame = with_clock(frame)
        history = None if history is None else with_clock(history)
        query = replace(query, time=CLOCK_COLUMN)
    saved = None if checkpoint is None else saved_facts(session, str(checkpoint))
    if buckets is None and saved is not None:
        buckets = int(saved["buckets"])
    count = _count(buckets, session, keyed=bool(query.key))
    schema = arrow_schema(frame)
    require_columns(query, schema)
    require_bytewise(query, frame.schema)
    used = pa.schema([schema.field(name) for name in query.inputs])
    schema = schema if late else used
    plan = resolve(query, schema)
    time = plan.time_type
    Timing.of(query, time)  # rejects durations that do not fit the times
    require_clock(query, time)
    clock = Clock.of(time, str(query.time))
    # A late row is null in all other columns, so with these nothing is constant.
    has_adopted = saved is not None and ADOPTED in saved
    # Windows that another query emitted early may be revised, though this one never revises any.
    constant = () if late or adopt or has_adopted else constant_columns(plan, finite=False)
    order = None if saved is None else order_of(saved, query)
    begun = history is not None
    job = Job(
        query, schema, clock, count, late, begun, constant, allow_pickle, adopt, has_adopted, order, serve, expressions
    )
    if saved is not None:
        job.require_checkpoint(saved)
    answers = known_to_spark(plan.answer_schema)
    if late:
        answers = answers.append(pa.field(LATE, pa.struct(list(known_to_spark(schema)))))
    packer = Packer(
        schema,
        query.key,
        str(query.time),
        clock,
        spread.labels(count),
        None if late else query,
        wakes=job.wakes,
    )
    rows = with_inner_names(frame, schema.names)
    packed = rows.mapInArrow(Shipped(packer, FOR_STREAMS), spark_schema(PACKED))
    packed = packed.withWatermark("clock", clock.delay(query.watermark, time))
    # The rows that carry the watermark are no longer needed; Spark would drop some, and count them as late.
    grouped = known_as(packed.where(F.col("clock").isNull()), spark_schema(PACKED)).groupBy("bucket")
    initial = None
    if history is not None:
        found = arrow_schema(history)
        require_columns(query, found, " in the history")
        past.require_same_types(used, found)
        initial = past.grouped(history, replace(packer, schema=used), clock.delay_in_millis(query.watermark, time))
    mode = "Update"
    results = grouped.transformWithState(
        Stateful(partial(Processor, job)), spark_schema(RESULT), mode, job.timers, initial
    )
    counted = results.observe(f"{OBSERVED} {uuid.uuid4().hex[:8]}", *(F.sum(name).alias(name) for name in COUNTS))
    packed_answers = known_as(counted.select(*PACKED_ANSWERS.names), spark_schema(PACKED_ANSWERS))
    sent = without_constants(answers, constant)
    unpacked = packed_answers.mapInArrow(Shipped(Unpacker(sent, late)), spark_schema(inner_schema(sent)))
    return refusing_triggers(with_constants(unpacked, answers, constant), follows_clock=job.follows_clock)


def require_adoption(adopt: Any, checkpoint: str | None, history: Any) -> None:
    """Reject an adoption of nothing, and one with a history."""
    if not isinstance(adopt, bool):
        raise InvalidArgumentError(f"adopt is {adopt!r}; it is True or False")
    if adopt and checkpoint is None:
        raise InvalidArgumentError("adopt=True goes on with the state of another query: give the path as checkpoint=")
    if adopt and history is not None:
        raise UnsupportedOperationError(
            "a history is read by the first micro-batch of a checkpoint alone, and adopt=True goes on with one that is "
            "there: leave one out; what is new is null in windows that have begun"
        )


def served_at(query: Query, url: str) -> str:
    """Return the URL of a store as workers open it; reject a query whose answers are not those of frames."""
    from muntin.serving.publishing import require_features
    from muntin.serving.urls import seen_from_anywhere

    require_features(query)
    if query.time is None:
        raise UnsupportedOperationError(
            "serve= needs the times of rows, and this query has time=None, which takes those of batches: name a column"
        )
    return seen_from_anywhere(url)


def with_clock(frame: DataFrame) -> DataFrame:
    """Return the rows of a DataFrame with the time of their batch."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType, TimestampType

    known = StructType([*frame.schema]).add(CLOCK_COLUMN, TimestampType())
    return known_as(frame.withColumn(CLOCK_COLUMN, F.current_timestamp()), known)


def require_stream_options(path: str, pieces: int | None) -> None:
    """Reject options for finite DataFrames."""
    if path != "auto" or pieces is not None:
        given = f"path is {path!r}" if path != "auto" else f"pieces is {pieces!r}"
        raise UnsupportedOperationError(f"{given}: path and pieces are for finite DataFrames; this one is streaming")


def require_names(query: Query, late: bool) -> None:
    """Reject a name that the answers already use."""
    taken = (*query.key, *query.aggregates)
    if late and LATE in taken:
        raise InvalidArgumentError(f"{LATE!r} is the column of late rows; give the key or aggregate another name")


def require_no_watermark(frame: DataFrame) -> None:
    """Reject a second watermark: Spark would, but only in the second batch."""
    if has_watermark(frame):
        raise InvalidArgumentError(
            "the DataFrame has a watermark already, and Spark allows one: leave withWatermark out, and say "
            "Query(..., watermark=...)"
        )


def require_clock(query: Query, time: ColumnType) -> None:
    """Reject options by the clock if its unit is unknown."""
    early = query.emit_early
    asked = {"emit_early": early if isinstance(early, ProcessingTime) else None, "idle_timeout": query.idle_timeout}
    advice = {"emit_early": "give emit_early as an integer", "idle_timeout": "leave idle_timeout out"}
    for name, value in asked.items():
        if value is not None and time.family == "integer":
            raise InvalidArgumentError(
                f"{name} is {value!r}, but the times in {query.time!r} are integers, and Spark's clock does not know "
                f"their unit: cast the column to a timestamp, or {advice[name]}"
            )


def require_columns(query: Query, schema: pa.Schema, of: str = "") -> None:
    """Reject missing and duplicate columns."""
    for name in query.inputs:
        if schema.names.count(name) != 1:
            problem = "no column" if name not in schema.names else "more than one column"
            known = ", ".join(map(repr, schema.names))
            advice = default_time(query) if name == query.time and name not in schema.names else ""
            raise ColumnError(f"there is {problem} {name!r}{of}; the columns are {known}{advice}")


def _count(buckets: int | None, session: Any, *, keyed: bool) -> int:
    if buckets is None:
        partitions = int(session.conf.get("spark.sql.shuffle.partitions"))
        buckets = spread.default_count(default_parallelism(session), partitions)
    if isinstance(buckets, bool) or not isinstance(buckets, int) or not 1 <= buckets <= 1 << 15:
        raise InvalidArgumentError(f"buckets is {buckets!r}; give a number from 1 to {1 << 15}")
    return buckets if keyed else 1
