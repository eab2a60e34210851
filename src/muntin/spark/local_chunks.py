"""Chunks of state as files of this machine, for the worker that gets a bucket next.

Spark gives a bucket to any of a machine's workers. One that did not answer it in the previous batch has to read its
state, and Spark's state server takes 10 ns per byte for that, since it sends bytes as text; a file takes 1, most of it
to check what it holds.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from muntin.spark.chunks import name_of
from muntin.spark.local_files import delete, new_file

_BYTES = 1 << 30
_LOOK_EVERY = 1 << 26
"""The bytes that a process writes before it looks again at how many there are."""


class LocalChunks:
    """A cache of chunks by name, shared by the processes of an executor.

    Spark's state has all of them: what is missing here, damaged, or does not fit on the disk, is read from there. The
    least recently written ones are deleted if there are more than `limit` bytes.
    """

    _written = _LOOK_EVERY
    """The bytes that this process has written since it last looked, over all tasks; it looks at its first chunk too."""

    def __init__(self, folder: Path | None, limit: int = _BYTES) -> None:
        self._folder = folder
        self._limit = limit

    def read(self, name: bytes) -> bytes | None:
        """Return a chunk; None if it is not there. One that is not what its name says is deleted. O(bytes)."""
        if self._folder is None:
            return None
        path = self._folder / name.hex()
        with contextlib.suppress(OSError):
            piece = path.read_bytes()
            if name_of(piece) == name:
                return piece
            delete(path)
        return None

    def write(self, name: bytes, piece: bytes | memoryview) -> None:
        """Keep a chunk. O(bytes)."""
        if self._folder is None:
            return
        try:
            with new_file(self._folder) as (unfinished, file):
                file.write(piece)
            unfinished.replace(self._folder / name.hex())
        except OSError:
            return
        LocalChunks._written += len(piece)
        if LocalChunks._written >= min(_LOOK_EVERY, self._limit):
            LocalChunks._written = 0
            self._trim(self._folder)

    def remove(self, names: Iterable[bytes]) -> None:
        """Delete chunks that no state needs any more."""
        if self._folder is not None:
            for name in names:
                delete(self._folder / name.hex())

    def _trim(self, folder: Path) -> None:
        """Delete the least recently written chunks until the rest is within the limit."""
        found = []
        with contextlib.suppress(OSError), os.scandir(folder) as entries:  # Spark may delete it at any time
            for entry in entries:
                with contextlib.suppress(OSError):  # another process may have deleted it
                    about = entry.stat()
                    found.append((about.st_mtime_ns, about.st_size, entry.path))
        used = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if used <= self._limit:
                break
            delete(Path(path))
            used -= size
