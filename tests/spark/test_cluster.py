"""A standalone cluster of two nodes on this machine, parts of which are killed with -9 in the middle of queries."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow.parquet as pq
from spark import struck
from spark.place import ROWS, UNCOMPILED, Place, listed
from spark.played import sample
from spark.processes import TRIES, family


def run(where: Path, victims: list[str], **environment: str) -> Place | None:
    """Run the program in which they are killed; return where its answers are, or None if Spark lost patience."""
    place = Place(where, seed=5)
    place.feed(4)
    fatal = pq.read_table(place.where / "in" / "0002.parquet")["v"][ROWS // 2].as_py()
    for each in sample(place.where):
        each.write()
    arguments = (place.where, *victims, fatal)
    with family("struck.py", *arguments, log=place.log, **UNCOMPILED, **environment) as program:
        return place if program.finish() else None


def home(where: Path) -> Path:
    """Return a home for Spark: executors work in a folder below, and Spark's own may not be ours to write to."""
    import pyspark

    made = where / "home"
    made.mkdir()
    for each in Path(pyspark.__path__[0]).iterdir():
        (made / each.name).symlink_to(each)
    return made


def test_a_part_of_the_cluster_is_killed(tmp_path: Path) -> None:
    """One in a stream, drawn anew in each run, and a node in a batch. Others go on, and nothing is counted twice.

    A kernel that two executors need is compiled by one of them. Transcripts are answered as everywhere else.
    """
    victims = [random.choice(["worker", "executor"]), "node"]
    environment = {"SPARK_HOME": str(home(tmp_path)), "MUNTIN_CACHE_DIR": str(tmp_path / "cache")}
    tries = (run(tmp_path / f"try {i}", victims, **environment) for i in range(TRIES))
    place = next(filter(None, tries))
    report = json.loads((place.where / "report.json").read_text())
    (place.where / "calm batch.strike").touch()
    finite = struck.query(place.where / "calm batch.strike", "node", 0).run(pq.read_table(place.where / "in"))
    pq.write_table(finite, place.where / "calm batch.parquet")
    for kind in ("stream", "batch"):
        assert (place.where / f"struck {kind}.strike").exists(), f"nobody was killed of {victims}"
        assert listed(place.answers(f"struck {kind}")) == listed(place.answers(f"calm {kind}")), victims
        assert len(place.answers(f"calm {kind}")) > 30
    answers = pq.read_table(place.where / "calm stream.parquet")
    assert max(answers["revision"].to_pylist()) > 0
    # What was done for the dead is not counted.
    assert report["counts"]["struck stream"] == report["counts"]["calm stream"]
    assert report["counts"]["calm stream"]["rows"] == sum(
        pq.read_metadata(file).num_rows for file in (place.where / "in").iterdir()
    )
    for number, each in enumerate(sample(place.where)):
        each.require(pq.read_table(place.where / f"{number}.parquet"))
    workers = report["compiled"]
    assert [each["last"] for each in workers] == [15, 15]
    assert len({each["worker"] for each in workers}) == len({each["executor"] for each in workers}) == 2
    assert sorted((each["hits"], each["misses"]) for each in workers) == [(0, 1), (1, 0)]
