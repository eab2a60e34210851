"""The commands, and their options."""

from __future__ import annotations

import importlib.util
import sys
from enum import StrEnum
from json import dumps
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import muntin
from muntin.cli import INTERRUPTED
from muntin.cli import bench as benchmarks
from muntin.cli import doctor as examination
from muntin.cli.beside import beside, sink_of, write
from muntin.cli.errors import BAD_INPUT, InputError, one_clear_line
from muntin.cli.interrupts import stop_on_interrupt
from muntin.cli.local import LocalRun
from muntin.cli.progress import Display, Summary, windows_table
from muntin.cli.query_text import asked_for
from muntin.cli.sinks import Sink, json_lines
from muntin.cli.sources import Source
from muntin.cli.work import locked, require_apart

app = typer.Typer(
    help="Sliding-window aggregation: queries from TOML files or SQL, over files, on Spark or in this process.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
_PAGE = 110
_LAST = 20
"""The number of windows shown on a terminal."""


class Engine(StrEnum):
    """What runs a query."""

    SPARK = "spark"
    LOCAL = "local"


QueryArgument = Annotated[
    Path | None, typer.Argument(metavar="QUERY.toml", help="The query: windows, aggregates, key, time. Or give --sql.")
]
SqlOption = Annotated[
    str | None, typer.Option("--sql", metavar="TEXT_OR_FILE", help="The query as a SELECT, or a file with one, .sql.")
]
WatermarkOption = Annotated[
    str | None, typer.Option(metavar="DURATION", help="With --sql: how late rows may come, such as '10 seconds'.")
]
LatenessOption = Annotated[
    str | None, typer.Option(metavar="DURATION", help="With --sql: for how long a window may still change.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON, for a program to read.")]


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Show the version and stop.")] = False) -> None:
    if version:
        typer.echo(f"muntin {muntin.__version__}")
        raise typer.Exit


@app.command()
def run(
    input: Annotated[Path, typer.Option(help="A Parquet, CSV, JSON lines or Arrow file, or a folder of them.")],
    query: QueryArgument = None,
    sql: SqlOption = None,
    watermark: WatermarkOption = None,
    allowed_lateness: LatenessOption = None,
    output: Annotated[
        Path | None,
        typer.Option(help="A file (.parquet, .csv, .jsonl) or a folder; the terminal, if there is none."),
    ] = None,
    engine: Annotated[
        Engine | None, typer.Option(help="By default spark for a folder, where Spark is installed; else local.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more files in the folder, until Ctrl-C.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start over, whatever is there already.")] = False,
    json: JsonOption = False,
) -> None:
    """Run a query over files. Ctrl-C stops it cleanly; the same command then goes on from there."""
    with one_clear_line():
        asked = asked_for(query, sql, watermark, allowed_lateness)
        source = Source(input, asked)
        if follow and not source.is_folder:
            raise InputError(f"{input} is a file; only a folder can be followed")
        chosen = engine or (Engine.SPARK if source.is_folder and _has_spark() and output is not None else Engine.LOCAL)
        if output is not None:
            require_apart(output, input)
        with locked(output):
            if chosen is Engine.SPARK:
                from muntin.cli import on_spark

                summary = on_spark.run(asked, source, output, _console(stderr=True), follow=follow, overwrite=overwrite)
            else:
                summary = _run_locally(asked, source, output, follow=follow, overwrite=overwrite, json=json)
        _report(summary, as_json=json and output is not None, follow=follow)
    if not summary.finished and not follow:
        raise typer.Exit(INTERRUPTED)


def _run_locally(
    asked: muntin.Query, source: Source, output: Path | None, *, follow: bool, overwrite: bool, json: bool
) -> Summary:
    out, err = _console(), _console(stderr=True)
    shown: list[pa.Table] = []
    local = LocalRun(asked, source, None if output is None else Sink(output), shown.append)
    if output is None and (json or not out.is_terminal):
        local.show = _print_lines
    local.open(overwrite=overwrite, finite=not follow)
    if local.resumed and err.is_terminal:
        err.print(f"Going on from {local.saved.folder if local.saved else ''}")
    total = None if follow else local.rows_left()
    with stop_on_interrupt() as stop, Display(err, total) as display:
        summary = local.run(stop, display, follow=follow)
    if shown:
        windows = pa.concat_tables(shown)
        out.print(windows_table(windows, title=f"The last of {windows.num_rows:,} windows", most=_LAST))
    return summary


def _print_lines(windows: pa.Table) -> None:
    for line in json_lines(windows):
        sys.stdout.write(line + "\n")


def _report(summary: Summary, *, as_json: bool, follow: bool) -> None:
    if as_json:
        typer.echo(dumps(summary.as_dict()))
        return
    output = summary.output
    stopped = not summary.finished and not follow
    where = "" if output is None or (stopped and not Path(output).is_dir()) else f", in {output}"
    typer.echo(f"{summary}{where}", err=output is None)
    if stopped and output is not None:
        typer.echo(f"Stopped before the end; without --overwrite the same command goes on from here, to {output}")


@app.command()
def over(
    input: Annotated[Path, typer.Option(help="A Parquet, CSV, JSON lines or Arrow file, or a folder of them.")],
    query: QueryArgument = None,
    sql: SqlOption = None,
    at: Annotated[
        Path | None, typer.Option(help="Points: rows with the key and the time. They are answered instead.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="A file (.parquet, .csv, .jsonl) or a folder; the terminal, if there is none."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there already.")] = False,
    json: JsonOption = False,
) -> None:
    """Answer frames beside the rows: each row with all its columns, and what its windows hold. Reads all at once."""
    with one_clear_line():
        asked = asked_for(query, sql, None, None)
        if output is not None:
            require_apart(output, *(each for each in (input, at) if each is not None))
        with locked(output):
            sink = None if output is None else sink_of(output, overwrite=overwrite)
            answers = beside(asked, input, at)
            if sink is not None:
                write(answers, sink)
        if sink is not None:
            report = {"rows": answers.num_rows, "output": str(output)}
            typer.echo(dumps(report) if json else f"{answers.num_rows:,} rows, in {output}")
        elif json or not (out := _console()).is_terminal:
            _print_lines(answers)
        else:
            out.print(windows_table(answers, title=f"The last of {answers.num_rows:,} rows", most=_LAST))


@app.command()
def explain(
    query: QueryArgument = None,
    sql: SqlOption = None,
    watermark: WatermarkOption = None,
    allowed_lateness: LatenessOption = None,
    json: JsonOption = False,
) -> None:
    """Say which algorithm runs each part of a query, and why."""
    with one_clear_line():
        plan = asked_for(query, sql, watermark, allowed_lateness).explain()
        typer.echo(_dumped(plan.to_dict()) if json else str(plan))


@app.command()
def warm(
    query: QueryArgument = None,
    sql: SqlOption = None,
    watermark: WatermarkOption = None,
    allowed_lateness: LatenessOption = None,
    input: Annotated[
        Path | None, typer.Option(help="A file or folder that it will read: its columns have the types to compile for.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Compile all that a query needs, before the data comes: while an image is built, or a machine started."""
    with one_clear_line():
        asked = asked_for(query, sql, watermark, allowed_lateness)
        info = muntin.warm(asked, None if input is None else Source(input, asked).first().schema)
        report = {"folder": str(info.folder), "modules": info.modules, "bytes": info.bytes, "writable": info.writable}
        text = f"compiled; {info.modules} modules, {info.bytes:,} bytes in {info.folder}"
        typer.echo(_dumped(report) if json else text)


@app.command()
def watch(
    answers: Annotated[
        Path | None, typer.Argument(metavar="[ANSWERS]", help="The folder that a run is writing windows to.")
    ] = None,
    rows: Annotated[Path | None, typer.Option(help="A file or folder of raw rows, which may grow.")] = None,
    time: Annotated[str | None, typer.Option(help="The time column of the raw rows.")] = None,
    key: Annotated[list[str] | None, typer.Option(help="A key column of the raw rows; may be given again.")] = None,
    column: Annotated[str | None, typer.Option(help="The column of the raw rows to draw.")] = None,
    watermark: Annotated[
        str | None, typer.Option(help="How far behind the newest row a row may be and not be late, such as '1 minute'.")
    ] = None,
    query: Annotated[
        Path | None, typer.Option(metavar="QUERY.toml", help="The query: its plan is drawn, and it names the columns.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where the page is; 0 for any port that is free.")] = 5006,
    json: JsonOption = False,
) -> None:
    """Open a live page on this machine: windows, raw rows at every zoom, and how the run is doing. Ctrl-C ends it."""
    from muntin.cli import watching
    from muntin.cli.query_file import read_query

    with one_clear_line():
        asked = None if query is None else read_query(query)
        page = watching.open_page(
            answers, rows, time=time, key=key or [], column=column, watermark=watermark, query=asked, port=port
        )
        with page, stop_on_interrupt() as stop:
            typer.echo(dumps({"url": page.url}) if json else f"The live page is at {page.url}")
            if answers is not None and not answers.exists():
                typer.echo(f"{answers} is not there yet; waiting for it", err=True)
            while not stop.wait(1.0):
                pass


@app.command()
def serve(
    query: Annotated[Path, typer.Argument(metavar="QUERY.toml", help="The query whose features are published.")],
    store: Annotated[
        str, typer.Option(metavar="URL", help="Where: sqlite:///PATH, redis://HOST/0, postgresql://USER@HOST/DB.")
    ],
    host: Annotated[str, typer.Option(help="The address to listen at; others than this machine's need a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")] = 8080,
    json: JsonOption = False,
) -> None:
    """Answer points over HTTP from published features, as JSON or Arrow. Ctrl-C ends it.

    Callers send the token of the environment variable MUNTIN_SERVE_TOKEN, if it is set.
    """
    from muntin.cli import features
    from muntin.cli.query_file import read_query

    with one_clear_line():

        def announce(address: str) -> None:
            typer.echo(
                dumps({"url": address}) if json else f"Features are at {address}/features, as {address}/docs says"
            )
            sys.stdout.flush()

        features.serve(read_query(query), store, host, port, announce)


@app.command()
def doctor(json: JsonOption = False) -> None:
    """Check what this machine has: Java, Spark, Arrow, numba, the kernel cache, stores; say what to do about each."""
    findings = list(examination.examine())
    if json:
        typer.echo(_dumped([vars(each) for each in findings]))
    else:
        colours = {"ok": "green", "missing": "yellow", "broken": "red"}
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for _ in range(3):
            table.add_column(overflow="fold")
        for each in findings:
            detail = each.detail + (f"\n-> {each.advice}" if each.advice else "")
            table.add_row(each.name, Text(each.state, colours[each.state]), detail)
        _console().print(table)
    if any(each.state == "broken" for each in findings):
        raise typer.Exit(1)


@app.command()
def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Which; all, if none is named.", autocompletion=benchmarks.names_like),
    ] = None,
    list_them: Annotated[bool, typer.Option("--list", help="List the benchmarks and stop.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the rows and few rounds.")] = False,
    json: JsonOption = False,
) -> None:
    """Measure against other libraries, on this machine."""
    with one_clear_line():
        flags = {"--list": list_them, "--quick": quick, "--json": json}
        code = benchmarks.run([*(names or []), *(flag for flag, wanted in flags.items() if wanted)])
    if code:
        raise typer.Exit(BAD_INPUT if code == BAD_INPUT else 1)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where data, results and the chart go.")] = Path("demo"),
    live: Annotated[
        bool, typer.Option("--live", help="Readings that keep coming, and the live page, until Ctrl-C.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --live: where the page is; 0 for any.")] = 5006,
    days: Annotated[int, typer.Option(min=2, help="Days of data.")] = 3,
    engine: Annotated[Engine | None, typer.Option(help="By default spark, where it is installed.")] = None,
    json: JsonOption = False,
) -> None:
    """Stream the power readings of 84 plugs through several windows at once: data, progress, tables, a chart."""
    from muntin.cli import demo as show

    with one_clear_line():
        chosen = engine or (Engine.SPARK if _has_spark() else Engine.LOCAL)
        if live:
            from muntin.cli import live_demo

            live_demo.run(folder, on_spark=chosen is Engine.SPARK, console=_wide_enough(to_stderr=json), port=port)
            return
        summary = show.run(folder, days=days, on_spark=chosen is Engine.SPARK, console=_wide_enough(to_stderr=json))
        if json:
            typer.echo(_dumped(summary))


def _wide_enough(*, to_stderr: bool) -> Console:
    """Return a console for tables: as wide as the terminal, or as a page."""
    console = _console(stderr=to_stderr)
    return console if console.is_terminal else _console(stderr=to_stderr, width=_PAGE)


def _console(*, stderr: bool = False, width: int | None = None) -> Console:
    """Return a console without markup: brackets, as in 'muntin[spark]', are plain text."""
    return Console(stderr=stderr, width=width, markup=False)


def _has_spark() -> bool:
    return importlib.util.find_spec("pyspark") is not None


def _dumped(value: object) -> str:
    return dumps(value, indent=2, default=str)
