"""`muntin.metrics`: how a stream or a Spark query is doing, for Prometheus.

Names and units are those of Prometheus' conventions: counters end in `_total`, times are seconds, sizes bytes. Each
metric has the label `query`, so that one process may export several.

| metric | what |
|---|---|
| `muntin_up` | 1, or 0 where the query could not be asked: the counters are then those of before |
| `muntin_rows_total` | rows that came |
| `muntin_late_rows_total` | those behind the watermark |
| `muntin_dropped_rows_total` | those that no window took |
| `muntin_windows_total` | windows that were emitted, revisions included |
| `muntin_revisions_total`, `muntin_retractions_total` | windows that were emitted again, or abolished |
| `muntin_keys`, `muntin_slices` | what is held now |
| `muntin_state_bytes` | the size of the state |
| `muntin_watermark_timestamp_seconds` | the watermark, where it is a time |
| `muntin_watermark_lag_seconds` | how far it is behind the clock |
| `muntin_batch_duration_seconds` | a histogram: how long pushes, or micro-batches, take |
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from muntin.errors import ColumnTypeError, InvalidArgumentError, UnsupportedOperationError
from muntin.forks import Renewed
from muntin.spark.progress import summary
from muntin.streams.steps import Step
from muntin.streams.stream import Stream
from muntin.watching.axis import Axis
from muntin.watching.health import Health, of_stream
from muntin.watching.spark_health import Reports, seconds_of

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Exporter", "prometheus"]

_COUNTERS = {
    "rows": "Rows that came.",
    "late_rows": "Rows that came behind the watermark.",
    "dropped_rows": "Rows that no window took.",
    "windows": "Windows that were emitted, revisions included.",
    "revisions": "Windows that were emitted again because late rows changed them.",
    "retractions": "Windows that were abolished by late rows.",
}
_GAUGES = {
    "up": "Whether the query could be asked; where not, counters are those of before, and other gauges are left out.",
    "keys": "Keys that are known.",
    "slices": "Slices that are held.",
    "state_bytes": "Bytes of state.",
    "watermark_timestamp_seconds": "The watermark, in seconds since 1970.",
    "watermark_lag_seconds": "How far the watermark is behind the clock.",
}
_DURATION = "batch_duration_seconds"
_LOG = logging.getLogger(__name__)
_BOUNDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0)


def prometheus(what: Stream | StreamingQuery, *, name: str = "", registry: CollectorRegistry | None = None) -> Exporter:
    """Export the metrics of a stream, or of a streaming query on Spark; return the exporter, which has `stop()`.

    `name` is the value of the label `query`. `registry` is one of prometheus_client, by default its own. A scrape gets
    current numbers: O(1) for a stream, which takes some microseconds more per call, and O(reports) for Spark, which
    keeps the last hundred micro-batches, and must be scraped before that many have passed. Needs the extra `metrics`.

    >>> from muntin import Query, agg, metrics, window
    >>> from prometheus_client import CollectorRegistry
    >>> registry = CollectorRegistry()
    >>> stream = Query(window.tumbling(10), {"n": agg.count()}, time="t").stream()
    >>> exporter = metrics.prometheus(stream, name="calls", registry=registry)
    >>> _ = stream.push({"t": [1, 4, 12]})
    >>> registry.get_sample_value("muntin_rows_total", {"query": "calls"})
    3
    >>> registry.get_sample_value("muntin_windows_total", {"query": "calls"})
    1
    >>> exporter.stop()
    """
    try:
        from prometheus_client import REGISTRY
    except ImportError as error:
        raise UnsupportedOperationError("metrics need prometheus_client: pip install 'muntin[metrics]'") from error
    if not isinstance(name, str):
        raise InvalidArgumentError(f"name is {name!r}; give a text, the value of the label `query`")
    chosen = REGISTRY if registry is None else registry
    if isinstance(what, Stream):
        return StreamExporter(what, name, chosen)
    if hasattr(what, "recentProgress"):
        return SparkExporter(what, name, chosen)
    raise InvalidArgumentError(f"a Stream or a streaming query of Spark has metrics, not {what!r}")


class Durations:
    """A histogram of seconds."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_BOUNDS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect_left(_BOUNDS, seconds)] += 1
        self.sum += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Return upper bounds, and how many were no longer than each."""
        bounds = [*map(str, _BOUNDS), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self._counts)), strict=True))


class Exporter(ABC):
    """The metrics of one query; made by `prometheus`."""

    def __init__(self, name: str, registry: CollectorRegistry) -> None:
        self.name = name
        self.lock = Renewed(threading.Lock)
        """Held by whoever changes or reads what follows."""
        self.counts = dict.fromkeys(_COUNTERS, 0)
        self.durations = Durations()
        self._registry = registry
        with _registries_lock():
            _registries.setdefault(registry, Collector(registry)).add(self)

    def stop(self) -> None:
        """Stop exporting. Idempotent."""
        with _registries_lock():
            collector = _registries.get(self._registry)
            if collector is not None and collector.remove(self):
                del _registries[self._registry]

    @abstractmethod
    def gauges(self) -> dict[str, Any]:
        """Bring the counts up to date; return the gauges. Called with the lock held."""


class Collector:
    """What a registry asks: one for all queries, since a metric must be told in one piece."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._exporters: tuple[Exporter, ...] = ()

    def add(self, exporter: Exporter) -> None:
        """Export one query more; refuse a second one of the same name."""
        if any(each.name == exporter.name for each in self._exporters):
            raise InvalidArgumentError(f"there are metrics of a query {exporter.name!r} already; give another name=")
        if not self._exporters:
            self._registry.register(self)
        self._exporters = (*self._exporters, exporter)

    def remove(self, exporter: Exporter) -> bool:
        """Export one query less; say whether none is left."""
        self._exporters = tuple(each for each in self._exporters if each is not exporter)
        if not self._exporters:
            self._registry.unregister(self)
        return not self._exporters

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics: what a registry calls."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        counters = {
            name: CounterMetricFamily(f"muntin_{name}", text, labels=["query"]) for name, text in _COUNTERS.items()
        }
        gauges = {name: GaugeMetricFamily(f"muntin_{name}", text, labels=["query"]) for name, text in _GAUGES.items()}
        text = "How long a push, or a micro-batch, takes."
        histogram = HistogramMetricFamily(f"muntin_{_DURATION}", text, labels=["query"])
        for each in self._exporters:
            with each.lock():
                found = _asked(each)
                for name, counter in counters.items():
                    counter.add_metric([each.name], each.counts[name])
                for name, gauge in gauges.items():
                    if found.get(name) is not None:
                        gauge.add_metric([each.name], found[name])
                histogram.add_metric([each.name], each.durations.buckets(), each.durations.sum)
        yield from (*counters.values(), *gauges.values(), histogram)


