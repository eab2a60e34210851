"""A process that is killed before a file operation of its choice, and a disk that keeps only what was synced."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR
_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir"}


class Killed(BaseException):
    """The process is dead. Nothing catches it, and nothing that runs on its way changes a file."""


class Crash:
    """Counts the operations that change files, and kills before one of them; `at` is from 0 on, or never."""

    def __init__(self, at: int | None, *, really: bool = False) -> None:
        self.at, self.really = at, really
        self.done = 0
        self.dead = False

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        """Take an audit event of Python."""
        if event not in _CHANGES and not (event == "open" and isinstance(args[2], int) and args[2] & _WRITING):
            return
        if str(args[0]).endswith("health.json"):
            return  # a report: nothing depends on it
        if self.done == self.at and self.really:
            os.kill(os.getpid(), 9)
        if self.dead or self.done == self.at:
            self.dead = True
            raise Killed
        self.done += 1


_armed: list[Crash] = []


@contextmanager
def crashing(at: int | None, *, really: bool = False) -> Iterator[Crash]:
    """Kill before the operation number `at`."""
    if not _installed:
        sys.addaudithook(_hook)  # for ever, as Python has it
        _installed.append(True)
    crash = Crash(at, really=really)
    _armed.append(crash)
    try:
        yield crash
    except Killed:
        pass
    finally:
        _armed.clear()


_installed: list[bool] = []


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _armed:
        _armed[0].hook(event, args)


class Disk:
    """What a folder holds after a power cut: what was synced of each file, under the names that its folder had then.

    In the folders for which `names` is true all changes of names are kept, synced or not: file systems write them when
    they like. Files that were not synced are empty there.
    """

    def __init__(self, root: Path, names: Callable[[Path], bool]) -> None:
        self.root, self.names = root, names
        self._contents: dict[int, bytes] = {}
        self._entries: dict[int, dict[str, int]] = {}
        self._held: list[int] = []  # so that no number of a file is given to another one
        for path in (root, *root.rglob("*")):
            self._keep(os.open(path, os.O_RDONLY))

    def fsync(self, handle: int) -> None:
        """Keep what a file or a folder holds; stands in for the function of `os`."""
        self._keep(os.open(f"/proc/self/fd/{handle}", os.O_RDONLY))

    def _keep(self, handle: int) -> None:
        self._held.append(handle)
        found = os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            entries = list(os.scandir(handle))
            self._entries[found.st_ino] = {each.name: each.inode() for each in entries}
            for each in entries:
                if each.is_dir():
                    self._entries.setdefault(each.inode(), {})
        else:
            self._contents[found.st_ino] = os.pread(handle, found.st_size, 0)

    def cut(self) -> None:
        """Leave in the folder what a power cut would leave."""
        left = dict(self._left(self.root, self.root.stat().st_ino))
        shutil.rmtree(self.root)
        for path, data in left.items():
            path.mkdir() if data is None else path.write_bytes(data)
        for handle in self._held:
            os.close(handle)

    def _left(self, path: Path, number: int) -> Iterator[tuple[Path, bytes | None]]:
        """Yield the files and folders that are left, each folder before what is in it."""
        entries = self._entries.get(number)
        if self.names(path) and (path.is_dir() or entries is not None):
            entries = {each.name: each.inode() for each in os.scandir(path)} if path.is_dir() else {}
        if entries is None:
            yield path, self._contents.get(number, b"")
            return
        yield path, None
        for name, each in entries.items():
            yield from self._left(path / name, each)
