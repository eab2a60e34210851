"""Features online: what it takes to ask for published features, and to publish them, beside a row a key.

Payments of 30 days, ten per card; four aggregates of five windows, up to 30 days, from tiles. Features are published to
SQLite and, if a server is on this machine, to Redis over loopback. The rival is what teams do today: the finished
features of each key as one row of JSON, written by the job that has new rows. It is as quick as a look-up can be, and
stale: between two rows its windows stand still, which is counted here as the share of features that are wrong an hour
after they were written.
"""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from harness import OURS, Figure, Timing, rounds_for, rows_for

import muntin
from muntin import Query, agg, window

CARDS, PAYMENTS, ASKED = 10_000, 10, 1000
DAY = 86_400 * 10**6
HOUR = DAY // 24
WINDOWS = {
    "five": window.trailing("5 minutes", hop="10 seconds"),
    "hour": window.trailing("1 hour", hop="1 minute"),
    "day": window.trailing("1 day", hop="5 minutes"),
    "week": window.trailing("7 days", hop="5 minutes"),
    "month": window.trailing("30 days", hop="5 minutes"),
}
AGGREGATES = {"n": agg.count(), "spent": agg.sum("v"), "mean": agg.mean("v"), "high": agg.max("v")}
QUERY = Query(WINDOWS, AGGREGATES, key="card", time="t", watermark="1 minute")
ROW = "a row of JSON"


def payments(cards: int, count: int, begin: int, span: int, seed: int) -> pa.Table:
    """Return rows in time order."""
    chance = np.random.default_rng(seed)
    times = np.sort(begin + chance.integers(0, span, count)).astype("M8[us]")
    names = np.array([f"card {i}" for i in range(cards)])
    return pa.table({"t": times, "card": names[chance.integers(0, cards, count)], "v": chance.random(count) * 100})


@contextmanager
def stores() -> Iterator[dict[str, str]]:
    """Give the URLs of the stores that this machine has."""
    with tempfile.TemporaryDirectory() as folder:
        found = {"SQLite": f"sqlite:///{folder}/features.db"}
        program = shutil.which("redis-server")
        if program is None:
            yield found
            return
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
            for _ in range(200):
                with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.05)
            yield {"Redis": f"redis://127.0.0.1:{port}/0", **found}
            server.terminate()


