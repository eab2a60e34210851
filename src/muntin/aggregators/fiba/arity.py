"""The minimal arity, a constant of the compiled code: one kernel per possible value."""

from __future__ import annotations

from collections.abc import Callable

from muntin.kernels.vocabulary import kernel, replaceable, replaces, undefined


@replaceable
def arity() -> int:
    """Return the least number of children of a node, except the root; the greatest is twice that."""
    raise undefined("arity")


@replaces(arity)
@kernel
def two() -> int:
    """Return the arity of a tree with `min_arity=2`."""
    return 2


@replaces(arity)
@kernel
def four() -> int:
    """Return the arity of a tree with `min_arity=4`."""
    return 4


@replaces(arity)
@kernel
def eight() -> int:
    """Return the arity of a tree with `min_arity=8`."""
    return 8


@replaces(arity)
@kernel
def sixteen() -> int:
    """Return the arity of a tree with `min_arity=16`."""
    return 16


ARITIES: dict[int, Callable[[], int]] = {2: two, 4: four, 8: eight, 16: sixteen}
"""The replacement of `arity` for each value of `min_arity`."""
