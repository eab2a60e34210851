"""Answers beside the rows of files: `muntin over`. Reads all rows, and answers them at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from muntin.cli.sinks import OutputError, Sink
from muntin.cli.sources import InputError, Position, Source
from muntin.query import Query


@dataclass(frozen=True)
class _Points:
    """The columns that points must have."""

    time: str | None
    key: tuple[str, ...]
    columns: tuple[str, ...] = ()


def beside(query: Query, rows: Path, points: Path | None) -> pa.Table:
    """Return the rows of files, or the points, with all their columns and the answers of frames. O(rows) memory."""
    table = _whole(Source(rows, query, all_columns=True))
    if points is None:
        return query.over(table)
    return query.over(table, at=_whole(Source(points, _Points(query.time, tuple(query.key)), all_columns=True)))


def _whole(source: Source) -> pa.Table:
    tables = list(source.batches(Position()))
    if not tables:
        raise InputError(f"{source.path} has no rows, which would tell the types of its columns")
    try:
        return pa.concat_tables(tables, promote_options="default")
    except pa.ArrowException as error:
        raise InputError(f"the files in {source.path} differ in their columns: {error}") from error


def sink_of(output: Path, *, overwrite: bool) -> Sink:
    """Return the sink for a file or a folder; reject an existing one, unless it may be replaced."""
    sink = Sink(output)
    if not overwrite and (any(output.iterdir()) if output.is_dir() else output.exists()):
        raise OutputError(f"{output} is there already; give --overwrite to replace it")
    return sink


def write(answers: pa.Table, sink: Sink) -> None:
    """Write all answers."""
    sink.open()
    sink.write(answers)
    sink.finish(answers.slice(0, 0))
