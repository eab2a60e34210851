"""The memory of `run` over tables that come in batches, 100 M rows in a Parquet file, and over the same loaded.

Each measurement is a process of its own, which tells the most memory that it ever held (`ru_maxrss`): Python, muntin,
compiled kernels, polars' or Arrow's reader and the answer are all in it. What the process held before the first row was
read is shown beside it. A sliding hour every minute, sum and count, for 100 keys over 30 days.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from harness import OURS, Figure, Timing, rows_for

from muntin import Query, agg, window

ROWS = 100_000_000
KEYS = 100
DAYS = 30
TARGET_GB = 2.0
READ = ["ts", "k", "v"]
_AT_ONCE = 1_000_000
_IN_BATCHES = ("LazyFrame", "dataset", "reader")


def query() -> Query:
    """Return the query."""
    return Query(
        window.sliding("1 hour", every="1 minute"), {"sum": agg.sum("v"), "n": agg.count()}, key="k", time="ts"
    )


def write(path: Path, rows: int) -> None:
    """Write rows in time order with some disorder within a minute, and two columns that the query does not read."""
    chance = np.random.default_rng(0)
    span = DAYS * 86_400_000_000
    writer = None
    for start in range(0, rows, _AT_ONCE):
        count = min(_AT_ONCE, rows - start)
        times = (np.arange(start, start + count) * (span // rows)) + chance.integers(0, 60_000_000, count)
        table = pa.table(
            {
                "ts": pa.array(times).cast(pa.timestamp("us")),
                "k": pa.array(chance.integers(0, KEYS, count)),
                "v": chance.random(count),
                "unread": chance.random(count),
                "text": pa.array(chance.choice(["north", "south"], count)),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def answer(which: str, path: Path) -> Any:
    """Return the answer from one kind of table."""
    if which == "LazyFrame":
        return query().run(pl.scan_parquet(path))
    if which == "dataset":
        return query().run(ds.dataset(path))
    if which == "reader":
        file = pq.ParquetFile(path)
        schema = pa.schema([file.schema_arrow.field(name) for name in READ])
        return query().run(pa.RecordBatchReader.from_batches(schema, _row_groups(file)))
    return query().run(pq.read_table(path, columns=READ))


def _row_groups(file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    for i in range(file.num_row_groups):
        yield from file.read_row_group(i, columns=READ).to_batches()


def measured(which: str, path: Path) -> dict[str, float]:
    """Return the most memory of a process of its own, in GB, its memory before, its seconds, and how many windows."""
    done = subprocess.run([sys.executable, __file__, which, str(path)], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _most_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def run(quick: bool) -> Iterator[Figure]:
    """Yield the most memory of each kind of table."""
    rows = rows_for(quick, ROWS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write(path, rows)
        loaded = measured("loaded", path)
        for which in _IN_BATCHES:
            found = measured(which, path)
            what = f"most memory of run over a {which}, {rows:,} rows, {found['windows']:,} windows"
            note = f"{found['before']:.2f} GB of it before the first row; the columns loaded: {loaded['most']:.2f} GB"
            times = {name: _timing(each, rows) for name, each in ((OURS, found), ("loaded", loaded))}
            yield Figure("lazy_tables", what, found["most"], TARGET_GB, False, " GB", times, note)


def _timing(found: dict[str, float], rows: int) -> Timing:
    each = found["seconds"] / rows * 1e9
    return Timing(each, each)


if __name__ == "__main__":
    _which, _path = sys.argv[1], Path(sys.argv[2])
    query().run({"ts": np.arange(3).astype("M8[us]"), "k": np.arange(3), "v": np.ones(3)})
    _before, _begun = _most_gigabytes(), time.perf_counter()
    _answers = len(answer(_which, _path))
    _seconds = time.perf_counter() - _begun
    print(json.dumps({"most": _most_gigabytes(), "before": _before, "seconds": _seconds, "windows": _answers}))
