"""Write the saved states of some random streams into one file: `python -m golden.write_random FILE`, in tests/."""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

from golden.random_cases import random_case
from golden.write import saved

from muntin.kernels.cache import uncompiled

SEEDS = (*range(5000, 5030), 3083)


def main(path: Path) -> None:
    """Write all of them."""
    with tarfile.open(path, "w:xz") as packed:
        for seed in SEEDS:
            entry, data = tarfile.TarInfo(f"{seed}.snapshot"), saved(random_case(seed))
            entry.size = len(data)
            packed.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    with uncompiled():
        main(Path(sys.argv[1]))
