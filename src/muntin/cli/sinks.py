"""Writes windows to files: atomic parts, so that a stopped run can resume exactly.

Parts are numbered. A run records the sizes of those that belong to what it has read: they must be there when it
resumes, and later ones are deleted. A folder keeps its parts; a single file is joined from them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from muntin.cli.errors import OutputError
from muntin.cli.work import delete, files_of_runs, make_folder, replacing
from muntin.watching.health import work_folder

PART_ROWS = 1 << 20
"""Approximate rows of a part."""
SUFFIXES = {".parquet": ".parquet", ".pq": ".parquet", ".csv": ".csv", ".jsonl": ".jsonl", ".ndjson": ".jsonl"}


class Sink:
    """Writes tables of windows to a file or a folder, by the suffix of its name; without one, a folder of Parquet."""

    def __init__(self, output: Path, *, is_folder: bool | None = None) -> None:
        self.output = output
        suffix = output.suffix.lower()
        if suffix not in ("", *SUFFIXES):
            known = ", ".join(SUFFIXES)
            raise OutputError(f"{output} has no suffix that can be written; there are {known}, or none for a folder")
        self.suffix = SUFFIXES.get(suffix, ".parquet")
        self.is_folder = output.is_dir() or not suffix if is_folder is None else is_folder
        self.parts = output if self.is_folder else work_folder(output) / "parts"
        self.sizes: list[int] = []
        """The bytes of each complete part."""
        self._waiting: list[pa.Table] = []
        self._rows = 0

    def require(self, sizes: Sequence[int]) -> None:
        """Reject parts that are not there, or not whole."""
        for number, size in enumerate(sizes):
            path = self._path(number)
            found = path.stat().st_size if path.is_file() else None
            if found != size:
                state = "is not there" if found is None else f"has {found:,} bytes, not {size:,}"
                raise OutputError(f"{path} {state}, so that the run cannot go on; give --overwrite to start over")

    def open(self, sizes: Sequence[int] = ()) -> None:
        """Start, or resume after parts of these sizes; delete all later ones."""
        self.sizes = list(sizes)
        make_folder(self.parts)
        kept = {self._path(number) for number in range(len(self.sizes))}
        delete([each for each in files_of_runs(self.parts) if each not in kept])

    def write(self, windows: pa.Table) -> None:
        """Buffer windows; `flush` writes them."""
        if windows.num_rows:
            self._waiting.append(windows)
            self._rows += windows.num_rows
            if self._rows >= PART_ROWS:
                self.flush()

    def flush(self) -> None:
        """Write the buffered windows as the next part."""
        if not self._waiting:
            return
        path = self._path(len(self.sizes))
        with replacing(path) as file:
            _WRITERS[self.suffix](pa.concat_tables(self._waiting), file)
        self.sizes.append(path.stat().st_size)
        self._waiting, self._rows = [], 0

    def join(self, empty: pa.Table) -> None:
        """Write all windows to the output, if that is one file; `empty` is a table of no windows. Keeps the parts."""
        self.flush()
        if self.is_folder:
            return
        with replacing(self.output) as file:
            _JOINERS[self.suffix]([self._path(number) for number in range(len(self.sizes))], file, empty)

    def _path(self, number: int) -> Path:
        return self.parts / f"part-{number:06}{self.suffix}"


# ---------------------------------------------------------------- formats


def flat(windows: pa.Table) -> pa.Table:
    """Return windows without structs and lists, as CSV needs them: `window_start`, `window_end`; lists as JSON.

    >>> flat(pa.table({"window": [{"start": 0, "end": 10}], "n": [[1, 2]]})).to_pylist()
    [{'window_start': 0, 'window_end': 10, 'n': '[1, 2]'}]
    """
    columns: dict[str, Any] = {}
    for name, column in zip(windows.column_names, windows.columns, strict=True):
        columns |= dict(_plain_columns(name, column))
    return pa.table(columns)


def _plain_columns(name: str, column: pa.ChunkedArray) -> Iterator[tuple[str, Any]]:
    if pa.types.is_struct(column.type):
        names = [field.name for field in column.type]
        for inner, values in zip(names, column.flatten(), strict=True):
            yield from _plain_columns(f"{name}_{inner}", values)
    elif pa.types.is_nested(column.type):
        yield name, [None if value is None else json.dumps(value, default=_text) for value in column.to_pylist()]
    else:
        yield name, column


def json_lines(windows: pa.Table) -> Iterator[str]:
    """Yield a line of JSON per window; times in ISO form."""
    try:
        rows = windows.to_pylist()
    except (OverflowError, ValueError):  # times before the year 1 or after 9999, which Python does not have
        columns = [_times_as_text(column.combine_chunks()) for column in windows.columns]
        rows = pa.Table.from_arrays(columns, windows.column_names).to_pylist()
    for row in rows:
        yield json.dumps(row, default=_text)


def _times_as_text(array: pa.Array) -> pa.Array:
    """Return an array with its times, and those in its structs, in ISO form; NumPy supports years of any size."""
    if pa.types.is_struct(array.type):
        fields = [_times_as_text(array.field(i)) for i in range(array.type.num_fields)]
        names = [field.name for field in array.type]
        return pa.StructArray.from_arrays(fields, names, mask=array.is_null())
    if not pa.types.is_timestamp(array.type):
        return array
    zone = "" if array.type.tz is None else "+00:00"
    texts = np.datetime_as_string(array.to_numpy(zero_copy_only=False))
    return pa.array([None if text == "NaT" else f"{text}{zone}" for text in texts], pa.string())


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _write_json(table: pa.Table, file: BinaryIO) -> None:
    file.writelines(f"{line}\n".encode() for line in json_lines(table))


def _join_parquet(parts: list[Path], file: BinaryIO, empty: pa.Table) -> None:
    schema = pq.read_schema(parts[0]) if parts else empty.schema
    with pq.ParquetWriter(file, schema) as writer:
        for part in parts:
            writer.write_table(pq.read_table(part, partitioning=None))


def _join_text(parts: list[Path], file: BinaryIO, empty: pa.Table, *, header: bool) -> None:
    if header and not parts:
        pa_csv.write_csv(flat(empty), file)
    for i, part in enumerate(parts):
        with part.open("rb") as one:
            if header and i:
                one.readline()
            shutil.copyfileobj(one, file)


_WRITERS: dict[str, Callable[[pa.Table, BinaryIO], None]] = {
    ".parquet": pq.write_table,
    ".csv": lambda table, file: pa_csv.write_csv(flat(table), file),
    ".jsonl": _write_json,
}
_JOINERS: dict[str, Callable[[list[Path], BinaryIO, pa.Table], None]] = {
    ".parquet": _join_parquet,
    ".csv": lambda parts, file, empty: _join_text(parts, file, empty, header=True),
    ".jsonl": lambda parts, file, empty: _join_text(parts, file, empty, header=False),
}
