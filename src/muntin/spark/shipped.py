"""What goes to Spark's workers by value, and brings the rest of muntin only when it is called.

Spark names what modules hold, and a worker without muntin then fails before any of our code runs. Worse, the process
that looks at a stateful query first is given no files of `addPyFile` at all. So this module refers to nothing else of
muntin.
"""

from __future__ import annotations

import importlib.util
import pickle
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

HEADER_DDL = "stamp string, timer long, header binary, names binary, small binary"
CHUNK_KEY_DDL, CHUNK_DDL = "name binary", "data binary"
FACTS_DDL = "facts string"
FOR_BATCHES = {"muntin": "muntin"}
FOR_STREAMS = {**FOR_BATCHES, "google.protobuf": "protobuf", "pandas": "pandas"}
"""What a worker must have besides Spark's own needs: modules, and the packages that bring them."""


def _loaded(data: bytes, needed: dict[str, str]) -> Any:
    """Return what was sent; say which package a worker lacks, and what can be done."""
    for module, package in needed.items():
        try:
            found = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:  # nor is the package that it would be in
            found = False
        if not found:
            raise ModuleNotFoundError(
                f"{package} is missing in the Python of this Spark worker, {sys.executable}: install it where the "
                f"workers run, or ship it with the query, as the page Deploying of muntin's documentation shows"
            )
    return pickle.loads(data)  # noqa: S301  # Spark would do no other


class Shipped:
    """A function over batches of rows, which Spark calls."""

    def __init__(self, function: Any, needed: dict[str, str] = FOR_BATCHES) -> None:
        self.data = dumped(function)
        self.needed = needed

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield what the function yields."""
        yield from _loaded(self.data, self.needed)(batches)


class Stateful(StatefulProcessor):
    """The stateful call: Spark hands over one bucket after the other."""

    def __init__(self, make: Any) -> None:
        """Take what makes the processor of the state that Spark has opened: see `Processor`."""
        self.data = dumped(make)

    def init(self, handle: Any) -> None:
        """Open the state. Also called where there may be no muntin, only to learn what state there is."""
        header = handle.getValueState("muntin_header", HEADER_DDL)
        chunks = handle.getMapState("muntin_chunks", CHUNK_KEY_DDL, CHUNK_DDL)
        facts = handle.getValueState("muntin_query", FACTS_DDL)
        self.opened = handle, header, chunks, facts
        self.processor: Any = None

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        """Begin a bucket on a history. Spark calls it in the first micro-batch of a checkpoint only."""
        self._brought().begin(initialState, timerValues)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Answer a bucket that has rows."""
        yield from self._brought().rows(key[0], rows, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Answer a bucket that has none, once the watermark has moved on."""
        yield from self._brought().expired(timerValues)

    def close(self) -> None:
        """Nothing is left open."""
        if self.processor is not None:
            self.processor.close()

    def _brought(self) -> Any:
        if self.processor is None:
            self.processor = _loaded(self.data, FOR_STREAMS)(*self.opened)
        return self.processor


def dumped(value: Any) -> bytes:
    """Return a value as bytes, what one defined oneself included; from now on this module goes by value."""
    import pyspark.cloudpickle

    cloudpickle: Any = pyspark.cloudpickle
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    data: bytes = cloudpickle.dumps(value)
    return data
