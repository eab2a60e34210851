"""Streaming queries whose driver is killed with -9 again and again, and restarted from their checkpoints."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from spark.processes import family

KILLS = 20
ROWS = 30
AHEAD = 5
"""So many files are always there that no query has planned to read."""
MOMENTS = {
    "it has just begun": "log",
    "the session is up": "up/*",
    "a batch is planned": "checkpoint of */offsets/*",
    "state is written": "checkpoint of */state/*/*/*",
    "answers are written": "files/part-*",
    "the answers of a batch are complete": "batches/*/_SUCCESS",
    "a batch is committed": "checkpoint of */commits/*",
}
"""What the driver has done, and the files that show it."""
UNCOMPILED = {"MUNTIN_UNCOMPILED": "1"}


def rows(number: int, seed: int) -> pa.Table:
    """Return rows in about the order of their times: some are late, some too late, some lack a part of the key."""
    chance = np.random.default_rng((seed, number))
    times = np.arange(number * ROWS, (number + 1) * ROWS) * 100_000
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
        (where / "in").mkdir(parents=True)

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
    def planned(self) -> int:
        """How many batches there are of the query that is ahead."""
        return max(self.count(f"checkpoint of {name}/offsets/*") for name in ("files", "batches"))

    def live_until(self, moment: str, times: int, longer: float) -> None:
        """Let the program live until a moment has come so many times, and a little longer; then kill it."""
        self.feed(self.planned + AHEAD)
        pattern = MOMENTS[moment]
        wanted = 1 if pattern == "log" else self.count(pattern) + (1 if pattern == "up/*" else times)
        with family("interrupted.py", self.where, "forever", log=self.where / "log", **UNCOMPILED) as driver:
            assert driver.until(lambda: self.count(pattern) >= wanted), driver.said()
            time.sleep(longer * (10 if pattern == "log" else 1))
            assert driver.process.poll() is None, driver.said()

    def live_to_the_end(self) -> None:
        with family("interrupted.py", self.where, "to the end", log=self.where / "log", **UNCOMPILED) as driver:
            driver.finish()

    def answers(self, name: str) -> list[str]:
        """Return the rows that a reader finds, in any order."""
        return sorted(map(repr, pq.read_table(self.where / f"{name}.parquet").to_pylist()))


def test_the_driver_is_killed_again_and_again(tmp_path: Path) -> None:
    """Whatever it was doing: the answers are those of an undisturbed run, none twice and none missing."""
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    moments = [*MOMENTS] * (KILLS // len(MOMENTS)) + chance.sample([*MOMENTS], KILLS % len(MOMENTS))
    chance.shuffle(moments)
    killed, calm = (Place(tmp_path / name, seed) for name in ("killed", "calm"))
    for moment in moments:
        killed.live_until(moment, chance.randint(1, 3), chance.uniform(0, 0.3))
    calm.feed(killed.files)
    for place in (killed, calm):
        place.live_to_the_end()

    assert killed.answers("files") == calm.answers("files"), f"seed {seed}"
    assert killed.answers("batches") == calm.answers("batches"), f"seed {seed}"
    batches, found = (pq.read_table(calm.where / f"{name}.parquet") for name in ("batches", "files"))
    assert sorted(map(repr, batches.drop_columns("number").to_pylist())) == calm.answers("files")
    # What was recovered was worth it: changes upon a snapshot, of windows of all kinds.
    assert killed.count("checkpoint of */state/0/*/*.changelog")
    assert killed.count("checkpoint of */state/0/*/*.zip")
    assert set(found["window_id"].to_pylist()) == {0, 1, 2}
    assert max(found["revision"].to_pylist()) > 0
    assert True in found["retracted"].to_pylist()
