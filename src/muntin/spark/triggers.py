"""Rejects unsupported triggers where they are set, which is after `Query.spark` has returned.

Spark itself rejects Real-Time Mode when the query starts, since functions over Arrow batches are not on its list, and
explains how to disable that list; the query then fails later. A query with timers by the clock runs forever, even with
`availableNow`. So the DataFrame of the answers has a writer that raises the error at once. DataFrames derived from it
are Spark's own again.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from muntin.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def refusing_triggers(answers: DataFrame, *, follows_clock: bool) -> DataFrame:
    """Return a streaming DataFrame whose writer rejects Real-Time Mode, and `availableNow` if timers would go on."""
    kind: Any = type(answers)
    answers.__class__ = _frames(kind, follows_clock)
    return answers


@cache
def _frames(kind: Any, follows_clock: bool) -> Any:
    def write_stream(self: Any) -> Any:
        writer = kind.writeStream.fget(self)
        plain: Any = type(writer)
        writer.__class__ = _writers(plain, follows_clock)
        return writer

    return _like(kind, writeStream=property(write_stream, doc=kind.writeStream.__doc__))


@cache
def _writers(kind: Any, follows_clock: bool) -> Any:
    def trigger(self: Any, **given: Any) -> Any:
        if given.get("realTime") is not None:
            raise UnsupportedOperationError(
                f"the trigger is realTime={given['realTime']!r}, and Spark's Real-Time Mode runs no functions over "
                "Arrow batches, by which these answers are made: use processingTime, availableNow or no trigger"
            )
        if given.get("availableNow") and follows_clock:
            raise UnsupportedOperationError(
                "the trigger is availableNow, and the query has an idle_timeout: Spark would wait for its clock, and "
                "run batches without rows for ever. Use processingTime, or leave idle_timeout out"
            )
        return kind.trigger(self, **given)

    trigger.__doc__ = kind.trigger.__doc__
    return _like(kind, trigger=trigger)


def _like(kind: Any, **more: Any) -> Any:
    """Return a subclass with the name of its base."""
    return type(kind.__name__, (kind,), {"__module__": kind.__module__, "__qualname__": kind.__qualname__, **more})
