"""What Spark queries need besides this library: packages, and session settings."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from muntin.errors import InvalidArgumentError, UnsupportedOperationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
SETTINGS = {PROVIDER: ROCKSDB, CHANGELOG: "true"}
"""State in RocksDB, with changelog checkpointing."""
BYTE_LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch"
NO_BYTE_LIMIT = {BYTE_LIMIT: str(2**31 - 1)}
"""Batches to Python end after Spark's number of rows, whatever their bytes. To limit the bytes, Spark adds up those of
a batch after each row, which takes nearly half of the time of sending it."""
DAEMON = {"spark.python.daemon.module": "muntin.spark.daemon"}
"""Workers are forked from a preloaded process."""
_FIXED = "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE"
"""Spark's error if the definitions of a pipeline would change its session."""
_PACKAGES = {"pyspark": "pyspark", "pandas": "pandas", "google.protobuf": "protobuf"}
_FOR_CONNECT = {
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "google.rpc": "googleapis-common-protos",
    "zstandard": "zstandard",
}


def require_packages(*, connect: bool = False) -> None:
    """Raise an error if a package is missing; Spark Connect needs more of them."""
    extra, needed = ("connect", {**_PACKAGES, **_FOR_CONNECT}) if connect else ("spark", _PACKAGES)
    for module, package in needed.items():
        if not _is_there(module):
            raise UnsupportedOperationError(f"{package} is missing, and Spark needs it: pip install 'muntin[{extra}]'")


def require_frame(frame: Any) -> None:
    """Reject what is not a Spark DataFrame."""
    from pyspark.sql import DataFrame

    if not isinstance(frame, DataFrame):
        kind = f"{type(frame).__module__.split('.')[0]}.{type(frame).__qualname__}"
        raise InvalidArgumentError(
            f"Query.spark was given a {kind}, not a DataFrame of Spark: Query.run answers it as it is, or make it one "
            "by session.createDataFrame"
        )


def advice(session: SparkSession) -> list[str]:
    """Return what would make Python's part of a query faster in this session."""
    if session.conf.get(BYTE_LIMIT, None) == NO_BYTE_LIMIT[BYTE_LIMIT]:
        return []
    lifted = f"{BYTE_LIMIT}={NO_BYTE_LIMIT[BYTE_LIMIT]}"
    return [f"Spark limits batches for Python in bytes, and adds them up after each row: {lifted} saves that"]


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing too
        return False


def apply_settings(session: SparkSession) -> None:
    """Set what is not set; reject a session configured otherwise, without changing it."""
    from pyspark.errors import PySparkException

    found = {name: session.conf.get(name, None) for name in SETTINGS}
    for name, wanted in SETTINGS.items():
        if (found[name] or wanted).lower() != wanted.lower():
            raise UnsupportedOperationError(
                f"the session has {name} = {found[name]}, and streaming queries need {wanted}: set that, or leave it "
                "out"
            )
    missing = {name: wanted for name, wanted in SETTINGS.items() if found[name] is None}
    try:
        for name, wanted in missing.items():
            session.conf.set(name, wanted)
    except PySparkException as error:
        if not str(error.getCondition()).startswith(_FIXED):
            raise
        lines = "".join(f'\n  {name}: "{wanted}"' for name, wanted in missing.items())
        raise UnsupportedOperationError(
            f"the definitions of a pipeline cannot change the settings of its session: write into spark-pipeline.yml"
            f"\nconfiguration:{lines}"
        ) from error
