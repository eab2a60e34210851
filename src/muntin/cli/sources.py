"""Reads rows from a file, or from a folder of files in name order, in batches for a stream."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from muntin.columns import missing
from muntin.errors import ColumnError, ColumnTypeError, MuntinError
from muntin.query import Query

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".arrow": "ipc",
    ".ipc": "ipc",
    ".feather": "feather",
}
"""The formats of files, by suffix."""
BATCH_ROWS = 1 << 16
"""Rows per push: enough to amortise its overhead, few enough to stop soon."""


class InputError(MuntinError):
    """Rows cannot be read from there. The message names the path."""


@dataclass
class Position:
    """A read position: completed files, and the rows read of the current one."""

    done: set[str] = field(default_factory=set)
    file: str | None = None
    rows: int = 0

    def to_json(self) -> str:
        """Return it as text."""
        return json.dumps({"done": sorted(self.done), "file": self.file, "rows": self.rows})

    @classmethod
    def from_json(cls, text: str) -> Position:
        """Return what `to_json` wrote.

        >>> Position.from_json(Position({"a.csv"}, "b.csv", 7).to_json())
        Position(done={'a.csv'}, file='b.csv', rows=7)
        """
        found = json.loads(text)
        return cls(set(found["done"]), found["file"], found["rows"])


def format_of(path: Path) -> str:
    """Return the format of a file by its suffix; reject unknown ones.

    >>> format_of(Path("rows.ndjson"))
    'json'
    """
    found = FORMATS.get(path.suffix.lower())
    if found is None:
        raise InputError(f"{path} has no suffix that is known; there are {', '.join(FORMATS)}")
    return found


class Columns(Protocol):
    """The columns to read, of a query or another consumer."""

    @property
    def time(self) -> str | None:
        """The time column, or None."""

    @property
    def key(self) -> Any:
        """The key columns."""

    @property
    def columns(self) -> Any:
        """The others."""


class Source:
    """Rows of a file or a folder: the columns that a query needs, or all."""

    def __init__(self, path: Path, query: Query | Columns, *, all_columns: bool = False) -> None:
        if not path.exists():
            raise InputError(f"{path} does not exist")
        self.path = path
        time = () if query.time is None else (query.time,)
        self.columns = list(dict.fromkeys((*query.key, *time, *query.columns)))
        self.time = query.time
        self._all_columns = all_columns
        if not path.is_dir():
            format_of(path)

    @property
    def is_folder(self) -> bool:
        """Whether there may be more files later."""
        return self.path.is_dir()

    def files(self, done: Collection[str] = ()) -> list[Path]:
        """Return the files not done yet, by name. Ignores names that begin with a dot or underscore."""
        if not self.is_folder:
            return [] if self.path.name in done else [self.path]
        found = (each for each in self.path.iterdir() if each.suffix.lower() in FORMATS and each.is_file())
        return sorted(each for each in found if each.name not in done and each.name[0] not in "._")

    @property
    def schema(self) -> pa.Schema:
        """The columns that the query reads, as the first file has them."""
        for file in self.files():
            for table in self._rows(file, 0, 1):
                return table.schema
        raise InputError(f"{self.path} has no rows, which would tell the types of its columns")

    def count_rows(self, files: list[Path]) -> int | None:
        """Return the number of rows, if files record it; None if they must be read to know."""
        if not all(FORMATS[each.suffix.lower()] in ("parquet", "ipc", "feather") for each in files):
            return None
        return sum(self._count(each) for each in files)

    def _count(self, file: Path) -> int:
        with _reading(file):
            return int(self._dataset(file).count_rows())

    def disorder(self) -> tuple[int, pa.DataType | None]:
        """Return how far a row may be behind the greatest time before it, and the type of times. O(rows).

        Stops at unreadable rows: the reader reports them.
        """
        times = copy(self)
        times.columns = [] if self.time is None else [self.time]
        kind, seen, behind = None, np.iinfo(np.int64).min, 0
        with suppress(MuntinError, pa.ArrowException):
            for table in times.batches(Position()) if times.columns else ():
                column = table.column(0).drop_null()
                kind = kind or column.type
                if not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
                    return 0, None
                ticks = column.cast(kind).cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_numpy()
                greatest = np.maximum.accumulate(np.append(seen, ticks.astype(np.int64)))
                late = greatest[:-1] > ticks
                behind = max(behind, int((greatest[:-1] - ticks)[late].max(initial=0)))
                seen = greatest[-1]
        return behind, kind

    def batches(self, position: Position, *, rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        """Yield the rows after a position, which advances past a batch once the next is requested."""
        for file in self.files(position.done):
            if position.file != file.name:
                position.file, position.rows = file.name, 0
            for table in self._rows(file, position.rows, rows):
                yield table
                position.rows += table.num_rows
            position.done.add(file.name)
            position.file, position.rows = None, 0

    def _rows(self, file: Path, skip: int, most: int) -> Iterator[pa.Table]:
        dataset = self._dataset(file)
        names = list(dataset.schema.names)
        for name in self.columns:
            if name not in names:
                advice = ". The query's `time` names the column that holds the times" if name == self.time else ""
                raise ColumnError(f"{file}: {missing(name, names, advice)}")
        wanted = None if self._all_columns else self.columns
        with _reading(file):
            for batch in dataset.to_batches(columns=wanted, batch_size=most):
                table = pa.Table.from_batches([batch])
                table.validate(full=True)  # else kernels would follow bad offsets of a damaged file
                if skip >= table.num_rows:
                    skip -= table.num_rows
                    continue
                yield self._with_times(table.slice(skip), file)
                skip = 0

    def _dataset(self, file: Path) -> Any:
        with _reading(file):
            dataset = ds.dataset(file, format=format_of(file))
            repr(dataset.schema.names)  # in a damaged file they may not be valid text
        return dataset

    def _with_times(self, table: pa.Table, file: Path) -> pa.Table:
        """Return the rows with times of one type, however a text format reads them from file to file."""
        if self.time is None or format_of(file) not in ("csv", "json"):
            return table
        index = table.column_names.index(self.time)
        column = table.column(index)
        if pa.types.is_string(column.type):
            column = _parsed(column, self.time, file)
        elif pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
        return table.set_column(index, self.time, column)


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    """Turn Arrow's errors into one that names the file and the reason."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise InputError(f"{file} cannot be read: {_first_line(error)}") from error


def _parsed(column: Any, name: str, file: Path) -> Any:
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return pc.cast(column, kind)
        except pa.ArrowInvalid as error:
            problem = _first_line(error)
    raise ColumnTypeError(f"{file}: the time column {name!r} holds text that is no time: {problem}")


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
