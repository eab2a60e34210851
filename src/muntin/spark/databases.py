"""Where `muntin.spark.upsert` keeps answers in a database: a table of PostgreSQL or SQLite, one transaction a batch.

Beside a table `answers` there is `answers_upserts`, which tells the queries that have written to it, in turn, and the
last batch of each: a batch that runs again changes nothing, and a query whose turn is over is refused.
"""

from __future__ import annotations

import contextlib
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import ColumnError, InvalidArgumentError, UnsupportedOperationError
from muntin.query.query import Query
from muntin.spark.answer_rows import ID, AnswerRows, as_json

WAIT = 30.0
"""Seconds to wait for another writer."""
_MOST_LETTERS = 50
"""Of the name of a table: PostgreSQL cuts names after 63, and those of its index and of `_upserts` are longer."""
_EXAMPLES = "postgresql://USER@HOST/DATABASE?table=answers, sqlite:///answers.db?table=answers"


@dataclass(frozen=True)
class Writer:
    """Who writes: the streaming query, the same as long as its checkpoint, and the number of its batch, if known."""

    query: str | None = None
    batch: int | None = None


class Database(ABC):
    """A table of a database."""

    mark: str
    """What stands for a value in a statement."""

    def __init__(self, table: Sequence[str], name: str) -> None:
        self._parts = table
        self._table, self._upserts = (
            ".".join(map(self._quoted, [*table[:-1], each])) for each in (table[-1], f"{table[-1]}_upserts")
        )
        self.name = name
        """As the user gave it, without a password."""

    @abstractmethod
    def transaction(self) -> contextlib.AbstractContextManager[Any]:
        """Return a cursor in a transaction, in which nobody else writes; it is committed unless an error is raised."""

    @abstractmethod
    def columns_of(self, cursor: Any) -> dict[str, str]:
        """Return the columns of the table and their types; none if there is no table."""

    @abstractmethod
    def type_of(self, kind: pa.DataType) -> str:
        """Return the type of a column for values of an Arrow type."""

    @abstractmethod
    def values_of(self, column: pa.ChunkedArray) -> list[Any]:
        """Return the values of a column as the database takes them."""

    def _quoted(self, name: str) -> str:
        """Return a name as it is in a statement with values."""
        return quoted(name)

    def write(self, answers: pa.Table, query: Query | None = None, writer: Writer | None = None) -> None:
        """Keep the last word on each window, in one transaction. O(answers log windows)."""
        rows = AnswerRows.of(answers, query)
        columns = [self.values_of(column) for column in rows.table.columns]
        with self.transaction() as cursor:
            self._require_table(cursor, rows.schema)
            newest = self._take_turn(cursor, writer or Writer())
            if newest is None:
                return
            guard = "" if newest else f" AND {self._table}.revision <= {self.mark}"
            gone = ((each, revision) if guard else (each,) for each, revision in rows.retracted())
            self._execute_all(cursor, f"DELETE FROM {self._table} WHERE {self._quoted(ID)} = {self.mark}{guard}", gone)
            self._execute_all(cursor, self._upsert(rows.schema.names, guarded=not newest), rows.kept(columns))

    def _upsert(self, names: Sequence[str], *, guarded: bool) -> str:
        columns, marks = ", ".join(map(self._quoted, [ID, *names])), ", ".join([self.mark] * (len(names) + 1))
        changes = ", ".join(f"{each} = excluded.{each}" for each in map(self._quoted, names))
        guard = f" WHERE {self._table}.revision <= excluded.revision" if guarded else ""
        return (
            f"INSERT INTO {self._table} ({columns}) VALUES ({marks}) ON CONFLICT ({self._quoted(ID)}) DO UPDATE SET "
            f"{changes}{guard}"
        )

    def _execute_all(self, cursor: Any, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        cursor.executemany(statement, rows)

    def _require_table(self, cursor: Any, schema: pa.Schema) -> None:
        """Create the table; reject one with other columns."""
        wanted = {ID: self.type_of(pa.binary())}
        wanted |= {field.name: self.type_of(field.type) for field in schema}
        found = self.columns_of(cursor)
        if not found:
            lines = [f"{self._quoted(name)} {kind}{' PRIMARY KEY' * (name == ID)}" for name, kind in wanted.items()]
            cursor.execute(f"CREATE TABLE {self._table} ({', '.join(lines)})", ())
        for name in dict.fromkeys((*found, *wanted)) if found else ():
            if found.get(name) != wanted.get(name):
                raise ColumnError(
                    f"{self.name!r} is of another query: its column {name!r} is {found.get(name, 'not there')}, that "
                    f"of the answers {wanted.get(name, 'not there')}; give another table"
                )
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {self._upserts} (turn INTEGER PRIMARY KEY, query TEXT UNIQUE, batch BIGINT)",
            (),
        )

    def _take_turn(self, cursor: Any, writer: Writer) -> bool | None:
        """Note a batch; return whether its answers are later than all there are, None if it was written before.

        In the same query the greatest revision is the last; in another one revisions begin at 0 again.
        """
        if writer.query is None:
            return True
        cursor.execute(f"SELECT turn, query, batch FROM {self._upserts} ORDER BY turn", ())
        turns = cursor.fetchall()
        if not turns or writer.query not in [query for _, query, _ in turns]:
            given = (len(turns), writer.query, writer.batch)
            cursor.execute(f"INSERT INTO {self._upserts} VALUES ({self.mark}, {self.mark}, {self.mark})", given)
            return True
        _, current, batch = turns[-1]
        if current != writer.query:
            raise UnsupportedOperationError(
                f"{self.name!r} is written by the streaming query {current}, which took over from {writer.query}: two "
                "queries must not upsert into one table; stop one of them, or give it another table"
            )
        if writer.batch is None or batch is None or writer.batch > batch:
            set_batch = f"UPDATE {self._upserts} SET batch = {self.mark} WHERE query = {self.mark}"
            cursor.execute(set_batch, (writer.batch, writer.query))
            return False
        if writer.batch < batch:
            raise UnsupportedOperationError(
                f"{self.name!r} holds batch {batch} of the streaming query {writer.query}, and this is batch "
                f"{writer.batch}: the query runs twice, or an older checkpoint was put back; stop one of them, or "
                "upsert into another table"
            )
        return None

    def _busy(self) -> UnsupportedOperationError:
        return UnsupportedOperationError(
            f"another writer has held {self.name!r} for {WAIT:g} seconds: one query at a time can upsert into a table"
        )


