"""`Query.over` on Spark: groups and sorts rows and points by key, and finds frames in one pass.

A key with more than its share of the rows is cut by time. A piece also has the rows before and after it that the frames
of its own rows reach, and answers only its own.

Short frames by rows are Spark's own `rowsBetween`: see `native_frames`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import InvalidArgumentError, UnsupportedOperationError
from muntin.query.query import Query
from muntin.spark import given, native_frames, survey
from muntin.spark.batch import Resolved, asked_pieces, choose, placed
from muntin.spark.changelog import without_deletions
from muntin.spark.computed import computed, computed_beside
from muntin.spark.names import column, inner, inner_schema, with_inner_names
from muntin.spark.quoting import quoted
from muntin.spark.schemas import arrow_schema, known_to_spark, spark_schema
from muntin.spark.streaming import require_columns
from muntin.spark.survey import LongKey
from muntin.spark.task import ARRIVAL, PIECE
from muntin.spark.worker import settle
from muntin.tables.answers import cast
from muntin.tables.over import as_rows_have_it, column_names, over_tables, require_frames
from muntin.tables.sorted_rows import key_ends

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OWN = "muntin_own"
"""Whether a row is the piece's own, if keys are cut."""
_POINT = "muntin_point"
"""The columns of a point besides the key and the time, which it shares with rows; null for a row."""
_IS_POINT = "is_point"
"""The first field of a point, so that a point without other columns is not null."""
_ROWS = 1 << 19


def over(
    query: Query,
    frame: DataFrame,
    at: DataFrame | None = None,
    *,
    schema: Any = None,
    path: str = "auto",
    pieces: int | None = None,
) -> DataFrame:
    """Return the rows of a DataFrame, or points, each with the answers of a query's frames there."""
    if at is not None and not hasattr(at, "sparkSession"):
        raise InvalidArgumentError(f"the rows are a DataFrame of Spark, and the points a {type(at).__name__}")
    if schema is not None:
        frame, at = _with_schemas(frame, at, schema)
        pieces = 1 if pieces is None and path != "native" else pieces
    for each in (frame, at):
        if each is not None and (each.isStreaming if schema is None else given.is_streaming(each)):
            raise UnsupportedOperationError("over is for finite DataFrames, and this one is streaming; use spark")
    require_frames(query)
    if not query.computes:
        return _over(query, frame, at, path, pieces)
    names = column_names(query, (frame if at is None else at).columns)
    if at is not None:
        return _over(*computed(query, frame), at, path, pieces)
    plain, rows = computed_beside(query, frame)
    found = _over(plain, rows, None, path, pieces)
    columns = list(frame.columns)
    answers = found.columns[-len(names) :]
    return found.select(*(quoted(each) for each in (*rows.columns[: len(columns)], *answers))).toDF(*columns, *names)


def _over(query: Query, frame: DataFrame, at: DataFrame | None, path: str, pieces: int | None) -> DataFrame:
    """Return rows or points with the answers, for a validated query without expressions."""
    require_columns(query, arrow_schema(frame))
    query, frame = without_deletions(query, frame)
    asked = frame if at is None else at
    names = column_names(query, asked.columns)
    resolved = Resolved.of(query, frame)
    if chosen(resolved, _asked_path(path, at, pieces))[0] == "native":
        rows = with_inner_names(frame, frame.columns)
        return native_frames.over_native(resolved, rows, names).toDF(*frame.columns, *names)
    more = [] if at is None else _not_shared(resolved, at)
    rows = with_inner_names(frame, frame.columns) if at is None else _with_points(resolved, at, more)
    long = _long_keys(resolved, pieces)
    answers = _answers(resolved, arrow_schema(asked), names)
    from muntin.spark.shipped import Shipped

    columns = frame.columns if at is None else [*resolved.rows.names, _POINT]
    read = pa.schema([_as_read(each, name) for each, name in zip(arrow_schema(rows), columns, strict=True)])
    task = OverTask(query, read, None if at is None else arrow_schema(at), answers, tuple(more), is_cut=bool(long))
    together = _together(replace(resolved, frame=rows), long)
    found = together.mapInArrow(Shipped(task), spark_schema(inner_schema(answers)))
    return found.toDF(*answers.names)


def chosen(resolved: Resolved, path: str) -> tuple[str, str]:
    """Return the path that answers the rows themselves, and why."""
    return choose(
        path,
        lambda: native_frames.over_refused(resolved),
        lambda: native_frames.faster(resolved),
        "Spark's own operators would look at each row of a frame, or run in one task",
    )


