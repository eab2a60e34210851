"""Workers and executors killed with -9 in the middle of queries; a cluster of two executors on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from spark.place import ROWS, UNCOMPILED, Place
from spark.processes import TRIES, family


def run(where: Path, master: str, victim: str, **environment: str) -> Place | None:
    """Run the program in which `victim` is killed; return where its answers are, or None if Spark lost patience."""
    place = Place(where, seed=5)
    place.feed(5)
    fatal = pq.read_table(place.where / "in" / "0002.parquet")["v"][ROWS // 2].as_py()
    arguments = (place.where, master, victim, fatal)
    with family("struck.py", *arguments, log=place.log, **UNCOMPILED, **environment) as program:
        return place if program.finish() else None


def struck(where: Path, master: str, victim: str, **environment: str) -> Any:
    """Have `victim` killed; check that the answers are those without harm, and return the program's report."""
    tries = (run(where / f"try {i}", master, victim, **environment) for i in range(TRIES))
    place = next(filter(None, tries))
    report = json.loads((place.where / "report.json").read_text())
    for kind in ("stream", "batch"):
        assert (place.where / f"struck {kind}.strike").exists(), "nobody was killed"
        assert place.answers(f"struck {kind}") == place.answers(f"calm {kind}")
        assert len(place.answers(f"calm {kind}")) > 30
    answers = pq.read_table(place.where / "calm stream.parquet")
    assert max(answers["revision"].to_pylist()) > 0
    # What was done for the dead is not counted.
    assert report["counts"]["struck stream"] == report["counts"]["calm stream"]
    assert report["counts"]["calm stream"]["rows"] == sum(
        pq.read_metadata(file).num_rows for file in (place.where / "in").iterdir()
    )
    return report


def test_a_worker_is_killed(tmp_path: Path) -> None:
    """Its task is tried again, and nothing is counted twice."""
    struck(tmp_path, "local[2,4]", "worker")


def test_an_executor_is_killed(tmp_path: Path) -> None:
    """Another one goes on from its state. A kernel that both need is compiled by one of them."""
    import pyspark

    # Executors work in a folder below Spark's own, which may not be ours to write to.
    home = tmp_path / "home"
    home.mkdir()
    for each in Path(pyspark.__path__[0]).iterdir():
        (home / each.name).symlink_to(each)
    cache = str(tmp_path / "cache")
    report = struck(tmp_path, "local-cluster[2,1,512]", "executor", SPARK_HOME=str(home), MUNTIN_CACHE_DIR=cache)
    workers = report["compiled"]
    assert [each["last"] for each in workers] == [15, 15]
    assert len({each["worker"] for each in workers}) == len({each["executor"] for each in workers}) == 2
    assert sorted((each["hits"], each["misses"]) for each in workers) == [(0, 1), (1, 0)]
