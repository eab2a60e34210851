"""Metrics for Prometheus: what they say, their names and units, and the dashboard that asks for them."""

from __future__ import annotations

import datetime
import json
import re
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from muntin import Query, agg, metrics, window
from muntin.errors import InvalidArgumentError
from muntin.watching.spark_health import SparkHealth

DASHBOARD = Path(__file__).parents[1] / "examples" / "grafana" / "muntin.json"
QUERY = Query(window.tumbling("10 seconds"), {"n": agg.count()}, key="k", time="ts", allowed_lateness="1 hour")


def rows(*seconds: int) -> pa.Table:
    begin = datetime.datetime(2024, 3, 1, tzinfo=datetime.UTC)
    times = [begin + datetime.timedelta(seconds=each) for each in seconds]
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": ["a"] * len(times)})


def value(registry: CollectorRegistry, name: str, query: str = "q", **labels: str) -> float | None:
    return registry.get_sample_value(f"muntin_{name}", {"query": query, **labels})


def test_a_stream_tells_what_it_does() -> None:
    registry, stream = CollectorRegistry(), QUERY.stream()
    exporter = metrics.prometheus(stream, name="q", registry=registry)
    assert value(registry, "rows_total") == 0
    assert value(registry, "watermark_lag_seconds") is None
    stream.push(rows(1, 4, 12))
    stream.push(rows(2, 25))
    stream.push_row({"ts": rows(26)["ts"][0].as_py(), "k": "b"})
    expected = {"rows": 6, "late_rows": 1, "dropped_rows": 0, "windows": 3, "revisions": 1, "retractions": 0}
    assert {name: value(registry, f"{name}_total") for name in expected} == expected
    assert value(registry, "keys") == 2
    counts = stream.metrics()
    assert value(registry, "slices") == counts["slices"]
    assert value(registry, "state_bytes") == counts["bytes"]
    watermark = datetime.datetime(2024, 3, 1, 0, 0, 26, tzinfo=datetime.UTC).timestamp()
    assert value(registry, "watermark_timestamp_seconds") == watermark
    lag = value(registry, "watermark_lag_seconds")
    assert lag is not None
    assert 0 <= time.time() - watermark - lag < 60
    assert value(registry, "batch_duration_seconds_count") == 3
    assert value(registry, "batch_duration_seconds_bucket", le="+Inf") == 3
    exporter.stop()
    exporter.stop()  # again, it does nothing
    assert value(registry, "rows_total") is None
    stream.push(rows(30))  # it goes on, with nobody who looks


def test_integers_are_no_times() -> None:
    registry = CollectorRegistry()
    stream = Query(window.tumbling(10), {"n": agg.count()}, time="t").stream()
    metrics.prometheus(stream, name="q", registry=registry)
    stream.push({"t": [1, 30]})
    assert value(registry, "rows_total") == 2
    assert value(registry, "watermark_timestamp_seconds") is None
    assert value(registry, "watermark_lag_seconds") is None


class Running:
    """A streaming query as its progress reports show it."""

    def __init__(self) -> None:
        self.recentProgress: list[dict[str, Any]] = []

    def batch(self, number: int, count: int) -> None:
        seen = {
            "muntin 1": {"rows": count, "late": 1, "windows": 2, "revisions": 1, "keys": 5, "slices": 7, "bytes": 80}
        }
        report = {
            "runId": "r",
            "batchId": number,
            "timestamp": f"t{number}",
            "observedMetrics": seen,
            "durationMs": {"triggerExecution": 400},
            "eventTime": {"watermark": "2024-03-01T00:00:10.000Z"},
        }
        self.recentProgress = [*self.recentProgress, report][-2:]  # Spark keeps the last ones only


def test_a_spark_query_is_counted_though_spark_forgets() -> None:
    registry, running = CollectorRegistry(), Running()
    metrics.prometheus(running, name="q", registry=registry)  # type: ignore[arg-type]
    assert value(registry, "rows_total") == 0
    assert value(registry, "keys") is None
    for number in range(5):
        running.batch(number, 10)
        if number % 2:
            assert value(registry, "rows_total") == 10 * (number + 1)
            assert value(registry, "rows_total") == 10 * (number + 1)  # asking again counts nothing twice
    assert value(registry, "rows_total") == 50
    assert value(registry, "late_rows_total") == 5
    assert value(registry, "windows_total") == 10
    assert value(registry, "keys") == 5
    assert value(registry, "watermark_timestamp_seconds") == 1709251210
    assert value(registry, "batch_duration_seconds_sum") == pytest.approx(2.0)


