"""Streaming queries whose driver is killed with -9 again and again, and restarted from their checkpoints."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pyarrow.parquet as pq
from spark.place import PLANNED, Place, live_to_the_end

KILLS = int(os.environ.get("MUNTIN_KILLS", "2"))
"""At so many of the moments, drawn anew in each run; MUNTIN_KILLS=20 takes about six minutes."""
BATCHES = 4
"""So many there are at least."""
MOMENTS = {
    "it has just begun": "logs/*",
    "the session is up": "up/*",
    "a batch is planned": PLANNED,
    "state is written": "checkpoint of */state/0/*/*.changelog",
    "answers are written": "files/part-*",
    "the answers of a batch are complete": "batches/*/_SUCCESS",
    "a batch is committed": "checkpoint of */commits/[0-9]*",
}
"""What the driver has done, and the files that show it."""
SNAPSHOTS = "checkpoint of */state/0/*/*.zip"
"""Spark writes them in the background, each second, of state that has changed often enough."""


def test_the_driver_is_killed_again_and_again(tmp_path: Path) -> None:
    """Whatever it was doing: the answers are those of an undisturbed run, none twice and none missing."""
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    moments = [*MOMENTS] * (KILLS // len(MOMENTS)) + chance.sample([*MOMENTS], KILLS % len(MOMENTS))
    chance.shuffle(moments)
    killed, calm = (Place(tmp_path / name, 8) for name in ("killed", "calm"))  # rows of which some sessions become one
    for moment in moments[1:]:
        once = moment in ("it has just begun", "the session is up")
        wanted = killed.count(MOMENTS[moment]) + (1 if once else chance.randint(1, 3))
        killed.live_until({MOMENTS[moment]: wanted}, chance.uniform(0, 3 if moment == "it has just begun" else 0.3))
    killed.live_until({PLANNED: 2 * BATCHES, SNAPSHOTS: 1}, chance.uniform(0, 0.3))
    calm.feed(killed.files)
    live_to_the_end([killed, calm])

    # A batch of which Spark's file sink has all answers is not run again, and then its watermark is lost until the next
    # one: windows have fewer revisions, and the same in the end. Nothing else may become of a watermark.
    moved, wanted = killed.watermarks("files"), calm.watermarks("files")
    for before, found, undisturbed in zip(["", *moved], moved, wanted, strict=False):
        assert found in (undisturbed, before), f"seed {seed}"
    assert killed.last_words("files") == calm.last_words("files"), f"seed {seed}"
    if moved == wanted:
        assert killed.answers("files") == calm.answers("files"), f"seed {seed}"
    assert killed.answers("batches") == calm.answers("batches"), f"seed {seed}"
    batches, found = (pq.read_table(calm.where / f"{name}.parquet") for name in ("batches", "files"))
    assert sorted(map(repr, batches.drop_columns("number").to_pylist())) == calm.answers("files")
    # What was recovered was worth it: changes upon a snapshot, of windows of all kinds.
    assert killed.count("checkpoint of */state/0/*/*.changelog")
    assert killed.count(SNAPSHOTS)
    assert set(found["window_id"].to_pylist()) == {0, 1, 2}
    assert max(found["revision"].to_pylist()) > 0
    assert True in found["retracted"].to_pylist()
