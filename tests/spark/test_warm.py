"""`muntin.spark.warm`: all that a query needs, on every executor."""

from __future__ import annotations

import socket
from typing import Any

import pyarrow as pa

import muntin
from muntin import Query, agg, window

QUERY = Query([window.tumbling("1 hour"), window.session("5 minutes")], {"high": agg.max("v")}, key="k")


def test_every_machine_is_named(session: Any) -> None:
    frame = session.createDataFrame([], "ts timestamp, k string, v double")
    assert muntin.spark.warm(session, QUERY, frame) == [socket.gethostname()]
    schema = {"ts": pa.timestamp("us", "UTC"), "k": pa.int64(), "v": pa.int64()}
    assert muntin.spark.warm(session, QUERY, schema, tasks=1) == [socket.gethostname()]
