"""Files by which the Python workers of one machine pass each other data, past Java."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

ANSWERS, CHUNKS = "muntin_answers", "muntin_chunks"
"""The folders of answers on their way to the worker that unpacks them, and of chunks of state."""
_LARGE = 1 << 20
"""A table of fewer bytes goes through Spark: a file would not be faster."""
_DAY = 24 * 60 * 60


def folder(name: str) -> Path | None:
    """Return a folder of this Spark session, which Spark deletes in the end; None outside of a worker."""
    from pyspark import SparkFiles

    if not SparkFiles._is_running_on_worker:
        return None
    try:
        found = Path(SparkFiles.getRootDirectory()) / name
        found.mkdir(exist_ok=True)
    except OSError:
        return None
    return found


def write_table(table: pa.Table, where: Path | None) -> str | None:
    """Write a large table to a new file, and return its path; None if it is small, or cannot be written."""
    if where is None or table.nbytes < _LARGE:
        return None
    path = where / uuid4().hex
    try:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    except OSError:
        path.unlink(missing_ok=True)
        return None
    return str(path)


def read_table(path: str) -> pa.Table:
    """Return the table in a file, without a copy, and delete the file: its pages stay while the table is in use."""
    with pa.memory_map(path) as source:
        table = pa.ipc.open_stream(source).read_all()
    with contextlib.suppress(OSError):
        Path(path).unlink()
    return table


def delete_unread(where: Path | None) -> None:
    """Delete files of yesterday and before, which nobody reads any more: a task failed, or its answers were limited."""
    with contextlib.suppress(OSError):  # another process may delete the same ones
        for entry in os.scandir(where) if where is not None else ():
            if entry.stat().st_mtime < time.time() - _DAY:
                Path(entry.path).unlink(missing_ok=True)
