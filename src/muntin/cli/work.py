"""Files that outlast a crash, and the lock of an output.

What a later step depends on is on the disk before that step: first the contents of a file, then its name, which is an
entry of its folder.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from muntin.cli.errors import OutputError
from muntin.watching.health import work_folder

try:
    import fcntl
except ImportError:  # pragma: no cover  # not a POSIX system: there is no lock, and folders cannot be synced
    fcntl = None  # type: ignore[assignment]

LOCK = "lock"
_OF_A_RUN = re.compile(r"\.?part-\d[\w.-]*|\.?_SUCCESS(\.crc)?|_spark_metadata|_temporary")
"""The names of what runs write to a folder, in this process and on Spark."""


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Write a file beside another, and put it in its place at the end: a crash leaves the old one or the new one."""
    unfinished = path.with_name("." + path.name)
    with unfinished.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    sync(path.parent)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, unless they are there."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def sync(folder: Path) -> None:
    """Return once the names in a folder are on the disk."""
    if fcntl is None:  # pragma: no cover
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def delete(paths: Collection[Path]) -> None:
    """Delete files and folders of one folder, those that are there."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for folder in {path.parent for path in paths}:
        if folder.is_dir():
            sync(folder)


def files_of_runs(output: Path) -> list[Path]:
    """Return what runs have written to a folder, in the order of names."""
    return sorted(each for each in output.iterdir() if _OF_A_RUN.fullmatch(each.name)) if output.is_dir() else []


def require_only_runs(output: Path) -> None:
    """Reject a folder to overwrite that holds what no run has written: it is not ours to delete."""
    other = set(output.iterdir()) - set(files_of_runs(output)) if output.is_dir() else set()
    if other:
        raise OutputError(f"{min(other)} was not written by a run, and is not overwritten: move it, or delete it")


def is_there(output: Path) -> bool:
    """Return whether there is an output that a run would have to replace."""
    return any(output.iterdir()) if output.is_dir() else output.exists()


def require_apart(output: Path, *inputs: Path) -> None:
    """Reject an output that is an input, is in one, or holds one: it would be read, or destroyed."""
    for given in inputs:
        for mine in (output, work_folder(output)):
            one, other = mine.resolve(), given.resolve()
            if one == other or other in one.parents or one in other.parents or _same(mine, given):
                raise OutputError(
                    f"the output {output} and the input {given} are one, or one is in the other; give another output"
                )


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


@contextmanager
def locked(output: Path | None) -> Iterator[None]:
    """Let no other run write to an output meanwhile. The lock of a process that has died is free."""
    if output is None or fcntl is None:
        yield
        return
    path = work_folder(output) / LOCK
    with _taken(path, output):
        try:
            yield
        finally:
            path.unlink()  # while it is held: who waits for this file looks whether it is still the one of this name
            with suppress(OSError):
                path.parent.rmdir()  # unless there is a run to resume


def _taken(path: Path, output: Path) -> BinaryIO:
    while True:
        make_folder(path.parent)
        try:
            file = path.open("ab")
        except FileNotFoundError:
            continue  # another run has just ended, and deleted the folder
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        except BlockingIOError:
            file.close()
            raise OutputError(f"another run is writing to {output}; wait for it, or give another output") from None
        except FileNotFoundError:
            pass  # another run had it, and has just ended
        file.close()
