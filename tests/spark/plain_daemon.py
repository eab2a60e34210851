"""Spark's daemon of Python workers, but for one thing: where the tests say so, kernels run in them as plain Python.

Each set of aggregates is compiled anew, and that takes longer than a small query.
"""

from __future__ import annotations

import os

PLAIN = "MUNTIN_TEST_PLAIN"
"""The variable that says so. Spark starts a daemon for each set of variables."""

if __name__ == "__main__":
    from pyspark.daemon import manager

    from muntin.kernels import cache

    cache._plain.set(os.environ.get(PLAIN) == "1")  # which the workers, being forked, inherit
    manager()
