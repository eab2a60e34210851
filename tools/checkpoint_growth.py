"""Count the files of a checkpoint over many micro-batches, and draw them: docs/figures/checkpoint_files.svg.

python tools/checkpoint_growth.py [BATCHES]: two queries of one session, side by side, one with Spark's default of 100
batches to keep, and one with 10. 1,000 batches take ten minutes or more. Not in the suite for that reason.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tools")]

from charts import Chart  # noqa: E402  # now that its folder is known
from draw_charts import draw  # noqa: E402

import muntin.spark  # noqa: E402
from muntin import Query, agg, window  # noqa: E402

KEPT = {"100 batches, Spark's default": "100", "10 batches": "10"}
TOO_SLOW = "Python worker failed to connect back"
"""Spark gives each worker ten seconds to start, and a busy machine takes more: the query then goes on from there."""
RETAIN = "spark.sql.streaming.minBatchesToRetain"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
QUERY = Query(
    window.sliding("1 minute", every="1 second"),
    {"n": agg.count(), "most": agg.max("value")},
    key="key",
    time="timestamp",
)


def start(session: Any, where: Path, retained: str) -> Any:
    """Start the query: ten rows of three keys, and a second of event time, in each micro-batch."""
    session.conf.set(RETAIN, retained)
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).option("numPartitions", 1)
    rows = source.option("advanceMillisPerBatch", 1000).load().selectExpr("timestamp", "value", "value % 3 AS key")
    writer = QUERY.spark(rows, buckets=2).writeStream.format("noop").outputMode("update")
    return writer.option("checkpointLocation", str(where)).start()


def count_files(where: Path) -> int:
    """Return how many there are below a folder, without the checksums that Hadoop adds on a disk."""
    return sum(1 for path in where.rglob("*") if path.is_file() and not path.name.endswith(".crc"))


def follow(session: Any, where: Path, batches: int) -> dict[str, list[tuple[int, int]]]:
    """Return how many files there are after how many batches, about forty times, until all have run so many."""
    running = {name: start(session, where / name, retained) for name, retained in KEPT.items()}
    found: dict[str, list[tuple[int, int]]] = {name: [(0, 0)] for name in running}
    while any(points[-1][0] < batches for points in found.values()):
        for name, query in running.items():
            if query.exception() is not None:
                if TOO_SLOW not in str(query.exception()):
                    raise RuntimeError(str(query.exception()))
                running[name] = start(session, where / name, KEPT[name])
                continue
            done = query.lastProgress["batchId"] + 1 if query.lastProgress else 0
            if done >= found[name][-1][0] + batches // 40:
                found[name].append((done, count_files(where / name)))
                print(name, *found[name][-1], flush=True)
        time.sleep(0.2)
    for query in running.values():
        query.stop()
    return found


def chart_of(found: Mapping[str, list[tuple[int, int]]]) -> Chart:
    """Return the files by batches; each query is looked at after batches of its own."""
    at = sorted({batch for points in found.values() for batch, _ in points})
    lines = {name: [dict(points).get(batch) for batch in at] for name, points in found.items()}
    title = "Files of a checkpoint, by the batches that Spark keeps"
    return Chart("checkpoint_files", title, "micro-batches", "files", at, lines, log_x=False, log_y=False)


def main(batches: int) -> None:
    """Run, count and draw."""
    settings = {name.replace(".", "__"): value for name, value in SETTINGS.items()}
    session = muntin.spark.session("local[2]", **settings)
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        found = follow(session, where, batches)
    session.stop()
    draw(chart_of(found)).write("checkpoint_files")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
