"""Kernels that answer before they are compiled: as plain Python at first, then as machine code.

Both come from the same text and work on the same arrays, so a stream can switch between two calls. The estimated cost
decides which one takes a call: microseconds per row for the plain kernel, seconds for the compiler. So nobody waits
longer for the compiler than the answer would take without it.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from muntin.kernels.background import Job, background, report
from muntin.kernels.folder import machine_lock, write_atomically
from muntin.kernels.machine_code import MachineCode

PLAIN_ROW = 4e-5
"""Seconds per row of a plain kernel, before any is measured."""
_LEAST_ROW = 2e-6
"""The least seconds per row: a call with nothing to do says little about one with many rows."""
_LINE = 0.02
"""Seconds to compile a line of a kernel, before any is measured; starting the process adds a second."""
_START = 1.0
HUNG = 20.0
"""How many times its estimate a kernel may take to compile before the process counts as hung."""
_LEAST = 60.0
"""Seconds that any kernel may take."""

_patient = contextvars.ContextVar("_patient", default=os.environ.get("MUNTIN_COMPILE", "") == "wait")


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """Wait for machine code inside this block, however few the rows. Only for this thread.

    `MUNTIN_COMPILE=wait` in the environment does it for whole processes.
    """
    before = _patient.set(True)
    try:
        yield
    finally:
        _patient.reset(before)


def is_waiting() -> bool:
    """Return whether calls wait for machine code here, however few the rows."""
    return _patient.get()


class working_on:  # noqa: N801  # used like a function: `with working_on(rows):`
    """Declare the number of rows of the calls inside this block, so that large inputs wait for the compiler.

    Inside another one the greater number counts.
    """

    __slots__ = ("__weakref__", "_before", "rows")

    def __init__(self, rows: int) -> None:
        self.rows = max(rows, rows_at_work())

    def __enter__(self) -> None:
        """Begin."""
        self._before = _work.set(weakref.ref(self))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End."""
        _work.reset(self._before)


_work: contextvars.ContextVar[weakref.ref[working_on] | None] = contextvars.ContextVar("_work", default=None)
"""The current call; threads that share the work see it too (see muntin.threads).

Weak, since Ctrl-C may come before `__exit__` resets it: later calls must not wait as if they had as many rows.
"""


def rows_at_work() -> int:
    """Return the number of rows of the current call."""
    work = _work.get()
    current = None if work is None else work()
    return 1 if current is None else current.rows


class _NotCompiledError(Exception):
    """No machine code for these types."""


def _not_compiled(*_arguments: Any, **_keywords: Any) -> Any:
    raise _NotCompiledError


def code_of(kernel: Any, arguments: tuple[Any, ...]) -> Callable[..., Any] | None:
    """Return the machine code of a kernel for arguments of these types; None if it runs as plain Python.

    Called directly, it does not check the types of its arguments, which takes numba 1.7 microseconds if one is a tuple
    of arrays: the caller must ensure that they are always the same.
    """
    return kernel.code_for(arguments) if isinstance(kernel, Entry) else None