class Postgres(Database):
    """A table of PostgreSQL."""

    mark = "%s"

    def __init__(self, url: str, table: Sequence[str], name: str) -> None:
        _require_psycopg()
        super().__init__(table, name)
        self._url = url

    def _quoted(self, name: str) -> str:
        """Return a name as it is in a statement with values, which begin with percent signs."""
        return quoted(name).replace("%", "%%")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        """Return a cursor in a transaction that holds a lock of the table's name; nobody who reads waits for it."""
        import psycopg
        from psycopg.errors import LockNotAvailable

        try:
            connection = psycopg.connect(self._url, connect_timeout=int(WAIT))
        except psycopg.OperationalError as error:
            raise UnsupportedOperationError(f"{self.name!r} cannot be reached: {error}") from error
        with connection, connection.cursor() as cursor:  # commits, or rolls back, and closes
            cursor.execute(f"SET LOCAL lock_timeout = '{int(WAIT * 1000)}ms'")
            try:
                cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"muntin {self._table}",))
            except LockNotAvailable as error:
                raise self._busy() from error
            yield cursor

    def columns_of(self, cursor: Any) -> dict[str, str]:
        """Return the columns of the table and their types; none if there is no table."""
        cursor.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = to_regclass(%s) AND "
            "attnum > 0 AND NOT attisdropped ORDER BY attnum",
            (".".join(map(quoted, self._parts)),),
        )
        return dict(cursor.fetchall())

    def type_of(self, kind: pa.DataType) -> str:
        """Return PostgreSQL's name of a type."""
        if pa.types.is_decimal(kind):
            return f"numeric({kind.precision},{kind.scale})"
        if pa.types.is_timestamp(kind):
            return f"timestamp {'with' if kind.tz else 'without'} time zone"
        return _POSTGRES.get(str(kind), "jsonb")

    def values_of(self, column: pa.ChunkedArray) -> list[Any]:
        """Return the values of a column: times in UTC, durations in microseconds, lists and structs as JSON."""
        kind = column.type
        if pa.types.is_timestamp(kind) and kind.tz:
            column = column.cast(pa.timestamp("us", "UTC"))
        if pa.types.is_duration(kind):
            column = column.cast(pa.duration("us")).cast(pa.int64())
        values = column.to_pylist()
        return [as_json(each) for each in values] if self.type_of(kind) == "jsonb" else values


_POSTGRES = {
    "bool": "boolean",
    "int8": "smallint",
    "int16": "smallint",
    "int32": "integer",
    "int64": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "large_string": "text",
    "binary": "bytea",
    "large_binary": "bytea",
    "date32[day]": "date",
    "duration[us]": "bigint",
}


