"""The data of a page, and the thread that updates it from its sources."""

from __future__ import annotations

import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import pyarrow as pa

from muntin.errors import MuntinError
from muntin.forks import Renewed
from muntin.streams.steps import Step
from muntin.streams.stream import Stream
from muntin.watching.answers_folder import AnswersFolder
from muntin.watching.axis import Axis
from muntin.watching.health import Health, HealthReport, of_stream
from muntin.watching.rows import Rows
from muntin.watching.windows import Windows

_LOOKS = 600
"""The number of health samples that the page can draw."""
_EVERY = 0.25
"""Seconds between two polls of the sources."""


class Watched:
    """All the data of a page. Sources write to it and pages read from it, both holding `lock`."""

    def __init__(
        self, title: str, *, windows: bool, rows: Rows | None = None, plan: dict[str, Any] | None = None
    ) -> None:
        self.title = title
        self.lock = Renewed(threading.RLock)
        self.version = 0
        """Counts changes, so that a page knows whether there is new data."""
        self.windows = Windows() if windows else None
        self.rows = rows
        self.plan = plan
        self.health: deque[tuple[Health, float | None]] = deque(maxlen=_LOOKS)
        """Samples of the pipeline's health, and rows per second since the previous one."""
        self.problem: str | None = None
        """Why a source cannot be read, if so."""

    @property
    def axis(self) -> Axis | None:
        """The time axis; None before any data."""
        known = [each.axis for each in (self.rows, self.windows) if each is not None and each.axis is not None]
        return known[0] if known else None

    @property
    def span(self) -> tuple[float, float] | None:
        """The range of data on the axis."""
        spans = [
            (each.axis.place(each.span[0]), each.axis.place(each.span[1]))
            for each in (self.rows, self.windows)
            if each is not None and each.axis is not None and each.span is not None
        ]
        return (min(a for a, _ in spans), max(b for _, b in spans)) if spans else None

    @property
    def watermark(self) -> float | None:
        """The place of the watermark on the axis; None if unknown."""
        last = self.health[-1][0] if self.health else None
        if last is not None and last.watermark is not None:  # as reported by the run itself
            return last.watermark * 1_000 if last.is_time else last.watermark
        if self.rows is not None and self.rows.axis is not None and self.rows.watermark is not None:
            return self.rows.axis.place(self.rows.watermark)
        return None

    def add_answers(self, answers: pa.Table, arrival: float) -> None:
        """Add emitted windows."""
        with self.lock():
            if self.windows is not None:
                self.windows.add(answers, arrival)
                self.version += 1

    def forget_answers(self) -> None:
        """Start over: everything read is void."""
        with self.lock():
            self.windows = Windows()
            self.version += 1

    def add_rows(self, table: pa.Table) -> None:
        """Add raw rows."""
        with self.lock():
            if self.rows is not None:
                self.rows.add(table)
                self.version += 1

    def add_health(self, health: Health) -> None:
        """Add a health sample; ignores one that is not newer than the last."""
        with self.lock():
            before = self.health[-1][0] if self.health else None
            if before is None or health.at > before.at:
                self.health.append((health, health.rate_since(before)))
                self.version += 1


class Source(Protocol):
    """A source of data for a page."""

    def poll(self, watched: Watched) -> None:
        """Add what is new."""


class Answers:
    """The answers of a folder that a run is writing."""

    def __init__(self, folder: AnswersFolder) -> None:
        self._folder = folder
        self._is_first = True

    def poll(self, watched: Watched) -> None:
        """Add new files."""
        void, tables = self._folder.changes()
        if void:
            watched.forget_answers()
        for table in tables:
            # What existed before the first poll was not just revised.
            watched.add_answers(table, 0.0 if self._is_first or void else time.time())
        self._is_first = False


class RawRows:
    """Rows from a function: each call yields those added since the last one."""

    def __init__(self, read: Callable[[], Iterable[pa.Table]]) -> None:
        self._read = read

    def poll(self, watched: Watched) -> None:
        """Add new rows, and their health if no run reports any."""
        begun = time.perf_counter()
        for table in self._read():
            watched.add_rows(table)
            if watched.windows is None and watched.rows is not None:
                now = time.perf_counter()
                watched.add_health(health_of_rows(watched.rows, now - begun))
                begun = now


