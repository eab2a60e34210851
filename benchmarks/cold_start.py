"""The first answer of a process: seconds by the clock, and processor seconds with those of the compiling process.

Each program runs in a new process. "Empty": nothing was ever compiled on this machine, except what the package ships
(`make kernels`). "Warm": another process has compiled it. "Waiting": the same as empty, but the call waits until
everything is compiled, so its CPU seconds are the cost of the compiler. The rivals are the first answers of polars,
pandas and bytewax. Imports are included everywhere; the bytecode of all packages exists, as after an installation. On
Spark: the first two micro-batches of a stream, by the clock, against those of Spark's own window, and of the least that
a stateful call in Python can do, a count of each key's rows by `transformWithState`; the session has already started.
"""

from __future__ import annotations

import compileall
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness import OURS, Figure, Timing

HEAD = """
import json, resource, sys, time
begun = time.perf_counter()
"""
TAIL = """
wall = time.perf_counter() - begun
try:
    from muntin.kernels.background import background
    background.close()
except ImportError:
    pass
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps({"wall": wall, "processor": sum(each.ru_utime + each.ru_stime for each in used)}))
"""
ROWS = """
import numpy as np, pyarrow as pa
import muntin
from muntin import Query, agg, rows, window
number = np.arange(1000)
table = pa.table({"k": number % 10, "ts": (number * 100_000).astype("M8[us]"), "v": number % 17.0})
"""
SLIDE = "import numpy as np, muntin; muntin.slide(np.arange(1e3), muntin.agg.max('v'), range=64)"
QUERY = 'Query([{windows}], {{"high": agg.{first}("v"), "mean": agg.{second}("v")}}, key="k", watermark="5 s"{more})'
SLIDING = 'window.sliding("60 s", every="1 s")'
THREE = f'{SLIDING}, window.session("5 s"), window.tumbling(rows(100))'
RIVALS = {
    "polars": "import polars as pl; pl.Series(range(1000)).cast(float).rolling_max(64)",
    "pandas": "import pandas as pd; pd.Series(range(1000), dtype=float).rolling(64).max()",
    "bytewax": """
from datetime import datetime, timedelta, timezone
import bytewax.operators as op
import bytewax.operators.windowing as w
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource, run_main
start = datetime(2024, 1, 1, tzinfo=timezone.utc)
flow, out = Dataflow("first"), []
source = [(str(i % 10), (start + timedelta(seconds=i / 10), i % 17)) for i in range(1000)]
rows = op.input("in", flow, TestingSource(source))
clock = w.EventClock(ts_getter=lambda row: row[0], wait_for_system_duration=timedelta(seconds=5))
windows = w.SlidingWindower(length=timedelta(seconds=60), offset=timedelta(seconds=10), align_to=start)
highest = w.reduce_window("high", rows, clock, windows, lambda a, b: max(a, b, key=lambda row: row[1]))
op.output("out", highest.down, TestingSink(out))
run_main(flow)
assert out
""",
}
SPARK = f"""
import json, os, sys, tempfile
{ROWS}
import pyarrow.parquet as pq
from pyspark.sql import functions as F
import muntin.spark
folder = tempfile.mkdtemp()
for i in range(3):
    times = (np.arange(20_000) * 1000 + i * 20_000_000).astype("M8[us]")
    columns = [np.arange(20_000) % 10, pa.array(times, pa.timestamp("us", "UTC")), times.astype(float)]
    part = pa.table(columns, ["k", "ts", "v"])
    pq.write_table(part, os.path.join(folder, f"{{i}}.parquet"))
spark = muntin.spark.session("local[2]", spark__sql__shuffle__partitions="2")
spark.range(10).count()
frame = spark.readStream.schema("k long, ts timestamp, v double").option("maxFilesPerTrigger", 1).parquet(folder)
if sys.argv[1] == "muntin":
    answers = {{asked}}.spark(frame)
elif sys.argv[1] == "state":
    from pyspark.sql import Row
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    class Counted(StatefulProcessor):
        def init(self, handle):
            self.held = handle.getValueState("held", "n long")
        def handleInputRows(self, key, rows, timers):
            n = (self.held.get()[0] if self.held.exists() else 0) + sum(1 for _ in rows)
            self.held.update((n,))
            yield Row(k=key[0], n=n)
        def close(self):
            pass
    rows = frame.withWatermark("ts", "5 seconds").groupBy("k")
    answers = rows.transformWithState(Counted(), "k long, n long", "Update", "EventTime")
else:
    rows = frame.withWatermark("ts", "5 seconds")
    answers = rows.groupBy("k", F.window("ts", "60 seconds", "1 second")).agg(F.max("v"), F.mean("v"))
written = answers.writeStream.format("noop").trigger(availableNow=True).start()
written.awaitTermination()
print(json.dumps([each["durationMs"]["triggerExecution"] / 1e3 for each in written.recentProgress[:2]]))
"""


