"""Where `muntin.spark.upsert` keeps answers: a folder of Parquet files, or a table of the catalog.

Both are replaced as a whole by a next state, which exists beside them once it is complete. What is beside them has
names that are muntin's alone, and nothing else is ever deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from pyarrow import fs

from muntin.errors import InvalidArgumentError
from muntin.spark.folders import Folder
from muntin.spark.quoting import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REMEDY = "give a folder of a disk or of HDFS, or the name of a table"
_RUN = "_muntin_upsert"
"""The file in a folder that names the query whose answers came last; readers of Parquet pass over its name."""
_RUN_OF_TABLE = "muntin.upsert"
_NOT_PARQUET = "holds {!r}, which upsert has not written, and would delete: give a folder of its own"


@dataclass(frozen=True)
class Files:
    """A folder of Parquet files. The next state is written to a hidden folder beside it, and then renamed to it."""

    session: SparkSession
    folder: Folder
    name: str
    """As the user gave it."""

    @classmethod
    def of(cls, session: SparkSession, target: str | Path) -> Files:
        """Return the folder of a path or URI."""
        folder = Folder.of(target, REMEDY)
        if folder.local is not None:  # a link stays, and what it leads to is replaced
            folder = Folder.of(folder.local.resolve(), REMEDY)
        return cls(session, folder, str(target))

    @property
    def _work(self) -> Folder:
        return self.folder.parent / f".muntin-upsert-{self.folder.name}"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until nobody else upserts here: on a disk nobody at all, elsewhere nobody on this machine."""
        work = self._work.local
        if work is None:
            with held(_lock_of(self.folder.uri)):
                yield
            return
        with held(work / "lock"):
            yield
        with contextlib.suppress(OSError):  # not empty: somebody waits
            work.rmdir()

    def recover(self) -> None:
        """Complete an interrupted replacement: an old state stays until the new one is in its place."""
        old = self._work / "old"
        if old.is_there():
            if self.folder.is_there():
                old.move(self._work / f"gone-{uuid4().hex}")  # so that no part of it is ever taken for the whole
            else:
                old.move(self.folder)
        for name in self._work.entries():
            if re.fullmatch("(next|gone)-[0-9a-f]{32}", name):
                (self._work / name).delete()

    def read(self) -> DataFrame | None:
        """Return what is there; None if nothing is. Reject a file, and a folder with others than Parquet files."""
        entries = self._entries()
        for name, kind in entries.items():
            hidden = name.startswith(".") and name.endswith(".crc")
            if kind != fs.FileType.File or not (name.endswith(".parquet") or name in (_RUN, "_SUCCESS") or hidden):
                raise InvalidArgumentError(f"{self.name!r} {_NOT_PARQUET.format(name)}")
        if not any(name.endswith(".parquet") for name in entries):
            return None
        return self.session.read.parquet(self.folder.uri)

    def _entries(self) -> dict[str, fs.FileType]:
        system, place = self.folder.system, self.folder.place
        if system.get_file_info(place).type == fs.FileType.File:
            raise InvalidArgumentError(f"{self.name!r} is a file: {REMEDY}")
        found = system.get_file_info(fs.FileSelector(place, allow_not_found=True))
        return {each.base_name: each.type for each in found}

    def run(self) -> str | None:
        """Return the query whose answers came last, if it is known."""
        record = self.folder / _RUN
        return json.loads(record.text())["query"] if record.is_there() else None

    def replace(self, answers: DataFrame, run: str | None) -> None:
        """Replace what is there."""
        following = self._work / f"next-{uuid4().hex}"
        answers.write.parquet(following.uri)
        (following / _RUN).write(json.dumps({"query": run}))
        following.sync()
        if self.folder.is_there():
            self.folder.move(self._work / "old")
        following.move(self.folder)
        self.recover()


