"""`Aggregation`: what to compute, over which columns. It knows nothing of time windows and holds no rows."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from muntin.errors import NotInvertibleError, UnsupportedOperationError
from muntin.kernels.source import stable_text
from muntin.types import value_type

if TYPE_CHECKING:
    from muntin.aggregations.define import Definition, Factory


@dataclass(frozen=True, repr=False, eq=False)
class Aggregation:
    """An aggregation over named columns: `lift`, `combine`, `lower`, a neutral element, perhaps `invert`, and facts.

    The functions can be called directly, uncompiled; aggregators and engines compile them.

    >>> from muntin import agg
    >>> mean = agg.mean("v")
    >>> float(mean.lower(mean.combine(mean.lift(1.0), mean.lift(2.0))))
    1.5
    """

    factory: Factory
    columns: tuple[str, ...]
    parameters: tuple[tuple[str, Any], ...] = ()
    skip_nan: bool = False
    where: str | None = None
    """A boolean column; rows for which it is not true are skipped."""
    _algebras: dict[Any, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name it was defined under."""
        return self.factory.name

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of `lift`, and behind them that of `where`, each once.

        >>> from muntin import agg
        >>> agg.sum("v", where="paid").reads, agg.any("paid", where="paid").reads
        (('v', 'paid'), ('paid',))
        """
        return tuple(dict.fromkeys((*self.columns, *(() if self.where is None else (self.where,)))))

    @property
    def unfiltered(self) -> Aggregation:
        """The same over all rows, whatever `where` says."""
        return self if self.where is None else replace(self, where=None)

    @property
    def definition(self) -> Definition:
        """The definition that holds the facts all types share."""
        return self.factory.first

    @property
    def commutative(self) -> bool:
        """Whether the order of the arguments of `combine` is irrelevant."""
        return all(d.commutative for d in self.factory.definitions.values())

    @property
    def invertible(self) -> bool:
        """Whether `invert` can remove a part from a whole."""
        return all(d.invertible for d in self.factory.definitions.values())

    @property
    def selective(self) -> bool:
        """Whether `combine` always returns one of its arguments."""
        return all(d.selective for d in self.factory.definitions.values())

    @property
    def kind(self) -> str:
        """Distributive, algebraic (a state of fixed size) or holistic (no fixed size)."""
        return self.definition.kind

    @property
    def empty(self) -> Any:
        """The answer for no rows: None, 0 for counts, a list of zeros for several counts.

        >>> from muntin import agg
        >>> agg.max("v").empty, agg.count().empty, agg.histogram("v", edges=[0, 10]).empty
        (None, 0, [0, 0, 0])
        """
        empty, result = self.definition.empty, self.definition.result
        if empty is None or not callable(result):
            return empty
        given = dict(self.parameters)
        spec = result(**{name: given[name] for name in inspect.signature(result).parameters})
        return [empty] * spec[1] if isinstance(spec, tuple) else empty

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that decides what a state means; snapshots carry it."""
        texts = [f"{family}:{d.fingerprint}" for family, d in sorted(self.factory.definitions.items())]
        text = f"{texts}{stable_text(self.parameters)}{self.skip_nan}"
        text += "" if self.where is None else f" where {self.where!r}"
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def meaning(self) -> tuple[str, str]:
        """Everything that decides how it is computed: what a state means, and shortcuts to the answers."""
        return self.fingerprint, "".join(d.shortcut for d in self.factory.definitions.values())

    def lift(self, *values: Any, time: int = 0) -> Any:
        """Return the state of a window that holds just this row."""
        from muntin.aggregations.binding import plain_algebra  # binding imports this module

        kinds = tuple(value_type(value) for value in values)
        if kinds not in self._algebras:
            self._algebras[kinds] = plain_algebra(self, kinds)
        algebra = self._algebras[kinds]
        state = algebra.lift(*values, time)
        self._algebras[type(state)] = algebra
        return state

    def combine(self, older: Any, newer: Any) -> Any:
        """Return the merged state of two adjacent windows."""
        return self._algebra_of(older).combine(older, newer)

    def lower(self, state: Any) -> Any:
        """Return the answer that a state stands for."""
        return self._algebra_of(state).lower(state)

    def invert(self, whole: Any, part: Any) -> Any:
        """Return `whole` without `part`, its oldest rows."""
        if not self.invertible:
            raise NotInvertibleError(f"{self} has no invert: what it has taken in cannot be taken out again")
        return self._algebra_of(whole).invert(whole, part)

    def neutral(self, *kinds: Any) -> Any:
        """Return the neutral element, for columns of these types (float64 by default)."""
        from muntin.aggregations.binding import plain_algebra  # binding imports this module
        from muntin.types import FLOAT64

        algebra = plain_algebra(self, kinds or tuple(FLOAT64 for _ in self.columns))
        neutral: Callable[[], Any] | None = algebra.neutral
        if neutral is None:
            raise UnsupportedOperationError(f"{self} defines no neutral element; an empty marker stands in for it")
        return neutral()

    def _algebra_of(self, state: Any) -> Any:
        if type(state) not in self._algebras:
            from muntin.aggregations.binding import plain_algebra  # binding imports this module
            from muntin.types import FLOAT64

            self._algebras[type(state)] = plain_algebra(self, tuple(FLOAT64 for _ in self.columns))
        return self._algebras[type(state)]

    def __eq__(self, other: object) -> bool:
        """Compare by meaning and columns."""
        return isinstance(other, Aggregation) and (self.fingerprint, self.columns) == (other.fingerprint, other.columns)

    def __hash__(self) -> int:
        """Hash by meaning and columns."""
        return hash((self.fingerprint, self.columns))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be made again."""
        return {**self.__dict__, "_algebras": {}}

    def __repr__(self) -> str:
        """Show the call that made it."""
        return self._called("count" if self.name in ("count_rows", "count_values") else self.name)

    @property
    def stable_text(self) -> str:
        """What it is as a parameter of another one, the same in every process."""
        return f"{self.fingerprint}{self.columns}"

    @property
    def identity(self) -> str:
        """Its definition and parameters in words, the same in every version: what snapshots know it by."""
        return self._called(self.name)

    def _called(self, name: str) -> str:
        inner = [each for _, each in self.parameters if isinstance(each, Aggregation)]  # they name columns themselves
        words = [repr(column) for column in self.columns[: len(self.columns) - sum(len(each.reads) for each in inner)]]
        words += map(repr, inner)
        words += [f"{key}={value!r}" for key, value in self.parameters if not isinstance(value, Aggregation)]
        words += ["skip_nan=True"] if self.skip_nan else []
        words += [] if self.where is None else [f"where={self.where!r}"]
        return f"agg.{name}({', '.join(words)})"
