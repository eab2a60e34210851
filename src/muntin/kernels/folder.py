"""The folder of cached kernels, text and machine code, and the rules for its files.

Its name covers everything besides a kernel's text that determines its machine code (versions, processor). Files appear
by rename, so a half-written one is never seen. One process compiles a kernel, the others wait for it (by a file lock,
which the system releases when its holder dies). Whatever is wrong with the folder, kernels still work: they are
recompiled.

Loaded files are executed. So the folder is created for its user alone, one that others can write to is not used, and
every file has a checksum.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib.resources
import os
import platform
import shutil
import stat
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache as memoise
from pathlib import Path

from muntin.errors import CacheFolderWarning
from muntin.forks import Renewed

try:
    import fcntl
except ImportError:  # pragma: no cover  # not POSIX: no lock, the same work may be done twice
    fcntl = None  # type: ignore[assignment]  # the module's absence is the fact to record

WRITING = ".writing-"
"""The prefix of files that are still being written."""
writing = Renewed(threading.Lock)
"""Held while a file is written: a process that ends regularly waits for it, and leaves no partial file."""
_ABANDONED = 3600.0
"""The age in seconds at which such a file is assumed to belong to a dead process."""


@dataclass(frozen=True)
class CacheInfo:
    """Where compiled kernels are kept, how many there are, and their size."""

    folder: Path
    writable: bool
    modules: int
    bytes: int


def cache_folder() -> Path:
    """Return the folder of this machine's compiled kernels: below `MUNTIN_CACHE_DIR`, or the user's cache folder."""
    root = os.environ.get("MUNTIN_CACHE_DIR")
    return (Path(root) if root else _user_cache()) / "muntin" / _machine()


def _user_cache() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home())))
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


@memoise
def _machine() -> str:
    """Return a name for everything besides a module's text that determines its machine code."""
    import llvmlite.binding

    cpu = llvmlite.binding.get_host_cpu_name()
    features = llvmlite.binding.get_host_cpu_features().flatten()
    return machine_name(f"{cpu}{features}")


def machine_name(processor: str) -> str:
    """Return a name for the versions and the processor of machine code."""
    import numba
    import numpy

    from muntin._version import __version__

    # intrinsics.py is compiled into every kernel, as linking.py links it: their texts count like the module's own.
    package = importlib.resources.files("muntin.kernels")
    ours = b"".join(package.joinpath(name).read_bytes() for name in ("intrinsics.py", "linking.py"))
    digest = hashlib.sha256(f"{processor}{numpy.__version__}".encode() + ours).hexdigest()[:12]
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    return f"{__version__}-numba{numba.__version__}-{python}-{platform.machine()}-{digest}"


def cache_info() -> CacheInfo:
    """Return where compiled kernels are kept and how many there are. O(number of files).

    >>> cache_info().modules >= 0
    True
    """
    folder = cache_folder()
    files = [file for file in folder.glob("*") if file.is_file()] if folder.is_dir() else []
    size = sum(file.stat().st_size for file in files)
    usable = is_writable(folder) and open_to_others(folder) is None
    return CacheInfo(folder, usable, sum(f.suffix == ".py" for f in files), size)


def clear_cache() -> None:
    """Delete the compiled kernels of every version. They are recompiled when next needed."""
    shutil.rmtree(cache_folder().parent, ignore_errors=True)


def is_writable(folder: Path) -> bool:
    """Return whether files can be written to the folder, creating it if missing."""
    try:
        for each in (folder.parent, folder):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def usable_folder() -> Path:
    """Return the folder to write and read kernels: the cache folder, or if unusable, one of this process alone.

    It is unusable if it is not writable, or if others can write to it.
    """
    folder = cache_folder()
    return folder if _prepared(folder, os.getpid()) else _own_folder(os.getpid())


@memoise
def _prepared(folder: Path, _process: int) -> bool:
    if not is_writable(folder):
        return False
    doubtful = open_to_others(folder)
    if doubtful is not None:
        warnings.warn(
            f"others can write to {doubtful}, so that the compiled kernels in {folder} are not used, and each process "
            f"compiles its own: chmod go-w {doubtful}, or set MUNTIN_CACHE_DIR to a folder of your own",
            CacheFolderWarning,
            stacklevel=2,
        )
        return False
    sweep(folder)
    return True


def open_to_others(folder: Path) -> Path | None:
    """Return the folder, or one of its two parents, that users other than this one and root can write to."""
    if not hasattr(os, "getuid"):  # pragma: no cover  # not POSIX: users' folders are private there
        return None
    for each, forbidden in ((folder, 0o022), (folder.parent, 0o022), (folder.parent.parent, 0o002)):
        found = each.stat()
        # Like /tmp: all may write there, but only owners replace files.
        sticky = found.st_mode & stat.S_ISVTX and each == folder.parent.parent
        if found.st_uid not in (os.getuid(), 0) or (found.st_mode & forbidden and not sticky):
            return each
    return None


@memoise
def _own_folder(process: int) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="muntin-"))
    atexit.register(_delete, folder, process)
    return folder


def _delete(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not in a fork, which also runs this at its end
        shutil.rmtree(folder, ignore_errors=True)


def write_checked(path: Path, magic: bytes, payload: bytes) -> None:
    """Write a file with a magic header and a checksum."""
    write_atomically(path, magic + hashlib.sha256(payload).digest() + payload)


def read_checked(path: Path, magic: bytes) -> bytes | None:
    """Return the payload of such a file; None if it is missing or another user's. Deletes a damaged one."""
    try:
        with path.open("rb") as file:
            if hasattr(os, "getuid") and os.fstat(file.fileno()).st_uid not in (os.getuid(), 0):
                return None  # loaded files are executed
            data = file.read()
    except OSError:
        return None
    head, digest, payload = data[: len(magic)], data[len(magic) : len(magic) + 32], data[len(magic) + 32 :]
    if head == magic and hashlib.sha256(payload).digest() == digest:
        return payload
    delete(path)
    return None


def delete(path: Path) -> None:
    """Delete a useless file."""
    with contextlib.suppress(OSError):
        path.unlink()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file atomically: others see all of it or nothing."""
    with writing():
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=WRITING)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(temporary).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise


def sweep(folder: Path) -> None:
    """Delete half-written files of killed processes."""
    for file in folder.glob(f"{WRITING}*"):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > _ABANDONED:
                file.unlink()


@contextlib.contextmanager
def machine_lock(path: Path) -> Iterator[None]:
    """Hold the lock of one file, among all processes of this machine. Does nothing if locks do not work."""
    if fcntl is None:  # pragma: no cover  # not a POSIX system
        yield
        return
    try:
        handle = os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o644)
    except OSError:
        yield
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)  # a fork of meanwhile has the handle too, and would go on holding it
        os.close(handle)