class SameTypes:
    """The kernels of a module, for a caller whose arguments have the same types in every call.

    Arrays have the same type if their items do, and they are contiguous. Once compiled, a kernel's machine code is
    called directly: see `code_of`.
    """

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a kernel; looked up once."""
        kernel = getattr(self._module, name)
        code: Callable[..., Any] | None = None

        def call(*arguments: Any) -> Any:
            nonlocal code
            if code is not None:
                return code(*arguments)
            answer = kernel(*arguments)
            code = code_of(kernel, arguments)
            return answer

        setattr(self, name, call)
        return call


class Entry:
    """A kernel called from Python: plain or compiled, whichever answers first."""

    def __init__(
        self, dispatcher: Any, code: MachineCode, path: Path, text: bytes, plain: Callable[[], Callable[..., Any]]
    ) -> None:
        dispatcher._cache = code
        dispatcher._compile_for_args = _not_compiled  # what numba calls for new types
        self._compiled = dispatcher
        self._code = code
        self._path = path
        self._text = text
        self._plain = plain
        self._jobs: dict[Any, Job] = {}
        self._row = PLAIN_ROW
        self._spent = 0.0
        self._has_code = False
        """Whether there is machine code for some types."""
        self._is_plain = False
        """Whether something is wrong with the compiler, so that this kernel stays plain."""
        self.__name__ = dispatcher.__name__
        self.module: ModuleType | None = None
        """Held so that it stays importable as long as machine code may be loaded into it."""

    def __call__(self, *arguments: Any) -> Any:
        """Run the kernel."""
        try:
            if self._has_code:  # numba is not asked before: whatever it raises then comes from the kernel
                return self._compiled(*arguments)
        except _NotCompiledError:
            pass  # leave the handler, so that errors of the kernel are not chained
        if self._is_prepared(arguments):
            return self._compiled(*arguments)
        return self._run_plain(arguments)

    def _is_prepared(self, arguments: tuple[Any, ...]) -> bool:
        """Return whether there is machine code now. Whatever fails on the way, the kernel stays plain for good."""
        try:
            return not self._is_plain and self._ready(self._types(arguments))
        except Exception as error:  # noqa: BLE001  # another version of numba, no memory, no disk
            self._is_plain = True
            report(f"{type(error).__name__}: {error}")
            return False

    def _types(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(map(self._compiled.typeof_pyval, arguments))

    def code_for(self, arguments: tuple[Any, ...]) -> Callable[..., Any] | None:
        """Return the machine code for arguments of these types; None if there is none yet."""
        found = self._compiled.overloads.get(self._types(arguments)) if self._has_code else None
        return getattr(found, "entry_point", None)

    def _run_plain(self, arguments: tuple[Any, ...]) -> Any:
        begun = time.perf_counter()
        answer = self._plain()(*arguments)
        seconds = time.perf_counter() - begun
        self._spent += seconds
        self._row = max(seconds / rows_at_work(), _LEAST_ROW)
        return answer

    def _ready(self, signature: Any) -> bool:
        """Return whether there is machine code now, after waiting for it if that pays off."""
        job = self._jobs.get(signature)
        if job is None or job.owner != os.getpid():
            if self._load(signature):
                return True
            job = self._jobs[signature] = self._submit(signature)
        if not job.over.is_set() and self._worth(job.remaining()):
            self._wait(job)
        if not job.over.is_set():
            return False
        assert job.reply is not None
        return self._load(signature) or (not job.reply.refused and self._compile_here(signature, job))

    def _worth(self, seconds: float) -> bool:
        return _patient.get() or self._row * rows_at_work() > seconds

    def _submit(self, signature: Any) -> Job:
        if not self._path.exists():  # the cache was cleared
            with contextlib.suppress(OSError):
                write_atomically(self._path, self._text)
        cost = _START + _LINE * self._text.count(b"\n")
        return background.submit(self._path, self.__name__, signature, cost)

    def _wait(self, job: Job) -> None:
        with progress(self.__name__, job.remaining()):
            if not job.over.wait(max(_LEAST, HUNG * job.estimate)):
                background.give_up(job)

    def _load(self, signature: Any) -> bool:
        """Load machine code from disk."""
        from numba.core.compiler_lock import global_compiler_lock

        with global_compiler_lock:
            dispatcher = self._compiled
            if signature in dispatcher.overloads:
                self._has_code = True
                return True
            result = self._code.load_overload(signature, dispatcher.targetctx)
            if result is None:
                return False
            dispatcher.targetctx.insert_user_function(result.entry_point, result.fndesc, [result.library])
            dispatcher.add_overload(result)
            self._has_code = True
            return True

    def _compile_here(self, signature: Any, job: Job) -> bool:
        """Compile in this process if the other could not, once that takes no longer than plain calls have."""
        if not (_patient.get() or self._spent + self._row * rows_at_work() > job.cost):
            return False
        lock = machine_lock(self._code.path(signature))
        with progress(self.__name__, job.cost), lock, contextlib.suppress(OSError):  # it may not be possible to keep it
            self._compiled.compile(signature)
        is_there = signature in self._compiled.overloads
        self._has_code = self._has_code or is_there
        return is_there


# ---------------------------------------------------------------- progress

_PATIENCE = 0.5


@contextlib.contextmanager
def progress(kernel: str, seconds: float, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Report that a kernel is being compiled, once that has taken longer than a moment."""
    if not (sys.stderr.isatty() or "ipykernel" in sys.modules):
        yield
        return
    begun = clock()
    text = f"muntin: compiling {kernel}, about {max(1, round(seconds))} s, once per machine ..."
    timer = threading.Timer(_PATIENCE, _say, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if clock() - begun > _PATIENCE:
            _say(f" done in {clock() - begun:.1f} s\n")


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
