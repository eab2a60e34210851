"""The progress display of a run, and its final summary."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from muntin.showing import cell

_HIDDEN = ("revision", "retracted")


@dataclass
class Summary:
    """The counts of a run."""

    engine: str
    rows: int = 0
    late: int = 0
    """Rows behind the watermark."""
    dropped: int = 0
    """Rows that no window took any more."""
    windows: int = 0
    """Emitted windows, including revisions."""
    seconds: float = 0.0
    watermark: str | None = None
    output: str | None = None
    finished: bool = False
    """Whether all rows were read and every window emitted; else another run resumes from here."""

    @property
    def rows_per_second(self) -> float:
        """Rows per second of this run."""
        return self.rows / self.seconds if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the counts for JSON."""
        return {**asdict(self), "rows_per_second": round(self.rows_per_second, 1)}

    def __str__(self) -> str:
        """Return a one-line summary."""
        rate = f"{self.rows_per_second:,.0f} rows/s" if self.seconds else "0 rows/s"
        late = f"{self.late:,} late, {self.dropped:,} of them dropped" if self.late else "none late"
        return f"{self.rows:,} rows in {self.seconds:.1f} s ({rate}; {late}), {self.windows:,} windows out"


class Display:
    """A bar with rows, rows per second, watermark and windows, on a terminal; nothing elsewhere."""

    def __init__(self, console: Console, total: int | None, *, enabled: bool | None = None) -> None:
        self._enabled = console.is_terminal if enabled is None else enabled
        self._progress = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
            console=console,
            transient=False,
            refresh_per_second=5,
        )
        self._task: TaskID | None = None
        self._total = total
        self._begun = time.perf_counter()

    def __enter__(self) -> Self:
        """Show the bar."""
        if self._enabled:
            self._progress.start()
            self._task = self._progress.add_task("", total=self._total, status="starting")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop updating the bar."""
        if self._enabled:
            self._progress.stop()

    def show(self, rows: int, windows: int, watermark: str | None) -> None:
        """Update the progress."""
        if self._task is None:
            return
        rate = rows / max(time.perf_counter() - self._begun, 1e-9)
        status = f"{rows:,} rows  {rate:,.0f}/s  watermark {watermark or '-'}  {windows:,} windows"
        self._progress.update(self._task, completed=rows, status=status)


def windows_table(windows: pa.Table, *, title: str | None = None, most: int = 20) -> Table:
    """Return the last windows as a table for the terminal."""
    names = [name for name in windows.column_names if name not in _HIDDEN]
    shown = Table(title=title, title_justify="left", header_style="bold", box=box.SIMPLE_HEAD)
    for name in names:
        kind = windows.schema.field(name).type
        numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        shown.add_column(name, justify="right" if numeric else "left", overflow="fold")
    last = windows.slice(max(0, windows.num_rows - most))
    for row in last.to_pylist():
        shown.add_row(*(cell(row[name]) for name in names))
    return shown
