"""`muntin.spark.upsert`: keeps the latest revision of each window in a folder of Parquet files or a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from muntin.errors import ColumnError, UnsupportedOperationError
from muntin.query.query import Query
from muntin.spark.quoting import quoted
from muntin.spark.targets import place_of
from muntin.spark.unpack import LATE
from muntin.tables.latest import bound_columns, key_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def upsert(answers: DataFrame, target: str | Path, query: Query | None = None) -> None:
    """Keep the latest revision of each window in a folder of Parquet files, or in a table: for `foreachBatch`.

        query.spark(calls).writeStream.foreachBatch(lambda batch, number: muntin.spark.upsert(batch, "answers/"))

    A `target` with a slash in it, or a `Path`, is a folder, any other a table of the session's catalog; it is created
    if missing. A window is replaced by its next revision, and removed when it is retracted. A rerun batch changes
    nothing, and an interrupted one is completed by the next call. Batches must come in their order, as in
    `foreachBatch`: one of another query, or of a new checkpoint, whose revisions begin at 0 again, replaces what is
    there, whatever its revision. Calls for one target wait for each other: on a disk all of them, in HDFS and for
    tables those of one machine.

    A folder must hold nothing else than Parquet files of upsert: whatever is in it is replaced. While a call lasts, a
    folder `.muntin-upsert-NAME` is beside it, or a table `NAME_muntin_next_...` beside a table.

    Windows are identified as in `muntin.latest`, with one row per window: frames of rows of equal time, which share an
    identity, have one. Pass the `query` if its windows are of a policy, or by rows and emitted before they are full
    (`emit_early` with `partial`): late rows move their bounds, which the answers alone do not show.

    The whole target is read and rewritten, unless a batch has no answers: O(target + answers). If that is too much, use
    a table format with MERGE; the page on streams on Spark has the statement.
    """
    _require_answers(answers)
    session = answers.sparkSession
    place = place_of(session, target)
    with place.locked():
        place.recover()
        answers = answers.persist()  # else Spark would compute the batch once per use
        try:
            if not answers.isEmpty():
                known = place.read()
                _require_same_columns(answers, known, target)
                run = _run(session)
                same = run is not None and run == place.run()
                place.replace(last_words(answers, query, known, same_run=same), run)
        finally:
            answers.unpersist()


def last_words(
    answers: DataFrame, query: Query | None = None, known: DataFrame | None = None, *, same_run: bool = False
) -> DataFrame:
    """Return the last revision of each window that is not retracted. One shuffle.

    `known` has those of earlier batches. In the same run of a query the greatest revision is the last; in another one
    revisions begin at 0 again, and any answer is later than the known ones.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    names = answers.columns
    rows = answers.withColumn("muntin new", F.lit(True))
    if known is not None:
        rows = rows.unionByName(known.withColumn("muntin new", F.lit(False)))
    identity = [F.col(quoted(name)) for name in (*key_columns(names), "window_id")] + _bounds(answers, query)
    order = [F.col("revision").desc(), F.col("`muntin new`").desc()]
    newest = F.row_number().over(Window.partitionBy(*identity).orderBy(*(order if same_run else order[::-1])))
    last = rows.select("*", newest.alias("muntin newest")).where((F.col("`muntin newest`") == 1) & ~F.col("retracted"))
    return last.select(*(F.col(quoted(name)) for name in names))


def _run(session: SparkSession) -> str | None:
    """Return the streaming query whose batch this is, the same as long as its checkpoint; None if it is unknown.

    Spark Connect does not tell.
    """
    context = getattr(session, "sparkContext", None)
    return None if context is None else context.getLocalProperty("sql.streaming.queryId")


def _bounds(answers: DataFrame, query: Query | None) -> list[Column]:
    """Return the bounds that identify windows; null for those of another sort of window, or that may move."""
    from pyspark.sql import functions as F

    moving = {"to_row": _filling(query), "start": _moved(query)}
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


def _moved(query: Query | None) -> list[int]:
    """Return the windows whose starts late rows may move."""
    return [i for i, each in enumerate(query.windows) if each.start_moves] if query else []


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
