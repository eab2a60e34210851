"""Answers beside the rows of files: `muntin over`. Reads all rows, and answers them at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from muntin.cli.errors import InputError, OutputError
from muntin.cli.local import Saved
from muntin.cli.sinks import Sink
from muntin.cli.sources import Source
from muntin.cli.work import is_there, require_only_runs
from muntin.query import Query


@dataclass(frozen=True)
class _Points:
    """The columns that points must have."""

    time: str | None
    inputs: tuple[str, ...]


def beside(query: Query, rows: Path, points: Path | None) -> pa.Table:
    """Return the rows of files, or the points, with all their columns and the answers of frames. O(rows) memory."""
    table = _whole(Source(rows, query, all_columns=True))
    if points is None:
        return query.over(table)
    time = () if query.time is None else (query.time,)
    return query.over(table, at=_whole(Source(points, _Points(query.time, (*query.key, *time)), all_columns=True)))


def _whole(source: Source) -> pa.Table:
    source.require_files()
    tables: list[pa.Table] = []
    schema = None
    for file in source.files():
        tables += source.tables(file)
        try:
            found = tables[-1].schema
            schema = found if schema is None else pa.unify_schemas([schema, found])
        except pa.ArrowException as error:
            raise InputError(f"{file} differs in its columns from the files before it: {error}") from error
    return pa.concat_tables(tables, promote_options="default")


def sink_of(output: Path, *, overwrite: bool) -> Sink:
    """Return the sink for a file or a folder; reject an existing one, unless it may be replaced."""
    sink = Sink(output)
    if overwrite:
        require_only_runs(output)
    elif is_there(output) or Saved(output).exists:
        raise OutputError(f"{output} is there already; give --overwrite to replace it")
    return sink


def write(answers: pa.Table, sink: Sink) -> None:
    """Write all answers."""
    saved = Saved(sink.output)
    saved.forget()
    sink.open()
    sink.write(answers)
    sink.join(answers.slice(0, 0))
    saved.forget()
