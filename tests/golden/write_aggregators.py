"""Write snapshots of aggregators, and windows in stores: `python -m golden.write_aggregators FILE`, in tests/.

It needs nothing of a version but its public names, so that an earlier one writes those of its time. A file is written
once.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from golden.cases import Numbers

from muntin import agg, aggregators, policies, stores
from muntin.kernels.cache import uncompiled

KINDS = {
    "recalculate": aggregators.Recalculate,
    "subtract_on_evict": aggregators.SubtractOnEvict,
    "two_stacks": aggregators.TwoStacks,
    "daba": aggregators.Daba,
    "flat_fit": aggregators.FlatFit,
    "slick_deque": aggregators.SlickDeque,
    "flat_fat": aggregators.FlatFat,
    "base_intervals": aggregators.BaseIntervals,
    "boundary": aggregators.Boundary,
    "log_monoid_tree": aggregators.LogMonoidTree,
    "monoid_tree": aggregators.MonoidTree,
    "fiba": aggregators.Fiba,
}
AGGREGATIONS = {
    "sum": agg.sum("v"),
    "max": agg.max("v"),
    "std": agg.std("v"),
    "text": agg.concat("v"),
    "median": agg.median("v"),
}
ONLY = {"subtract_on_evict": ("sum", "std"), "slick_deque": ("sum", "max")}
"""What the others among the aggregators cannot take: no inverse, or neither an inverse nor a selection."""
STORED = {"sum": agg.sum("v"), "text": agg.concat("v")}
STORED_KINDS = ("monoid_tree", "log_monoid_tree")[: 1 + hasattr(aggregators.LogMonoidTree, "open")]
"""A `LogMonoidTree` had no store when streams had format 2."""
POLICY = policies.at_most_rows(9)
ROWS = 40
GONE = 15


def cases() -> list[tuple[str, str]]:
    """Return each aggregator with each aggregation that it takes."""
    return [(kind, name) for kind in KINDS for name in AGGREGATIONS if name in ONLY.get(kind, AGGREGATIONS)]


def some_rows(kind: str, name: str) -> list[tuple[int, Any]]:
    """Return the rows of a case, a few of them out of order where that is taken."""
    chance = Numbers(len(kind) + len(name))
    values = "abcdefgh" if name == "text" else [each / 2 for each in range(-9, 9)]
    times = list(range(ROWS))
    for i in range(8, ROWS, 9) if kind == "fiba" else ():
        times[i], times[i - 3] = times[i - 3], times[i]
    return [(time, None if i % 11 == 5 else values[chance.below(len(values))]) for i, time in enumerate(times)]


def built(kind: str, name: str) -> Any:
    """Return the window of a case: its rows without the oldest."""
    window = KINDS[kind](AGGREGATIONS[name], compiled=False)
    for time, value in some_rows(kind, name):
        window.insert(time, value)
    window.bulk_evict(GONE)
    return window


def enforced() -> Any:
    """Return a window under a policy."""
    inner = aggregators.TwoStacks(AGGREGATIONS["sum"], compiled=False)
    window = aggregators.Enforced(inner, POLICY)
    for time, value in some_rows("enforced", "sum"):
        window.insert(time, value)
    return window


def stored(store: Any, kind: str, name: str) -> None:
    """Put a window into a store."""
    with KINDS[kind](STORED[name], store=store, window_id=f"{kind}-{name}", compiled=False) as window:
        for time, value in some_rows(kind, name):
            window.insert(time, value)
        window.bulk_evict(GONE)
        window.flush()


def main(path: Path) -> None:
    """Write all of them into one file."""
    files = {f"{kind}-{name}.snapshot": built(kind, name).snapshot() for kind, name in cases()}
    files["enforced.snapshot"] = enforced().snapshot()
    memory = stores.Memory()
    with tempfile.TemporaryDirectory() as folder:
        lmdb = stores.Lmdb(Path(folder) / "store", most_bytes=1 << 20)
        for store in (memory, lmdb):
            for kind in STORED_KINDS:
                for name in STORED:
                    stored(store, kind, name)
        lmdb.close()
        files["data.mdb"] = (Path(folder) / "store" / "data.mdb").read_bytes()
    held = {key.decode(): value.hex() for key, value in memory._values.items()}
    files["memory.json"] = json.dumps(held, sort_keys=True).encode()
    with tarfile.open(path, "w:xz") as packed:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            packed.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    with uncompiled():
        main(Path(sys.argv[1]))
