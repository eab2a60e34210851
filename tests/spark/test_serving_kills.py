"""Features published by Spark and asked for by another process, while driver, workers and store die at random.

Rows come file by file, each a micro-batch. Whatever is asked at whatever moment, a key's answer is that of `over(at=)`
over the rows of committed batches, or over those and the batch at work; never of rows that have not come.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from redis_server import Server
from sampling import THOROUGH
from spark.processes import HERE, TRIES, Family, family
from spark.served_query import QUERY
from waiting import until

FILES = 12 if THOROUGH > 1 else 6
"""So many micro-batches."""
KILLS = int(os.environ.get("MUNTIN_KILLS", "6" if THOROUGH > 1 else "2"))
"""So often something dies."""
ROWS = int(os.environ.get("MUNTIN_SERVED_ROWS", "1200")) // FILES
CARDS = 12
ASKED = [*(f"card {i}" for i in range(CARDS)), "unknown"]
AHEAD = [0, 1, 600_000_000, 3_000_000_000]
"""After the watermark, in microseconds."""
SPAN = 600_000_000
"""A file has the rows of ten minutes, in any order: none is late."""


def rows_of(number: int, seed: int) -> pa.Table:
    chance = np.random.default_rng((seed, number))
    times = (number * SPAN + chance.integers(0, SPAN, ROWS)).astype("M8[us]")
    cards = [f"card {i}" for i in chance.integers(0, CARDS, ROWS)]
    amounts = pa.array(chance.integers(0, 1000, ROWS), mask=chance.random(ROWS) < 0.05)
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "card": cards, "amount": amounts})


class Place:
    """The folder in which the driver works, the store, and what may die."""

    def __init__(self, where: Path, server: Server, chance: random.Random, seed: int) -> None:
        self.where, self.server, self.chance, self.seed = where, server, chance, seed
        self.driver: Family | None = None
        self.checkpoint, self.buckets, self.older = "checkpoint", 2, ""
        self.tries = 0
        (where / "in").mkdir(parents=True)

    def feed(self, number: int) -> None:
        path = self.where / f"{number:04}.parquet"
        pq.write_table(rows_of(number, self.seed), path)
        os.utime(path, (1_700_000_000 + number,) * 2)
        path.rename(self.where / "in" / path.name)

    @property
    def committed(self) -> int:
        """How many files committed batches have read."""
        folder = self.where / self.checkpoint
        numbers = sorted(int(each.name) for each in (folder / "commits").glob("[0-9]*") if each.name.isdigit())
        if not numbers:
            return 0
        offset = (folder / "offsets" / str(numbers[-1])).read_text().splitlines()[-1]
        return int(json.loads(offset)["logOffset"]) + 1

    @contextmanager
    def started(self) -> Iterator[None]:
        """Run the driver; none of its processes is there afterwards."""
        try:
            self.start()
            yield
        finally:
            self.stop()

    def start(self) -> None:
        (self.where / "up").unlink(missing_ok=True)
        arguments = (self.where, self.server.url, self.checkpoint, self.buckets, self.older)
        self._running = family("served_driver.py", *arguments, log=self.where / "log", MUNTIN_UNCOMPILED="1")
        self.driver = self._running.__enter__()
        assert self.driver.until((self.where / "up").exists) or self.retry()

    def retry(self) -> bool:
        """Start again a driver that ended because the machine was too busy for Spark; any other end is a failure."""
        assert self.driver is not None
        assert self.driver.was_too_slow, self.driver.said()
        assert self.tries < TRIES, self.driver.said()
        self.tries += 1
        self.restart()
        return True

    def stop(self) -> None:
        if self.driver is not None:
            self._running.__exit__(None, None, None)
            self.driver = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def look_after(self) -> None:
        """Start a driver again that has ended."""
        assert self.driver is not None
        if self.driver.process.poll() is not None:
            self.retry()

    def kill_something(self) -> str:
        """Kill the driver with all its processes, a worker of Python, or the store, which comes back."""
        assert self.driver is not None
        victim = self.chance.choice(["driver", "worker", "store"])
        if victim == "driver":
            self.restart()
        elif victim == "worker":
            self.driver.kill("daemon")
        else:
            assert self.server.process is not None
            self.server.process.kill()
            self.server.process.wait()
            self.server.start()
        return victim


class Reader:
    """A process that asks, without Spark."""

    def __init__(self, url: str) -> None:
        command = [sys.executable, str(Path(__file__).with_name("served_reader.py")), url]
        paths = os.pathsep.join([str(HERE.parent), str(HERE.parents[1] / "src")])
        environment = {**os.environ, "MUNTIN_UNCOMPILED": "1", "PYTHONPATH": paths}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, ahead: list[int], cards: list[str]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"ahead": ahead, "card": cards}) + "\n")
        self.process.stdin.flush()
        return dict(json.loads(self.process.stdout.readline()))

    def close(self) -> None:
        self.process.communicate(timeout=60)


def answers_of(files: int, seed: int, times: np.ndarray[Any, Any], cards: list[str]) -> list[dict[str, Any]]:
    """Return what `over` says of the rows of some files."""
    rows = pa.concat_tables([rows_of(0, seed).slice(0, 0), *(rows_of(i, seed) for i in range(files))])
    points = pa.table({"card": cards, "ts": pa.array(times.astype("M8[us]"), pa.timestamp("us", "UTC"))})
    found: list[dict[str, Any]] = QUERY.over(rows, at=points).drop_columns("ts").to_pylist()
    return found


def require(place: Place, reader: Reader, known: int, fed: int, about: str) -> bool:
    """Ask, and compare with the rows of the first `known` files, or of one more if it was fed; say if it was answered.

    There is no answer while the store is away, or if a batch moves the watermark between two looks of the reader.
    """
    pairs = [(place.chance.choice(AHEAD), card) for card in ASKED]
    ahead, cards = [each for each, _ in pairs], [card for _, card in pairs]
    found = reader.ask(ahead, cards)
    if "away" in found:
        return False
    times = np.array([found["watermark"] + each for each in ahead])
    possible = [answers_of(files, place.seed, times, cards) for files in range(known, fed + 1)]
    for i, answer in enumerate(found["answers"]):
        assert answer in [each[i] for each in possible], f"{about}, {known} of {fed} files"
    return True


def test_whatever_dies_features_are_those_of_committed_batches(redis: Server, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    chance, about = random.Random(seed), f"seed {seed}"
    place, reader = Place(tmp_path, redis, chance, seed), None
    deaths = sorted(chance.sample(range(1, FILES), min(KILLS, FILES - 1)))
    with place.started():
        for number in range(FILES):
            if number == FILES // 2:  # on with more buckets
                place.stop()
                place.older, place.checkpoint, place.buckets = place.checkpoint, "divided", 5
                place.start()
            place.feed(number)
            if number in deaths:
                until(lambda: chance.random() < 0.05)  # at any moment of the batch
                about += f", {place.kill_something()} in {number}"
            while place.committed <= number:
                place.look_after()
                if reader is not None:
                    require(place, reader, number, number + 1, about)
            reader = reader or Reader(redis.url)
            for _ in range(3):
                until(partial(require, place, reader, number + 1, number + 1, about))
    assert reader is not None
    require(place, reader, FILES, FILES, about)  # nobody writes any more
    reader.close()