class Sqlite(Database):
    """A table of a file of SQLite."""

    mark = "?"

    def __init__(self, path: Path, table: Sequence[str], name: str) -> None:
        super().__init__(table, name)
        self._path = path

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        """Return a cursor in a transaction that holds the file's lock of writers."""
        try:
            connection = sqlite3.connect(self._path, timeout=WAIT, isolation_level=None)
        except sqlite3.OperationalError as error:
            raise InvalidArgumentError(f"{self.name!r} cannot be opened: {error}") from error
        with contextlib.closing(connection), contextlib.closing(connection.cursor()) as cursor:
            try:
                cursor.execute("BEGIN IMMEDIATE")
            except sqlite3.DatabaseError as error:
                if "locked" in str(error):
                    raise self._busy() from error
                raise InvalidArgumentError(f"{self.name!r} cannot be written: {error}") from error
            try:
                yield cursor
                cursor.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    cursor.execute("ROLLBACK")

    def columns_of(self, cursor: Any) -> dict[str, str]:
        """Return the columns of the table and their types; none if there is no table."""
        cursor.execute("SELECT name, type FROM pragma_table_info(?)", (self._parts[-1],))
        return dict(cursor.fetchall())

    def type_of(self, kind: pa.DataType) -> str:
        """Return the affinity in which SQLite keeps values of a type as they are."""
        if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_duration(kind):
            return "INTEGER"
        if pa.types.is_floating(kind):
            return "REAL"
        return "BLOB" if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else "TEXT"

    def values_of(self, column: pa.ChunkedArray) -> list[Any]:
        """Return the values of a column: times as texts in UTC, NaN as a text, which SQLite would take for null."""
        kind = column.type
        if pa.types.is_timestamp(kind):
            utc = column.cast(pa.timestamp("us", kind.tz)).cast(pa.timestamp("us"))
            return utc.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
        if pa.types.is_duration(kind):
            return column.cast(pa.duration("us")).cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
        values = column.to_pylist()
        if pa.types.is_floating(kind):
            return ["NaN" if each != each else each for each in values] if _has_nan(column) else values
        if pa.types.is_nested(kind):
            return [as_json(each) for each in values]
        if pa.types.is_decimal(kind) or pa.types.is_date(kind):
            return [None if each is None else str(each) for each in values]
        return values  # type: ignore[no-any-return]


def _has_nan(column: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.is_nan(column)).as_py())


def quoted(name: str) -> str:
    """Return a name as both databases read it.

    >>> quoted("a b")
    '"a b"'
    """
    return '"' + name.replace('"', '""') + '"'


def is_database(target: object) -> bool:
    """Say whether a target is the URL of a database.

    >>> is_database("sqlite:///answers.db?table=t"), is_database("hdfs://name/answers")
    (True, False)
    """
    return isinstance(target, str) and target.partition(":")[0] in ("postgresql", "postgres", "sqlite")


def database_of(url: str) -> Database:
    """Return the table that a URL names; nothing is asked of it yet.

    >>> database_of("postgresql://me:secret@localhost/shop?table=sales.answers").name
    'postgresql://me@localhost/shop?table=sales.answers'
    """
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    shown = _without_password(url)
    table = options.pop("table", "")
    if not table:
        raise InvalidArgumentError(f"{shown!r} names no table: write {_EXAMPLES}")
    names = table.split(".")
    if not all(names) or len(names[-1]) > _MOST_LETTERS or "\0" in table:
        raise InvalidArgumentError(f"{table!r} is no name of a table: give one of up to {_MOST_LETTERS} letters")
    if parts.scheme != "sqlite":
        return Postgres(url.partition("?")[0] + (f"?{urlencode(options)}" if options else ""), names, shown)
    path = unquote(parts.path).removeprefix("/")
    if parts.netloc or not path:
        raise InvalidArgumentError(f"{shown!r} names no file: write sqlite:///answers.db, or four slashes for /...")
    for name in options:
        raise InvalidArgumentError(f"{shown!r} has the option {name!r}, which SQLite has not; there is table=")
    if len(names) > 1:
        raise InvalidArgumentError(f"{table!r} is no table of SQLite, which has no schemas: leave the dot out")
    return Sqlite(Path(path), names, shown)


def _without_password(url: str) -> str:
    """Return a URL as errors show it."""
    scheme, mark, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    user, at, host = place.rpartition("@")
    options = [(name, value) for name, value in parse_qsl(path.partition("?")[2]) if "password" not in name]
    query = f"?{urlencode(options, safe='./')}" if options else ""
    return f"{scheme}{mark}{user.partition(':')[0]}{at}{host}{slash}{path.partition('?')[0]}{query}"


def _require_psycopg() -> None:
    import importlib.util

    if importlib.util.find_spec("psycopg") is None:
        raise UnsupportedOperationError("PostgreSQL needs psycopg: pip install 'muntin[postgres]'")
