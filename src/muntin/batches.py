"""Tables that come in batches: polars LazyFrames, pyarrow datasets and scanners, and readers of record batches.

Their columns are known before a row is read; then only those that are asked for are read, batch by batch.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakSet

import pyarrow as pa

from muntin.columns import require_columns
from muntin.errors import InvalidArgumentError
from muntin.layouts import empty_table, plain_table

_read_before: WeakSet[Any] = WeakSet()
"""The readers whose rows are gone."""


class BatchSource(ABC):
    """A table whose rows come in batches."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The names and types of its columns; no row is read."""

    def tables(self, names: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the rows of some columns, or of all, in order; at least one table. O(rows of a batch) memory."""
        wanted = self.schema.names if names is None else list(names)
        require_columns(wanted, self.schema.names)
        anything = False
        for each in self._tables(wanted):
            anything = True
            yield plain_table(each)
        if not anything:
            fields = [self.schema.field(name) for name in wanted]
            yield plain_table(empty_table(pa.schema(fields)))

    @abstractmethod
    def _tables(self, names: list[str]) -> Iterator[pa.Table]: ...

    def whole(self, names: Sequence[str] | None = None) -> Any:
        """Return all rows of some columns, or of all: in polars for a LazyFrame, else in Arrow. O(rows)."""
        return pa.concat_tables(list(self.tables(names)))

    def write(self, answer: pa.Table) -> Any:
        """Return an answer as a table of the kind that `whole` returns."""
        return answer


class _LazyFrame(BatchSource):
    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._schema: pa.Schema | None = None

    @property
    def schema(self) -> pa.Schema:
        import polars

        if self._schema is None:
            self._schema = polars.DataFrame(schema=self._frame.collect_schema()).to_arrow().schema
        return self._schema

    def _tables(self, names: list[str]) -> Iterator[pa.Table]:
        asked = self._frame.select(names)
        if not hasattr(asked, "collect_batches"):  # polars before 1.34
            yield asked.collect().to_arrow()
            return
        for each in asked.collect_batches(maintain_order=True):
            yield each.to_arrow()

    def whole(self, names: Sequence[str] | None = None) -> Any:
        require_columns(names or (), self.schema.names)
        return (self._frame if names is None else self._frame.select(names)).collect()

    def write(self, answer: pa.Table) -> Any:
        import polars

        return polars.from_arrow(answer)


class _Scanned(BatchSource):
    """A dataset, which has a scanner of some columns; or a scanner."""

    def __init__(self, source: Any) -> None:
        self._source = source

    @property
    def schema(self) -> pa.Schema:
        return self._source.projected_schema if hasattr(self._source, "projected_schema") else self._source.schema

    def _tables(self, names: list[str]) -> Iterator[pa.Table]:
        found = (
            self._source.scanner(columns=names, **_scan_options(self._source))
            if hasattr(self._source, "scanner")
            else self._source
        )
        for each in found.to_reader():
            yield pa.Table.from_batches([each]).select(names)


def _scan_options(dataset: Any) -> dict[str, Any]:
    """Return the options that keep a scan from holding a whole Parquet file, which Arrow reads ahead and lets go last.

    From other file systems than the local one reading ahead is worth the memory: each read waits for a network.
    """
    from pyarrow import fs
    from pyarrow.dataset import ParquetFileFormat, ParquetFragmentScanOptions

    local = isinstance(getattr(dataset, "filesystem", None), fs.LocalFileSystem)
    if not local or not isinstance(dataset.format, ParquetFileFormat):
        return {}
    options = ParquetFragmentScanOptions(pre_buffer=False)
    return {"fragment_scan_options": options, "batch_readahead": 4, "fragment_readahead": 1}


class _Reader(BatchSource):
    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader

    @property
    def schema(self) -> pa.Schema:
        return self._reader.schema

    def _tables(self, names: list[str]) -> Iterator[pa.Table]:
        if self._reader in _read_before:
            raise InvalidArgumentError(
                "this RecordBatchReader has been read before, and gives its rows once; make a new one, or read it into "
                "a table first: reader.read_all()"
            )
        _read_before.add(self._reader)
        for each in self._reader:
            yield pa.Table.from_batches([each]).select(names)


def source_of(table: Any) -> BatchSource | None:
    """Return a table that comes in batches as a source of them; None for any other. O(1), no row is read.

    >>> reader = pa.table({"v": [1, 2], "w": [3, 4]}).to_reader()
    >>> [each.to_pydict() for each in source_of(reader).tables(["w"])]
    [{'w': [3, 4]}]
    """
    if isinstance(table, BatchSource):
        return table
    if isinstance(table, pa.RecordBatchReader):
        return _Reader(table)
    polars, dataset = sys.modules.get("polars"), sys.modules.get("pyarrow.dataset")
    if polars is not None and isinstance(table, polars.LazyFrame):
        return _LazyFrame(table)
    if dataset is not None and isinstance(table, dataset.Dataset | dataset.Scanner):
        return _Scanned(table)
    return None
