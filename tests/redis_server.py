"""A real Redis server for the tests: started on a free port of this machine, stopped at the end."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest


def free_port() -> int:
    """Return a port of this machine that nobody uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class Server:
    """A server whose data survives a restart."""

    def __init__(self, folder: Path, *more: str) -> None:
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
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.05)
        pytest.fail(f"redis-server has not come up on port {self.port} within ten seconds")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None
