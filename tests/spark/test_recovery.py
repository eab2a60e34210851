"""Streaming queries whose driver is killed with -9 again and again, and restarted from their checkpoints."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from sampling import THOROUGH
from spark.place import PLANNED, Place, history, last_words, listed, live_to_the_end, live_until, unnumbered

KILLS = int(os.environ.get("MUNTIN_KILLS", "2" if THOROUGH > 1 else "1"))
"""At so many of the moments, drawn anew in each run, the last one late; MUNTIN_KILLS=20 takes about six minutes."""
ADOPTIONS = int(os.environ.get("MUNTIN_ADOPTIONS", "1"))
"""So many queries change; MUNTIN_ADOPTIONS=12 takes about fifteen minutes."""
CUTS = 20 if THOROUGH > 1 else 1
"""So many streams begin on a history, each on another one."""
TOGETHER = 2
"""So many of them share a driver."""
SEED, MOST = 8, 150
"""Of rows among which some sessions become one; and the rows of a history, at most."""
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
ONCE = ["it has just begun", "the session is up"]
"""These it does once; the others, for each batch."""
SNAPSHOTS = "checkpoint of */state/0/*/*.zip"
"""Spark writes them in the background, each second, of state that has changed often enough."""


@pytest.mark.parametrize("turn", range(-(-CUTS // TOGETHER)))
def test_the_driver_is_killed_again_and_again(tmp_path: Path, turn: int) -> None:
    """Whatever it was doing: the answers are those of an undisturbed run, none twice and none missing.

    It begins on a history, cut off at random, and the undisturbed run reads those rows like all others.
    """
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    early, late = KILLS - 1, chance.choice([moment for moment in MOMENTS if moment not in ONCE])
    moments = [*MOMENTS] * (early // len(MOMENTS)) + chance.sample([*MOMENTS], early % len(MOMENTS))
    chance.shuffle(moments)
    seeds = [SEED, *(chance.randrange(1 << 30) for _ in range(min(TOGETHER, CUTS) - 1))]
    killed, calm = ([Place(tmp_path / f"{name} {i}", s) for i, s in enumerate(seeds)] for name in ("killed", "calm"))
    for begun, whole in zip(killed, calm, strict=True):
        past = history(chance.randint(1, MOST), begun.seed)
        begun.begin_on(past)
        begin = whole.begin_with(past)
    for moment in moments:
        place = chance.choice(killed)
        wanted = {MOMENTS[moment]: place.count(MOMENTS[moment]) + (1 if moment in ONCE else chance.randint(1, 3))}
        live_until(killed, wanted, chance.uniform(0, 3 if moment == "it has just begun" else 0.3), [place])
    wanted = {SNAPSHOTS: 1, MOMENTS[late]: BATCHES, PLANNED: 2 * BATCHES}
    live_until(killed, wanted, chance.uniform(0, 0.3), killed)
    for begun, whole in zip(killed, calm, strict=True):
        whole.feed(begun.files)
    live_to_the_end(killed + calm)
    for begun, whole in zip(killed, calm, strict=True):
        require_same(begun, whole, begin, f"seed {seed}")
    require_worth(killed[0], calm[0], begin)


OTHERWISE = {2: 0, 0: 1, 1: 2}
"""The numbers of the windows that stay: in the first query, and in the other."""


@pytest.mark.parametrize("turn", range(ADOPTIONS))
def test_a_query_that_has_changed_is_killed_again_and_again(tmp_path: Path, turn: int) -> None:
    """What stays is as if nothing had changed; what is new is null, or what a query says that had it from the start.

    Killed while the first buckets are converted, and later on.
    """
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    killed, calm = Place(tmp_path / "killed", SEED), Place(tmp_path / "calm", SEED)
    (calm.where / "whole").touch()
    live_until([killed], {PLANNED: 2 * chance.randint(3, 5)}, chance.uniform(0, 0.3), [killed])
    adopted = killed.count("checkpoint of batches/commits/[0-9]*")
    (killed.where / "adopt").touch()
    for _ in range(KILLS):
        moment = chance.choice([*MOMENTS])
        wanted = {MOMENTS[moment]: killed.count(MOMENTS[moment]) + 1}
        live_until([killed], wanted, chance.uniform(0, 3 if moment == "it has just begun" else 0.3), [killed])
    wanted = {PLANNED: killed.count(PLANNED) + 2 * chance.randint(4, 6)}
    live_until([killed], wanted, chance.uniform(0, 0.3), [killed])
    calm.feed(killed.files)
    live_to_the_end([killed, calm])
    found, expected = killed.answers("batches"), calm.answers("batches")
    # As the first query numbers windows: the other one has them in another order.
    number = {new: old for old, new in OTHERWISE.items()}
    found = [row | {"window_id": number[row["window_id"]]} if row["number"] >= adopted else row for row in found]
    mine, theirs = (answers_by_name(rows) for rows in (found, expected))
    assert mine.keys() == theirs.keys(), f"seed {seed}"
    new = {name: value for name, value in mine.items() if value is not None}
    assert new.items() <= theirs.items(), f"seed {seed}"
    assert new, f"seed {seed}"


def answers_by_name(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the new aggregate of windows that stay, by all else that answers say of them."""
    names = ("number", "window_id", "window", "region", "line", "revision", "retracted", "n", "total", "order")
    return {repr([row[name] for name in names]): row.get("high") for row in rows if row["window_id"] in OTHERWISE}


def require_same(begun: Place, whole: Place, begin: int, seed: str) -> None:
    """Require that all answers of one are those that the other has from batch `begin` on."""
    wanted = whole.answers("batches", begin)
    assert listed(begun.answers("batches")) == listed(wanted), seed
    assert listed(unnumbered(whole.answers("batches"))) == listed(whole.answers("files")), seed
    # A batch of which Spark's file sink has all answers is not run again, and then its watermark is lost until the next
    # one: windows have fewer revisions, and the same in the end. Nothing else may become of a watermark.
    moved, undisturbed = begun.watermarks("files"), whole.watermarks("files")[begin:]
    for before, found, expected in zip(["", *moved], moved, undisturbed, strict=False):
        assert found in (expected, before), seed
    assert last_words(begun.answers("files")) == last_words(unnumbered(wanted)), seed
    if moved == undisturbed:
        assert listed(begun.answers("files")) == listed(unnumbered(wanted)), seed


def require_worth(begun: Place, whole: Place, begin: int) -> None:
    """Require that what was recovered was worth it: changes upon a snapshot, of windows of all kinds."""
    assert begun.count("checkpoint of */state/0/*/*.changelog")
    assert begun.count(SNAPSHOTS)
    found = whole.answers("batches", begin)
    assert {row["window_id"] for row in found} == {0, 1, 2, 3}
    assert max(row["revision"] for row in found) > 0
    assert any(row["retracted"] for row in found)
