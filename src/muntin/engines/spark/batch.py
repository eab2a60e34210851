"""`Query.spark` for DataFrames that are not streams: rows are brought together by key, sorted, and answered in chunks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.aggregations.binding import bind
from muntin.engines.spark import survey
from muntin.engines.spark.schemas import arrow_schema, known_to_spark, spark_schema
from muntin.engines.spark.streaming import require_columns
from muntin.engines.spark.survey import LongKey, column
from muntin.engines.spark.task import ARRIVAL, PIECE, Task
from muntin.engines.told import ToldStream
from muntin.errors import InvalidArgumentError, UnsupportedOperationError
from muntin.slicing.question import Question
from muntin.types import ColumnType
from muntin.windows.base import Window
from muntin.windows.sessions import Session
from muntin.windows.times import Cumulative, Sliding, Trailing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SAME = ("window_id", "revision", "retracted")
"""Columns that may be the same in every row: Spark adds them, so that they need not come from Python."""


@dataclass(frozen=True)
class Settled:
    """A query over a DataFrame, with everything settled that the types of the columns decide."""

    question: Question
    frame: DataFrame
    """Just the columns that the query needs."""
    rows: pa.Schema
    answers: pa.Schema
    """In types that Spark has."""
    time: ColumnType
    windows: list[Window]
    ordered: bool
    """Whether it matters which of two rows of equal time came first."""

    @classmethod
    def of(cls, question: Question, frame: DataFrame) -> Settled:
        """Settle a query by a DataFrame's columns. No row is read."""
        if question.time is None:
            raise InvalidArgumentError("the query has no time column, so that only a stream can tell when rows come")
        schema = arrow_schema(frame)
        require_columns(question, schema)
        used = dict.fromkeys((*question.key, question.time, *question.columns))
        schema = pa.schema([schema.field(name) for name in used])
        # Nothing is late in what is finite: those durations need not fit its times.
        sample = ToldStream(replace(question, watermark=0, allowed_lateness=0, emit_early=None), schema)
        windows = [each.resolve(sample.time_type) for each in question.windows]
        chosen = frame.select(*(column(frame, name) for name in used))
        ordered = _order_matters(question, windows, sample)
        return cls(question, chosen, schema, known_to_spark(sample.schema), sample.time_type, windows, ordered)

    @property
    def ticks(self) -> Column:
        """The time as an integer in its own unit."""
        from pyspark.sql import functions as F  # noqa: N812

        time = column(self.frame, str(self.question.time))
        kind = self.time.logical
        if self.time.family == "integer":
            return time.cast("long")
        if pa.types.is_date(kind):
            return F.unix_date(time).cast("long")
        if kind.tz is not None:
            return F.unix_micros(time)
        return F.timestamp_diff("MICROSECOND", F.lit("1970-01-01").cast("timestamp_ntz"), time)


def _order_matters(question: Question, windows: list[Window], sample: ToldStream) -> bool:
    if not all(isinstance(each, Sliding | Cumulative | Trailing | Session) for each in windows):
        return True
    binding = bind(question.aggregates, sample.column_types, time=sample.time_type)
    uses_time = any(part.uses_time for part in binding.parts)
    every = question.aggregates.values()
    return uses_time or not all(each.commutative and each.kind != "holistic" for each in every)


def batch(question: Question, frame: DataFrame, *, pieces: int | None = None) -> DataFrame:
    """Return a DataFrame of the answers to a query over another one."""
    settled = Settled.of(question, frame)
    long = _long_keys(settled, pieces)
    rows = _together(settled, long)
    numbered = [piece for each in long for piece in each.pieces]
    constant = _SAME if len(settled.windows) == 1 else _SAME[1:]
    answers = pa.schema([field for field in settled.answers if field.name not in constant])
    task = Task(
        question, settled.rows, answers, settled.ordered, dict(enumerate(numbered)), _horizon(settled)
    )
    found = rows.mapInArrow(task, spark_schema(answers))
    return _with_constants(found, settled.answers, constant)


def _with_constants(found: DataFrame, answers: pa.Schema, constant: tuple[str, ...]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    # What is null nowhere is still declared as what Spark cannot know to be so, as in the answers of streams.
    values = {"window_id": "0L", "revision": "0L", "retracted": "false"}
    return found.select(
        *(F.expr(values[name]).alias(name) if name in constant else column(found, name) for name in answers.names)
    )


def _long_keys(settled: Settled, pieces: int | None) -> list[LongKey]:
    if pieces is not None and (isinstance(pieces, bool) or not isinstance(pieces, int) or pieces < 1):
        raise InvalidArgumentError(f"pieces is {pieces!r}; give how many a long key may be cut into")
    slots = settled.frame.sparkSession.sparkContext.defaultParallelism
    back = survey.reach(settled.windows)
    if back is None or settled.question.emit_empty or (slots if pieces is None else pieces) == 1:
        return []
    return survey.long_keys(settled.frame, settled.question, settled.ticks, back, slots, pieces)


def _together(settled: Settled, long: list[LongKey]) -> DataFrame:
    """Return the rows, those of a key in one partition and sorted; of a long key, those of a piece."""
    from pyspark.sql import functions as F  # noqa: N812

    frame, question = settled.frame, settled.question
    if settled.ordered:
        frame = frame.withColumn(ARRIVAL, F.monotonically_increasing_id())
    keys = [column(frame, name) for name in question.key]
    if long:
        frame = frame.withColumn(PIECE, F.explode(survey.pieces_of(frame, question, settled.ticks, long)))
        frame = _placed(frame, keys, sum(len(each.pieces) for each in long))
    else:
        frame = frame.repartition(*keys) if keys else frame.repartition(1)
    order: list[Any] = [*keys, *_zeros(settled), column(frame, str(question.time))]
    return frame.sortWithinPartitions(*order, *([ARRIVAL] if settled.ordered else []))


def _placed(frame: DataFrame, keys: list[Column], pieces: int) -> DataFrame:
    """Give each piece a partition of its own, and all other keys some more."""
    from pyspark.sql import functions as F  # noqa: N812

    session = frame.sparkSession
    others = 0
    place = F.col(PIECE)
    if keys:
        partitions = int(session.conf.get("spark.sql.shuffle.partitions") or 200)
        others = min(partitions, 4 * session.sparkContext.defaultParallelism)
        place = F.when(place < 0, F.pmod(F.hash(*keys), F.lit(others))).otherwise(place + others)
    return frame.repartitionById(pieces + others, place.cast("int"))


def _zeros(settled: Settled) -> list[Column]:
    """Return what sorts zeros by their sign: they are two keys, and Spark sorts them as one."""
    names = [name for name in settled.question.key if pa.types.is_floating(settled.rows.field(name).type)]
    return [column(settled.frame, name).cast("string") for name in names]


def _horizon(settled: Settled) -> int | None:
    from pyspark.sql import functions as F  # noqa: N812

    if not settled.question.emit_empty:
        return None
    (row,) = settled.frame.agg(F.max(settled.ticks)).collect()
    return None if row[0] is None else int(row[0])


def require_batch_options(buckets: int | None, late: bool) -> None:
    """Refuse what only streams have."""
    if buckets is not None or late:
        raise UnsupportedOperationError("buckets and late are for streaming DataFrames; this one is finite")
