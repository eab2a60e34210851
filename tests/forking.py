"""Forks of this process: for what a test may break, since nothing of it comes back but an answer."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import warnings
from collections.abc import Callable
from typing import Any

from waiting import PATIENCE


class Fork:
    """A fork that does some work, and says what came of it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads in the parent, the point of it
            self._process = os.fork()
        if not self._process:
            os.close(read)
            try:
                answer = pickle.dumps(("answer", work()))
            except BaseException as error:  # noqa: BLE001  # the parent reports it
                answer = pickle.dumps(("error", repr(error)))
            os.write(write, answer)
            os._exit(0)
        os.close(write)
        self._answer = os.fdopen(read, "rb")

    def answer(self) -> Any:
        """Return the answer; a fork that hangs is ended."""
        ended = threading.Event()

        def end() -> None:
            if not ended.wait(PATIENCE):
                os.kill(self._process, signal.SIGKILL)

        threading.Thread(target=end, daemon=True).start()
        with self._answer:
            answer = self._answer.read()
        ended.set()
        os.waitpid(self._process, 0)
        assert answer, "the fork has hung"
        kind, what = pickle.loads(answer)
        assert kind == "answer", what
        return what
