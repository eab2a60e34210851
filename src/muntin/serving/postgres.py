"""Features in a table of PostgreSQL: `pip install 'muntin[postgres]'`.

`postgresql://user@host:5432/database?table=cards`, with further parameters of libpq (`sslmode=verify-full`); the table
is `features` by default, and is created if it is missing.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muntin.errors import InvalidArgumentError, StoreError
from muntin.serving.base import BATCH, HEAD, RUN, FeatureStore, in_order, refusal, split


class Postgres(FeatureStore):
    """Values in a table. A batch is one transaction."""

    def __init__(self, url: str, table: str, timeout: float) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise InvalidArgumentError(
                "a store of features in PostgreSQL needs the package psycopg: pip install 'muntin[postgres]'"
            ) from error
        self.url = re.sub(r"//[^/]*@", "//...@", url)
        self._url, self._table, self._timeout = url, table, timeout
        self._failure: type[Exception] = psycopg.Error
        self._free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._pid = os.getpid()
        self._is_made = False

    def read(self, names: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of some names: one statement, so that they are of one moment."""
        asked = f"SELECT name, value FROM {self._table} WHERE name = ANY(%s)"  # noqa: S608  # a checked name
        with self._attempt("read") as connection:
            return in_order(names, connection.execute(asked, (list(names),), binary=True).fetchall())

    def write(self, values: Mapping[bytes, bytes]) -> None:
        """Write values in one transaction."""
        with self._attempt("write") as connection, connection.transaction():
            self._put(connection, values)

    def publish(self, run: bytes, part: bytes, record: bytes, values: Mapping[bytes, bytes | None]) -> None:
        """Write a batch in one transaction."""
        with self._attempt("write") as connection, connection.transaction():
            if (self._get(connection, HEAD, "SHARE") or b"")[:RUN] != run:
                raise refusal(self.url, newer_batch=False)
            if (self._get(connection, part, "UPDATE") or b"")[:BATCH] > record[:BATCH]:
                raise refusal(self.url, newer_batch=True)
            written, removed = split(values)
            self._put(connection, {part: record, **written})
            if removed:
                statement = f"DELETE FROM {self._table} WHERE name = ANY(%s)"  # noqa: S608  # a checked name
                connection.execute(statement, (removed,))

    def swap(self, expected: bytes | None, head: bytes) -> bool:
        """Replace the head if it is as expected."""
        with self._attempt("write") as connection:
            if expected is None:
                done = connection.execute(
                    f"INSERT INTO {self._table} VALUES (%s, %s) ON CONFLICT DO NOTHING",  # noqa: S608  # checked
                    (HEAD, head),
                )
            else:
                statement = f"UPDATE {self._table} SET value = %s WHERE name = %s AND value = %s"  # noqa: S608
                done = connection.execute(statement, (head, HEAD, expected))
            return bool(done.rowcount)

    def clear(self, kept: bytes | None) -> None:
        """Delete what belongs to other runs."""
        with self._attempt("delete") as connection:
            if kept is None:
                connection.execute(f"DELETE FROM {self._table}")  # noqa: S608  # a checked name
            else:
                where = f"name <> %s AND substr(name, 1, {RUN}) <> %s"
                connection.execute(f"DELETE FROM {self._table} WHERE {where}", (HEAD, kept))  # noqa: S608  # checked

    def close(self) -> None:
        """Close the connections that are not in use."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._free.get_nowait().close()

    def _get(self, connection: Any, name: bytes, lock: str) -> bytes | None:
        statement = f"SELECT value FROM {self._table} WHERE name = %s FOR {lock}"  # noqa: S608  # a checked name
        found = connection.execute(statement, (name,), binary=True).fetchone()
        return None if found is None else bytes(found[0])

    def _put(self, connection: Any, values: Mapping[bytes, bytes]) -> None:
        statement = (
            f"INSERT INTO {self._table} SELECT * FROM unnest(%s::bytea[], %s::bytea[]) "  # noqa: S608  # a checked name
            "ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value"
        )
        # In the order of names, so that two writers of different parts never wait for each other in a circle.
        names = sorted(values)
        connection.execute(statement, (names, [values[name] for name in names]))

    def _connection(self) -> Any:
        """Return a connection that nobody uses; those of a parent process are left alone."""
        if self._pid != os.getpid():
            self._free, self._pid = queue.SimpleQueue(), os.getpid()
        try:
            return self._free.get_nowait()
        except queue.Empty:
            import psycopg

            connection = psycopg.connect(self._url, autocommit=True, connect_timeout=max(2, round(self._timeout)))
            if not self._is_made:
                _make(connection, self._table)
                self._is_made = True
            return connection

    @contextlib.contextmanager
    def _attempt(self, what: str) -> Iterator[Any]:
        try:
            connection = self._connection()
            try:
                yield connection
            except BaseException:
                if connection.closed or connection.info.transaction_status != 0:
                    connection.close()
                raise
            finally:
                if not connection.closed:
                    self._free.put(connection)
        except self._failure as error:
            raise StoreError(f"cannot {what} in {self.url}: {error}") from error


def _make(connection: Any, table: str) -> None:
    """Create the table if it is missing: a reader may have no right to, and needs none."""
    if connection.execute("SELECT to_regclass(%s)", (table,)).fetchone()[0] is None:
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} (name bytea PRIMARY KEY, value bytea NOT NULL)")
        connection.execute(f"ALTER TABLE {table} ALTER COLUMN value SET STORAGE EXTERNAL")  # no time for compression
