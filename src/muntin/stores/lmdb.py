"""A store in a file of this machine, by LMDB: `pip install 'muntin[lmdb]'`.

Every `put_many` is one transaction, so that a process that is killed leaves all of it or nothing. `flush` forces the
file to the disk; between two flushes the system writes when it likes. So a power cut may cost more than a kill: a file
system that keeps the order of writes loses what came after the last flush, another may lose the file. `durable=True`
forces every transaction to the disk instead, and costs what the disk needs for that.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import mmap
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from muntin.errors import InvalidArgumentError, LeaseError, StoreError
from muntin.forks import Renewed, hold_while_forking, in_child
from muntin.stores.base import Lease, Store, numbered

_environments: dict[Path, tuple[Any, int, tuple[bool, int]]] = {}
"""LMDB allows one environment for each file in a process; stores of the same folder share it. With it: how many use it,
and the options that it was opened with."""
_lock = Renewed(threading.Lock)
_stores: weakref.WeakSet[Lmdb] = weakref.WeakSet()
MOST_MAPPED = 1 << 24
"""Bytes read or written after which mapped pages of the file are released: else all of it would seem in use."""


class Lmdb(Store):
    """Values in an LMDB file in the folder `path`, created if missing. Many processes may share it.

    `most_bytes` bounds the file; it takes only what it needs.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Lmdb(folder)
    ...     store.put_many({b"a": b"1"})
    ...     found = store.get_many([b"a", b"b"])
    ...     store.close()
    >>> found
    [b'1', None]
    """

    def __init__(self, path: str | os.PathLike[str], *, durable: bool = False, most_bytes: int = 1 << 40) -> None:
        if not isinstance(path, str | os.PathLike):
            raise InvalidArgumentError(f"the store Lmdb is a folder, and its path is {path!r}; give a text or a Path")
        if isinstance(most_bytes, bool) or not isinstance(most_bytes, int) or not 0 < most_bytes < 1 << 63:
            raise InvalidArgumentError(f"most_bytes is {most_bytes!r}; give how many bytes the store may take at most")
        self._path = Path(path).resolve()
        self._options = (durable, most_bytes)
        self._traffic = 0
        self._attempts = 0
        self._attempted = threading.Condition()
        self._is_closed = False
        self._environment: Any = _open(self._path, *self._options)
        """None in a fork until it is used there: LMDB's cannot go from one process to another."""
        in_child(self, Lmdb._forked)
        _stores.add(self)

    def _forked(self) -> None:
        self._attempts = 0
        self._attempted = threading.Condition()
        if self._environment is not None:
            self._environment.close()  # in this process alone
            self._environment = None
            _environments.pop(self._path, None)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of some keys. O(log n) each."""
        with self._attempt("read") as environment, environment.begin() as transaction:
            found = [transaction.get(key) for key in keys]
        self._count(found)
        return found

    def put_many(self, items: Mapping[bytes, bytes]) -> None:
        """Set the values of some keys, all or none. O(log n) each."""
        with self._attempt("write") as environment, environment.begin(write=True) as transaction:
            for key, value in items.items():
                transaction.put(key, value)
        self._count(items.values())

    def put_if(self, key: bytes, expected: bytes | None, items: Mapping[bytes, bytes]) -> bool:
        """Set the values of some keys if one key has the expected value; return whether it had: one transaction."""
        with self._attempt("write") as environment, environment.begin(write=True) as transaction:
            if transaction.get(key) != expected:
                return False
            for each, value in items.items():
                transaction.put(each, value)
        self._count(items.values())
        return True

    def delete_range(self, prefix: bytes, start: int, stop: int) -> int:
        """Delete a range of numbered keys. O(log n) each."""
        with self._attempt("delete") as environment, environment.begin(write=True) as transaction:
            return sum(transaction.delete(numbered(prefix, n)) for n in range(start, stop))

    def flush(self) -> None:
        """Sync the file to disk."""
        with self._attempt("flush") as environment:
            environment.sync(True)

    def lease(self, name: bytes) -> Lease:
        """Take the lease of a name: a lock on a file, which the system drops when its holder dies."""
        with self._attempt("lease"):
            pass  # refuses if the store is closed
        return _FileLease(self._path / f"lease-{hashlib.sha256(name).hexdigest()[:32]}", name)

    def close(self) -> None:
        """Close the file, once every store of the folder in this process is closed."""
        with self._attempted:
            environment, self._environment = self._environment, None
            self._is_closed = True
            while self._attempts:  # whoever still reads would read what is no longer mapped, which ends the process
                self._attempted.wait()
        if environment is None:
            return
        with _lock():
            held, users, options = _environments[self._path]
            _environments[self._path] = (held, users - 1, options)
            if users == 1:
                del _environments[self._path]
                environment.close()

    def _count(self, values: Iterable[bytes | None]) -> None:
        """Give mapped pages back from time to time."""
        self._traffic += sum(len(value) for value in values if value)
        if self._traffic > MOST_MAPPED:
            self._traffic = 0
            with _lock():  # so that nobody closes the file meanwhile, and others get its addresses
                if self._path in _environments:
                    _unmap_pages(self._path / "data.mdb")

    @contextlib.contextmanager
    def _attempt(self, what: str) -> Iterator[Any]:
        import lmdb

        with self._attempted:
            if self._is_closed:
                raise StoreError(f"cannot {what}: the store in {self._path} is closed")
            if self._environment is None:
                self._environment = _open(self._path, *self._options)
            environment = self._environment  # which another thread may close, after this attempt
            self._attempts += 1
        try:
            yield environment
        except (lmdb.Error, OSError) as error:
            raise StoreError(f"cannot {what} in {self._path}: {error}") from error
        finally:
            with self._attempted:
                self._attempts -= 1
                self._attempted.notify_all()

    def __repr__(self) -> str:
        """Show the folder."""
        return f"Lmdb({str(self._path)!r})"


class _Quiet:
    """Holds all stores while nobody is inside LMDB.

    To close an environment is to wait for whoever is inside, and in a fork nobody ever comes out.
    """

    def __init__(self) -> None:
        self._held: list[threading.Condition] = []

    def acquire(self) -> None:
        """Wait until nobody is inside, and let nobody in."""
        for store in list(_stores):
            store._attempted.acquire()
            self._held.append(store._attempted)
            store._attempted.wait_for(lambda store=store: not store._attempts)  # type: ignore[misc]

    def release(self) -> None:
        """Let others in again."""
        while self._held:
            self._held.pop().release()


hold_while_forking(_Quiet())


def _open(path: Path, durable: bool, most_bytes: int) -> Any:
    try:
        import lmdb
    except ImportError as error:
        raise InvalidArgumentError("the store Lmdb needs the package lmdb: pip install 'muntin[lmdb]'") from error
    with _lock():
        if path not in _environments:
            try:
                path.mkdir(parents=True, exist_ok=True)
                environment = lmdb.open(
                    str(path), map_size=most_bytes, sync=durable, metasync=durable, readahead=False, max_spare_txns=4
                )
                environment.reader_check()  # forget readers that died
            except (lmdb.Error, OSError) as error:
                raise StoreError(f"cannot open {path}: {error}") from error
            _environments[path] = (environment, 0, (durable, most_bytes))
        environment, users, options = _environments[path]
        if options != (durable, most_bytes):
            raise InvalidArgumentError(
                f"{path} is open in this process with durable={options[0]} and most_bytes={options[1]}; "
                "close that store first, or give the same"
            )
        _environments[path] = (environment, users + 1, options)
        return environment


def _unmap_pages(file: Path) -> None:
    """Tell the system that no page of the mapped file is needed now; one that is will be mapped again. Linux only."""
    with contextlib.suppress(OSError, AttributeError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            if line.endswith(str(file)):
                start, _, end = line.split(maxsplit=1)[0].partition("-")
                length = int(end, 16) - int(start, 16)
                ctypes.CDLL(None).madvise(ctypes.c_void_p(int(start, 16)), ctypes.c_size_t(length), mmap.MADV_DONTNEED)


class _FileLease(Lease):
    def __init__(self, path: Path, name: bytes) -> None:
        import fcntl  # which only POSIX systems have

        self._handle: int | None = None
        try:
            handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
        except OSError as error:
            raise StoreError(f"cannot lease the window {name.decode()!r}: {error}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if not isinstance(error, BlockingIOError):
                raise StoreError(f"cannot lease the window {name.decode()!r}: {error}") from error
            raise LeaseError(f"the window {name.decode()!r} is open already, here or in another process") from error
        self._handle = handle

    def release(self) -> None:
        import fcntl

        if self._handle is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(self._handle, fcntl.LOCK_UN)  # a process forked in some other way may have the handle, too
        self.forked()

    def forked(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)
