"""A folder in which a program works that may be killed: its input, its logs, and what it has written."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from spark.processes import TRIES, family

ROWS = 30
DAYS = 90
PLANNED = "checkpoint of */offsets/[0-9]*"
UNCOMPILED = {"MUNTIN_UNCOMPILED": "1"}


def rows(number: int, seed: int) -> pa.Table:
    """Return rows in about the order of their times: some are late, some too late, some lack a part of the key."""
    chance = np.random.default_rng((seed, number))
    times = np.arange(number * ROWS, (number + 1) * ROWS) * 200_000
    times -= chance.integers(0, 12_000_000, ROWS) * (chance.random(ROWS) < 0.3)
    return _with_values(times, chance)


def history(count: int, seed: int) -> pa.Table:
    """Return rows of the 90 days before the first of `rows`, in any order: the nearer to that, the more there are."""
    chance = np.random.default_rng((seed, count, DAYS))
    before = 10 ** chance.uniform(5, np.log10(DAYS * 86_400e6), count)
    return _with_values(-before.astype(np.int64), chance)


def _with_values(times: Any, chance: np.random.Generator) -> pa.Table:
    count = len(times)
    columns = {
        "ts": pa.array(times + 1_700_000_000_000_000, pa.timestamp("us", "UTC")),
        "region": pa.array(chance.choice(["north", "south", None], count).tolist(), pa.string()),
        "line": pa.array(chance.integers(0, 2, count), pa.int32()),
        "v": pa.array(chance.integers(0, 1000, count)),
    }
    return pa.table(columns)


class Place:
    """The folder that the program works in."""

    def __init__(self, where: Path, seed: int) -> None:
        self.where, self.seed = where, seed
        self.files = 0
        for name in ("in", "logs"):
            (where / name).mkdir(parents=True)

    def begin_on(self, past: pa.Table) -> None:
        """Let the queries begin on a history."""
        pq.write_table(past, self.where / "history.parquet")

    def begin_with(self, past: pa.Table) -> int:
        """Let the queries read a history as rows, and emit what is due by it; return how many batches that takes."""
        self._add(past, "history.parquet", -2)
        self._add(past.slice(0, 0), "nothing.parquet", -1)
        return 2

    def feed(self, files: int) -> None:
        """Let there be so many files."""
        for i in range(self.files, files):
            self._add(rows(i, self.seed), f"{i:04}.parquet", i)
        self.files = max(self.files, files)

    def _add(self, table: pa.Table, name: str, number: int) -> None:
        path = self.where / name
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + number,) * 2)
        path.rename(self.where / "in" / name)

    def count(self, pattern: str) -> int:
        return sum(1 for _ in self.where.glob(pattern))

    @property
    def log(self) -> Path:
        """A file for what the next program says."""
        return self.where / "logs" / str(self.count("logs/*"))

    def feed_on(self) -> None:
        """Add a file once both queries have planned to read all others.

        Spark's source of files notes which ones it has found before a batch is planned. A driver that is killed in
        between has the next one read them with whatever else it finds then: another batch, with other revisions.
        """
        self.feed(1 + min(self.count(PLANNED.replace("*", name, 1)) for name in ("files", "batches")))

    def answers(self, name: str, begin: int = 0) -> list[dict[str, Any]]:
        """Return the rows that a reader finds; of numbered batches those from `begin` on, counted from there."""
        found = pq.read_table(self.where / f"{name}.parquet").to_pylist()
        if name != "batches":
            return found
        return [{**row, "number": row["number"] - begin} for row in found if row["number"] >= begin]

    def watermarks(self, name: str) -> list[str]:
        """Return what each batch told the next one."""
        commits = (self.where / f"checkpoint of {name}" / "commits").glob("[0-9]*")
        return [path.read_text() for path in sorted(commits, key=lambda path: int(path.name))]


def live_until(places: list[Place], wanted: dict[str, int], longer: float, watched: list[Place]) -> None:
    """Let a program live until so many files of each kind are in each place watched, and a little longer; kill it."""

    def has_come() -> bool:
        least = min(place.files for place in places)  # who is ahead waits for the others
        for place in places:
            if place.files == least:
                place.feed_on()
        return all(place.count(pattern) >= number for place in watched for pattern, number in wanted.items())

    folders = [place.where for place in places]
    for _ in range(TRIES):
        with family("interrupted.py", "forever", *folders, log=watched[0].log, **UNCOMPILED) as driver:
            driver.until(has_come)
            time.sleep(longer)
            if driver.process.poll() is None:
                return
            assert driver.was_too_slow, driver.said()
    raise TimeoutError("this machine is too busy for Spark")


def live_to_the_end(places: list[Place]) -> None:
    """Let one program after the other go on until all files are answered; a single driver runs them all."""
    for _ in range(TRIES):
        folders = [place.where for place in places]
        with family("interrupted.py", "to the end", *folders, log=places[0].log, **UNCOMPILED) as driver:
            if driver.finish():
                return
    raise TimeoutError("this machine is too busy for Spark")


def listed(answers: list[dict[str, Any]]) -> list[str]:
    """Return answers in an order of their own, to be compared."""
    return sorted(map(repr, answers))


def last_words(answers: list[dict[str, Any]]) -> list[str]:
    """Return what is left of answers when each window has had its last revision."""
    last: dict[str, dict[str, Any]] = {}
    for row in answers:
        place = repr([row[each] for each in ("region", "line", "window_id", "window")])
        if place not in last or last[place]["revision"] < row["revision"]:
            last[place] = row
    return listed([{**row, "revision": None} for row in last.values() if not row["retracted"]])


def unnumbered(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return answers without the numbers of their batches."""
    return [{name: value for name, value in row.items() if name != "number"} for row in answers]
