"""The vocabulary of kernels.

A kernel is a plain Python function that calls these names. `generate.py` copies its source into a module that defines
them for one aggregation, so the calls are inlined. Nothing here runs: the declarations are for readers and the type
checker.

States are values. One that holds arrays may be a view of the slot it was loaded from: `hold` it before a store to the
same slot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

State: TypeAlias = Any
"""The state of a window, as `lift` and `combine` return it."""
Slots: TypeAlias = Any
"""An array of states: structured for fixed-size states, of objects for the others."""
Columns: TypeAlias = Any
"""A tuple of the arrays that `lift` reads: values, then the masks of non-null rows."""
Outputs: TypeAlias = Any
"""A tuple of the arrays that `emit` writes: for each aggregation its values and, if it can be null, a mask."""
Ints: TypeAlias = Any
"""An array of int64: times, counters, positions."""

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Mark a function as a kernel, for readers: its source goes into generated modules, its body never runs."""
    return function


def inlined(function: F) -> F:
    """Mark a kernel to inline: it runs for every row, and a call would cost as much as its work.

    Compiled code passes each array of a tuple as seven words. If states hold arrays, combining them costs more than any
    call, and they are not inlined: that would take long to compile.
    """
    return function


def replaceable(function: F) -> F:
    """Mark a kernel whose body a module may replace: callers do not know which one runs.

    The others are marked with `replaces`. The body here is the default, or raises `undefined`.
    """
    function.__muntin_replaceable__ = True  # type: ignore[attr-defined]  # a mark
    return function


def replaces(word: Callable[..., Any]) -> Callable[[F], F]:
    """Mark a kernel that is written into a module in place of a replaceable one, under its name.

    >>> @replaceable
    ... def arity():
    ...     raise undefined("arity")
    >>> @replaces(arity)
    ... def four():
    ...     return 4
    >>> written_name(four)
    'arity'
    """
    if not hasattr(word, "__muntin_replaceable__"):
        raise TypeError(f"{word.__name__} is not marked as replaceable")

    def mark(function: F) -> F:
        function.__muntin_replaces__ = word  # type: ignore[attr-defined]  # a mark
        return function

    return mark


