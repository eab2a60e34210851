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
PLANNED = "checkpoint of */offsets/[0-9]*"
UNCOMPILED = {"MUNTIN_UNCOMPILED": "1"}


def rows(number: int, seed: int) -> pa.Table:
    """Return rows in about the order of their times: some are late, some too late, some lack a part of the key."""
    chance = np.random.default_rng((seed, number))
    times = np.arange(number * ROWS, (number + 1) * ROWS) * 200_000
    times -= chance.integers(0, 12_000_000, ROWS) * (chance.random(ROWS) < 0.3)
    columns = {
        "ts": pa.array(times + 1_700_000_000_000_000, pa.timestamp("us", "UTC")),
        "region": pa.array(chance.choice(["north", "south", None], ROWS).tolist(), pa.string()),
        "line": pa.array(chance.integers(0, 2, ROWS), pa.int32()),
        "v": pa.array(chance.integers(0, 1000, ROWS)),
    }
    return pa.table(columns)


class Place:
    """The folder that the program works in."""

    def __init__(self, where: Path, seed: int) -> None:
        self.where, self.seed = where, seed
        self.files = 0
        for name in ("in", "logs"):
            (where / name).mkdir(parents=True)

    def feed(self, files: int) -> None:
        """Let there be so many files."""
        for i in range(self.files, files):
            path = self.where / f"{i:04}.parquet"
            pq.write_table(rows(i, self.seed), path)
            os.utime(path, (1_700_000_000 + i,) * 2)
            path.rename(self.where / "in" / path.name)
        self.files = max(self.files, files)

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

    def live_until(self, wanted: dict[str, int], longer: float) -> None:
        """Let the program live until there are so many files of each kind, and a little longer; then kill it."""

        def has_come() -> bool:
            self.feed_on()
            return all(self.count(pattern) >= number for pattern, number in wanted.items())

        for _ in range(TRIES):
            with family("interrupted.py", "forever", self.where, log=self.log, **UNCOMPILED) as driver:
                driver.until(has_come)
                time.sleep(longer)
                if driver.process.poll() is None:
                    return
                assert driver.was_too_slow, driver.said()
        raise TimeoutError("this machine is too busy for Spark")

    def answers(self, name: str) -> list[str]:
        """Return the rows that a reader finds, in any order."""
        return sorted(map(repr, pq.read_table(self.where / f"{name}.parquet").to_pylist()))

    def last_words(self, name: str) -> list[str]:
        """Return what is left of the answers when each window has had its last revision."""
        last: dict[str, dict[str, Any]] = {}
        for row in pq.read_table(self.where / f"{name}.parquet").to_pylist():
            place = repr([row[each] for each in ("region", "line", "window_id", "window")])
            if place not in last or last[place]["revision"] < row["revision"]:
                last[place] = row
        return sorted(repr({**row, "revision": None}) for row in last.values() if not row["retracted"])

    def watermarks(self, name: str) -> list[str]:
        """Return what each batch told the next one."""
        commits = (self.where / f"checkpoint of {name}" / "commits").glob("[0-9]*")
        return [path.read_text() for path in sorted(commits, key=lambda path: int(path.name))]


def live_to_the_end(places: list[Place]) -> None:
    """Let one program after the other go on until all files are answered; a single driver runs them all."""
    for _ in range(TRIES):
        folders = [place.where for place in places]
        with family("interrupted.py", "to the end", *folders, log=places[0].log, **UNCOMPILED) as driver:
            if driver.finish():
                return
    raise TimeoutError("this machine is too busy for Spark")