def _asked_path(path: str, at: DataFrame | None, pieces: int | None) -> str:
    """Return the path that the other options leave; reject "native" beside these."""
    if path == "native" and at is not None:
        raise UnsupportedOperationError("path is 'native', and Spark's own operators have no points: leave one out")
    if path == "native" and pieces is not None:
        raise InvalidArgumentError(f"pieces is {pieces!r}, and Spark's own operators cut no keys: leave one out")
    return "python" if path == "auto" and (at is not None or pieces is not None) else path


def _with_schemas(frame: DataFrame, at: DataFrame | None, schema: Any) -> tuple[DataFrame, DataFrame | None]:
    """Return rows and points restricted to their given schemas."""
    if at is None:
        return given.with_schema(frame, schema), None
    if not isinstance(schema, tuple) or len(schema) != 2:
        raise InvalidArgumentError(
            f"schema is {schema!r}, and there are points: give a pair, schema=(of the rows, of the points)"
        )
    rows, points = schema
    return given.with_schema(frame, rows), given.with_schema(at, points)


def _as_read(field: pa.Field, name: str) -> pa.Field:
    """Return a field as a task reads it; the fields of points are nullable, since rows have null there."""
    if name != _POINT:
        return field.with_name(name)
    return pa.field(name, pa.struct([each.with_nullable(True) for each in field.type]))


def _answers(resolved: Resolved, asked: pa.Schema, names: list[str]) -> pa.Schema:
    kinds = [resolved.answers.field(name).type for name in resolved.query.aggregates]
    more = dict(zip(names, kinds * len(resolved.windows), strict=True))
    return pa.schema([*known_to_spark(asked), *(pa.field(name, kind) for name, kind in more.items())])


def _not_shared(resolved: Resolved, at: DataFrame) -> list[str]:
    """Return the columns of points that are not the rows' key and time, or differ in type."""
    schema = arrow_schema(at)
    shared = {name: resolved.rows.field(name).type for name in (*resolved.query.key, str(resolved.query.time))}
    one_row = pa.table([pa.nulls(1, field.type) for field in schema], schema=schema)  # no row would have no types
    as_rows_have_it(one_row, shared)
    return [field.name for field in schema if shared.get(field.name) != field.type]


def _with_points(resolved: Resolved, at: DataFrame, more: list[str]) -> DataFrame:
    """Return rows and points in one DataFrame: points have no values, rows no point."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BooleanType, StructType

    shared = [*resolved.query.key, str(resolved.query.time)]
    kinds = resolved.frame.schema
    plain = with_inner_names(at, at.columns)
    point = F.struct(F.lit(True).alias(_IS_POINT), *(column(plain, name) for name in more)).alias(_POINT)
    columns = [
        (column(plain, name) if name in shared else F.lit(None)).cast(kinds[inner(name)].dataType).alias(inner(name))
        for name in resolved.rows.names
    ]
    kind = StructType().add(_IS_POINT, BooleanType())
    for name in more:
        kind.add(inner(name), plain.schema[inner(name)].dataType)
    rows = resolved.frame.withColumn(_POINT, F.lit(None).cast(kind)).unionByName(plain.select(*columns, point))
    return given.known_as(rows, StructType([*kinds]).add(_POINT, kind))


def _long_keys(resolved: Resolved, pieces: int | None) -> list[LongKey]:
    """Return the keys to cut; none if frames count rows, since only the whole key determines row numbers."""
    back = survey.lookback(resolved.windows)
    return [] if back is None or back.rows else asked_pieces(resolved, pieces)


def _together(resolved: Resolved, long: list[LongKey]) -> DataFrame:
    """Return rows and points sorted, with each key, or each piece of a long key, in one partition."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BooleanType, StructType

    frame, query = resolved.frame, resolved.query
    if resolved.ordered:
        frame = frame.withColumn(ARRIVAL, F.monotonically_increasing_id())
    floats = {field.name for field in resolved.rows if pa.types.is_floating(field.type)}

    def keys(of: DataFrame) -> list[Column]:
        return [column(of, name) + 0.0 if name in floats else column(of, name) for name in query.key]

    known = StructType([*resolved.frame.schema])
    if long:
        own, held = _pieces(replace(resolved, frame=frame), long)
        frame = frame.withColumn(_OWN, own).withColumn(PIECE, F.explode(held))
        frame = frame.withColumn(_OWN, frame[_OWN] == frame[PIECE])
        frame = placed(frame, keys(frame), sum(len(each.pieces) for each in long))
        known.add(_OWN, BooleanType())
    else:
        frame = frame.repartition(*keys(frame)) if query.key else frame.repartition(1)
    order = [*keys(frame), column(frame, str(query.time))]
    rows = frame.sortWithinPartitions(*order, *([ARRIVAL] if resolved.ordered else []))
    return given.known_as(rows.select(*known.names), known)


