"""The demo: its data is what it says, and the whole way runs, small and uncompiled."""

from __future__ import annotations

import http.client
import io
import json
import re
import socket
import threading
from contextlib import nullcontext

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from waiting import until

from muntin.cli import live_demo, smart_home
from muntin.cli.interrupts import Stop
from muntin.errors import InvalidArgumentError, MuntinError
from muntin.kernels.cache import uncompiled
from muntin.watching.health import HealthReport


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
    windows, rows = (tmp_path / "demo" / name for name in ("windows", "readings"))
    page = f"watch {windows} --rows {rows} --time ts --key plug --column watts"
    assert page in "".join(result.stderr.splitlines()[-4:]).replace("  ", " ")  # the last lines open the live page
    for word in ("rows a second", "late rows", "windows out", "row copies"):
        assert word in result.stderr


def test_readings_that_keep_coming_some_of_them_late(tmp_path):
    feed = live_demo.Feed(tmp_path)
    for second in range(0, 120, 10):
        feed.write(1e9 + second, 1e9 + second + 10)
    files = sorted(tmp_path.iterdir())
    assert [each.name for each in files] == [f"{number:06}.parquet" for number in range(12)]
    times = [pq.read_table(each)["ts"].cast("int64").to_numpy() for each in files]
    late = [(each < (10**9 + 10 * number) * 10**6).sum() for number, each in enumerate(times)]
    assert sum(late) > 0  # rows of earlier files
    assert max(late) < min(map(len, times)) / 2


def test_readings_stop_where_the_page_cannot_be_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(live_demo, "BEFORE", 5)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InvalidArgumentError, match="cannot be used"):
            live_demo.run(tmp_path, on_spark=False, console=Console(file=io.StringIO()), port=taken.getsockname()[1])
    assert "muntin feed" not in [each.name for each in threading.enumerate()]


def test_the_live_demo_does_not_wait_for_readings_that_nobody_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(live_demo.Feed, "run", lambda self, stop: None)
    with pytest.raises(MuntinError, match="readings"):
        live_demo.run(tmp_path, on_spark=False, console=Console(file=io.StringIO()), port=0)


@pytest.mark.slow
def test_the_live_demo_runs_until_somebody_asks_it_to_stop(tmp_path, monkeypatch):
    """Readings, a run that follows them and the page, in this process."""
    stop, seen = Stop(), []

    def look(url):
        seen.append(http.client.HTTPConnection(url.removeprefix("http://").rstrip("/"), timeout=30))
        seen[0].request("GET", "/")
        assert seen[0].getresponse().status == 200
        seen[0].close()

    def wait():
        try:
            until(lambda: list((tmp_path / "windows").glob("part-*")) and (tmp_path / "windows.muntin").is_dir())
            look(re.search(r"http://127.0.0.1:\d+/", out.getvalue())[0])
        finally:
            stop.ask()

    out = io.StringIO()
    monkeypatch.setattr(live_demo, "stop_on_interrupt", lambda: nullcontext(stop))
    monkeypatch.setattr(live_demo, "BEFORE", 30)
    thread = threading.Thread(target=wait)
    thread.start()
    live_demo.run(tmp_path, on_spark=False, console=Console(file=out, width=200), port=0)
    thread.join()
    assert seen
    assert pq.read_table(min((tmp_path / "windows").glob("part-*"))).num_rows > 0
    health, plan = HealthReport(tmp_path / "windows.muntin").read()
    assert health.rows > 0
    assert len(plan["windows"]) == 3
