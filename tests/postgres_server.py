"""A real PostgreSQL server for the tests: started on a free port of this machine, stopped at the end."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from redis_server import free_port
from sampling import QUICK

USER = "muntin"


class Postgres:
    """A server whose data survives a restart. It refuses to run as root, so that another user runs it then."""

    def __init__(self) -> None:
        if QUICK:
            pytest.fail("a quick test starts a PostgreSQL server: mark it as slow")
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
        found = shutil.which("postgres") or (str(programs[-1]) if programs else None)
        if found is None:
            pytest.fail("PostgreSQL is not installed: `make test` installs it, or say `apt-get install postgresql`")
        self.programs = Path(found).parent
        self.folder = Path(tempfile.mkdtemp(prefix="muntin-postgres-"))  # others may enter it, unlike pytest's folders
        self.port = free_port()
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres")
        self._run("initdb", "--auth=trust", f"--username={USER}", "--no-sync", "--no-instructions")
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self._run("pg_ctl", "-o", options, "-l", str(self.folder / "log"), "-w", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-m", "immediate", "-w", "stop")

    def end(self) -> None:
        """Stop it, and delete its data."""
        self.stop()
        shutil.rmtree(self.folder)

    def _run(self, program: str, *options: str) -> None:
        command = [str(self.programs / program), "-D", str(self.folder / "data"), *options]
        if os.getuid() == 0:
            command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