@dataclass(frozen=True)
class Table:
    """A table of the catalog. The next state is another table, which exists once complete, and is then copied."""

    session: SparkSession
    name: str

    @property
    def _next(self) -> str:
        return f"{self.name}_muntin_next"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until nobody else on this machine upserts here. Reject a view."""
        catalog = self.session.catalog
        if catalog.tableExists(self.name) and catalog.getTable(self.name).tableType in ("VIEW", "TEMPORARY"):
            raise InvalidArgumentError(f"{self.name!r} is a view: {REMEDY}")
        warehouse = self.session.conf.get("spark.sql.warehouse.dir")
        with held(_lock_of(f"{warehouse} {catalog.currentDatabase()} {self.name.lower()}")):
            yield

    def recover(self) -> None:
        """Complete an interrupted replacement: a next state, while it exists, is the valid one."""
        database, _, prefix = self._next.rpartition(".")
        for each in self.session.catalog.listTables(database or None, f"{prefix}*"):
            if re.fullmatch(f"{re.escape(prefix)}_[0-9a-f]{{32}}", each.name, re.IGNORECASE):
                self._copy(f"{database}.{each.name}" if database else each.name)

    def _copy(self, source: str) -> None:
        """Replace all rows, whatever partitions they are in."""
        session = self.session
        if str(session.conf.get("spark.sql.sources.partitionOverwriteMode")).upper() == "DYNAMIC":
            session = _with_static_partitions(session)
        session.table(source).write.insertInto(self.name, overwrite=True)
        self.session.catalog.refreshTable(self.name)  # the other session's files are not known here
        self._note(self.name, self._run_of(source))
        self.session.sql(f"DROP TABLE {source}")

    def read(self) -> DataFrame | None:
        """Return what is there; None if nothing is."""
        if not self.session.catalog.tableExists(self.name):
            return None
        self.session.catalog.refreshTable(self.name)  # another session may have replaced its files
        return self.session.table(self.name)

    def run(self) -> str | None:
        """Return the query whose answers came last, if it is known."""
        return self._run_of(self.name) if self.session.catalog.tableExists(self.name) else None

    def _run_of(self, table: str) -> str | None:
        rows = self.session.sql(f"SHOW TBLPROPERTIES {table}").collect()
        return next((str(row["value"]) for row in rows if row["key"] == _RUN_OF_TABLE), None) or None

    def _note(self, table: str, run: str | None) -> None:
        if self._run_of(table) != run:
            self.session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{_RUN_OF_TABLE}' = '{run or ''}')")

    def replace(self, answers: DataFrame, run: str | None) -> None:
        """Replace all rows; create the table if it is missing."""
        if not self.session.catalog.tableExists(self.name):
            answers.limit(0).write.format("parquet").saveAsTable(self.name)
        made = f"{self._next}_{uuid4().hex}"  # an interrupted one may have left files
        columns = map(quoted, self.session.table(self.name).columns)
        answers.select(*columns).write.format("parquet").saveAsTable(made)
        self._note(made, run)
        self._copy(made)


_MERGING = ("delta", "iceberg")
"""Formats of tables that have MERGE."""
_BY_PATH = "delta.`"
"""With what a table of Delta begins that is in no catalog."""


@dataclass(frozen=True)
class Merged(Table):
    """A table of a format that has MERGE: Delta or Iceberg. A batch is one MERGE, which costs what it changes."""

    def recover(self) -> None:
        """Do nothing: a MERGE is done as a whole, or not at all."""

    def create(self, answers: DataFrame) -> None:
        """Create the table, empty, in the format of its catalog."""
        answers.limit(0).writeTo(self.name).create()

    def merge(self, news: DataFrame, same: str, run: str | None, *, same_run: bool) -> None:
        """Put the last word on each window in its place, and remove what is retracted.

        `news` has one row a window; `same` is a condition on a row of the table, `a`, and a new one, `n`. In the same
        run an earlier revision changes nothing.
        """
        view = f"muntin_news_{uuid4().hex}"
        guard = " AND n.revision >= a.revision" if same_run else ""
        news.createOrReplaceTempView(view)
        try:
            self.session.sql(
                f"MERGE INTO {self.name} AS a USING {view} AS n ON {same} "
                f"WHEN MATCHED AND n.retracted{guard} THEN DELETE "
                f"WHEN MATCHED{guard} THEN UPDATE SET * "
                "WHEN NOT MATCHED AND NOT n.retracted THEN INSERT *"
            )
        finally:
            self.session.catalog.dropTempView(view)
        self._note(self.name, run)  # after it: of a batch that runs again all answers are later than those there


@dataclass(frozen=True)
class DeltaFolder(Merged):
    """A table of Delta in a folder, which no catalog knows."""

    @property
    def _folder(self) -> Folder:
        return Folder.of(self.name.removeprefix(_BY_PATH).removesuffix("`"), REMEDY)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until nobody else on this machine upserts here."""
        with held(_lock_of(self._folder.uri)):
            yield

    def read(self) -> DataFrame | None:
        """Return what is there; None if nothing is."""
        return self.session.table(self.name) if (self._folder / "_delta_log").is_there() else None

    def run(self) -> str | None:
        """Return the query whose answers came last, if it is known."""
        return self._run_of(self.name) if (self._folder / "_delta_log").is_there() else None

    def create(self, answers: DataFrame) -> None:
        """Create the table, empty."""
        answers.limit(0).write.format("delta").save(self._folder.uri)


