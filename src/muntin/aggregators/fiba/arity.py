"""The minimal arity, a constant of the compiled code: one kernel `arity` for each that there is."""

from __future__ import annotations

from collections.abc import Callable

from muntin.kernels.vocabulary import kernel


def arity() -> int:
    """Return the least number of children that a node has, the root apart; the greatest is twice that."""
    raise NotImplementedError("arity has a meaning only inside a generated kernel")


class _Two:
    @staticmethod
    @kernel
    def arity() -> int:
        return 2


class _Four:
    @staticmethod
    @kernel
    def arity() -> int:
        return 4


class _Eight:
    @staticmethod
    @kernel
    def arity() -> int:
        return 8


class _Sixteen:
    @staticmethod
    @kernel
    def arity() -> int:
        return 16


ARITIES: dict[int, Callable[[], int]] = {2: _Two.arity, 4: _Four.arity, 8: _Eight.arity, 16: _Sixteen.arity}
"""The kernel `arity` for each value of `min_arity`. All have one name, so that a module holds just one of them."""
