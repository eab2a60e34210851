"""Every error that muntin raises on purpose. Each says what was wrong, where, and what to do about it."""

from __future__ import annotations


class MuntinError(Exception):
    """The root of all errors of this library, so that one `except` catches them all."""


class DefinitionError(MuntinError):
    """An aggregation's definition cannot be used: a function is missing, or has the wrong shape."""


class ColumnError(MuntinError, KeyError):
    """A column is missing, or is not one of the columns at hand."""

    def __str__(self) -> str:
        """Return the message itself; a `KeyError` would show its quoted form."""
        return str(self.args[0]) if self.args else ""


class ColumnTypeError(MuntinError, TypeError):
    """A column, or a value given for it, has a type that the aggregation cannot take."""


class InvalidArgumentError(MuntinError, ValueError):
    """An argument has a value that means nothing: a negative range, an unknown aggregator."""


class TooManyWindowsError(InvalidArgumentError):
    """One call would find more windows than allowed: a row is far off, or a step very short. Nothing changed."""


class OutOfOrderError(MuntinError, ValueError):
    """A time is before one already seen, although order was promised."""


class NotInvertibleError(MuntinError, TypeError):
    """An aggregation without `invert` was given to an aggregator that needs it."""


class UnsupportedOperationError(MuntinError):
    """The structure cannot answer this; the message names one that can."""


class ConcurrentUseError(MuntinError, RuntimeError):
    """A call came during another one on the same stream or aggregator. Nothing changed."""


class InterruptedCallError(MuntinError, RuntimeError):
    """An earlier call was interrupted halfway and could not be rolled back completely.

    Ctrl-C does that, or running out of memory. Resume from a snapshot, or start over.
    """


class AggregationOverflowError(MuntinError, OverflowError):
    """A result does not fit its type. Nothing wraps around silently."""


class SnapshotError(MuntinError, ValueError):
    """The bytes are not a snapshot that this aggregator can restore."""


class LawError(MuntinError, AssertionError):
    """An aggregation breaks a law that it claims; the message holds the counterexample."""


class InvariantError(MuntinError, AssertionError):
    """`check()` found a broken invariant. This is always a bug in muntin."""


class StoreError(MuntinError, OSError):
    """A store did not answer in time. The window is unchanged and still usable."""


class DamagedChunkError(StoreError):
    """A store returned something other than what was written: a torn chunk, or another window's."""


class LeaseError(StoreError):
    """Another process has the window open."""


class SqlError(MuntinError, ValueError):
    """A text is not SQL, or asks for what a query cannot give. The message, `line` and `column` say where, from 1."""

    def __init__(self, reason: str, line: int = 1, column: int = 1) -> None:
        super().__init__(f"line {line}, column {column}: {reason}")
        self.reason, self.line, self.column = reason, line, column

    def __reduce__(self) -> tuple[type[SqlError], tuple[str, int, int]]:
        """Return how it is made again, for pickle."""
        return type(self), (self.reason, self.line, self.column)


class PolicyWarning(UserWarning):
    """A slide policy that claims to be monotone has contradicted itself."""


class CacheFolderWarning(UserWarning):
    """Others can write to the folder of compiled kernels, so its contents are not run."""
