"""What the pipeline needs besides this library: pyspark, Java, and settings of the session."""

from __future__ import annotations

import importlib.util
import os
import shutil
from typing import TYPE_CHECKING

from muntin.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def require_packages() -> None:
    """Refuse to begin where a package is missing."""
    for module, package in (("pyspark", "pyspark"), ("pandas", "pandas"), ("google.protobuf", "protobuf")):
        if not _is_there(module):
            raise UnsupportedOperationError(f"{package} is missing, and Spark needs it: pip install 'muntin[spark]'")


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def require_java() -> None:
    """Refuse to begin where Spark would not find a Java."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")  # noqa: PTH118
    if found is None:
        where = f"in JAVA_HOME, which is {home}" if home else "on the PATH"
        raise UnsupportedOperationError(
            f"there is no Java {where}, and Spark needs one, 17 or later: install it, or "
            f"pip install 'muntin[spark,java]' and call muntin.spark.use_packaged_java() before Spark starts"
        )


def apply_settings(session: SparkSession) -> None:
    """See that state is kept in RocksDB, which writes changes only; refuse a session that was told otherwise."""
    for name, wanted in ((PROVIDER, ROCKSDB), (CHANGELOG, "true")):
        found = session.conf.get(name, None)
        if found is None:
            session.conf.set(name, wanted)
        elif found.lower() != wanted.lower():
            raise UnsupportedOperationError(
                f"the session has {name} = {found}, and streaming queries need {wanted}: set it, or leave it out"
            )
