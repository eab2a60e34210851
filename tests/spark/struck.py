"""A program on a standalone cluster, parts of which die in the middle of a query: the aggregation itself kills them.

Arguments: a folder, what is to be killed in the stream and what in the batch (a Python "worker", an "executor", or a
"node", which is Spark's worker with its executor), and the value of the row that does it, once. The stream is asked
twice, first without harm; what it answers is written to the folder, and beside it what Spark counted.
"""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from spark.interrupted import SCHEMA, SETTINGS
from spark.played import sample

import muntin.spark
from muntin import Query, agg, rows, window
from muntin.spark.java import require_java


def parent(process):
    """Return the process that started another one."""
    return int(pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])


def strike(place, victim):
    """Kill this worker, the executor that it works for, or the node with both, unless that was done before."""
    try:
        os.close(os.open(place, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    executor = parent(os.getppid())
    victims = {"worker": [os.getpid()], "executor": [executor], "node": [parent(executor), executor, os.getpid()]}
    for each in victims[victim]:
        os.kill(each, 9)


@agg.define(state="object", result="object")
class written:
    """The values in order, as text."""

    def lift(v, *, place, victim, fatal):
        if v == fatal:
            strike(place, victim)
        return [int(v)]

    def combine(a, b):
        return a + b

    def lower(s):
        return " ".join(map(str, s))


def query(place: pathlib.Path, victim: str, fatal: int) -> Query:
    everything = written("v", place=str(place), victim=victim, fatal=fatal)
    return Query(
        [window.sliding("20 seconds", every="5 seconds"), window.session("2 seconds"), window.tumbling(rows(7))],
        {"n": agg.count(), "total": agg.sum("v"), "all": everything},
        key=["region", "line"],
        time="ts",
        watermark="4 seconds",
        allowed_lateness="15 seconds",
    )


def stream(session: Any, where: pathlib.Path, name: str, asked: Query) -> dict[str, int]:
    """Write the answers to a stream of files, one a batch; return what was counted."""
    frame = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(where / "in"))
    running, answers = collected(asked.spark(frame, buckets=4), where / f"checkpoint {name}")
    pq.write_table(answers, where / f"{name}.parquet")
    progress = muntin.spark.progress(running)
    return {each: getattr(progress, each) for each in ("batches", "rows", "late", "dropped", "windows", "revisions")}


def collected(answers: Any, checkpoint: pathlib.Path) -> tuple[Any, pa.Table]:
    """Return a query that has ended, and all that it answered."""
    found: dict[int, pa.Table] = {}

    def note(batch: Any, number: int) -> None:
        found[number] = batch.toArrow()

    writer = answers.writeStream.outputMode("update").trigger(availableNow=True).foreachBatch(note)
    running = writer.option("checkpointLocation", str(checkpoint)).start()
    running.awaitTermination()
    return running, pa.concat_tables(found.values())


def batch(session: Any, where: pathlib.Path, asked: Query) -> None:
    answers = asked.spark(session.read.schema(SCHEMA).parquet(str(where / "in")), path="python")
    pq.write_table(answers.toArrow(), where / "struck batch.parquet")


def compile_at_once(session: Any) -> list[dict[str, int]]:
    """Have two workers come to need the same kernel at the same time; return how each of them came by it."""

    @agg.define(state="f8")
    class own:
        def lift(v):
            return v * 1.25

        def combine(a, b):
            return a + b

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import BarrierTaskContext

        from muntin.kernels import cache
        from muntin.kernels.tiers import Entry, waiting

        list(batches)
        cache._plain.set(False)  # all else in this session runs uncompiled
        BarrierTaskContext.get().barrier()
        with waiting():
            last = muntin.slide(np.array([4.0, 8.0]), own("v"), range=2)[-1]
        modules = [module for (_, compiled), module in cache._modules.items() if compiled]
        kernels = [each for module in modules for name, each in vars(module).items() if name.startswith("slide_")]
        replies = [job.reply for each in kernels if isinstance(each, Entry) for job in each._jobs.values()]
        misses = sum(not reply.found for reply in replies)
        hits = sum(len(each._compiled.overloads) for each in kernels if isinstance(each, Entry)) - misses
        columns = {"worker": os.getpid(), "executor": parent(os.getppid()), "hits": hits, "misses": misses}
        yield pa.RecordBatch.from_pylist([{**columns, "last": int(last)}])

    ddl = "worker long, executor long, hits long, misses long, last long"
    return session.range(2, numPartitions=2).mapInArrow(work, ddl, barrier=True).toArrow().to_pylist()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_cluster(where: pathlib.Path) -> str:
    """Start a master and two nodes of one core each; return the address. Whoever started this program ends them."""
    require_java()
    command = [f"{os.environ['SPARK_HOME']}/bin/spark-class", "org.apache.spark.deploy"]
    environment = {**os.environ, "SPARK_DAEMON_MEMORY": "200m"}
    address = f"spark://127.0.0.1:{free_port()}"
    host = ["--host", "127.0.0.1", "--webui-port", "0"]
    node = ["worker.Worker", address, *host, "-c", "1", "-m", "700m", "-d", str(where / "work")]
    for part, *options in (["master.Master", *host, "--port", address.rpartition(":")[2]], node, node):
        subprocess.Popen([command[0], f"{command[1]}.{part}", *options], env=environment)
    return address


def main(where: pathlib.Path, victims: dict[str, str], fatal: int) -> None:
    more = {
        "spark.executor.memory": "512m",
        "spark.executorEnv.MUNTIN_UNCOMPILED": "1",
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # both nodes are there before anything begins
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    }
    settings = {name.replace(".", "__"): value for name, value in {**SETTINGS, **more}.items()}
    session = muntin.spark.session(start_cluster(where), **settings)
    compiled = compile_at_once(session)
    for number, each in enumerate(sample(where)):
        pq.write_table(collected(each.answers(session), where / f"checkpoint {number}")[1], where / f"{number}.parquet")
    counts = {}
    (where / "calm stream.strike").touch()
    for name in ("calm stream", "struck stream"):
        counts[name] = stream(session, where, name, query(where / f"{name}.strike", victims["stream"], fatal))
    batch(session, where, query(where / "struck batch.strike", victims["batch"], fatal))
    (where / "report.json").write_text(json.dumps({"counts": counts, "compiled": compiled}))
    session.stop()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), {"stream": sys.argv[2], "batch": sys.argv[3]}, int(sys.argv[4]))
