"""A writing process killed at random moments; each time its window is opened again and recomputed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sampling import THOROUGH
from waiting import PATIENCE

pytestmark = pytest.mark.slow
TRIALS = 15 * THOROUGH if THOROUGH > 1 else 8


@pytest.mark.parametrize("kind", ["lmdb", "redis"])
def test_kill_at_any_moment(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    where = str(tmp_path) if kind == "lmdb" else request.getfixturevalue("redis").url
    program = [sys.executable, str(Path(__file__).parent / "crash_trials.py"), kind, where, str(TRIALS), "7"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    trials = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
    assert len(trials) == TRIALS
    held = [updates for updates, _ in trials]
    assert held == sorted(held), "what was flushed once stays"
    assert held[-1] > 500, "the trials went on beyond what stays in memory"
    assert all(updates >= told for updates, told in trials)
