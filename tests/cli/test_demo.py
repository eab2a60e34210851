"""The demo: its data is what it says, and the whole way runs, small and uncompiled."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from muntin.cli import smart_home
from muntin.kernels.cache import uncompiled


@pytest.fixture
def small(monkeypatch):
    """Few plugs that report every ten minutes."""
    monkeypatch.setattr(smart_home, "PLUGS", 2)
    monkeypatch.setattr(smart_home, "EVERY", 600_000_000)


def test_the_same_readings_each_time_out_of_order_with_gaps(tmp_path, monkeypatch):
    monkeypatch.setattr(smart_home, "PLUGS", 5)
    counts = [smart_home.write(tmp_path / name, 2, files=4) for name in ("a", "b")]
    first, second = (pq.read_table(tmp_path / name) for name in ("a", "b"))
    assert counts[0] == first.num_rows
    assert first.equals(second)
    assert len(list((tmp_path / "a").iterdir())) == 4
    times = first["ts"].cast("int64").to_numpy()
    assert (np.diff(times) < 0).sum() > 1000
    assert np.diff(np.sort(times[first["plug"].to_numpy() == 0])).max() > smart_home.HOUR // 2
    assert first["watts"].to_numpy().min() >= 0
    assert sorted(first["plug"].unique().to_pylist()) == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_the_whole_way_in_this_process(small, tmp_path, muntin):
    with uncompiled():
        result = muntin("demo", "--folder", tmp_path / "demo", "--days", 2, "--engine", "local", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    written = pq.read_table(tmp_path / "demo" / "windows")
    assert summary["windows"] == written.num_rows
    assert set(written["window_id"].to_pylist()) == {0, 1, 2}
    assert summary["row_copies_of_spark"] == 1440 * summary["rows"]
    assert (tmp_path / "demo" / "windows.png").read_bytes().startswith(b"\x89PNG")
    for word in ("rows a second", "late rows", "windows out", "row copies"):
        assert word in result.stderr