def test_the_health_of_a_spark_query_counts_though_spark_forgets() -> None:
    running = Running()
    health = SparkHealth(running)
    assert (health.now().rows, health.now().keys, health.now().batch_seconds) == (0, 0, None)
    for number in range(5):
        running.batch(number, 10)
        if number % 2 == 0:
            assert (health.now().rows, health.now().rows) == (10 * (number + 1),) * 2
    assert len(running.recentProgress) < 5
    assert health.now().late == 5


def test_several_queries_are_one_metric_with_labels() -> None:
    registry = CollectorRegistry()
    one, other = QUERY.stream(), QUERY.stream()
    first = metrics.prometheus(one, name="one", registry=registry)
    metrics.prometheus(other, name="other", registry=registry)
    one.push(rows(1))
    assert (value(registry, "rows_total", "one"), value(registry, "rows_total", "other")) == (1, 0)
    text = generate_latest(registry).decode()
    assert text.count("# TYPE muntin_rows_total counter") == 1
    with pytest.raises(InvalidArgumentError, match="there are metrics of a query 'one' already; give another name="):
        metrics.prometheus(QUERY.stream(), name="one", registry=registry)
    first.stop()
    metrics.prometheus(QUERY.stream(), name="one", registry=registry)


def test_a_query_that_cannot_be_asked_leaves_the_others_their_metrics(caplog: pytest.LogCaptureFixture) -> None:
    registry, stream, running = CollectorRegistry(), QUERY.stream(), Running()
    metrics.prometheus(running, name="gone", registry=registry)  # type: ignore[arg-type]
    metrics.prometheus(stream, name="q", registry=registry)
    stream.push(rows(1))
    running.batch(0, 10)
    assert (value(registry, "up", "gone"), value(registry, "rows_total", "gone")) == (1, 10)
    running.recentProgress = None  # type: ignore[assignment]  # as after the session has ended
    assert (value(registry, "up", "gone"), value(registry, "rows_total", "gone")) == (0, 10)
    assert value(registry, "keys", "gone") is None
    assert (value(registry, "up"), value(registry, "rows_total")) == (1, 1)
    assert "the metrics of the query 'gone' cannot be read" in caplog.text


def test_names_and_units_are_those_of_prometheus() -> None:
    registry, stream = CollectorRegistry(), QUERY.stream()
    metrics.prometheus(stream, name='a "quoted"\nname', registry=registry)
    stream.push(rows(1))
    families = list(text_string_to_metric_families(generate_openmetrics(registry).decode()))
    assert len(families) == 13
    for each in families:
        assert each.name.startswith("muntin_")
        assert each.documentation.endswith(".")
        assert not each.name.endswith("_total")  # that is how samples of counters end, and theirs alone
        if each.type == "counter":
            assert all(sample.name.endswith("_total") for sample in each.samples)
        if re.search(r"duration|lag|timestamp", each.name):
            assert each.name.endswith("_seconds")
        for sample in each.samples:
            assert sample.labels["query"] == 'a "quoted"\nname'


def test_the_dashboard_asks_for_what_there_is() -> None:
    registry, stream = CollectorRegistry(), QUERY.stream()
    metrics.prometheus(stream, name="q", registry=registry)
    stream.push(rows(1))
    exported = {sample.name for family in registry.collect() for sample in family.samples}
    board = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [each["query"] for each in board["templating"]["list"] if each["type"] == "query"]
    named = {name for expression in asked for name in re.findall(r"\bmuntin_\w+", expression)}
    assert named <= exported
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in named} == families  # and leaves nothing out
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_what_has_no_metrics() -> None:
    with pytest.raises(InvalidArgumentError, match="a Stream or a streaming query of Spark has metrics, not 7"):
        metrics.prometheus(7, registry=CollectorRegistry())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="name is 7; give a text"):
        metrics.prometheus(QUERY.stream(), name=7, registry=CollectorRegistry())  # type: ignore[arg-type]
