"""The engine `local`: pushes files to a stream in this process. It can be stopped, and resumes exactly."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from muntin.cli.errors import InputError, OutputError
from muntin.cli.interrupts import Stop
from muntin.cli.progress import Display, Summary
from muntin.cli.sinks import Sink
from muntin.cli.sources import Position, Source
from muntin.cli.work import LOCK, delete, is_there, make_folder, replacing, require_only_runs
from muntin.durations import in_unit_of
from muntin.errors import MuntinError, SnapshotError
from muntin.query import Query
from muntin.query.plan import resolve
from muntin.streams.stream import Stream
from muntin.types import column_type
from muntin.watching.axis import Axis
from muntin.watching.health import HealthReport, of_stream, work_folder

SAVE_EVERY = 30.0
"""Seconds between saves of a run, so that a crash loses little."""
LOOK_EVERY = 1.0
"""Seconds between two polls of a followed folder."""
_VERSION = 2


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    position: Position
    sizes: list[int]
    """The bytes of each part that belongs to what was read."""
    windows: int = 0
    waits: int | None = None
    """The delay of the watermark, if greater than the query's."""


class Saved:
    """What a run saves next to its output: the stream's state, and how much of the input and output belongs to it."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.folder = work_folder(output)
        self.path = self.folder / "state"

    @property
    def exists(self) -> bool:
        """Whether there is a run to resume."""
        return self.path.is_file()

    def write(self, stream: Stream, progress: Progress, source: Path) -> None:
        """Replace the saved state atomically."""
        header = {
            "version": _VERSION,
            "input": str(source.resolve()),
            "position": progress.position.to_json(),
            "sizes": progress.sizes,
            "windows": progress.windows,
            "waits": progress.waits,
            "aggregates": list(stream.query.aggregates),
        }
        make_folder(self.folder)
        with replacing(self.path) as file:
            file.write(json.dumps(header).encode() + b"\n" + stream.snapshot())

    def read(self, query: Query, source: Path) -> tuple[Stream, Progress]:
        """Return the stream, and what has been read and written of it."""
        text, _, snapshot = self.path.read_bytes().partition(b"\n")
        advice = "give --overwrite to start over"
        try:
            header = json.loads(text)
            if header["version"] != _VERSION:
                raise OutputError(f"{self.path} was written by another version; {advice}")
            found = Progress(
                Position.from_json(header["position"]), header["sizes"], header["windows"], header["waits"]
            )
            known = header["input"]
            query = in_order(query, header["aggregates"])
        except (ValueError, KeyError) as error:
            raise OutputError(f"{self.path} is damaged; {advice}") from error
        if known != str(source.resolve()):
            raise OutputError(f"the run to go on with, in {self.folder}, read {known}, not {source}; {advice}")
        try:
            return _waiting(query, found.waits).stream(snapshot), found
        except SnapshotError as error:
            raise OutputError(
                f"the run to go on with, in {self.folder}, is of another query ({error}); {advice}"
            ) from error

    def clear(self) -> None:
        """Delete what runs have left besides the saved state."""
        if self.folder.is_dir():
            delete(sorted(each for each in self.folder.iterdir() if each.name not in (LOCK, self.path.name)))

    def forget(self) -> None:
        """Delete the saved state, and then what belongs to it: no state may be left whose parts are gone."""
        delete([self.path])
        self.clear()


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
        if self.saved is not None and self.saved.exists and not overwrite:
            self._resume(self.saved)
            return
        if finite:
            self.source.require_files()
        if self.saved is not None:
            self._require_free(self.saved.output, overwrite=overwrite)
        if finite:
            self._wait_for_all()
        if self.sink is not None and self.saved is not None:
            self._save(0)  # at once: a run that is killed before the next save can be resumed, too
            self.saved.clear()
            self.sink.open()

    def _resume(self, saved: Saved) -> None:
        assert self.sink is not None
        self.stream, before = saved.read(self.query, self.source.path)
        self.sink.require(before.sizes)
        self.position, self.summary.windows, self.waits = before.position, before.windows, before.waits
        self._before = dict(self.stream.metrics())
        self.resumed = True
        self.sink.open(before.sizes)

    def _require_free(self, output: Path, *, overwrite: bool) -> None:
        if overwrite:
            require_only_runs(output)
        elif is_there(output):
            raise OutputError(f"{output} is there already; give --overwrite to replace it")

    def _wait_for_all(self) -> None:
        """Delay the watermark until the latest row, so that the answers are those of `Query.run`."""
        behind, kind = self.source.disorder()
        if kind is None or self.query.forget_after is not None:
            return
        if behind > in_unit_of(self.query.watermark, column_type(kind), "watermark"):
            self.waits = behind
            self.stream = _waiting(self.query, behind).stream()

    def rows_left(self) -> int | None:
        """Return the number of rows to read, if the files record it."""
        with self._giving_up():
            total = self.source.count_rows(self.source.files(self.position.done))
        return None if total is None else total - self.position.rows

    def run(self, stop: Stop, display: Display, *, follow: bool = False) -> Summary:
        """Read until the input ends, or a stop is requested."""
        begun = saved_at = time.perf_counter()
        with self._giving_up():
            while not stop:
                for table in self.source.batches(self.position):
                    pushed_at = time.perf_counter()
                    self._put(self._push(table))
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
        if stop:
            self._stop(follow=follow)
        else:
            self._finish()
        self._count(begun)
        return self.summary

    def _push(self, table: pa.Table) -> pa.Table:
        try:
            return self.stream.push(table)
        except MuntinError as error:
            raise InputError(f"{self.source.place(self.position)}: {error}") from error

    def _put(self, windows: pa.Table) -> None:
        self.summary.windows += windows.num_rows
        if self.sink is None:
            self.show(windows)
        else:
            self.sink.write(windows)

    def _stop(self, *, follow: bool) -> None:
        self._save(0)
        if follow and self.sink is not None and self.source.files():
            self.sink.join(self._no_windows())

    def _finish(self) -> None:
        self._put(self.stream.close())
        self.summary.finished = True
        if self.sink is not None and self.saved is not None:
            self.sink.join(self._no_windows())
            self.saved.forget()

    def _no_windows(self) -> pa.Table:
        return resolve(self.query, self.source.first().schema, finite=True).answer_schema.empty_table()

    @contextmanager
    def _giving_up(self) -> Iterator[None]:
        """Save what was done before an unreadable or rejected row, if anything."""
        try:
            yield
        except MuntinError:
            if self.resumed or self.summary.rows:
                self._save(0)
            elif self.saved is not None:
                self.saved.forget()
            raise

    def _save(self, unread: int) -> float:
        if self.sink is not None and self.saved is not None:
            self.sink.flush()
            position = Position(set(self.position.done), self.position.file, self.position.rows + unread)
            progress = Progress(position, self.sink.sizes, self.summary.windows, self.waits)
            self.saved.write(self.stream, progress, self.source.path)
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


def in_order(query: Query, names: Sequence[str]) -> Query:
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
