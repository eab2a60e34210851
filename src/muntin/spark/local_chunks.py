"""Chunks of state as files of this machine, for the worker that gets a bucket next.

Spark gives a bucket to any of a machine's workers. One that did not answer it in the previous batch has to read its
state, and Spark's state server takes 10 ns per byte for that, since it sends bytes as text; a file takes 0.2.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

_BYTES = 1 << 30
_LOOK_EVERY = 1 << 26
"""The bytes that a process writes before it looks again at how many there are."""


class LocalChunks:
    """A cache of chunks by name, shared by the processes of this machine.

    Spark's state has all of them: what is missing here, or does not fit on the disk, is read from there. The least
    recently written ones are deleted if there are more than `limit` bytes.
    """

    def __init__(self, folder: Path | None, limit: int = _BYTES) -> None:
        self._folder = folder
        self._limit = limit
        self._written = 0

    def read(self, name: bytes) -> bytes | None:
        """Return a chunk; None if it is not there."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                return (self._folder / name.hex()).read_bytes()
        return None

    def write(self, name: bytes, piece: bytes | memoryview) -> None:
        """Keep a chunk. O(bytes)."""
        if self._folder is None:
            return
        path = self._folder / name.hex()
        unfinished = path.with_suffix(f".{os.getpid()}")
        try:
            unfinished.write_bytes(piece)
            unfinished.replace(path)
        except OSError:
            unfinished.unlink(missing_ok=True)
            return
        self._written += len(piece)
        if self._written >= min(_LOOK_EVERY, self._limit):
            self._written = 0
            self._trim()

    def remove(self, names: Iterable[bytes]) -> None:
        """Delete chunks that no state needs any more."""
        if self._folder is not None:
            for name in names:
                with contextlib.suppress(OSError):
                    (self._folder / name.hex()).unlink(missing_ok=True)

    def _trim(self) -> None:
        """Delete the least recently written chunks until the rest is within the limit."""
        assert self._folder is not None
        found = []
        for entry in os.scandir(self._folder):
            with contextlib.suppress(OSError):  # another process may have deleted it
                about = entry.stat()
                found.append((about.st_mtime_ns, about.st_size, entry.path))
        used = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if used <= self._limit:
                break
            Path(path).unlink(missing_ok=True)
            used -= size
