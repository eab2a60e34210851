"""Reads rows from a file, or from a folder of files in name order, in batches for a stream.

Files may lie in subfolders; one named `name=value` gives them a column, as Spark and Hive write it. Text is UTF-8.
"""

from __future__ import annotations

import codecs
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

from muntin.cli.errors import InputError
from muntin.cli.folders import FolderColumns, files_in
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
TEXT = ("csv", "json")
"""The formats that are text."""
_CHUNK = 1 << 20
BATCH_ROWS = 1 << 16
"""Rows per push: enough to amortise its overhead, few enough to stop soon."""


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
    def inputs(self) -> tuple[str, ...]:
        """The columns that rows must have."""


class Source:
    """Rows of a file or a folder: the columns that a query needs, or all."""

    def __init__(self, path: Path, query: Query | Columns, *, all_columns: bool = False) -> None:
        if not path.exists():
            raise InputError(f"{path} does not exist")
        self.path = path
        self.columns = list(query.inputs)
        if query.time is not None and query.time not in self.columns:
            raise InputError(
                f"the time column {query.time!r} is computed, and the times of files are looked at before their rows: "
                "write it into the files"
            )
        self.time = query.time
        self._all_columns = all_columns
        self._folders: FolderColumns | None = None
        self._are_text: set[Path] = set()
        if not path.is_dir():
            format_of(path)

    @property
    def is_folder(self) -> bool:
        """Whether there may be more files later."""
        return self.path.is_dir()

    def files(self, done: Collection[str] = ()) -> list[Path]:
        """Return the files not done yet, by name. Ignores names that begin with a dot or underscore."""
        found = sorted(files_in(self.path, FORMATS)) if self.is_folder else [self.path]
        return [each for each in found if self._name(each) not in done]

    def require_files(self) -> None:
        """Reject a folder without files: it has no columns."""
        if not self.files():
            raise InputError(f"{self.path} holds no file that can be read; their names end with {', '.join(FORMATS)}")

    def _name(self, file: Path) -> str:
        return file.relative_to(self.path).as_posix() if self.is_folder else file.name

    def place(self, position: Position) -> str:
        """Return where a position is, for messages."""
        file = self.path / position.file if self.is_folder and position.file is not None else self.path
        return f"{file}, after row {position.rows:,}" if position.rows else str(file)

    @property
    def folders(self) -> FolderColumns:
        """The columns in the names of subfolders, of the types of those that were there first."""
        if self._folders is None and (files := self.files()):
            self._folders = FolderColumns.of(self.path, files)
        return self._folders or FolderColumns(self.path, {})

    def first(self) -> pa.Table:
        """Return the first row, with the columns that the query reads; an empty table if there is none."""
        self.require_files()
        tables = (next(self.tables(each, rows=1)) for each in self.files())
        first = next(tables)
        return first if first.num_rows else next((each for each in tables if each.num_rows), first)

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
            if _is_blank(file):
                continue  # without being done: somebody may be about to write it
            name = self._name(file)
            if position.file != name:
                position.file, position.rows = name, 0
            for table in self.tables(file, position.rows, rows):
                if table.num_rows:
                    yield table
                position.rows += table.num_rows
            position.done.add(name)
            position.file, position.rows = None, 0

    def tables(self, file: Path, skip: int = 0, rows: int = BATCH_ROWS) -> Iterator[pa.Table]:
        """Yield the rows of a file after the first `skip`; one empty table if there are none."""
        if _is_blank(file):
            yield pa.table({name: pa.nulls(0) for name in self.columns})
            return
        dataset, folders = self._dataset(file), self.folders.values(file)
        names = self._names(dataset, folders, file)
        wanted = [*names, *folders] if self._all_columns else self.columns
        own = [name for name in wanted if name not in folders]

        def whole(table: pa.Table, at: int) -> pa.Table:
            for place, name in enumerate(wanted):
                if name in folders:
                    table = table.add_column(place, name, pa.repeat(folders[name], table.num_rows))
            return self._with_times(table, file, at)

        at = 0
        with _reading(file):
            for batch in dataset.to_batches(columns=own, batch_size=rows):
                batch.validate(full=True)  # else kernels would follow bad offsets of a damaged file
                begin = max(skip - at, 0)
                if begin < batch.num_rows:
                    yield whole(pa.Table.from_batches([batch.slice(begin)]), at + begin)
                at += batch.num_rows
            if at <= skip:
                yield whole(pa.schema([dataset.schema.field(name) for name in own]).empty_table(), at)

    def require_columns(self) -> None:
        """Reject files that cannot be read, or lack a column that is asked for. O(files), and O(bytes) of text."""
        self.require_files()
        for file in self.files():
            if not _is_blank(file):
                self._names(self._dataset(file), self.folders.values(file), file)

    def _names(self, dataset: Any, folders: Collection[str], file: Path) -> list[str]:
        """Return the columns of a file that are not in the names of its folders; reject one that lacks columns."""
        names = [name for name in dataset.schema.names if name not in folders]
        for name in self.columns:
            if name not in names and name not in folders:
                advice = ". The query's `time` names the column that holds the times" if name == self.time else ""
                raise ColumnError(f"{file}: {missing(name, [*names, *folders], advice)}")
        return names

    def _dataset(self, file: Path) -> Any:
        with _reading(file):
            if format_of(file) in TEXT and file not in self._are_text:
                require_utf8(file)
                self._are_text.add(file)
            dataset = ds.dataset(file, format=format_of(file))
            repr(dataset.schema.names)  # in a damaged file they may not be valid text
        return dataset

    def _with_times(self, table: pa.Table, file: Path, at: int) -> pa.Table:
        """Return rows with times of one type, however a text format reads them from file to file; reject null times."""
        if self.time is None:
            return table
        index = table.column_names.index(self.time)
        column = table.column(index)
        if column.null_count:
            row = at + pc.index(column.is_null(), True).as_py()
            raise ColumnTypeError(f"{file}: the time column {self.time!r} is null in row {row}; every row needs a time")
        if format_of(file) in TEXT and pa.types.is_string(column.type):
            column = _parsed(column, self.time, file)
        elif format_of(file) in TEXT and pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
        return table.set_column(index, self.time, column)


def _is_blank(file: Path) -> bool:
    """Return whether a file of text has no line, so that it tells no columns: Spark writes such for no rows."""
    return FORMATS[file.suffix.lower()] in TEXT and file.stat().st_size == 0


def require_utf8(file: Path) -> None:
    """Reject a file whose text is not UTF-8. O(bytes).

    Arrow would read such columns as bytes, and Spark puts other signs in their place.
    """
    decoder, before = codecs.getincrementaldecoder("utf-8")(), 0
    with file.open("rb") as opened:
        while True:
            chunk = opened.read(_CHUNK)
            pending = len(decoder.getstate()[0])
            try:
                decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                line, byte = _place(file, before - pending + error.start)
                raise InputError(
                    f"{file}, line {line}, byte {byte}: {error.object[error.start]:#04x} is no UTF-8; convert the "
                    "file, such as with iconv -f latin1 -t utf-8"
                ) from error
            if not chunk:
                return
            before += len(chunk)


def _place(file: Path, offset: int) -> tuple[int, int]:
    """Return the line of a byte of a file, and its place there, both from 1 on."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if offset < len(line):
                return number, offset + 1
            offset -= len(line)
    raise AssertionError(f"{file} has changed")  # pragma: no cover


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
