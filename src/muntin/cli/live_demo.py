"""`muntin demo --live`: readings that keep coming, a streaming query over them, and the live page, until Ctrl-C."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from muntin import aggregations as agg
from muntin import windows as window
from muntin.cli.demo import Places
from muntin.cli.interrupts import Stop, stop_on_interrupt
from muntin.cli.local import LocalRun
from muntin.cli.progress import Display
from muntin.cli.sinks import Sink
from muntin.cli.sources import Source
from muntin.cli.watching import open_page
from muntin.query import Query
from muntin.watching.health import work_folder
from muntin.windows import rows

NAMES = ("boiler", "dishwasher", "fridge", "heater", "kettle", "lamp", "oven", "tv")
SECOND = 1_000_000
"""One second in the unit of the times."""
BEFORE = 600
"""Seconds of readings that exist at the start."""
_LATE = 0.02
"""The fraction of readings that arrive late, by up to a minute."""


def query() -> Query:
    """Return the query, with windows short enough to see them move."""
    return Query(
        windows={
            "sliding": window.sliding("2 minutes", every="5 seconds"),
            "sessions": window.session("8 seconds"),
            "last": window.sliding(rows(50), every=rows(10)),
        },
        aggregates={"peak": agg.max("watts"), "mean": agg.mean("watts"), "readings": agg.count()},
        key="plug",
        time="ts",
        watermark="3 seconds",
        allowed_lateness="2 minutes",
    )


class Feed:
    """Writes a file of readings every second: the power of each plug, some of it late."""

    def __init__(self, folder: Path, seed: int = 7) -> None:
        self._folder = folder
        self._random = np.random.default_rng(seed)
        self._held: list[tuple[float, pa.Table]] = []
        self._count = 0

    def write(self, begin: float, end: float) -> None:
        """Write the readings of some seconds, except those held back, and held-back ones that are due."""
        table = self._readings(begin, end)
        late = self._random.random(table.num_rows) < _LATE
        self._held.append((end + self._random.uniform(5, 60), table.filter(pa.array(late))))
        due = [each for until, each in self._held if until <= end]
        self._held = [(until, each) for until, each in self._held if until > end]
        name = f"{self._count:06}.parquet"
        self._count += 1
        self._folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.concat_tables([table.filter(pa.array(~late)), *due]), self._folder / f".{name}")
        (self._folder / f".{name}").rename(self._folder / name)

    def _readings(self, begin: float, end: float) -> pa.Table:
        """Return four readings per second of each plug that is on, which it is for some seconds of each minute."""
        times = np.arange(int(begin * SECOND), int(end * SECOND), SECOND // 4)
        parts = []
        for number, name in enumerate(NAMES):
            seconds = times / SECOND
            on = (seconds + 7 * number) % (40 + 5 * number) < 25 + 3 * number
            level = 60.0 * (number + 1) * (1 + 0.25 * np.sin(seconds / (20 + 3 * number)))
            watts = np.round(level + self._random.normal(0, 4 + number, len(times)), 2)
            stamps = pa.array(times[on].astype("M8[us]"), pa.timestamp("us", "UTC"))
            plugs = pa.array([name] * len(stamps), pa.string())
            parts.append(pa.table({"plug": plugs, "ts": stamps, "watts": watts[on]}))
        return pa.concat_tables(parts).sort_by("ts")

    def run(self, stop: Stop) -> None:
        """Write until stopped."""
        until = time.time()
        self.write(until - BEFORE, until)
        while not stop.wait(1.0):
            self.write(until, now := time.time())
            until = now


def run(folder: Path, *, on_spark: bool, console: Console, port: int) -> None:
    """Run the demo until stopped."""
    places = Places(folder)
    for each in (places.readings, places.windows, places.checkpoint, work_folder(places.windows)):
        shutil.rmtree(each, ignore_errors=True)
    asked = query()
    with stop_on_interrupt() as stop:
        feed = threading.Thread(target=Feed(places.readings).run, args=(stop,), name="muntin feed", daemon=True)
        feed.start()
        try:
            while feed.is_alive() and not any(places.readings.glob("[!.]*.parquet")):  # Spark needs a file to start
                feed.join(0.05)
            with open_page(places.windows, places.readings, query=asked, port=port) as page:
                console.print(f"Readings of {len(NAMES)} plugs keep coming to {places.readings}; Ctrl-C ends it all")
                console.print(f"The live page is at {page.url}")
                engine = _on_spark if on_spark else _locally
                engine(asked, places, console, stop)
        finally:
            stop.ask()
            feed.join()


def _locally(asked: Query, places: Places, console: Console, stop: Stop) -> None:
    local = LocalRun(asked, Source(places.readings, asked), Sink(places.windows), lambda _: None)
    local.open(overwrite=True)
    with Display(console, None) as display:
        local.run(stop, display, follow=True)


def _on_spark(asked: Query, places: Places, console: Console, stop: Stop) -> None:
    from muntin.cli.on_spark import answered, start, watch

    console.print("Starting Spark ...")
    session = start(places.folder / "spark.log", spark__sql__shuffle__partitions="2")
    frame = session.readStream.schema("plug string, ts timestamp, watts double").parquet(str(places.readings))
    writer = answered(asked, frame).writeStream.format("parquet").option("path", str(places.windows))
    begun = time.perf_counter()
    with Display(console, None) as display:
        running = writer.option("checkpointLocation", str(places.checkpoint)).start()
        watch(running, asked, stop, display, begun, str(places.windows))
