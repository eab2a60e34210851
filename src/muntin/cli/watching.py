"""`muntin watch`: the live page over folders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from muntin.cli.sources import Position, Source
from muntin.errors import InvalidArgumentError
from muntin.query import Query
from muntin.watching.rows import Rows
from muntin.watching.watch import Watching, watch_files

PORT = 5006


class RowColumns(NamedTuple):
    """The columns of raw rows that a `Source` reads."""

    time: str
    inputs: tuple[str, ...]


def open_page(
    answers: Path | None,
    readings: Path | None,
    *,
    time: str | None = None,
    key: Sequence[str] = (),
    column: str | None = None,
    watermark: str | None = None,
    query: Query | None = None,
    port: int = 0,
) -> Watching:
    """Open the page over a folder of answers, a folder of raw rows, or both. A query supplies missing names."""
    if answers is None and readings is None:
        raise InvalidArgumentError("give the folder of answers, or raw rows with --rows, or both")
    if readings is None:
        if unused := [f"--{name}" for name, each in (("time", time), ("column", column)) if each is not None]:
            raise InvalidArgumentError(f"{unused[0]} is for raw rows: give their folder with --rows")
        return watch_files(answers, query=query, port=port)
    if query is not None:
        time, key, watermark = time or query.time, key or query.key, watermark or query.watermark
        column = column or next((name for name in query.reads if name not in query.expressions), None)
    if time is None or column is None:
        missing = "--time" if time is None else "--column"
        raise InvalidArgumentError(f"raw rows need {missing}, the name of a column; a --query may name it as well")
    rows = Rows(time, column, key, watermark)
    return watch_files(answers, read=_reader(readings, rows), rows=rows, query=query, port=port)


def _reader(path: Path, rows: Rows) -> Callable[[], Iterable[pa.Table]]:
    """Return a function that yields the rows added to a file or folder since its last call."""
    source = Source(path, RowColumns(rows.time, tuple(dict.fromkeys((*rows.keys.names, rows.time, rows.column)))))
    position = Position()
    return lambda: source.batches(position)
