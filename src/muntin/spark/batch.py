"""`Query.spark` for finite DataFrames: rows are grouped by key, sorted, and answered in chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from muntin.aggregations.binding import bind
from muntin.errors import ColumnTypeError, InvalidArgumentError, UnsupportedOperationError
from muntin.query.plan import Plan, resolve
from muntin.query.query import Query
from muntin.spark import native, survey
from muntin.spark.changelog import without_deletions
from muntin.spark.collations import require_bytewise
from muntin.spark.computed import computed
from muntin.spark.constants import constant_columns, with_constants, without_constants
from muntin.spark.explained import default_parallelism
from muntin.spark.given import known_as
from muntin.spark.names import column, inner, inner_schema, with_inner_names
from muntin.spark.schemas import arrow_schema, known_to_spark, spark_schema
from muntin.spark.streaming import require_columns
from muntin.spark.survey import LongKey
from muntin.spark.task import ARRIVAL, PIECE, Task
from muntin.types import ColumnType
from muntin.windows.base import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PATHS = ("auto", "python", "native")


@dataclass(frozen=True)
class Resolved:
    """A query over a DataFrame, resolved by its column types."""

    query: Query
    frame: DataFrame
    """Only the columns that the query needs, under their inner names."""
    rows: pa.Schema
    answers: pa.Schema
    """The answers, in Spark's types."""
    time: ColumnType
    windows: list[Window]
    ordered: bool
    """Whether the order of rows of equal time matters."""
    constant: tuple[str, ...]
    """The columns of the answers that Spark adds."""

    @classmethod
    def of(cls, query: Query, frame: DataFrame) -> Resolved:
        """Resolve a query by a DataFrame's columns. Reads no row."""
        if query.time is None:
            raise InvalidArgumentError("the query has no time column, so that only a stream can tell when rows come")
        schema = arrow_schema(frame)
        require_columns(query, schema)
        require_bytewise(query, frame.schema)
        used = query.inputs
        schema = pa.schema([schema.field(name) for name in used])
        require_sortable_keys(query, schema)
        plan = resolve(query, schema, finite=True)
        windows = list(plan.windows.values())
        return cls(
            query,
            with_inner_names(frame, used),
            schema,
            known_to_spark(plan.answer_schema),
            plan.time_type,
            windows,
            _order_matters(plan),
            constant_columns(plan, finite=True),
        )

    @property
    def asks_for_arrival(self) -> bool:
        """Whether some window needs rows in order of arrival."""
        return any(each.arrival_matters for each in self.windows)

    @property
    def ticks(self) -> Column:
        """The time as an integer in its own unit."""
        from pyspark.sql import functions as F

        time = column(self.frame, str(self.query.time))
        kind: Any = self.time.logical
        if self.time.family == "integer":
            return time.cast("long")
        if pa.types.is_date(kind):
            return F.unix_date(time).cast("long")
        if kind.tz is not None:
            return F.unix_micros(time)
        return F.timestamp_diff("MICROSECOND", F.lit("1970-01-01").cast("timestamp_ntz"), time)

    def as_time(self, ticks: Column) -> Column:
        """Return integers in the unit of the time as times of the answers."""
        from pyspark.sql import functions as F

        if self.time.family == "integer":
            return ticks
        return (
            F.date_from_unix_date(ticks.cast("int"))
            if pa.types.is_date(self.time.logical)
            else F.timestamp_micros(ticks)
        )


def require_sortable_keys(query: Query, schema: pa.Schema) -> None:
    """Reject keys that cannot be sorted and compared in chunks of rows."""
    for name in query.key:
        kind = schema.field(name).type
        if pa.types.is_nested(kind):
            raise ColumnTypeError(
                f"the key column {name!r} holds {kind}, and rows of a finite DataFrame are sorted by their key: make "
                "its parts columns of their own, or its text, as by to_json, a key"
            )


def _order_matters(plan: Plan) -> bool:
    if any(each.ties_matter for each in plan.windows.values()):
        return True
    binding = bind(plan.aggregates, plan.types, time=plan.time_type)
    uses_time = any(part.uses_time for part in binding.parts)
    every = plan.aggregates.values()
    objects = any(part.fields is None for part in binding.parts)  # these may show which row came first
    return uses_time or objects or not all(each.commutative and each.kind != "holistic" for each in every)


def batch(query: Query, frame: DataFrame, *, path: str = "auto", pieces: int | None = None) -> DataFrame:
    """Return a DataFrame of the answers to a query over another one."""
    query, frame = computed(query, frame)
    require_columns(query, arrow_schema(frame))
    query, frame = without_deletions(query, frame)
    resolved = Resolved.of(query, frame)
    if chosen(resolved, "python" if path == "auto" and pieces is not None else path)[0] == "native":
        if pieces is not None:
            raise InvalidArgumentError(
                f"pieces is {pieces!r}, and Spark's own operators cut no keys: leave one of them out"
            )
        return native.native(resolved)
    from muntin.spark.shipped import Shipped

    long = asked_pieces(resolved, pieces)
    rows = _together(resolved, long)
    numbered = [piece for each in long for piece in each.pieces]
    answers = without_constants(resolved.answers, resolved.constant)
    task = Task(query, resolved.rows, answers, resolved.asks_for_arrival, dict(enumerate(numbered)), _horizon(resolved))
    found = rows.mapInArrow(Shipped(task), spark_schema(inner_schema(answers)))
    return with_constants(found, resolved.answers, resolved.constant)


