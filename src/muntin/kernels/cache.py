"""Loads generated modules: compiled through a cache on disk, or plain.

A module is a file named by a hash of its text, in a folder named by everything else that decides its machine code
(versions, CPU). numba keeps the machine code beside it. One process compiles, the others wait for it (a file lock that
the system drops when its holder dies); files appear by rename, so a half-written one is never seen. Whatever is wrong
with the folder, the kernels still work: they are only compiled again.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import importlib.resources
import importlib.util
import linecache
import os
import platform
import shutil
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache as memoise
from pathlib import Path
from typing import Any

from muntin.errors import DefinitionError
from muntin.kernels.generate import PLAIN_HEADER, Generated

try:
    import fcntl
except ImportError:  # pragma: no cover  # not a POSIX system: no lock, the same work may be done twice
    fcntl = None  # type: ignore[assignment]  # the module's absence is the fact to record

_lock = threading.RLock()
_modules: dict[tuple[str, bool], types.ModuleType] = {}


@dataclass(frozen=True)
class CacheInfo:
    """Where compiled kernels are kept, and how much of them there is."""

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
    """Name everything besides a module's text that decides its machine code."""
    import llvmlite.binding
    import numba
    import numpy

    from muntin import kernels
    from muntin._version import __version__

    cpu = llvmlite.binding.get_host_cpu_name()
    features = llvmlite.binding.get_host_cpu_features().flatten()
    # intrinsics.py is compiled into every kernel, so its text counts like the module's own. The package may be a zip.
    intrinsics = importlib.resources.files(kernels).joinpath("intrinsics.py").read_bytes()
    digest = hashlib.sha256(f"{cpu}{features}{numpy.__version__}".encode() + intrinsics).hexdigest()[:12]
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    return f"{__version__}-numba{numba.__version__}-{python}-{platform.machine()}-{digest}"


def cache_info() -> CacheInfo:
    """Say where compiled kernels are kept and how many there are.

    >>> cache_info().modules >= 0
    True
    """
    folder = cache_folder()
    files = [file for file in folder.glob("*") if file.is_file()] if folder.is_dir() else []
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) if files else 0
    return CacheInfo(folder, _writable(folder), sum(f.suffix == ".py" for f in files), size)


def clear_cache() -> None:
    """Delete the compiled kernels of every version. They are compiled again when they are next needed."""
    shutil.rmtree(cache_folder().parent, ignore_errors=True)


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


# ---------------------------------------------------------------- loading


_plain = contextvars.ContextVar("_plain", default=os.environ.get("MUNTIN_UNCOMPILED", "") not in ("", "0"))


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """Run kernels as plain Python inside this block: for the debugger, and to test the twins. Only for this thread.

    `MUNTIN_UNCOMPILED=1` in the environment does it for whole processes, such as the workers of a Spark session with
    `spark.executorEnv.MUNTIN_UNCOMPILED`.

    >>> from muntin import agg, slide
    >>> with uncompiled():
    ...     slide([1, 5, 2], agg.max("v"), range=2).tolist()
    [1, 5, 5]
    """
    before = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(before)


def is_uncompiled() -> bool:
    """Say whether kernels are to run as plain Python here."""
    return _plain.get()


def load(generated: Generated, *, compiled: bool) -> types.ModuleType:
    """Return the module of a generated text, its kernels ready to call. O(1) after the first time in a process."""
    with _lock:
        if generated.injected:
            return _run(PLAIN_HEADER + generated.text, "muntin_plain", generated.injected)
        key = (generated.text, compiled)
        if key not in _modules:
            plain = not compiled
            _modules[key] = _run(PLAIN_HEADER + generated.text, "muntin_plain") if plain else _load_compiled(generated)
        return _modules[key]


def load_fresh(generated: Generated) -> types.ModuleType:
    """Return a plain module that nobody shares, so that the caller may replace its functions."""
    return _run(PLAIN_HEADER + generated.text, "muntin_plain", generated.injected)