def health_of_rows(rows: Rows, seconds: float | None) -> Health:
    """Return the health that raw rows alone imply."""
    axis, watermark = rows.axis, rows.watermark
    place = None if axis is None or watermark is None else axis.place(watermark)
    is_time = axis is not None and axis.is_time
    return Health(
        at=time.time(),
        rows=rows.count,
        late=rows.late if watermark is not None else None,
        keys=len(rows.keys.texts),
        watermark=None if place is None else place / 1_000 if is_time else place,
        is_time=is_time,
        batch_seconds=seconds,
    )


class Reported:
    """The health that a run reports in a file."""

    def __init__(self, report: HealthReport) -> None:
        self._report = report

    def poll(self, watched: Watched) -> None:
        """Add the current report."""
        found = self._report.read()
        if found is not None:
            health, plan = found
            watched.add_health(health)
            if plan is not None and watched.plan is None:
                watched.plan = plan


class Asked:
    """The health that a function returns, such as that of a Spark query."""

    def __init__(self, ask: Callable[[], Health]) -> None:
        self._ask = ask

    def poll(self, watched: Watched) -> None:
        """Add the current health."""
        watched.add_health(self._ask())


class Live:
    """A stream in this process. The calling thread records its steps, so that no other thread reads the stream."""

    def __init__(self, stream: Stream) -> None:
        self._noted: deque[tuple[Step, dict[str, int | None]]] = deque()
        self._stream = stream
        self._time: str | None = stream.query.time
        self._ticks: float | None = None
        self._plan: dict[str, Any] | None = None
        self.end = stream.observe(self._note)

    def _note(self, step: Step) -> None:
        if self._plan is None and step.taken is not None and step.taken.num_rows:
            self._plan = self._stream.explain().to_dict()  # with the resolved types
        self._noted.append((step, self._stream.metrics()))

    def poll(self, watched: Watched) -> None:
        """Add the recorded steps."""
        last, problem = None, None
        while self._noted:
            last = self._noted.popleft()
            step, _ = last
            watched.add_answers(step.answers, time.time())
            try:
                self._add_rows(step.rows, watched)
            except MuntinError as error:  # a column cannot be drawn: windows and health still are
                problem = error
        if last is not None:
            step, counts = last
            watched.add_health(of_stream(counts, ticks_per_second=self._ticks, seconds=step.seconds))
        watched.plan = self._plan or watched.plan
        if problem is not None:
            raise problem

    def _add_rows(self, rows: pa.Table | None, watched: Watched) -> None:
        if rows is not None and rows.num_rows:
            self._learn(rows.schema)
            watched.add_rows(rows)

    def _learn(self, schema: pa.Schema) -> None:
        if self._time is not None:
            axis = Axis.of(schema.field(self._time).type, self._time)
            self._ticks = axis.ticks_per_second if axis.is_time else None


class Poller:
    """A thread that polls sources until it is stopped."""

    def __init__(self, watched: Watched, sources: list[Source]) -> None:
        self._watched, self._sources = watched, sources
        self._stop = threading.Event()
        self.has_polled = threading.Event()
        """Set after the first poll."""
        run = contextvars.copy_context().run  # the context decides how kernels run
        self._thread = threading.Thread(target=run, args=(self._run,), name="muntin watch", daemon=True)

    def start(self) -> None:
        """Start polling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current poll."""
        self._stop.set()
        if self._thread.ident is not None:  # only if started
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.poll()
            self.has_polled.set()
            self._stop.wait(_EVERY)

    def poll(self) -> None:
        """Poll each source once; the page shows read errors, and retries."""
        problems = []
        for source in self._sources:
            try:
                source.poll(self._watched)
            except (MuntinError, OSError, pa.ArrowException) as error:
                problems.append(" ".join(str(error).split()))
            except Exception as error:  # noqa: BLE001  # of Spark's, or a file half-written: the page must go on
                problems.append(f"{type(error).__name__}: {' '.join(str(error).split())}")
        with self._watched.lock():
            if self._watched.problem != (problem := "; ".join(problems) or None):
                self._watched.problem = problem
                self._watched.version += 1