def _asked(exporter: Exporter) -> dict[str, Any]:
    """Return the gauges of a query: that it is down, where it cannot be asked. The others are exported all the same."""
    try:
        return {**exporter.gauges(), "up": 1}
    except Exception:  # noqa: BLE001  # whatever it is: a scrape is for all queries
        _LOG.warning("the metrics of the query %r cannot be read", exporter.name, exc_info=True)
        return {"up": 0}


_registries: dict[Any, Collector] = {}
"""The collector of each registry that has one."""
_registries_lock = Renewed(threading.Lock)


def _gauges_of(health: Health) -> dict[str, Any]:
    watermark = health.watermark if health.is_time else None
    return {
        "keys": health.keys,
        "slices": health.slices,
        "state_bytes": health.bytes,
        "watermark_timestamp_seconds": watermark,
        "watermark_lag_seconds": None if watermark is None else time.time() - watermark,
    }


class StreamExporter(Exporter):
    """The metrics of a stream: noted after each of its calls, so that no other thread looks into it."""

    def __init__(self, stream: Stream, name: str, registry: CollectorRegistry) -> None:
        self._stream = stream
        self._ticks: float | None = None
        self._is_known = stream.query.time is None
        self._health = of_stream(stream.metrics(), ticks_per_second=None, seconds=None)
        super().__init__(name, registry)
        self._end = stream.observe(self._note)

    def stop(self) -> None:
        """Export nothing any more; the stream goes on."""
        self._end()
        super().stop()

    def _note(self, step: Step) -> None:
        if not self._is_known and step.rows is not None and step.rows.num_rows:
            self._learn(step.rows.schema)
        answers = step.answers
        with self.lock():
            self._health = of_stream(self._stream.metrics(), ticks_per_second=self._ticks, seconds=step.seconds)
            self.durations.add(step.seconds)
            if answers.num_rows:
                self.counts["windows"] += answers.num_rows
                self.counts["revisions"] += pc.sum(pc.greater(answers["revision"], 0)).as_py()
                self.counts["retractions"] += pc.sum(answers["retracted"]).as_py()

    def _learn(self, schema: pa.Schema) -> None:
        """Learn what the times are, once."""
        self._is_known = True
        name = self._stream.query.time or ""
        try:
            axis = Axis.of(schema.field(name).type, name)
        except ColumnTypeError:
            return  # times in a type of their own, such as objects: no time that a clock knows
        self._ticks = axis.ticks_per_second if axis.is_time else None

    def gauges(self) -> dict[str, Any]:
        """Return what was noted last. O(1)."""
        health = self._health
        self.counts |= {"rows": health.rows, "late_rows": health.late or 0, "dropped_rows": health.dropped or 0}
        return _gauges_of(health)


class SparkExporter(Exporter):
    """The metrics of a streaming query: those of micro-batches that were not counted yet, whenever somebody asks."""

    def __init__(self, query: Any, name: str, registry: CollectorRegistry) -> None:
        self._reports = Reports(query)
        super().__init__(name, registry)

    def gauges(self) -> dict[str, Any]:
        """Count the micro-batches that are new; return what the last one held. O(reports)."""
        new, reports = self._reports.new()
        for report in new:
            self._count(report)
        last = summary(reports)
        watermark = seconds_of(last.watermark)
        health = Health(
            time.time(), last.rows, keys=last.keys, slices=last.slices, bytes=last.bytes, watermark=watermark
        )
        return _gauges_of(health) if reports else {}

    def _count(self, report: Any) -> None:
        done = summary([report])
        for name, count in (
            ("rows", done.rows),
            ("late_rows", done.late),
            ("dropped_rows", done.dropped),
            ("windows", done.windows),
            ("revisions", done.revisions),
            ("retractions", done.retractions),
        ):
            self.counts[name] += count
        if "triggerExecution" in report["durationMs"]:
            self.durations.add(report["durationMs"]["triggerExecution"] / 1_000)
