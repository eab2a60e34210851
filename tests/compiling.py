"""Compiles the kernels of a test session in a process of its own, so that the tests' process stays small.

A kernel that a process compiles costs it about 20 MB that numba never frees; one that it loads from the cache on disk
costs 1 MB. Hundreds are compiled in a session. So a kernel that the cache lacks is compiled by a child, which is
replaced by a fresh one when it has grown, and then loaded. What the child cannot compile, the tests' process compiles:
errors are raised where they are looked for.
"""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

LARGEST = 800 << 20
"""Bytes of memory after which a compiling process is replaced."""


# ---------------------------------------------------------------- in the tests' process


class Compiler:
    """The process that compiles; started when the first kernel is asked for."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: Connection

    def compile(self, path: str, kernel: str, signature: Any) -> None:
        """Compile one kernel of the module at `path` into the cache on disk."""
        if self._process is None:
            self._start()
        with contextlib.suppress(OSError, EOFError):  # it has died: the caller compiles
            self._requests.send((path, kernel, signature))
            self._requests.recv()

    def _start(self) -> None:
        self._requests, theirs = multiprocessing.Pipe()
        command = [sys.executable, __file__, str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._requests.close()
            self._process.wait()


@contextlib.contextmanager
def compiled_elsewhere() -> Iterator[None]:
    """Have kernels that are not in the cache compiled by another process inside this block."""
    from numba.core.caching import FunctionCache

    compiler, load = Compiler(), FunctionCache.load_overload

    def load_or_compile(self: Any, signature: Any, target: Any) -> Any:
        found = load(self, signature, target)
        if found is not None or not self._py_func.__module__.startswith("muntin_kernel_"):
            return found
        compiler.compile(self._py_func.__code__.co_filename, self._py_func.__name__, signature)
        return load(self, signature, target)

    FunctionCache.load_overload = load_or_compile
    try:
        yield
    finally:
        FunctionCache.load_overload = load
        compiler.close()


# ---------------------------------------------------------------- in the compiling process


def serve(requests: Connection) -> None:
    """Compile what is asked for until this process has grown. Raises `EOFError` when nobody asks any more."""
    modules: dict[str, Any] = {}
    while memory() < LARGEST:
        path, kernel, signature = requests.recv()
        with contextlib.suppress(Exception):  # the tests' process meets the same error, and reports it
            if path not in modules:
                modules[path] = load_module(Path(path))
            getattr(modules[path], kernel).compile(signature)
        requests.send(None)


def load_module(path: Path) -> Any:
    """Import a generated module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[path.stem] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def memory() -> int:
    """Return how many bytes of memory this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main(requests: Connection) -> None:
    """Let one child after the other serve; each finds numba loaded."""
    import numba

    from muntin.kernels import intrinsics  # noqa: F401  # teaches numba the runtime functions

    numba.njit("i8(i8)")(lambda number: number)
    while True:
        child = os.fork()
        if not child:
            try:
                serve(requests)
            except EOFError:
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            return


if __name__ == "__main__":
    main(Connection(int(sys.argv[1])))
