"""A program that may be killed at any moment and started again: a streaming query that publishes its features.

Arguments: a folder, the URL of the store, the name of the checkpoint, how many buckets its state has, and the name of
another checkpoint, of which it is made if it is not there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from spark.served_query import QUERY

import muntin.spark

SCHEMA = "ts timestamp, card string, amount long"
SETTINGS = {
    "spark.driver.memory": "700m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}


def main(where: Path, url: str, name: str, buckets: int, other: str) -> None:
    settings = {name.replace(".", "__"): value for name, value in SETTINGS.items()}
    session = muntin.spark.session("local[2,8]", **settings)
    if other and not (where / name).exists():
        muntin.spark.rescale(where / other, where / name, buckets=buckets, session=session)
    rows = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(where / "in"))
    answers = QUERY.spark(rows, serve=url, buckets=buckets)
    writer = answers.writeStream.format("noop").trigger(processingTime="0 seconds")
    running = writer.option("checkpointLocation", str(where / name)).start()
    (where / "up").touch()
    running.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
