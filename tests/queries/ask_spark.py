"""Asks Spark what it makes of some rows, and writes that to spark_answers.json, for tests that run without Spark.

    python tests/queries/ask_spark.py        # needs pyspark 4, and Java

Times are whole seconds, so that the trailing window (t - 5, t] is Spark's range from t - 4 to t. Trailing windows are
window frames, the others are grouped by `window` and `session_window`.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).parent / "spark_answers.json"


def tables(count: int, seed: int) -> list[list[list[Any]]]:
    """Return tables of rows (time, key, value or null), in no order."""
    chance = random.Random(seed)
    made = []
    for _ in range(count):
        now, table = chance.randrange(-40, 10), []
        for _ in range(chance.randrange(1, 40)):
            now += chance.choice([0, 0, 1, 1, 2, 3, 4, 5, 9])
            table.append([now, chance.choice("ab"), chance.choice([None, *range(10)])])
        chance.shuffle(table)
        made.append(table)
    return made


def ask(asked: list[list[list[Any]]]) -> dict[str, list[list[Any]]]:
    """Return Spark's answers: for each window (table, key, start, end, rows, sum, max, mean)."""
    from pyspark.sql import SparkSession, Window
    from pyspark.sql import functions as F

    spark = SparkSession.builder.master("local[1]").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    rows = [(number, i, *row) for number, table in enumerate(asked) for i, row in enumerate(table)]
    frame = spark.createDataFrame(rows, "c int, i int, t long, k string, v long").withColumn(
        "ts", F.timestamp_seconds("t")
    )
    answers = [F.count("*"), F.sum("v"), F.max("v"), F.avg("v")]
    names = [f"a{i}" for i in range(len(answers))]

    def grouped(span: Any) -> Any:
        start, end = F.unix_timestamp("w.start"), F.unix_timestamp("w.end")
        named = [answer.alias(name) for answer, name in zip(answers, names, strict=True)]
        return frame.groupBy("c", "k", span.alias("w")).agg(*named).select("c", "k", start, end, *names)

    def by_rows(count: int) -> Any:
        span = Window.partitionBy("c", "k").orderBy("t", "i").rowsBetween(1 - count, 0)
        return frame.select("c", "k", F.min("t").over(span), "t", *(a.over(span) for a in answers))

    def by_time(seconds: int) -> Any:
        span = Window.partitionBy("c", "k").orderBy("t").rangeBetween(1 - seconds, 0)
        return frame.select("c", "k", F.col("t") - seconds, "t", *(a.over(span) for a in answers))

    asked_for = {
        "window.session(4)": grouped(F.session_window("ts", "4 seconds")),
        "window.session(1)": grouped(F.session_window("ts", "1 second")),
        "window.tumbling(7, offset=3)": grouped(F.window("ts", "7 seconds", "7 seconds", "3 seconds")),
        "window.tumbling(10)": grouped(F.window("ts", "10 seconds")),
        "window.sliding(10, every=4)": grouped(F.window("ts", "10 seconds", "4 seconds")),
        "window.sliding(12, every=5, offset=-2)": grouped(F.window("ts", "12 seconds", "5 seconds", "-2 seconds")),
        "window.trailing(rows(3))": by_rows(3),
        "window.trailing(rows(8))": by_rows(8),
        "window.trailing(5)": by_time(5),
        "window.trailing(20)": by_time(20),
    }
    return {name: sorted((list(row) for row in found.collect()), key=repr) for name, found in asked_for.items()}


if __name__ == "__main__":
    chosen = tables(15, seed=5)
    lines = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in ask(chosen).items()]
    ANSWERS.write_text("{\n" + ",\n".join([f'"tables": {json.dumps(chosen)}', *lines]) + "\n}\n")
