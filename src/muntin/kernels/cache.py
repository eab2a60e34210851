"""Loads generated modules: plain, or compiled through a cache on disk (see tiers.py, folder.py)."""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import linecache
import os
import sys
import threading
import types
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from functools import partial
from typing import Any

from muntin.forks import Renewed
from muntin.kernels.background import report
from muntin.kernels.compiler import import_file
from muntin.kernels.folder import usable_folder, write_atomically
from muntin.kernels.generate import Generated
from muntin.kernels.machine_code import MachineCode
from muntin.kernels.shipped import shipped_folders
from muntin.kernels.tiers import Entry

_lock = Renewed(threading.RLock)
_modules: weakref.WeakValueDictionary[tuple[str, bool], types.ModuleType] = weakref.WeakValueDictionary()
"""Modules in use by a binding, a stream or an aggregator. Machine code is freed with the last user."""
_recent: OrderedDict[tuple[str, bool], types.ModuleType] = OrderedDict()
"""The most recently loaded modules, in use or not."""
_MOST_RECENT = 128

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
    """Return whether kernels run as plain Python here."""
    return _plain.get()


def load(generated: Generated, *, compiled: bool) -> types.ModuleType:
    """Return the module of a generated text, ready to call. O(1) after the first time in a process."""
    with _lock():
        if generated.injected:
            return _run(generated.plain, "muntin_plain", generated.injected)
        key = (generated.text, compiled)
        module = _modules.get(key)
        if module is None:
            module = (_load_compiled(generated) if compiled else None) or _run(generated.plain, "muntin_plain")
            _modules[key] = module
        _recent[key] = module
        _recent.move_to_end(key)
        if len(_recent) > _MOST_RECENT:
            _recent.popitem(last=False)
        return module


def load_fresh(generated: Generated) -> types.ModuleType:
    """Return an unshared plain module, whose functions the caller may replace."""
    return _run(generated.plain, "muntin_plain", generated.injected)


def _load_compiled(generated: Generated) -> types.ModuleType | None:
    """Return the module to compile; None if numba or the machine fails at it, so that it stays plain."""
    try:
        return _wrapped(generated)
    except Exception as error:
        report(f"{type(error).__name__}: {error}")
        return None


def _wrapped(generated: Generated) -> types.ModuleType:
    """Return the module with its entries wrapped for Python; inside, kernels call each other directly."""
    from muntin.kernels import intrinsics  # noqa: F401  # teaches numba the runtime functions

    text = generated.compiled.encode()
    name = f"muntin_kernel_{hashlib.sha256(text).hexdigest()[:24]}"
    path = usable_folder() / f"{name}.py"
    try:
        if not path.exists() or path.read_bytes() != text:
            write_atomically(path, text)
        module = import_file(path)
    except OSError:  # a full disk, or a folder just cleared
        module = _run(text.decode(), name)
    shown = types.ModuleType(name)
    shown.__dict__.update(module.__dict__)
    weakref.finalize(shown, _forget, module)
    for entry in generated.entries:
        dispatcher = getattr(module, entry)
        if not isinstance(dispatcher, types.FunctionType):  # as it is where NUMBA_DISABLE_JIT is set
            code = MachineCode((path.parent, *shipped_folders()), name, entry)
            kernel = Entry(dispatcher, code, path, text, partial(_plain_entry, generated, entry))
            kernel.module = shown
            setattr(shown, entry, kernel)
    return shown


def _forget(module: types.ModuleType) -> None:
    """Remove an unused module from sys.modules; a later one of the same text stays."""
    if sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]


def _plain_entry(generated: Generated, entry: str) -> Any:
    return getattr(load(generated, compiled=False), entry)


_anonymous = iter(range(1 << 62))


def _run(text: str, name: str, injected: Any = None) -> types.ModuleType:
    """Run a module from memory; its lines appear in tracebacks and in the debugger."""
    filename = f"<{name} {next(_anonymous)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    module = types.ModuleType(name)
    module.__dict__.update(injected or {})
    exec(compile(text, filename, "exec"), module.__dict__)
    return module