def _pieces(resolved: Resolved, long: list[LongKey]) -> tuple[Column, Column]:
    """Return the piece of a row, and all pieces that need it; -1 for keys that are not cut."""
    from pyspark.sql import functions as F

    reaches = [each.lookback for each in resolved.windows if each.lookback is not None]
    ahead = max(each.ahead for each in reaches)
    back = max(each.time - each.ahead for each in reaches)
    ticks = resolved.ticks
    number = survey.numbered(resolved.frame, resolved.query, [each.key for each in long])
    own, held, base = F.lit(-1), F.array(F.lit(-1)), 0
    for i, each in enumerate(long):
        place = F.lit(base)
        for begin in each.begins:
            place = place + (ticks >= begin).cast("int")
        needed = []
        for piece in range(len(each.begins) + 1):
            here = F.lit(True)
            if piece > 0:
                here = here & (ticks >= each.begins[piece - 1] - back)
            if piece < len(each.begins):
                here = here & (ticks < each.begins[piece] + ahead)
            needed.append(F.when(here, F.lit(base + piece)))
        # A point goes to its own piece only; so does a row without a time, which the reader rejects.
        every = F.array_compact(F.array(*needed))
        if _POINT in resolved.frame.columns:
            every = F.when(resolved.frame[_POINT].isNotNull(), F.array(place)).otherwise(every)
        own = F.when(number == i, place).otherwise(own)
        held = F.when(number == i, F.when(ticks.isNull(), F.array(F.lit(base))).otherwise(every)).otherwise(held)
        base += len(each.pieces)
    return own, held


@dataclass(frozen=True)
class OverTask:
    """Answers the rows or points of a partition, sorted by key and time; Spark calls it with batches."""

    query: Query
    schema: pa.Schema
    """The columns of the rows, and the points as structs, if any."""
    points: pa.Schema | None
    """The columns of the points; None if rows are answered."""
    answers: pa.Schema
    more: tuple[str, ...] = ()
    """The columns of the points in their structs; the others are those of the rows."""
    is_cut: bool = False
    """Whether keys are cut, so that a row may belong to another piece."""
    chunk: int = _ROWS

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the answers. Memory is that of a chunk of rows, or of the longest key or piece."""
        waiting: list[pa.Table] = []
        count = known = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            # Spark passes times in the session's zone.
            schema = self.schema.append(pa.field(_OWN, pa.bool_())) if self.is_cut else self.schema
            waiting.append(pa.Table.from_batches([batch]).rename_columns(schema.names).cast(schema))
            count += batch.num_rows
            if count < self.chunk or count < 2 * known:
                continue
            whole = pa.concat_tables(waiting)
            begin = self._last_key(whole)
            yield from self._answered(whole.slice(0, begin))
            waiting, count = [whole.slice(begin)], whole.num_rows - begin
            known = count  # it is read again: there must be more new rows, lest the time become quadratic
        if waiting:
            yield from self._answered(pa.concat_tables(waiting))
        settle()

    def _last_key(self, table: pa.Table) -> int:
        """Return the first row of the last key, which may continue."""
        keys = [table[name] for name in self.query.key]
        ends = key_ends([pc.add(key, 0.0) if pa.types.is_floating(key.type) else key for key in keys], table.num_rows)
        return int(ends[-2]) if len(ends) > 1 else 0

    def _answered(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        if not table.num_rows:
            return
        if self.points is None:
            found = over_tables(self.query, table.select(self.schema.names))
            found = found.filter(table[_OWN]) if self.is_cut else found
        else:
            is_point = table[_POINT].is_valid()
            rows = table.filter(pc.invert(is_point)).select([name for name in self.schema.names if name != _POINT])
            found = over_tables(self.query, rows, self._asked(table.filter(is_point), self.points))
        columns = [cast(found[field.name].combine_chunks(), field.type) for field in self.answers]
        yield from pa.Table.from_arrays(columns, schema=inner_schema(self.answers)).to_batches(max_chunksize=1 << 16)

    def _asked(self, table: pa.Table, schema: pa.Schema) -> pa.Table:
        """Return the points with their own columns."""
        _, *values = table[_POINT].combine_chunks().flatten()
        own = dict(zip(self.more, values, strict=True))
        columns = [own[name] if name in own else table[name] for name in schema.names]
        return pa.Table.from_arrays(columns, schema=schema)