def batch_of_given(query: Query, frame: DataFrame, *, path: str, pieces: int | None) -> DataFrame:
    """Return the same for a DataFrame with a given schema, without asking Spark for anything."""
    if query.emit_empty:
        raise UnsupportedOperationError(
            "emit_empty is True, and which windows are empty depends on the greatest time of all rows, for which Spark "
            "is not asked where schema= is given: leave one of them out"
        )
    path = "python" if path == "auto" else path
    return batch(query, frame, path=path, pieces=1 if pieces is None and path == "python" else pieces)


def chosen(resolved: Resolved, path: str) -> tuple[str, str]:
    """Return the path that answers a query, and why."""
    by_rows = any(each.is_frame and each.row_shape is not None for each in resolved.windows)
    return choose(
        path,
        lambda: native.refused(resolved),
        lambda: native.faster(resolved),
        "Spark's own operators would look at each row of a frame, or sort rows for each frame"
        if by_rows
        else "a window holds several slices, and Spark's own operators would copy each into several windows",
    )


def choose(
    path: str, refused: Callable[[], str | None], faster: Callable[[], str | None], slower: str
) -> tuple[str, str]:
    """Return the chosen path, and why: reasons why Spark's own operators cannot answer, are faster, or are slower."""
    if path not in PATHS:
        raise InvalidArgumentError(f"path is {path!r}; it is one of {', '.join(PATHS)}")
    if path == "python":
        return path, "as was asked for"
    problem = refused()
    if path == "native":
        if problem is not None:
            raise UnsupportedOperationError(f"Spark's own operators cannot answer this query: {problem}")
        return path, "as was asked for"
    if problem is not None:
        return "python", problem
    why = faster()
    return ("python", slower) if why is None else ("native", why)


def kept_whole(resolved: Resolved) -> list[str]:
    """Return the reasons not to cut keys, however long they are."""
    reasons = [f"{each!r} cannot be cut by time" for each in resolved.windows if survey.lookback([each]) is None]
    if resolved.query.emit_empty:
        reasons.append("windows without rows are asked for")
    floats = [name for name in resolved.query.key if pa.types.is_floating(resolved.rows.field(name).type)]
    return reasons + [f"the key {name!r} is a float, and Spark counts both zeros as one" for name in floats]


def asked_pieces(resolved: Resolved, pieces: int | None) -> list[LongKey]:
    """Return the keys to cut, into at most `pieces` if given."""
    if pieces is not None and (isinstance(pieces, bool) or not isinstance(pieces, int) or pieces < 1):
        raise InvalidArgumentError(f"pieces is {pieces!r}; give how many a long key may be cut into")
    back = survey.lookback(resolved.windows)
    if back is None or kept_whole(resolved) or pieces == 1:
        return []
    return survey.long_keys(resolved.frame, resolved.query, resolved.ticks, back, pieces)


def _together(resolved: Resolved, long: list[LongKey]) -> DataFrame:
    """Return the rows sorted, with each key, or each piece of a long key, in one partition."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import IntegerType, LongType, StructType

    frame, query = _with_one_zero(resolved), resolved.query
    if resolved.ordered:
        frame = frame.withColumn(ARRIVAL, F.monotonically_increasing_id())
    keys = [column(frame, name) for name in query.key]
    if long:
        frame = frame.withColumn(PIECE, F.explode(survey.pieces_of(frame, query, resolved.ticks, long)))
        frame = placed(frame, keys, sum(len(each.pieces) for each in long))
    else:
        frame = frame.repartition(*keys) if keys else frame.repartition(1)
    order: list[Any] = [*keys, column(frame, str(query.time))]
    rows = frame.sortWithinPartitions(*order, *([ARRIVAL] if resolved.ordered else []))
    known = StructType([*resolved.frame.schema])
    if resolved.asks_for_arrival:  # few windows need the number itself after sorting
        known.add(ARRIVAL, LongType())
    if long:
        known.add(PIECE, IntegerType())
    return known_as(rows.select(*known.names), known)


def placed(frame: DataFrame, keys: list[Column], pieces: int) -> DataFrame:
    """Give each piece its own partition, and all other keys further ones."""
    from pyspark.sql import functions as F

    session = frame.sparkSession
    others = 0
    place = F.col(PIECE)
    if keys:
        partitions = int(session.conf.get("spark.sql.shuffle.partitions") or 200)
        others = min(partitions, 4 * default_parallelism(session))
        place = F.when(place < 0, F.pmod(F.hash(*keys), F.lit(others))).otherwise(place + others)
    return frame.repartitionById(pieces + others, place.cast("int"))


def _with_one_zero(resolved: Resolved) -> DataFrame:
    """Return the rows with -0.0 in a key replaced by 0.0: they are one key."""
    frame = resolved.frame
    for name in resolved.query.key:
        if pa.types.is_floating(resolved.rows.field(name).type):
            kind = "float" if pa.types.is_float32(resolved.rows.field(name).type) else "double"
            frame = frame.withColumn(inner(name), (column(frame, name) + 0.0).cast(kind))
    return frame


def _horizon(resolved: Resolved) -> int | None:
    from pyspark.sql import functions as F

    if not resolved.query.emit_empty:
        return None
    (row,) = resolved.frame.agg(F.max(resolved.ticks)).collect()
    return None if row[0] is None else int(row[0])


def require_batch_options(buckets: int | None, flags: bool, checkpoint: str | None, history: Any) -> None:
    """Reject options for streams; `flags` is whether `late`, `adopt` or `allow_pickle` is given."""
    if history is not None:
        raise UnsupportedOperationError(
            "history is for streaming DataFrames, and this one is finite: union the two, and ask for all of it"
        )
    if buckets is not None or flags or checkpoint is not None:
        raise UnsupportedOperationError(
            "buckets, late, checkpoint, adopt and allow_pickle are for streaming DataFrames; this one is finite"
        )