def _load_compiled(generated: Generated) -> types.ModuleType:
    from muntin.kernels import intrinsics  # noqa: F401  # teaches numba the runtime functions

    digest = hashlib.sha256(generated.compiled(cached=True).encode()).hexdigest()[:24]
    folder = cache_folder()
    if not _writable(folder):
        return _run(generated.compiled(cached=False), f"muntin_kernel_{digest}")
    path = folder / f"muntin_kernel_{digest}.py"
    text = generated.compiled(cached=True).encode()
    try:
        if not path.exists() or path.read_bytes() != text:
            write_atomically(path, text)
        module = _import(path)
    except OSError:  # a full disk, a folder that has just been cleared
        return _run(generated.compiled(cached=False), f"muntin_kernel_{digest}")
    for name in generated.entries:
        _guard(getattr(module, name), path)
    return module


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that others see all of it or nothing. Its time is fixed: writing it again changes nothing."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.utime(temporary, (1_000_000_000, 1_000_000_000))  # numba drops machine code older than its source file
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _import(path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


_anonymous = iter(range(1 << 62))


def _run(text: str, name: str, injected: Any = None) -> types.ModuleType:
    """Run a module from memory; its lines show in tracebacks and in the debugger."""
    filename = f"<{name} {next(_anonymous)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    module = types.ModuleType(name)
    module.__dict__.update(injected or {})
    exec(compile(text, filename, "exec"), module.__dict__)
    return module


# ---------------------------------------------------------------- compiling


def _guard(dispatcher: Any, path: Path) -> None:
    """Make numba compile this function once for all processes, and survive damaged or unwritable files.

    numba asks `_compile_for_args` for machine code only when a call's types are new, so later calls cost nothing more.
    """
    from numba.core.caching import NullCache
    from numba.core.errors import NumbaError

    if not hasattr(dispatcher, "_compile_for_args"):
        return  # NUMBA_DISABLE_JIT: numba does not compile
    compile_for_arguments = dispatcher._compile_for_args

    def compile_once(*arguments: Any, **keywords: Any) -> Any:
        with machine_lock(path), progress():
            try:
                return compile_for_arguments(*arguments, **keywords)
            except NumbaError as error:
                raise DefinitionError(explain(error)) from error
            except Exception:  # numba lets any error of pickle or of the file system through
                forget(path)
            try:
                return compile_for_arguments(*arguments, **keywords)
            except OSError:
                dispatcher._cache = NullCache()
                return compile_for_arguments(*arguments, **keywords)

    dispatcher._compile_for_args = compile_once


def explain(error: Exception) -> str:
    """Say in our words why a definition did not compile."""
    noise = ("Failed in", "During:", "File ")
    lines = [line for line in str(error).splitlines() if line.strip() and not line.strip().startswith(noise)]
    return (
        "the aggregation cannot be compiled; its functions may use numbers, arrays, math and numpy only "
        '(state="object" allows any Python). numba says:\n  ' + "\n  ".join(lines[:8])
    )


def forget(path: Path) -> None:
    """Delete the machine code of one module."""
    for file in path.parent.glob(f"__pycache__/{path.stem}.*.nb[ic]"):
        with contextlib.suppress(OSError):
            file.unlink()


@contextlib.contextmanager
def machine_lock(path: Path) -> Iterator[None]:
    """Hold the lock of one module, among all processes of this machine. Goes without where locks do not work."""
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
        os.close(handle)


_PATIENCE = 1.5


@contextlib.contextmanager
def progress(clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Say on a terminal that a kernel is being compiled, once that has taken longer than a moment."""
    if not sys.stderr.isatty():
        yield
        return
    begun = clock()
    timer = threading.Timer(_PATIENCE, _say, ["muntin: compiling a kernel, once per machine ..."])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if clock() - begun > _PATIENCE:
            _say(f" done in {clock() - begun:.1f} s\n")


def _say(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)
