"""Programs in processes of their own, with everything that they start: found by a mark in their environment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from waiting import PATIENCE

HERE = Path(__file__).parent
MARK = "MUNTIN_TEST_FAMILY"
TRIES = 10
"""So often a program is started that was too slow for Spark."""
TOO_SLOW = "Timed out while waiting for the Python worker to connect back"


class Family:
    """A program, the JVM that it starts, executors, and Python workers."""

    def __init__(self, script: str, *arguments: object, log: Path, **environment: str) -> None:
        self.mark = uuid.uuid4().hex
        paths = [str(HERE.parents[1] / "src"), str(HERE.parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, dict.fromkeys(paths))),
            "PYTHONWARNINGS": "ignore",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # each JVM lives for seconds
            MARK: self.mark,
            **environment,
        }
        self.log = log
        command = [sys.executable, str(HERE / script), *map(str, arguments)]
        with log.open("ab") as out:
            self.process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL)

    def members(self, word: str = "") -> list[int]:
        """Return the processes whose command holds a word."""
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (folder / "environ").read_bytes() and word.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
            except OSError:  # it has ended
                continue
        return found

    def kill(self, word: str = "") -> int:
        """Kill them with -9, all at once; return how many there were."""
        members = self.members(word)
        for each in members:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        return len(members)

    def until(self, happened: Callable[[], bool]) -> bool:
        """Wait for something; say whether it came before the program's end."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if happened():
                return True
            if self.process.poll() is not None:
                return happened()
            time.sleep(0.05)
        raise TimeoutError(f"nothing happened for {PATIENCE} seconds:\n{self.said()}")

    def finish(self) -> bool:
        """Wait for the program to end; say whether it did as it should, and was not too slow for Spark."""
        if self.process.wait(PATIENCE) == 0:
            return True
        assert self.was_too_slow, self.said()
        return False

    @property
    def was_too_slow(self) -> bool:
        """Whether it ended because Spark waits ten seconds for a new worker: a busy machine takes longer."""
        return TOO_SLOW in self.log.read_text(errors="replace")

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]


@contextmanager
def family(script: str, *arguments: object, log: Path, **environment: str) -> Iterator[Family]:
    """Run a program; none of its processes is there any more afterwards."""
    made = Family(script, *arguments, log=log, **environment)
    try:
        yield made
    finally:
        while made.kill():
            time.sleep(0.02)
        made.process.wait()
