"""The words in which every kernel is written.

A kernel is a plain Python function that calls these names. `generate.py` copies its source into a module in which the
names mean the aggregation at hand, so the calls are inlined. Nothing here runs: the declarations are for readers and
for the type checker.

States are values. One that holds arrays may be a view of the slot it was loaded from: keep it over a store to the same
slot only after `hold`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

State: TypeAlias = Any
"""The state of a window, as `lift` and `combine` return it."""
Slots: TypeAlias = Any
"""An array of states: structured for fixed-size states, of objects for the others."""
Columns: TypeAlias = Any
"""A tuple of the arrays that `lift` reads: values, then the masks of what is not null."""
Outputs: TypeAlias = Any
"""A tuple of the arrays that `emit` writes: for each aggregation its values and, where there can be nulls, a mask."""
Ints: TypeAlias = Any
"""An array of int64: times, counters, positions."""

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Mark a function, for its readers, as a kernel: its source goes into generated modules, its body never runs."""
    return function


def inlined(function: F) -> F:
    """Mark a kernel whose body goes into its callers: what runs for every row, where a call costs as much as its work.

    Compiled code passes each array of a tuple as seven words. Where states hold arrays, combining them costs more than
    any call, and they are left where they are: inlining those takes long to compile.
    """
    return function


def replaceable(function: F) -> F:
    """Mark a kernel that a module may hold another body of: what calls it does not know which one.

    The others are marked with `replaces`. The body here is the usual one, or raises `undefined` where none is usual.
    """
    function.__muntin_replaceable__ = True  # type: ignore[attr-defined]  # a mark
    return function


def replaces(word: Callable[..., Any]) -> Callable[[F], F]:
    """Mark a kernel that is written into a module under the name of a replaceable one, in the place of that.

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
    """Return the name that a kernel has in a module."""
    return str(getattr(replaced_by(kernel) or kernel, "__name__", ""))


def undefined(name: str) -> NotImplementedError:
    """Return the error of a word that has a meaning only in generated modules."""
    return NotImplementedError(f"{name} has a meaning only inside a generated kernel")


def index(position: int) -> int:
    """Return a position that is known not to be negative: the compiler then does not ask."""
    raise undefined("index")


def lift(columns: Columns, times: Ints, row: int) -> State:
    """Return the state of the window that holds just this row. `times` is read only if an aggregation asks for it."""
    raise undefined("lift")


def combine(older: State, newer: State) -> State:
    """Return the state of two neighbouring windows joined."""
    raise undefined("combine")


def invert(whole: State, part: State) -> State:
    """Return the state of `whole` without `part`, its oldest rows."""
    raise undefined("invert")


def identity() -> State:
    """Return the state of no rows. Only where the aggregation was bound with one (see `Binding.identity`)."""
    raise undefined("identity")


def load(slots: Slots, at: int) -> State:
    """Read a state. A view where it holds arrays."""
    raise undefined("load")


def store(slots: Slots, at: int, state: State) -> None:
    """Write a state, copying what it holds."""
    raise undefined("store")


def hold(state: State) -> State:
    """Return a state that shares no memory with any slot."""
    raise undefined("hold")


def raise_peaks(peaks: Any, state: State) -> None:
    """Note the largest size that each float of the state has had."""
    raise undefined("raise_peaks")


def has_lost_digits(peaks: Any, state: State) -> bool:
    """Return whether a float is no longer finite, or has fallen so far below its peak that rounding could show."""
    raise undefined("has_lost_digits")


def prefers_newer(older: State, newer: State) -> bool:
    """Return whether combine returns the newer of two states. Only for a single selective aggregation."""
    raise undefined("prefers_newer")


def counts(state: State) -> bool:
    """Return whether a row was taken by any aggregation, or was null to all."""
    raise undefined("counts")


def emit(outputs: Outputs, row: int, state: State) -> None:
    """Lower a state into a row of the output."""
    raise undefined("emit")


def emit_empty(outputs: Outputs, row: int) -> None:
    """Write what the aggregations say of no rows."""
    raise undefined("emit_empty")


def must_leave(whole: State, old: State) -> bool:
    """Ask the slide policy whether `old`, the oldest part of the window, must go. Only where there is a policy."""
    raise undefined("must_leave")


def thorough() -> bool:
    """Return whether the policy may answer no for a part and yes for a longer one."""
    raise undefined("thorough")


def spread(view: Any) -> State:
    """Return the state in which every aggregation sees the same sorted window (see `sorted_store` in generate.py)."""
    raise undefined("spread")


# ---------------------------------------------------------------- windows as differences of sums: see sums_text.py

Terms: TypeAlias = Any
"""A number for each term of the aggregations: those of a row, sums of them, or bounds."""


def term_count() -> int:
    """Return how many terms there are."""
    raise undefined("term_count")


def low_count() -> int:
    """Return how many terms, from the first on, have low parts: what is rounded off their sums."""
    raise undefined("low_count")


def centre(columns: Columns, first: int, last: int) -> Any:
    """Return a number near each column: that of the first, the middle or the last row, whichever is in the middle."""
    raise undefined("centre")


def terms(columns: Columns, row: int, around: Any) -> Terms:
    """Return what is summed of a row, centred by the numbers that `centre` has chosen."""
    raise undefined("terms")


def no_terms() -> Terms:
    """Return zeros."""
    raise undefined("no_terms")


def add_terms(a: Terms, b: Terms) -> Terms:
    """Return the sum of each term."""
    raise undefined("add_terms")


def scale_terms(a: Terms, by: float) -> Terms:
    """Return a multiple of each term."""
    raise undefined("scale_terms")


def term_sizes(a: Terms) -> Terms:
    """Return each term without its sign."""
    raise undefined("term_sizes")


def term_rounding(a: Terms, b: Terms, c: Terms) -> Terms:
    """Return what was rounded off when `c` was added to `a`, which gave `b`: exactly."""
    raise undefined("term_rounding")


def take_terms(room: Any, row: int, at: int) -> Terms:
    """Read a column of the room, one row a term."""
    raise undefined("take_terms")


def put_terms(room: Any, row: int, at: int, a: Terms) -> None:
    """Write a column of the room, one row a term."""
    raise undefined("put_terms")


def take_low(room: Any, row: int, at: int) -> Terms:
    """Read low parts; zeros for the terms that have none."""
    raise undefined("take_low")


def put_low(room: Any, row: int, at: int, a: Terms) -> None:
    """Write low parts, of the terms that have them."""
    raise undefined("put_low")


def window_sums(room: Any, upper: int, i: int, lower: int, j: int, high: Terms, low: Terms) -> tuple[Terms, Terms]:
    """Return the sums of the rows after column j up to column i, and their low parts.

    The rows of the room from `upper` and `lower` on hold partial sums, and `high` and `low` are those of the lanes from
    that of j to the one before that of i.
    """
    raise undefined("window_sums")


def emit_sums(outputs: Outputs, row: int, n: float, around: Any, sums: Terms) -> None:
    """Lower the state of n rows with these sums into a row of the output."""
    raise undefined("emit_sums")


def lost_digits(n: float, sums: Terms, rests: Terms, limits: Terms) -> bool:
    """Return whether sums with errors up to `limits`, and a little of the low parts, are too wrong for a definition."""
    raise undefined("lost_digits")