class Rows:
    """The rival: finished features, a row of JSON for each key, in SQLite."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=NORMAL")
        self.connection.execute("CREATE TABLE rows (card TEXT PRIMARY KEY, features TEXT)")

    def write(self, features: list[dict[str, Any]]) -> int:
        """Replace rows; return their bytes."""
        rows = [(row["card"], json.dumps(row, default=str)) for row in features]
        self.connection.execute("BEGIN")
        self.connection.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?)", rows)
        self.connection.execute("COMMIT")
        return sum(len(text) for _, text in rows)

    def ask(self, card: str) -> dict[str, Any]:
        """Return the features of a card, as they were when written."""
        found = self.connection.execute("SELECT features FROM rows WHERE card = ?", (card,)).fetchone()
        return dict(json.loads(found[0]))


def timed(call: Callable[[str], Any], cards: list[str]) -> list[float]:
    """Return the microseconds of each call, without the first ones, which warm up."""
    taken = []
    for card in cards:
        begun = time.perf_counter_ns()
        call(card)
        taken.append((time.perf_counter_ns() - begun) / 1e3)
    return taken[len(taken) // 10 :]


def one(name: str, served: Any, rows: Rows, cards: list[str], now: Any) -> Figure:
    """Ask for one key at a time."""
    ways = {
        OURS: lambda card: served.ask({"card": [card], "t": now}),
        f"{ROW}, SQLite": rows.ask,
    }
    times = {}
    for way, call in ways.items():
        taken = timed(call, cards)
        worst = float(np.percentile(taken, 99))
        times[way] = Timing(statistics.median(taken) * 1e3, min(taken) * 1e3, f"99 of 100 within {worst:,.0f} us")
    median, rival = (times[way].median / 1e3 for way in ways)
    note = f"{times[OURS].note}; a stale row of JSON from SQLite takes 1/{median / rival:.0f} of that"
    target = 400.0 if name == "Redis" else 500.0
    return Figure(
        "serving",
        f"one key of {name}, 5 windows x 4 aggregates, half within",
        median,
        target,
        False,
        " us",
        times,
        note,
    )


def bulk(name: str, served: Any, cards: list[str], now: Any, rounds: int) -> Figure:
    """Ask for many keys at once."""
    points = {"card": cards, "t": np.repeat(now, len(cards))}
    taken = []
    for _ in range(rounds + 1):
        begun = time.perf_counter()
        served.ask(points)
        taken.append(time.perf_counter() - begun)
    best = statistics.median(taken[1:]) / len(cards)
    times = {OURS: Timing(best * 1e9, min(taken[1:]) / len(cards) * 1e9)}
    what = f"{len(cards):,} keys of {name} at once, 5 windows x 4 aggregates"
    return Figure("serving", what, 1e-3 / best, 50.0, True, " k keys/s", times, "twenty features each")


def publishing(
    name: str, plain: list[float], served: list[float], bytes_a_key: float, rows: int, written: float
) -> Figure:
    """Compare pushes with and without publishing."""
    times = {
        f"{OURS}, publishing": Timing(statistics.median(served) * 1e9, min(served) * 1e9),
        OURS: Timing(statistics.median(plain) * 1e9, min(plain) * 1e9),
        f"{ROW}, SQLite": Timing(written * 1e9, written * 1e9, "asking a stream and writing the answers"),
    }
    more = statistics.median(s - p for s, p in zip(served, plain, strict=True)) / statistics.median(plain)
    note = f"{bytes_a_key:,.0f} bytes a key; a local push does little else, a micro-batch of Spark takes seconds"
    what = f"a push of {rows:,} rows to {name}: more time than without publishing"
    return Figure("serving", what, 100 * more, 25.0, False, " %", times, note)


def stale(stream: Any, cards: list[str], now: Any) -> Figure:
    """Count the features that a row written now has wrong an hour later, if no payment came."""
    before = stream.ask({"card": cards, "t": np.repeat(now, len(cards))}).drop_columns(["card", "t"])
    after = stream.ask({"card": cards, "t": np.repeat(now + np.timedelta64(HOUR, "us"), len(cards))}).drop_columns(
        ["card", "t"]
    )
    differ = [
        a != b
        for name in before.column_names
        for a, b in zip(before[name].to_pylist(), after[name].to_pylist(), strict=True)
    ]
    share = 100 * sum(differ) / len(differ)
    what = "features of a row a key that are wrong an hour after it was written"
    return Figure(
        "serving", what, share, 0.0, True, " %", {}, "those of this reader: none, its windows move with the time"
    )


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures: one key, many, publishing, and how stale rows are."""
    cards, rounds = rows_for(quick, CARDS), rounds_for(quick, 5)
    rows = cards * PAYMENTS
    batches = [payments(cards, rows, i * 6 * DAY, 6 * DAY, i) for i in range(5 + rounds)]
    chance = np.random.default_rng(1)
    asked = [f"card {i}" for i in chance.integers(0, cards, rows_for(quick, 20 * ASKED) // 10)]
    with stores() as urls, tempfile.TemporaryDirectory() as folder:
        for name, url in urls.items():
            plain, publishes = QUERY.stream(), QUERY.stream(serve=url)
            took: dict[str, list[float]] = {"plain": [], "serve": []}
            for batch in batches:
                for kind, stream in (("plain", plain), ("serve", publishes)):
                    begun = time.perf_counter()
                    stream.push(batch)
                    took[kind].append(time.perf_counter() - begun)
            counts = publishes.metrics()
            now = np.array([(5 + rounds) * 6 * DAY], "M8[us]")
            table = Rows(Path(folder, f"{name}.db"))
            begun = time.perf_counter()
            everyone = [f"card {i}" for i in range(cards)]
            table.write(plain.ask({"card": everyone, "t": np.repeat(now, cards)}).to_pylist())
            written = time.perf_counter() - begun
            with muntin.serving.open(url, QUERY) as served:
                yield one(name, served, table, asked, now)
                yield bulk(name, served, asked[:ASKED], now, rounds)
            share = counts["published_bytes"] / counts["published"]
            yield publishing(name, took["plain"][5:], took["serve"][5:], share, rows, written)
            publishes.close()
        yield stale(plain, [f"card {i}" for i in range(min(cards, 1000))], now)
