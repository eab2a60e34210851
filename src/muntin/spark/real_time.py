"""Real-Time Mode is refused where it is asked for: by the trigger, which is chosen after `Query.spark` has returned.

Spark itself refuses such a query when it starts, since functions over Arrow batches are not on its list, and says how
to switch that list off; the query then fails later. So the DataFrame of the answers has a writer that says it at once.
What is made of that DataFrame is Spark's own again, and Spark's list is what refuses it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from muntin.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def refusing_real_time(answers: DataFrame) -> DataFrame:
    """Return a streaming DataFrame whose writer refuses Real-Time Mode."""
    kind: Any = type(answers)
    answers.__class__ = _frames(kind)
    return answers


@cache
def _frames(kind: Any) -> Any:
    def write_stream(self: Any) -> Any:
        writer = kind.writeStream.fget(self)
        plain: Any = type(writer)
        writer.__class__ = _writers(plain)
        return writer

    return _like(kind, writeStream=property(write_stream, doc=kind.writeStream.__doc__))


@cache
def _writers(kind: Any) -> Any:
    def trigger(self: Any, **given: Any) -> Any:
        if given.get("realTime") is not None:
            raise UnsupportedOperationError(
                f"the trigger is realTime={given['realTime']!r}, and Spark's Real-Time Mode runs no functions over "
                "Arrow batches, by which these answers are made: use processingTime, availableNow or no trigger"
            )
        return kind.trigger(self, **given)

    trigger.__doc__ = kind.trigger.__doc__
    return _like(kind, trigger=trigger)


def _like(kind: Any, **more: Any) -> Any:
    """Return a class that is shown as the one that it is made of."""
    return type(kind.__name__, (kind,), {"__module__": kind.__module__, "__qualname__": kind.__qualname__, **more})
