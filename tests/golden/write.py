"""Write the saved states of all cases that have none yet: `python -m golden.write FOLDER`, in tests/.

It needs nothing but `golden.cases`, so that an earlier version of muntin writes those of its format.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

from golden.cases import CASES, Case, Clock, play

from muntin.kernels.cache import uncompiled


def saved(case: Case) -> bytes:
    """Return the state of a stream after the first calls of a case."""
    clock = Clock()
    stream = case.query.stream(clock=clock)
    for _ in play(stream, case, case.before, clock):
        pass
    return stream.snapshot()


def main(folder: Path) -> None:
    """Write what is not there."""
    folder.mkdir(exist_ok=True)
    for name, case in CASES.items():
        path = folder / f"{name}.snapshot.gz"
        if not path.exists():
            with uncompiled():
                path.write_bytes(gzip.compress(saved(case), mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