def place_of(session: SparkSession, target: str | Path) -> Files | Table | Merged:
    """Return a target: one with a slash in it, or a `Path`, is a folder, but for that of a table of Delta."""
    if isinstance(target, str) and target.startswith(_BY_PATH):
        return DeltaFolder(session, target)
    if isinstance(target, Path) or "/" in target:
        files = Files.of(session, target)
        if (files.folder / "_delta_log").is_there():
            raise InvalidArgumentError(f"{str(target)!r} is a table of Delta: write delta.`{files.folder.uri}`")
        return files
    return (Merged if _merges(session, target) else Table)(session, target)


def _merges(session: SparkSession, name: str) -> bool:
    """Say whether a table is of a format that has MERGE, or will be once it is created."""
    if session.catalog.tableExists(name):
        rows = session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
        return any(row["col_name"] == "Provider" and row["data_type"].lower() in _MERGING for row in rows)
    catalog = name.partition(".")[0] if name.count(".") > 1 else str(session.catalog.currentCatalog())
    classes = str(session.conf.get(f"spark.sql.catalog.{catalog.strip('`')}", None) or "").lower()
    format_of_new = str(session.conf.get("spark.sql.sources.default")).lower()
    return "iceberg" in classes or ("delta" in classes and format_of_new == "delta")


def _with_static_partitions(session: SparkSession) -> SparkSession:
    """Return a session that overwrites partitions without new rows too; other threads may use the given one."""
    make = getattr(session, "cloneSession", None) or session.newSession
    made: SparkSession = make()
    made.catalog.setCurrentDatabase(session.catalog.currentDatabase())
    made.conf.set("spark.sql.sources.partitionOverwriteMode", "static")
    return made


def _lock_of(place: str) -> Path:
    """Return the lock of what is not on a disk of this machine: a file for its user here."""
    digest = hashlib.blake2b(place.encode(), digest_size=16).hexdigest()
    return Path(tempfile.gettempdir()) / f"muntin-upsert-{os.getuid()}-{digest}"


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock that a file is, among threads and processes; wait for whoever does. The file is deleted then.

    A process that dies lets go of it.
    """
    import fcntl

    while True:
        with contextlib.suppress(FileNotFoundError):  # whoever held it has just deleted the folder
            with contextlib.suppress(FileExistsError):  # mkdir looks twice, and may find it only once
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                if path.exists() and os.path.samestat(path.stat(), os.fstat(handle)):
                    break
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)
    try:
        yield
    finally:
        path.unlink()
        os.close(handle)
