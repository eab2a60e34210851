"""A query, rows for it, and files of them in every format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq
from pyarrow import feather

from muntin.cli.sinks import json_lines

QUERY = """\
time = "ts"
key = "plug"
watermark = "1 minute"

[[windows]]
tumbling = "10 minutes"

[[windows]]
session = "5 minutes"

[aggregates]
peak = "max(watts)"
n = "count()"
"""


def readings(rows: int = 600) -> pa.Table:
    """Readings of three plugs, a little out of order, with gaps."""
    random = np.random.default_rng(5)
    seconds = np.sort(random.integers(0, 20_000, rows)) + random.integers(-30, 30, rows)
    times = np.datetime64("2024-03-01", "us") + seconds.astype("m8[s]")
    return pa.table(
        {"ts": times, "plug": random.choice(["a", "b", "c"], rows), "watts": random.integers(0, 900, rows) / 4}
    )


def write(table: pa.Table, path: Path) -> None:
    """Write a table in the format of the suffix."""
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".csv":
        pa_csv.write_csv(table, path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(line + "\n" for line in json_lines(table)))
    else:
        feather.write_feather(table, path, compression="uncompressed")


def read(path: Path) -> pa.Table:
    """Read what the command line has written, a file or a folder of them."""
    if path.is_dir():
        return pa.concat_tables([read(each) for each in sorted(path.iterdir())])
    readers = {".parquet": pq.read_table, ".csv": pa_csv.read_csv, ".jsonl": pa_json.read_json}
    return readers[path.suffix](path)