@dataclass(frozen=True)
class First:
    """The time of a first answer, in seconds."""

    wall: float
    processor: float


def environment(cache: Path) -> dict[str, str]:
    """Return the environment of a new process, with the bytecode of our modules like that of all others."""
    import muntin

    compileall.compile_dir(muntin.__path__[0], quiet=2)
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "MUNTIN_CACHE_DIR": str(cache)}


def measure(program: str, cache: Path, *, waiting: bool = False) -> First:
    """Run a program in a new process."""
    variables = {**environment(cache), "MUNTIN_COMPILE": "wait" if waiting else ""}
    command = [sys.executable, "-c", HEAD + program + TAIL]
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True)
    return First(**json.loads(done.stdout.splitlines()[-1]))


def query(windows: str, first: str = "max", second: str = "mean", more: str = "") -> str:
    """Return the text of a query."""
    return QUERY.format(windows=windows, first=first, second=second, more=more)


def push(asked: str, then: str = "") -> str:
    """Return a program that pushes a thousand rows, and more after them."""
    return f"{ROWS}\nstream = {asked}.stream()\nstream.push(table)\n{then}"


def programs() -> Mapping[str, tuple[str, float]]:
    """Return the programs, and the CPU seconds that each may take when nothing is compiled."""
    late = "stream.push(table[900:]); stream.push(table[100:110])"
    return {
        "slide, max of 1,000 values": (SLIDE, 1.0),
        "run, 1,000 rows, one sliding window": (f"{ROWS}\n{query(SLIDING)}.run(table)", 1.5),
        "push, 1,000 rows, one sliding window": (push(query(SLIDING)), 3.0),
        "push, 1,000 rows, three kinds of windows": (push(query(THREE)), 6.0),
        "push, then late rows": (push(query(SLIDING, more=', allowed_lateness="1 h"'), late), 3.0),
    }


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures; with `quick`, of arrays and of one window."""
    rivals = {name: measure(text, Path()) for name, text in RIVALS.items() if importlib.util.find_spec(name)}
    for what, (program, target) in list(programs().items())[: 3 if quick else None]:
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder)
            found = {f"{OURS}, empty": measure(program, cache / "a")}
            found[f"{OURS}, waiting"] = measure(program, cache, waiting=True)
            found[f"{OURS}, warm"] = measure(program, cache)
            yield _figure(what, found, rivals, target)
    if not quick:
        yield _second_set(rivals)
        yield from _first_batches()


def _second_set(rivals: Mapping[str, First]) -> Figure:
    with tempfile.TemporaryDirectory() as folder:
        measure(push(query(SLIDING)), Path(folder), waiting=True)
        other = push(query(SLIDING, "min", "sum"))
        found = {f"{OURS}, waiting": measure(other, Path(folder), waiting=True)}
        found[f"{OURS}, warm"] = measure(other, Path(folder))
    return _figure("push, a second set of aggregations", found, rivals, 1.5)


def _first_batches() -> Iterator[Figure]:
    """Yield the time of the first two micro-batches on Spark, relative to those of its own window."""
    program = SPARK.replace("{asked}", query(SLIDING, more=', time="ts"'))
    with tempfile.TemporaryDirectory() as folder:
        ways = {f"{OURS}, empty": OURS, f"{OURS}, warm": OURS, "transformWithState": "state", "F.window": "native"}
        found = {name: _batches(program, Path(folder), way) for name, way in ways.items()}
    for nth, which in enumerate(("first", "second")):
        times = {name: Timing(seconds[nth] * 1e9, seconds[nth] * 1e9) for name, seconds in found.items()}
        ratio = found[f"{OURS}, empty"][nth] / found["F.window"][nth]
        note = "; ".join(f"{name}: {seconds[nth]:.2f} s" for name, seconds in found.items())
        what = f"Spark, {which} micro-batch with an empty cache, over F.window"
        yield Figure("cold_start", what, ratio, 2.0, False, "", times, note)


def _batches(program: str, cache: Path, way: str) -> list[float]:
    command = [sys.executable, "-c", program, way]
    done = subprocess.run(command, env=environment(cache), capture_output=True, text=True, check=True)
    return [float(each) for each in json.loads(done.stdout.splitlines()[-1])]


def _figure(what: str, found: Mapping[str, First], rivals: Mapping[str, First], target: float) -> Figure:
    compiling = found[f"{OURS}, waiting"].processor - found[f"{OURS}, warm"].processor
    shown = {**found, **rivals}
    times = {name: Timing(each.wall * 1e9, each.processor * 1e9) for name, each in shown.items()}
    parts = (f"{name}: {each.processor:.2f} s of the processor, {each.wall:.2f} s" for name, each in shown.items())
    return Figure("cold_start", f"{what}: compiling", compiling, target, False, " s", times, "; ".join(parts))
