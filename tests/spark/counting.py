"""Counts in a file under a lock: read, and written one more, as many times as the program is told."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from muntin.spark.targets import held


def count(lock: Path, counted: Path, times: int) -> None:
    for _ in range(times):
        with held(lock):
            counted.write_text(str(int(counted.read_text()) + 1))
        with contextlib.suppress(OSError):
            lock.parent.rmdir()


if __name__ == "__main__":
    count(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
