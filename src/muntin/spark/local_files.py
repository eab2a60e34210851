"""Files by which the Python workers of one executor pass each other data, past Java."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import pyarrow as pa

ANSWERS, CHUNKS = "muntin_answers", "muntin_chunks"
"""The folders of answers on their way to the worker that unpacks them, and of chunks of state."""
_LARGE = 1 << 20
"""A table of fewer bytes goes through Spark: a file would not be faster."""
_DAY = 24 * 60 * 60


def folder(name: str) -> Path | None:
    """Return a folder of this executor, which it deletes in the end; None outside of a worker.

    It is one of those that Spark makes for blocks, below `spark.local.dir`, and only its user may look into it. The
    folder of `SparkFiles` is not: on a cluster that is where the application runs, and stays behind.
    """
    from pyspark import SparkFiles

    first = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    if not SparkFiles._is_running_on_worker or not first:
        return None
    found = Path(first) / name
    try:
        found.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return None
    return found


@contextlib.contextmanager
def new_file(where: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """Yield a new file that only its user may read, and its path; delete it if it cannot be written."""
    path = where / uuid4().hex
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        try:
            yield path, file
            file.flush()
        except BaseException:
            delete(path)
            raise


def delete(path: Path) -> None:
    """Delete a file, if it is there and can be deleted."""
    with contextlib.suppress(OSError):
        path.unlink()


def write_table(table: pa.Table, where: Path | None) -> str | None:
    """Write a large table to a new file, and return its path; None if it is small, or cannot be written."""
    if where is None or table.nbytes < _LARGE:
        return None
    try:
        with (
            new_file(where) as (path, _),
            pa.OSFile(str(path), "wb") as sink,
            pa.ipc.new_stream(sink, table.schema) as writer,
        ):
            writer.write_table(table)
    except OSError:
        return None
    return str(path)


def read_table(path: str) -> pa.Table:
    """Return the table in a file, without a copy, and delete the file: its pages stay while the table is in use."""
    with pa.memory_map(path) as source:
        table = pa.ipc.open_stream(source).read_all()
    delete(Path(path))
    return table


def delete_unread(where: Path | None) -> None:
    """Delete files of yesterday and before, which nobody reads any more: a task failed, or its answers were limited."""
    with contextlib.suppress(OSError):  # another process may delete the same ones
        for entry in os.scandir(where) if where is not None else ():
            if entry.stat().st_mtime < time.time() - _DAY:
                delete(Path(entry.path))