def replaced_by(kernel: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the kernel that this one replaces, or None."""
    return getattr(kernel, "__muntin_replaces__", None)


def written_name(kernel: Callable[..., Any]) -> str:
    """Return the name of a kernel in a module."""
    return str(getattr(replaced_by(kernel) or kernel, "__name__", ""))


def undefined(name: str) -> NotImplementedError:
    """Return the error for a word that is defined only in generated modules."""
    return NotImplementedError(f"{name} has a meaning only inside a generated kernel")


def index(position: int) -> int:
    """Return a position known to be non-negative, so that compiled code does not check."""
    raise undefined("index")


def lift(columns: Columns, times: Ints, row: int) -> State:
    """Return the state of just this row. `times` is read only if an aggregation needs it."""
    raise undefined("lift")


def combine(older: State, newer: State) -> State:
    """Return the state of two adjacent windows combined."""
    raise undefined("combine")


def invert(whole: State, part: State) -> State:
    """Return the state of `whole` without `part`, its oldest rows."""
    raise undefined("invert")


def identity() -> State:
    """Return the state of no rows. Only if the aggregation was bound with one (see `Binding.identity`)."""
    raise undefined("identity")


def load(slots: Slots, at: int) -> State:
    """Read a state; a view if it holds arrays."""
    raise undefined("load")


def store(slots: Slots, at: int, state: State) -> None:
    """Write a state, copying its arrays."""
    raise undefined("store")


def hold(state: State) -> State:
    """Return a state that shares no memory with any slot."""
    raise undefined("hold")


def raise_peaks(peaks: Any, state: State) -> None:
    """Record the largest size of each float of the state."""
    raise undefined("raise_peaks")


def has_lost_digits(peaks: Any, state: State) -> bool:
    """Return whether a float is not finite, or so far below its peak that rounding errors could show."""
    raise undefined("has_lost_digits")


def prefers_newer(older: State, newer: State) -> bool:
    """Return whether combine returns the newer state. Only for a single selective aggregation."""
    raise undefined("prefers_newer")


def counts(state: State) -> bool:
    """Return whether any aggregation took a row; false if it was null to all."""
    raise undefined("counts")


def emit(outputs: Outputs, row: int, state: State) -> None:
    """Lower a state into a row of the output."""
    raise undefined("emit")


def emit_empty(outputs: Outputs, row: int) -> None:
    """Write the aggregations' answers for no rows."""
    raise undefined("emit_empty")


def must_leave(whole: State, old: State) -> bool:
    """Ask the slide policy whether `old`, the oldest part of the window, must be evicted. Only with a policy."""
    raise undefined("must_leave")


def thorough() -> bool:
    """Return whether the policy may answer no for a part and yes for a longer one."""
    raise undefined("thorough")


def spread(view: Any) -> State:
    """Return the state in which all aggregations see the same sorted window (see `sorted_store` in generate.py)."""
    raise undefined("spread")


# ---------------------------------------------------------------- windows as differences of sums: see sums_text.py

Terms: TypeAlias = Any
"""A number per term of the aggregations: those of a row, sums of them, or bounds."""


def term_count() -> int:
    """Return the number of terms."""
    raise undefined("term_count")


def low_count() -> int:
    """Return how many of the first terms have low parts: what rounding them before they are summed takes off."""
    raise undefined("low_count")


def centre(columns: Columns, first: int, last: int) -> Any:
    """Return a number near each column: the median of the first, the middle and the last row."""
    raise undefined("centre")


def terms(columns: Columns, row: int, around: Any) -> Terms:
    """Return the terms of a row, centred by the numbers of `centre`."""
    raise undefined("terms")


def no_terms() -> Terms:
    """Return zeros."""
    raise undefined("no_terms")


def add_terms(a: Terms, b: Terms) -> Terms:
    """Return the sum of each term."""
    raise undefined("add_terms")


def subtract_terms(a: Terms, b: Terms) -> Terms:
    """Return the difference of each term."""
    raise undefined("subtract_terms")


def larger_terms(a: Terms, b: Terms) -> Terms:
    """Return the larger one of each term."""
    raise undefined("larger_terms")


def round_terms(a: Terms, by: Terms) -> Terms:
    """Return terms rounded to the precision of far larger numbers `by`; as they are if they have no low parts."""
    raise undefined("round_terms")


def outgrown(peaks: Terms, coarse: Terms) -> bool:
    """Return whether sums of rounded terms with these peaks may not be exact."""
    raise undefined("outgrown")


def scale_terms(a: Terms, by: float) -> Terms:
    """Return a multiple of each term."""
    raise undefined("scale_terms")


def term_sizes(a: Terms) -> Terms:
    """Return the absolute value of each term."""
    raise undefined("term_sizes")


def term_rounding(a: Terms, b: Terms, c: Terms) -> Terms:
    """Return the exact rounding error of `b`, the sum of `a` and `c`."""
    raise undefined("term_rounding")


def take_terms(room: Any, row: int, at: int) -> Terms:
    """Read a column of the room, one row per term."""
    raise undefined("take_terms")


def put_terms(room: Any, row: int, at: int, a: Terms) -> None:
    """Write a column of the room, one row per term."""
    raise undefined("put_terms")


def take_low(room: Any, row: int, at: int) -> Terms:
    """Read low parts; zeros for the terms that have none."""
    raise undefined("take_low")


def put_low(room: Any, row: int, at: int, a: Terms) -> None:
    """Write low parts, for the terms that have them."""
    raise undefined("put_low")


def window_sums(room: Any, upper: int, i: int, lower: int, j: int, high: Terms, low: Terms) -> tuple[Terms, Terms]:
    """Return the sums of the rows after column j up to column i, and their low parts.

    The rows of the room from `upper` and `lower` on hold partial sums; `high` and `low` are the sums of the lanes from
    that of j to the one before that of i.
    """
    raise undefined("window_sums")


def emit_sums(outputs: Outputs, row: int, n: float, around: Any, sums: Terms) -> None:
    """Lower the state of n rows with these sums into a row of the output."""
    raise undefined("emit_sums")


def lost_digits(n: float, sums: Terms, rests: Terms, limits: Terms) -> bool:
    """Return whether sums with errors up to `limits`, and a little of the low parts, are too wrong for a definition."""
    raise undefined("lost_digits")
