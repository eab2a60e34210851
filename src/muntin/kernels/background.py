"""Asks another process to compile, and gets its replies.

The first request starts the process, which ends with this one. If it dies or hangs, kernels stay plain a while longer:
that is reported once, and nothing else changes.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from muntin.forks import in_child
from muntin.kernels.compiler import Reply, Request

_TRIES = 2
"""How often a request is sent: if the process dies of it twice, it is not sent a third time."""
_GRACE = 2.0
"""Seconds for the process to end by itself."""
_VARIABLES = {"MUNTIN_UNCOMPILED": "0", "NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING": "1"}
"""The environment of the process. numba colours errors while it tries types, long before any is shown."""
_log = logging.getLogger("muntin")


_reported: list[object] = []


def report(reason: object) -> None:
    """Log, once in a process, why kernels stay plain that should be compiled: they answer, only slower."""
    if not _reported:
        _reported.append(reason)
        _log.warning("kernels run uncompiled for longer than they need: %s", reason)


class Job:
    """A kernel that is being compiled."""

    def __init__(self, request: Request, cost: float, ahead: float = 0.0) -> None:
        self.request = request
        self.cost = cost
        """Estimated seconds to compile this kernel."""
        self.estimate = ahead + cost
        """Estimated seconds from its request until it is compiled, after the jobs ahead of it."""
        self.begun = time.monotonic()
        self.owner = os.getpid()
        """The process that gets the reply: no other does, not even a fork."""
        self.reply: Reply | None = None
        self.tries = 0
        self.over = threading.Event()

    def remaining(self) -> float:
        """Return the estimated seconds left."""
        elapsed = time.monotonic() - self.begun
        return 0.0 if self.over.is_set() else max(self.estimate - elapsed, elapsed / 4)

    def end(self, reply: Reply) -> None:
        """Record the reply."""
        self.reply = reply
        self.over.set()


class Background:
    """The compiling process, if there is one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._jobs: dict[int, Job] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._listener: threading.Thread | None = None
        in_child(self, Background.forked)

    def submit(self, path: Path, kernel: str, signature: Any, cost: float) -> Job:
        """Request the compilation of a kernel. Returns at once."""
        with self._lock:
            # Jobs run one after the other, so the last to end has waited for all the others already.
            ahead = max((job.remaining() for job in self._jobs.values()), default=0.0)
            job = Job(Request(next(self._numbers), path, kernel, signature), cost, ahead)
            self._jobs[job.request.number] = job
            self._send(job)
        return job

    def _send(self, job: Job) -> None:
        job.tries += 1
        try:
            if self._process is None:
                self._start()
            assert self._process is not None
            assert self._process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it has just ended: the listener sends all to the next one
                pickle.dump(job.request, self._process.stdin)
                self._process.stdin.flush()
        except Exception as reason:  # noqa: BLE001  # no process, no pipe, types that cannot be sent
            self._fail(job, f"{type(reason).__name__}: {reason}")

    def _start(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603  # this very Python
            self._command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_VARIABLES},
        )
        self._listener = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        self._listener.start()

    def _command(self) -> list[str]:
        program = f"import sys; sys.path[:] = {sys.path!r}; from muntin.kernels.compiler import main; main()"
        return [sys.executable, "-c", program]

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        replied = False
        with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError, ValueError):
            while True:
                reply: Reply = pickle.load(process.stdout)  # noqa: S301  # from our own child
                replied = True
                with self._lock:
                    job = self._jobs.pop(reply.number, None)
                if job is not None:
                    self._end(job, reply)
        process.stdout.close()
        process.wait()
        with self._lock:
            _close(process)
            if self._process is process:
                self._process = None
                self._send_again(process.returncode, had_enough=replied and process.returncode == 0)

    def _send_again(self, status: int, *, had_enough: bool) -> None:
        """Send the unfinished jobs of an ended process to a new one. With `had_enough` no job is to blame."""
        for job in list(self._jobs.values()):
            if had_enough or job.tries < _TRIES:
                self._send(job)
            else:
                self._fail(job, f"the compiling process ended with status {status}")

    def _fail(self, job: Job, why: str) -> None:
        self._jobs.pop(job.request.number, None)
        self._end(job, Reply(job.request.number, 0.0, why))

    def _end(self, job: Job, reply: Reply) -> None:
        if reply.error:
            report(reply.error)
        job.end(reply)

    def give_up(self, job: Job) -> None:
        """Stop the process, which is stuck on a job."""
        with self._lock:
            job.tries = _TRIES
            if self._process is not None:
                self._process.kill()
        job.over.wait(_GRACE)

    def close(self) -> None:
        """End the process, and wait for it."""
        with self._lock:
            process, listener, self._process = self._process, self._listener, None
            for job in list(self._jobs.values()):
                self._jobs.pop(job.request.number)
                job.end(Reply(job.request.number, 0.0, "this process ends"))
        if process is None:
            return
        _close(process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
        process.kill()
        process.wait()
        if listener is not None:
            listener.join(_GRACE)

    def forked(self) -> None:
        """Forget the parent's process in a fork: two readers would tear the replies."""
        process = self._process
        if process is not None and process.stdin is not None:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, process.stdin.fileno())  # a pipe still open here would outlive the parent
            os.close(nothing)
            process.returncode = 0  # not ours to wait for
        self.__init__()  # type: ignore[misc]  # locks too are new: the parent's may be held forever


def _close(process: subprocess.Popen[bytes]) -> None:
    """Close the pipe to the process; unread requests are lost."""
    assert process.stdin is not None
    with contextlib.suppress(OSError, ValueError):
        process.stdin.close()


background = Background()
"""The compiling process of this process."""
atexit.register(background.close)
