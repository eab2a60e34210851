"""`muntin demo`: the whole pipeline, from readings out of order to a chart, on a local Spark."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from rich.console import Console
from rich.table import Table

from muntin.cli import smart_home
from muntin.cli.interrupts import stop_on_interrupt
from muntin.cli.local import LocalRun
from muntin.cli.progress import Display, Summary, windows_table
from muntin.cli.sinks import Sink
from muntin.cli.sources import Source
from muntin.plotting import plot
from muntin.query import Query

FILES_A_DAY = 6
NAMES = ("24 hours every minute", "sessions, 20 minutes apart", "the last 100 readings, every 10")
_COLUMNS = "--time ts --key plug --column watts"
"""The options by which the live page finds the raw rows."""
COPIES = 24 * 60
"""The number of windows of 24 hours every minute that hold a row: Spark's own window copies it for each."""


@dataclass(frozen=True)
class Places:
    """The paths of the demo."""

    folder: Path

    @property
    def readings(self) -> Path:
        """The input, a folder of Parquet files."""
        return self.folder / "readings"

    @property
    def windows(self) -> Path:
        """The output, a folder of Parquet files."""
        return self.folder / "windows"

    @property
    def checkpoint(self) -> Path:
        """Spark's state."""
        return self.folder / "checkpoint"

    @property
    def chart(self) -> Path:
        """The picture."""
        return self.folder / "windows.png"


def run(folder: Path, *, days: int, on_spark: bool, console: Console) -> dict[str, Any]:
    """Generate data, run the query over it, show the results; return the summary."""
    begun = time.perf_counter()
    places = Places(folder)
    for each in (places.readings, places.windows, places.checkpoint):
        shutil.rmtree(each, ignore_errors=True)
    console.print(
        f"Making {days} days of readings of {smart_home.PLUGS} plugs, as they arrive: out of order, with gaps"
    )
    rows = smart_home.write(places.readings, days, files=FILES_A_DAY * days)
    console.print(f"{rows:,} readings in {places.readings}\n")
    query = smart_home.query()
    _show_query(query, console)
    summary = _on_spark(query, places, rows, console) if on_spark else _locally(query, places, rows, console)
    windows = ds.dataset(sorted(places.windows.glob("*.parquet")), format="parquet").to_table()
    _show_windows(windows, console)
    charted = _draw(windows, places.chart)
    return _sum_up(summary, windows, places, console, seconds=time.perf_counter() - begun, charted=charted)


# ---------------------------------------------------------------- engines


def _on_spark(query: Query, places: Places, rows: int, console: Console) -> Summary:
    from muntin.cli.on_spark import answered, start, watch

    console.print("Starting Spark ...")
    session = start(places.folder / "spark.log", spark__sql__shuffle__partitions="2")
    frame = session.readStream.schema("plug int, ts timestamp, watts double").option("maxFilesPerTrigger", 1)
    answers = answered(query, frame.parquet(str(places.readings)))
    console.print(f"Spark {session.version}, a streaming query; the first batch compiles, or loads what was compiled")
    begun = time.perf_counter()
    with stop_on_interrupt() as stop, Display(console, rows) as display:
        running = (
            answers.writeStream.format("parquet")
            .option("path", str(places.windows))
            .option("checkpointLocation", str(places.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        return watch(running, query, stop, display, begun, str(places.windows))


def _locally(query: Query, places: Places, rows: int, console: Console) -> Summary:
    console.print("A stream in this process (for Spark: pip install 'muntin[demo]')")
    local = LocalRun(query, Source(places.readings, query), Sink(places.windows), lambda _: None)
    local.open(overwrite=True, finite=True)
    with stop_on_interrupt() as stop, Display(console, rows) as display:
        return local.run(stop, display)


# ---------------------------------------------------------------- output


def _show_query(query: Query, console: Console) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for number, each in enumerate(query.windows):
        table.add_row(f"window {number}", repr(each))
    for name, aggregation in query.aggregates.items():
        table.add_row(name, repr(aggregation))
    console.print(table)
    console.print()


def _show_windows(windows: pa.Table, console: Console) -> None:
    for number, name in enumerate(NAMES):
        mine = windows.filter(pc.equal(windows["window_id"], number))
        if mine.num_rows:
            ends = pc.struct_field(mine["window"], "end")
            last = mine.append_column("end", ends).sort_by([("end", "ascending"), ("plug", "ascending")])
            shown = last.drop_columns(["end", "window_id", "peak_at"]).slice(max(0, last.num_rows - 4))
            console.print(windows_table(shown, title=f"\n{name}: the last of {mine.num_rows:,} windows"))


def _draw(windows: pa.Table, path: Path) -> bool:
    """Draw the windows of one plug; return whether a plotting library is installed."""
    if importlib.util.find_spec("matplotlib") is None:
        return False
    busiest = pc.filter(windows["plug"], pc.equal(windows["peak"], pc.max(windows["peak"])))[0].as_py()
    mine = windows.filter(pc.equal(windows["plug"], busiest))
    chart = plot(mine, ["mean", "peak"], names=NAMES, title=f"What plug {busiest} draws, in watts")
    chart.savefig(path)
    return True


def _command() -> str:
    """Return how this command was called: with its path, if it is not on the search path."""
    called = Path(sys.argv[0])
    return called.name if shutil.which(called.name) == str(called.absolute()) else str(called)


def _sum_up(
    summary: Summary, windows: pa.Table, places: Places, console: Console, *, seconds: float, charted: bool
) -> dict[str, Any]:
    copies = summary.rows * COPIES
    late = f"{summary.late:,} behind the watermark, {summary.dropped:,} of them too late for every window"
    lines = {
        "rows": f"{summary.rows:,} in {summary.seconds:.1f} s: {summary.rows_per_second:,.0f} rows a second",
        "late rows": late,
        "windows out": f"{windows.num_rows:,}, revisions included",
        "row copies": f"none; Spark's own window would make {copies:,} for the 24 hours every minute alone",
        "results": str(places.windows),
        "chart": str(places.chart) if charted else "none: pip install 'muntin[plot]'",
        "all of it": f"{seconds:.0f} s",
    }
    table = Table(title="\nSummary", title_justify="left", box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, text in lines.items():
        table.add_row(name, text)
    console.print(table)
    console.print(f"\nThe live page of it: {_command()} watch {places.windows} --rows {places.readings} {_COLUMNS}")
    counts = {
        "windows": windows.num_rows,
        "row_copies_of_spark": copies,
        "chart": str(places.chart) if charted else None,
    }
    return {**summary.as_dict(), **counts, "seconds_in_all": round(seconds, 1)}
