"""The engine `local`: pushes files to a stream in this process. It can be stopped, and resumes exactly."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from muntin.cli.interrupts import Stop
from muntin.cli.progress import Display, Summary
from muntin.cli.sinks import OutputError, Sink
from muntin.cli.sources import Position, Source
from muntin.durations import in_unit_of
from muntin.errors import MuntinError, SnapshotError
from muntin.query import Query
from muntin.streams.stream import Stream
from muntin.types import column_type
from muntin.watching.axis import Axis
from muntin.watching.health import HealthReport, of_stream, work_folder

SAVE_EVERY = 30.0
"""Seconds between saves of a run, so that a crash loses little."""
LOOK_EVERY = 1.0
"""Seconds between two polls of a followed folder."""
_VERSION = 1


class Saved:
    """What a run saves next to its output: the stream's state, and how much of the input and output belongs to it."""

    def __init__(self, output: Path) -> None:
        self.folder = work_folder(output)
        self.path = self.folder / "state"

    @property
    def exists(self) -> bool:
        """Whether there is a run to resume."""
        return self.path.is_file()

    def write(
        self, stream: Stream, position: Position, parts: int, summary: Summary, source: Path, waits: int | None
    ) -> None:
        """Replace the saved state atomically."""
        header = {
            "version": _VERSION,
            "input": str(source.resolve()),
            "position": position.to_json(),
            "parts": parts,
            "windows": summary.windows,
            "waits": waits,
            "aggregates": list(stream.query.aggregates),
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = self.path.with_name(".state")
        unfinished.write_bytes(json.dumps(header).encode() + b"\n" + stream.snapshot())
        unfinished.replace(self.path)

    def read(self, query: Query, source: Path) -> tuple[Stream, Position, int, int, int | None]:
        """Return the stream, the position, the numbers of parts and windows, and the delay of the watermark."""
        text, _, snapshot = self.path.read_bytes().partition(b"\n")
        advice = "give --overwrite to start over"
        try:
            header = json.loads(text)
            position = Position.from_json(header["position"])
            parts, windows, version, known = (header[name] for name in ("parts", "windows", "version", "input"))
            waits = header.get("waits")
            query = _in_order(query, header.get("aggregates", ()))
        except (ValueError, KeyError) as error:
            raise OutputError(f"{self.path} is damaged; {advice}") from error
        if version != _VERSION:
            raise OutputError(f"{self.path} was written by another version; {advice}")
        if known != str(source.resolve()):
            raise OutputError(f"the run to go on with, in {self.folder}, read {known}, not {source}; {advice}")
        try:
            return _waiting(query, waits).stream(snapshot), position, parts, windows, waits
        except SnapshotError as error:
            raise OutputError(
                f"the run to go on with, in {self.folder}, is of another query ({error}); {advice}"
            ) from error

    def forget(self) -> None:
        """Delete the saved state."""
        shutil.rmtree(self.folder, ignore_errors=True)


class LocalRun:
    """One run of a query over files. Without an output, windows go to `show`, and the run cannot be resumed."""

    def __init__(self, query: Query, source: Source, sink: Sink | None, show: Callable[[pa.Table], Any]) -> None:
        self.query, self.source, self.sink, self.show = query, source, sink, show
        self.saved = None if sink is None else Saved(sink.output)
        self.position = Position()
        self.stream = query.stream()
        self.summary = Summary("local", output=None if sink is None else str(sink.output))
        self.resumed = False
        self.waits: int | None = None
        """The delay of the watermark, if greater than the query's."""
        self._before: dict[str, Any] = {}
        self._time = pa.timestamp("us")
        self._plan: dict[str, Any] | None = None

    def open(self, *, overwrite: bool = False, finite: bool = False) -> None:
        """Start, or resume an earlier run; reject an existing output.

        All rows of a `finite` input count, however late: its times are read first.
        """
        if finite and (overwrite or self.saved is None or not self.saved.exists):
            self._wait_for_all()
        if self.sink is None or self.saved is None:
            return
        parts = 0
        if overwrite:
            self.saved.forget()
            if self.sink.is_folder and self.sink.output.is_dir():
                self.sink.open(0)
        elif self.saved.exists:
            found = self.saved.read(self.query, self.source.path)
            self.stream, self.position, parts, self.summary.windows, self.waits = found
            self._before = dict(self.stream.metrics())
            self.resumed = True
        elif _is_there(self.sink.output):
            raise OutputError(f"{self.sink.output} is there already; give --overwrite to replace it")
        self.sink.open(parts)

    def _wait_for_all(self) -> None:
        """Delay the watermark until the latest row, so that the answers are those of `Query.run`."""
        behind, kind = self.source.disorder()
        if kind is None or self.query.forget_after is not None:
            return
        if behind > in_unit_of(self.query.watermark, column_type(kind), "watermark"):
            self.waits = behind
            self.stream = _waiting(self.query, behind).stream()

    def run(self, stop: Stop, display: Display, *, follow: bool = False) -> Summary:
        """Read until the input ends, or a stop is requested."""
        begun = saved_at = time.perf_counter()
        try:
            while not stop:
                for table in self.source.batches(self.position):
                    pushed_at = time.perf_counter()
                    self._put(self.stream.push(table))
                    seconds = time.perf_counter() - pushed_at
                    self.stream.take_late()  # already counted; keeping them would leak memory
                    self._time = self._time if self.query.time is None else table.schema.field(self.query.time).type
                    self._count(begun)
                    self._report(seconds)
                    display.show(self.summary.rows, self.summary.windows, self.summary.watermark)
                    if stop:
                        self.position.rows += table.num_rows
                        break
                    if time.perf_counter() - saved_at > SAVE_EVERY:
                        # The generator has not advanced yet: this batch is in the state, so it counts as read.
                        saved_at = self._save(table.num_rows)
                if stop or not follow:
                    break
                if self.sink is not None:
                    self.sink.flush()  # so that followers of the output see it
                if stop.wait(LOOK_EVERY):
                    break
        except MuntinError:
            self._give_up()
            raise
        if stop:
            self._save(0)
        else:
            self._finish()
        self._count(begun)
        return self.summary

    def _put(self, windows: pa.Table) -> None:
        self.summary.windows += windows.num_rows
        if self.sink is None:
            self.show(windows)
        else:
            self.sink.write(windows)

    def _finish(self) -> None:
        windows = self.stream.close()
        self._put(windows)
        self.summary.finished = True
        if self.sink is not None and self.saved is not None:
            self.sink.finish(windows.slice(0, 0))
            self.saved.forget()

    def _give_up(self) -> None:
        """Save what was done before an unreadable or rejected row, if anything."""
        if self.resumed or self.summary.rows:
            self._save(0)
        elif self.saved is not None:
            self.saved.forget()

    def _save(self, unread: int) -> float:
        if self.sink is not None and self.saved is not None:
            self.sink.flush()
            position = Position(set(self.position.done), self.position.file, self.position.rows + unread)
            self.saved.write(self.stream, position, self.sink.finished, self.summary, self.source.path, self.waits)
        return time.perf_counter()

    def _count(self, begun: float) -> None:
        counts = self.stream.metrics()
        for name in ("rows", "late", "dropped"):
            setattr(self.summary, name, (counts[name] or 0) - self._before.get(name, 0))
        self.summary.watermark = _readable(self.stream.watermark, self._time)
        self.summary.seconds = time.perf_counter() - begun

    def _report(self, seconds: float) -> None:
        """Report the health of the run, for `muntin watch`."""
        if self.saved is None:
            return
        if self._plan is None:
            self._plan = self.stream.explain().to_dict()
        axis = Axis.of(self._time, self.query.time or "") if self.query.time is not None else None
        ticks = axis.ticks_per_second if axis is not None and axis.is_time else None
        health = of_stream(self.stream.metrics(), ticks_per_second=ticks, seconds=seconds)
        HealthReport(self.saved.folder).write(health, self._plan)


def _waiting(query: Query, waits: int | None) -> Query:
    return query if waits is None else replace(query, watermark=waits)


def _in_order(query: Query, names: Sequence[str]) -> Query:
    """Return a query with its aggregates in the order of the output that is there, if they are the same."""
    if set(names) != set(query.aggregates):
        return query  # another query, which the state of the run refuses by name
    return replace(query, aggregates={name: query.aggregates[name] for name in names})


def _readable(ticks: int | None, kind: pa.DataType) -> str | None:
    """Return a watermark as text: a time if it is one.

    >>> _readable(90, pa.timestamp("s")), _readable(90, pa.int64())
    ('1970-01-01 00:01:30', '90')
    """
    if ticks is None or not pa.types.is_temporal(kind):
        return None if ticks is None else str(ticks)
    time = pa.scalar(ticks, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    try:
        return str(time)
    except (OverflowError, ValueError):  # before the year 1 or after 9999, which Python does not have
        return str(pa.array([time]).to_numpy(zero_copy_only=False)[0])


def _is_there(output: Path) -> bool:
    return any(output.iterdir()) if output.is_dir() else output.exists()
