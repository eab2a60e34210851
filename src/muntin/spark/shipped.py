"""What is pickled by value for Spark's workers, and imports the rest of muntin only when called.

Spark pickles modules by name, and a worker without muntin would fail before any of our code runs. Worse, the process
that first inspects a stateful query gets no files of `addPyFile` at all. So this module refers to nothing else of
muntin.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

HEADER = (
    StructType()
    .add("stamp", StringType())
    .add("timer", LongType())
    .add("header", BinaryType())
    .add("names", BinaryType())
    .add("small", BinaryType())
)
CHUNK_KEY, CHUNK = StructType().add("name", BinaryType()), StructType().add("data", BinaryType())
FACTS = StructType().add("facts", StringType())
"""What is in the state. Types rather than text, which every task would have Spark parse, twice each."""
FOR_BATCHES = {"muntin": "muntin"}
FOR_STREAMS = {**FOR_BATCHES, "google.protobuf": "protobuf", "pandas": "pandas"}
"""What a worker needs besides Spark's own requirements: modules, and the packages that provide them."""


def _loaded(data: bytes, needed: dict[str, str]) -> Any:
    """Return the unpickled object; name the package that a worker lacks, and the remedy."""
    for module, package in needed.items():
        try:
            found = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:  # its parent package is missing too
            found = False
        if not found:
            raise ModuleNotFoundError(
                f"{package} is missing in the Python of this Spark worker, {sys.executable}: install it where the "
                f"workers run, or ship it with the query, as the page Deploying of muntin's documentation shows"
            )
    return importlib.import_module("muntin.spark.worker").unpickled(data)


class Shipped:
    """A function over batches of rows, called by Spark."""

    def __init__(self, function: Any, needed: dict[str, str] = FOR_BATCHES) -> None:
        self.data = dumped(function)
        self.needed = needed

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield the function's results."""
        yield from _loaded(self.data, self.needed)(batches)


class Stateful(StatefulProcessor):
    """The stateful call: Spark passes one bucket after the other."""

    def __init__(self, make: Any) -> None:
        """Take a function that creates the processor from the opened state: see `Processor`."""
        self.data = dumped(make)

    def init(self, handle: Any) -> None:
        """Open the state. Also called where muntin may be missing, just to learn which states there are."""
        header = handle.getValueState("muntin_header", HEADER)
        chunks = handle.getMapState("muntin_chunks", CHUNK_KEY, CHUNK)
        facts = handle.getValueState("muntin_query", FACTS)
        self.opened = handle, header, chunks, facts
        self.processor: Any = None

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        """Start a bucket from a history. Spark calls it only in the first micro-batch of a checkpoint."""
        self._brought().begin(key[0], initialState, timerValues)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Answer a bucket that has rows."""
        yield from self._brought().rows(key[0], rows, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Answer a bucket without rows, once the watermark has advanced."""
        yield from self._brought().expired(key[0], timerValues)

    def close(self) -> None:
        """Nothing is left open."""
        if self.processor is not None:
            self.processor.close()

    def _brought(self) -> Any:
        if self.processor is None:
            self.processor = _loaded(self.data, FOR_STREAMS)(*self.opened)
        return self.processor


def dumped(value: Any) -> bytes:
    """Return a value pickled, including user definitions; from now on this module is pickled by value."""
    import pyspark.cloudpickle

    cloudpickle: Any = pyspark.cloudpickle
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    data: bytes = importlib.import_module("muntin.spark.own").pickled(value)
    return data
