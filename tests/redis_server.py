"""A real Redis server for the tests: started on a free port of this machine, stopped at the end."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from sampling import QUICK
from waiting import until


def free_port() -> int:
    """Return a port of this machine that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class Server:
    """A server whose data survives a restart."""

    def __init__(self, folder: Path, *more: str) -> None:
        if QUICK:
            pytest.fail("a quick test starts a Redis server: mark it as slow")
        program = shutil.which("redis-server")
        if program is None:
            pytest.fail("redis-server is not installed: `make test` installs it, or say `apt-get install redis-server`")
        self.program, self.folder, self.more = program, folder, more
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        options += ["--appendonly", "yes", "--appendfsync", "everysec", *self.more]
        self.process = subprocess.Popen([self.program, *options], stdout=subprocess.DEVNULL)
        until(self._answers)

    def _answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            pytest.fail(f"redis-server has not come up on port {self.port}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def clear(self) -> None:
        """Delete all keys."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(b"FLUSHALL\r\n")
            assert connection.recv(5) == b"+OK\r\n"

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None
