"""The background compiler process: requests come by standard input, machine code goes to disk.

It ends after a while without requests, when it has grown (numba never frees what it has compiled), and at once when its
parent is gone.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import marshal
import os
import pickle
import queue
import signal
import sys
import threading
import time
import types
from pathlib import Path
from typing import IO, Any, NamedTuple

from muntin.kernels.folder import machine_lock, read_checked, write_checked, writing

IDLE = 30.0
"""Seconds without a request after which the process ends."""
LARGEST = 800 << 20
"""Bytes of memory after which the process ends: the next request starts a new one."""
_PARENT_CHECK = 1.0
_MAGIC = b"muntin bytecode 1\n"


class Request(NamedTuple):
    """A kernel to compile: the file of its module, its name, its types, and the folder of machine code."""

    number: int
    path: Path
    kernel: str
    signature: Any


class Reply(NamedTuple):
    """The outcome of a request."""

    number: int
    seconds: float
    error: str = ""
    """Why there is no machine code."""
    refused: bool = False
    """Whether the compiler rejected the kernel, as it would in any process; else something is wrong with that one."""
    found: bool = False
    """Whether another process had compiled it by then."""


def main() -> None:
    """Serve the process at the other end of standard input and output."""
    gc.disable()  # saves a tenth of the compile time; memory is freed when this process ends
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the parent
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep prints of modules out of the replies
    with contextlib.suppress(Exception):  # another version of numba: then it takes longer
        from muntin.kernels import linking

        linking.install()
    waiting: queue.SimpleQueue[Request] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests, waiting), daemon=True).start()
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()
    serve(waiting, replies)


def serve(waiting: queue.SimpleQueue[Request], replies: IO[bytes]) -> None:
    """Compile requests until there are none for a while, or this process has grown."""
    modules: dict[Path, types.ModuleType] = {}
    while memory() < LARGEST:
        try:
            request = waiting.get(timeout=IDLE)
        except queue.Empty:
            return
        pickle.dump(_compile(request, modules), replies)
        replies.flush()


def _receive(requests: IO[bytes], waiting: queue.SimpleQueue[Request]) -> None:
    status = 1  # an unreadable request: the parent goes without
    try:
        while True:
            waiting.put(pickle.load(requests))  # noqa: S301  # from the parent
    except EOFError:
        status = 0
    finally:
        _end(status)


def _watch(parent: int) -> None:
    """End with the parent, even if a fork of it still holds the other end of the pipe."""
    while os.getppid() == parent:
        time.sleep(_PARENT_CHECK)
    _end()


def _end(status: int = 0) -> None:
    with writing():
        os._exit(status)  # possibly within a kernel, but never within a file


def _compile(request: Request, modules: dict[Path, types.ModuleType]) -> Reply:
    begun = time.perf_counter()
    error, refused, found = "", False, False
    try:
        code, found = _save(request, modules)
        if not code.exists():
            error = "its machine code cannot be kept on disk"
    except Exception as reason:  # noqa: BLE001  # whatever it is, the other process goes on without machine code
        refused = any(kind.__name__ == "NumbaError" for kind in type(reason).__mro__)
        error = str(reason) if refused else f"{type(reason).__name__}: {reason}"
    return Reply(request.number, time.perf_counter() - begun, error, refused, found)


def _save(request: Request, modules: dict[Path, types.ModuleType]) -> tuple[Path, bool]:
    """Make machine code; return its file, and whether another process had made it by then."""
    from muntin.kernels import intrinsics  # noqa: F401  # teaches numba the runtime functions
    from muntin.kernels.machine_code import MachineCode

    if request.path not in modules:
        modules[request.path] = import_file(request.path)
    dispatcher: Any = getattr(modules[request.path], request.kernel)
    if request.signature in dispatcher.overloads:  # compiled as part of another kernel, but not saved
        modules[request.path] = import_file(request.path)
        dispatcher = getattr(modules[request.path], request.kernel)
    code = dispatcher._cache = MachineCode((request.path.parent,), request.path.stem, request.kernel)
    with machine_lock(code.path(request.signature)):
        dispatcher.compile(request.signature)
    return code.path(request.signature), not dispatcher.stats.cache_misses[request.signature]


def import_file(path: Path) -> types.ModuleType:
    """Import a generated module, whose name ends with the digest of its text; `OSError` if the text differs.

    Bypasses Python's bytecode cache, which would run unverified.
    """
    text = path.read_bytes()
    digest = hashlib.sha256(text).hexdigest()
    if not digest.startswith(path.stem.rpartition("_")[2]):
        raise OSError(f"{path} is damaged")
    kept = path.with_suffix(".bytecode")
    held = read_checked(kept, _MAGIC + digest.encode())
    code = compile(text, str(path), "exec") if held is None else marshal.loads(held)  # noqa: S302  # of ours alone
    if held is None:
        with contextlib.suppress(OSError):  # a full disk
            write_checked(kept, _MAGIC + digest.encode(), marshal.dumps(code))
    sys.modules[path.stem] = module = types.ModuleType(path.stem)
    module.__file__ = str(path)
    exec(code, module.__dict__)  # noqa: S102  # of a text that is ours
    return module


def memory() -> int:
    """Return the bytes of memory of this process; 0 if the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # pragma: no cover  # not Linux
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
