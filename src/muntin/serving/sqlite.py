"""Features in a file of SQLite, which Python brings along: for one machine.

`sqlite:///features.db` is a path relative to the current folder, `sqlite:////var/lib/features.db` an absolute one.
`?table=cards` names the table, `features` by default.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from muntin.errors import StoreError
from muntin.serving.base import BATCH, HEAD, RUN, FeatureStore, in_order, refusal, split

_MOST = 30_000
"""How many names one statement takes; SQLite allows a few more."""


class Sqlite(FeatureStore):
    """Values in a table of a file. A batch is one transaction."""

    def __init__(self, path: Path, table: str, timeout: float) -> None:
        self.url = f"sqlite:///{path}"
        self._path, self._table, self._timeout = path, table, timeout
        self._mine = threading.local()
        self._opened: list[sqlite3.Connection] = []

    def _connection(self) -> sqlite3.Connection:
        """Return the connection of this thread, in this process."""
        if getattr(self._mine, "pid", None) != os.getpid():
            connection = sqlite3.connect(
                self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False
            )
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(f"CREATE TABLE IF NOT EXISTS {self._table} (name BLOB PRIMARY KEY, value BLOB)")
            self._mine.connection, self._mine.pid = connection, os.getpid()
            self._opened.append(connection)  # at once: a lock might be held while a fork begins
        found: sqlite3.Connection = self._mine.connection
        return found

    def read(self, names: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of some names: one statement, so that they are of one moment."""
        found: list[tuple[bytes, bytes]] = []
        with self._attempt("read") as connection:
            for start in range(0, len(names), _MOST):
                some = names[start : start + _MOST]
                places = ",".join("?" * len(some))
                asked = f"SELECT name, value FROM {self._table} WHERE name IN ({places})"  # noqa: S608  # checked
                found += connection.execute(asked, some).fetchall()
        return in_order(names, found)

    def write(self, values: Mapping[bytes, bytes]) -> None:
        """Write values in one transaction."""
        with self._transaction("write") as connection:
            self._put(connection, values)

    def publish(self, run: bytes, part: bytes, record: bytes, values: Mapping[bytes, bytes | None]) -> None:
        """Write a batch in one transaction."""
        with self._transaction("write") as connection:
            head, last = (self._get(connection, name) or b"" for name in (HEAD, part))
            if head[:RUN] != run:
                raise refusal(self.url, newer_batch=False)
            if last[:BATCH] > record[:BATCH]:
                raise refusal(self.url, newer_batch=True)
            written, removed = split(values)
            self._put(connection, {part: record, **written})
            statement = f"DELETE FROM {self._table} WHERE name = ?"  # noqa: S608  # a checked name
            connection.executemany(statement, ((name,) for name in removed))

    def swap(self, expected: bytes | None, head: bytes) -> bool:
        """Replace the head if it is as expected."""
        with self._transaction("write") as connection:
            if self._get(connection, HEAD) != expected:
                return False
            self._put(connection, {HEAD: head})
        return True

    def clear(self, kept: bytes | None) -> None:
        """Delete what belongs to other runs."""
        with self._transaction("delete") as connection:
            if kept is None:
                connection.execute(f"DELETE FROM {self._table}")  # noqa: S608  # a checked name
            else:
                where = f"name <> ? AND substr(name, 1, {RUN}) <> ?"
                connection.execute(f"DELETE FROM {self._table} WHERE {where}", (HEAD, kept))  # noqa: S608  # checked

    def close(self) -> None:
        """Close all connections."""
        opened, self._opened = self._opened, []
        for each in opened:
            each.close()
        self._mine = threading.local()

    def _get(self, connection: sqlite3.Connection, name: bytes) -> bytes | None:
        statement = f"SELECT value FROM {self._table} WHERE name = ?"  # noqa: S608  # a checked name
        found = connection.execute(statement, (name,)).fetchone()
        return None if found is None else bytes(found[0])

    def _put(self, connection: sqlite3.Connection, values: Mapping[bytes, bytes]) -> None:
        statement = f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?)"  # noqa: S608  # a checked name
        connection.executemany(statement, values.items())

    @contextlib.contextmanager
    def _transaction(self, what: str) -> Iterator[sqlite3.Connection]:
        with self._attempt(what) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextlib.contextmanager
    def _attempt(self, what: str) -> Iterator[sqlite3.Connection]:
        try:
            yield self._connection()
        except sqlite3.Error as error:
            raise StoreError(f"cannot {what} in {self.url}: {error}") from error
