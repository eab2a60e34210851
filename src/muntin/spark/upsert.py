"""`muntin.spark.upsert`: keeps the latest revision of each window in a table of a database, a folder or the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from muntin.errors import ColumnError, UnsupportedOperationError
from muntin.query.query import Query
from muntin.spark.databases import Writer, database_of, is_database
from muntin.spark.identity import identity
from muntin.spark.quoting import quoted
from muntin.spark.targets import Merged, place_of
from muntin.spark.unpack import LATE
from muntin.tables.latest import key_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def upsert(answers: DataFrame, target: str | Path, query: Query | None = None) -> None:
    """Keep the latest revision of each window in a table of a database, a folder or the catalog: for `foreachBatch`.

        query.spark(calls).writeStream.foreachBatch(lambda batch, number: muntin.spark.upsert(batch, "answers/"))

    A `target` is one of these; it is created if missing, by the first batch, even if that has no answers:

    - `postgresql://USER@HOST/DATABASE?table=NAME` or `sqlite:///PATH?table=NAME`: one transaction a batch, which costs
      what its answers cost. The columns are those of the answers, with `window_start`, `window_end` for `window`, and
      `muntin_id`, the primary key. The driver holds the answers of the batch. A table `NAME_upserts` beside it names
      the query that writes and its last batch: another query may take over, and the one before is refused then.
    - A table of Delta or Iceberg, by its name, or ``delta.`/path` ``: one MERGE a batch.
    - Any other table of the session's catalog, and a folder of Parquet files (a `Path`, or a text with a slash in it):
      the whole target is read and rewritten, unless a batch has no answers, O(target + answers).

    A window is replaced by its next revision, and removed when it is retracted. A rerun batch changes nothing, and an
    interrupted one is completed by the next call. Batches must come in their order, as in `foreachBatch`: one of
    another query, or of a new checkpoint, whose revisions begin at 0 again, replaces what is there, whatever its
    revision. Calls for one target wait for each other: in a database and on a disk all of them, in HDFS and for tables
    those of one machine; for a database up to half a minute, then an error.

    A folder must hold nothing else than Parquet files of upsert: whatever is in it is replaced. While a call lasts, a
    folder `.muntin-upsert-NAME` is beside it, or a table `NAME_muntin_next_...` beside a table.

    Windows are identified as in `muntin.latest`, with one row per window: frames of rows of equal time, which share an
    identity, have one. Pass the `query` if its windows are of a policy, or by rows and emitted before they are full
    (`emit_early` with `partial`): late rows move their bounds, which the answers alone do not show.
    """
    _require_answers(answers)
    session = answers.sparkSession
    run = _run(session)
    if is_database(target):
        database_of(str(target)).write(answers.toArrow(), query, Writer(run, _batch(session)))
        return
    place = place_of(session, target)
    with place.locked():
        place.recover()
        answers = answers.persist()  # else Spark would compute the batch once per use
        try:
            known = place.read()
            _require_same_columns(answers, known, target)
            same = run is not None and run == place.run()
            if isinstance(place, Merged):
                if known is None:
                    place.create(answers)
                _merge(place, answers, query, run, same_run=same)
            elif known is None or not answers.isEmpty():
                place.replace(last_words(answers, query, known, same_run=same), run)
        finally:
            answers.unpersist()


def _merge(place: Merged, answers: DataFrame, query: Query | None, run: str | None, *, same_run: bool) -> None:
    names, fields = key_columns(answers.columns), answers.select("window.*").columns
    sides = [identity(names, fields, query, alias) for alias in ("a", "n")]
    same = " AND ".join(f"{a} <=> {n}" for a, n in zip(*sides, strict=True))
    place.merge(_newest(answers, query), same, run, same_run=same_run)


def last_words(
    answers: DataFrame, query: Query | None = None, known: DataFrame | None = None, *, same_run: bool = False
) -> DataFrame:
    """Return the last revision of each window that is not retracted. One shuffle.

    `known` has those of earlier batches. In the same run of a query the greatest revision is the last; in another one
    revisions begin at 0 again, and any answer is later than the known ones.
    """
    from pyspark.sql import functions as F

    names = answers.columns
    rows = answers.withColumn("muntin new", F.lit(True))
    if known is not None:
        rows = rows.unionByName(known.withColumn("muntin new", F.lit(False)))
    order = [F.col("revision").desc(), F.col("`muntin new`").desc()]
    last = _newest(rows, query, order if same_run else order[::-1]).where(~F.col("retracted"))
    return last.select(*(F.col(quoted(name)) for name in names))


def _newest(rows: DataFrame, query: Query | None, order: Sequence[Column] | None = None) -> DataFrame:
    """Return the first row of each window in an order, by default that of the greatest revision."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    names = rows.columns
    fields = rows.select("window.*").columns
    columns = [F.expr(each) for each in identity(key_columns(names), fields, query)]
    by_window = Window.partitionBy(*columns).orderBy(*(order or [F.col("revision").desc()]))
    newest = rows.select("*", F.row_number().over(by_window).alias("muntin newest"))
    return newest.where(F.col("`muntin newest`") == 1).select(*(F.col(quoted(name)) for name in names))


def _run(session: SparkSession) -> str | None:
    """Return the streaming query whose batch this is, the same as long as its checkpoint; None if it is unknown.

    Spark Connect does not tell.
    """
    return _property(session, "sql.streaming.queryId")


def _batch(session: SparkSession) -> int | None:
    """Return the number of the batch of a streaming query; None if it is unknown."""
    number = _property(session, "streaming.sql.batchId")
    return None if number is None else int(number)


def _property(session: SparkSession, name: str) -> str | None:
    context = getattr(session, "sparkContext", None)
    return None if context is None else context.getLocalProperty(name)


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
