"""`muntin.spark.upsert`: keeps the latest revision of each window in a folder of Parquet files or a table."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from muntin.errors import ColumnError, UnsupportedOperationError
from muntin.query.query import Query
from muntin.spark.folders import Folder
from muntin.spark.quoting import quoted
from muntin.spark.unpack import LATE
from muntin.tables.latest import bound_columns, key_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_REMEDY = "give a folder of a disk or of HDFS, or the name of a table"


def upsert(answers: DataFrame, target: str | Path, query: Query | None = None) -> None:
    """Keep the latest revision of each window in a folder of Parquet files, or in a table: for `foreachBatch`.

        query.spark(calls).writeStream.foreachBatch(lambda batch, number: muntin.spark.upsert(batch, "answers/"))

    A `target` with a slash in it, or a `Path`, is a folder, any other a table of the session's catalog; it is created
    if missing. A window is replaced by its next revision, and removed when it is retracted. A rerun batch changes
    nothing, and an interrupted one is completed by the next call.

    Windows are identified as in `muntin.latest`, with one row per window: frames of rows of equal time, which share an
    identity, have one. Pass the `query` if its windows are of a policy, or by rows and emitted before they are full
    (`emit_early` with `partial`): late rows move their bounds, which the answers alone do not show.

    The whole target is read and rewritten, unless a batch has no answers: O(target + answers). If that is too much, use
    a table format with MERGE; the page on streams on Spark has the statement.
    """
    _require_answers(answers)
    session = answers.sparkSession
    place: _Files | _Table
    place = _Files(Folder.of(target, _REMEDY)) if isinstance(target, Path) or "/" in target else _Table(target)
    place.recover(session)
    answers = answers.persist()  # else Spark would compute the batch once per use
    try:
        if not answers.isEmpty():
            known = place.read(session)
            _require_same_columns(answers, known, target)
            place.replace(last_words(answers if known is None else known.unionByName(answers), query))
    finally:
        answers.unpersist()


def last_words(answers: DataFrame, query: Query | None = None) -> DataFrame:
    """Return the greatest revision of each window that is not retracted. One shuffle."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    names = answers.columns
    identity = [F.col(quoted(name)) for name in (*key_columns(names), "window_id")] + _bounds(answers, query)
    newest = F.row_number().over(Window.partitionBy(*identity).orderBy(F.col("revision").desc()))
    last = answers.select("*", newest.alias("muntin newest")).where(
        (F.col("`muntin newest`") == 1) & ~F.col("retracted")
    )
    return last.select(*(F.col(quoted(name)) for name in names))


def _bounds(answers: DataFrame, query: Query | None) -> list[Column]:
    """Return the bounds that identify windows; null for those of another sort of window, or that may move."""
    from pyspark.sql import functions as F

    moving = {"to_row": _filling(query), "start": _of_policies(query)}
    found: list[Column] = []
    free = F.lit(True)
    for sort, bounds in bound_columns(answers.select("window.*").columns).items():
        mine = free if sort == "times" else free & F.col(f"window.{bounds[0]}").isNotNull()
        for name in bounds:
            fixed = ~F.col("window_id").isin(moving.get(name, [])) if moving.get(name) else F.lit(True)
            found.append(F.when(mine & fixed, F.col(f"window.{name}")))
        free = free & ~mine
    return found


def _filling(query: Query | None) -> list[int]:
    """Return the windows emitted before they are full: their end only shows how full they were."""
    if query is None or not query.partial or query.emit_early is None:
        return []
    return [i for i, each in enumerate(query.windows) if not each.each_row]


def _of_policies(query: Query | None) -> list[int]:
    """Return the windows of policies: late rows may change how much a policy keeps."""
    return [i for i, each in enumerate(query.windows) if each.each_row and not each.is_frame] if query else []


def _require_answers(answers: DataFrame) -> None:
    if answers.isStreaming:
        raise UnsupportedOperationError(
            "upsert takes the answers of a batch, and this DataFrame is streaming: call it by foreachBatch"
        )
    key_columns(answers.columns)
    if LATE in answers.columns:
        raise ColumnError(f"there are late rows in the column {LATE!r}: take them out with muntin.spark.split")


def _require_same_columns(answers: DataFrame, known: DataFrame | None, target: str | Path) -> None:
    if known is None:
        return
    found, wanted = ({each.name: each.dataType.simpleString() for each in frame.schema} for frame in (known, answers))
    for name in dict.fromkeys((*found, *wanted)):
        if found.get(name) != wanted.get(name):
            raise ColumnError(
                f"{str(target)!r} is of another query: its column {name!r} is {found.get(name, 'not there')}, that of "
                f"the answers {wanted.get(name, 'not there')}; give another place"
            )


@dataclass(frozen=True)
class _Files:
    """A folder of Parquet files. The next state is written beside it, and then renamed to it."""

    folder: Folder

    def recover(self, session: SparkSession) -> None:
        """Complete an interrupted replacement: an old state stays until the new one is in its place."""
        old = self.folder.beside(".old")
        if self.folder.is_there():
            old.delete()
        elif old.is_there():
            old.move(self.folder)

    def read(self, session: SparkSession) -> DataFrame | None:
        return session.read.parquet(self.folder.uri) if self.folder.is_there() else None

    def replace(self, answers: DataFrame) -> None:
        following = self.folder.beside(".next")
        answers.write.mode("overwrite").parquet(following.uri)
        if self.folder.is_there():
            self.folder.move(self.folder.beside(".old"))
        following.move(self.folder)
        self.recover(answers.sparkSession)


@dataclass(frozen=True)
class _Table:
    """A table of the catalog. The next state is another table, which exists once complete, and is then copied."""

    name: str

    @property
    def _next(self) -> str:
        return f"{self.name}_muntin_next"

    def recover(self, session: SparkSession) -> None:
        """Complete an interrupted replacement: a next state, while it exists, is the valid one."""
        database, _, prefix = self._next.rpartition(".")
        for each in session.catalog.listTables(database or None, f"{prefix}*"):
            self._copy(session, f"{database}.{each.name}" if database else each.name)

    def _copy(self, session: SparkSession, source: str) -> None:
        session.table(source).write.insertInto(self.name, overwrite=True)
        session.sql(f"DROP TABLE {source}")

    def read(self, session: SparkSession) -> DataFrame | None:
        return session.table(self.name) if session.catalog.tableExists(self.name) else None

    def replace(self, answers: DataFrame) -> None:
        session = answers.sparkSession
        if not session.catalog.tableExists(self.name):
            answers.limit(0).write.format("parquet").saveAsTable(self.name)
        made = f"{self._next}_{uuid.uuid4().hex[:8]}"  # an interrupted one may have left files
        columns = map(quoted, session.table(self.name).columns)
        answers.select(*columns).write.format("parquet").saveAsTable(made)
        self._copy(session, made)
