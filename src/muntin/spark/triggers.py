"""Rejects unsupported triggers where they are set, which is after `Query.spark` has returned.

Spark itself rejects Real-Time Mode when the query starts, since functions over Arrow batches are not on its list, and
explains how to disable that list; the query then fails later. A query with timers by the clock runs forever, even with
`availableNow`. So the answers are a DataFrame of a class of its own, with a writer that raises the error at once.
DataFrames derived from it are Spark's.
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
    return _as(_frames(kind, follows_clock), answers)  # type: ignore[no-any-return]


def _as(kind: Any, other: Any) -> Any:
    """Return an object of a subclass with what another one has. Constructors differ between kinds of sessions."""
    made = object.__new__(kind)
    vars(made).update(vars(other))
    return made


@cache
def _frames(kind: Any, follows_clock: bool) -> Any:
    class StreamedAnswers(kind):  # type: ignore[misc]  # of one kind of sessions
        @property
        def writeStream(self) -> Any:  # noqa: N802
            writer = super().writeStream
            plain: Any = type(writer)
            return _as(_writers(plain, follows_clock), writer)

    return StreamedAnswers


@cache
def _writers(kind: Any, follows_clock: bool) -> Any:
    class AnswerWriter(kind):  # type: ignore[misc]
        def trigger(self, **given: Any) -> Any:
            if given.get("realTime") is not None:
                raise UnsupportedOperationError(
                    f"the trigger is realTime={given['realTime']!r}, and Spark's Real-Time Mode runs no functions over "
                    "Arrow batches, by which these answers are made: use processingTime, availableNow or no trigger"
                )
            if given.get("availableNow") and follows_clock:
                raise UnsupportedOperationError(
                    "the trigger is availableNow, and the query has an idle_timeout: Spark would wait for its clock, "
                    "and run batches without rows for ever. Use processingTime, or leave idle_timeout out"
                )
            return super().trigger(**given)

    return AnswerWriter
