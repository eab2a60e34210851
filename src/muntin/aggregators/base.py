"""The abstract data type that all aggregators share: values in, times in order or not, one answer out.

Here is what does not depend on the structure: the types of values and times, conversion when they widen, errors,
snapshots, checks. A structure adds its kernels and says how it is laid out in arrays.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding, bind
from muntin.aggregators import drive
from muntin.aggregators.answers import read_answer
from muntin.aggregators.states import States, converted, counting
from muntin.columns import Column, boxed, mask_of, read_column, select
from muntin.errors import (
    ColumnTypeError,
    InvalidArgumentError,
    InvariantError,
    NotInvertibleError,
    SnapshotError,
)
from muntin.snapshots import Snapshot
from muntin.types import (
    INT64,
    NULL,
    OBJECT,
    Array,
    ColumnType,
    column_type,
    numpy_type,
    physical_value,
    value_type,
    wider,
)

_SINGLE = "value"


class Aggregator(ABC):
    """A window of rows, each with a time, and the aggregate of all of them.

    `aggregation` is one aggregation, or a mapping of names to several, which then share the structure. The types of the
    columns are those of the first values, and widen when they must (integers to floats); `dtype` settles them from the
    start. `nullable=False` promises that no value is null, and saves eight bytes a state. `count_combines` counts the
    calls of combine in `combines`, and runs uncompiled. `compiled=False` runs the same kernels as plain Python.
    """

    structure: ClassVar[tuple[Any, ...]]
    """The kernels of this structure: `push`, `pop`, `total`, and what else it can do."""
    entries: ClassVar[tuple[str, ...]] = ()
    """Those kernels that are called from Python, besides the common ones."""
    needs_invert: ClassVar[bool] = False
    needs_identity: ClassVar[bool] = False
    _window: tuple[Array, ...]
    """The arrays that hold the structure; its kernels know what is where."""

    def __init__(
        self,
        aggregation: Aggregation | Mapping[str, Aggregation],
        *,
        dtype: Any = None,
        nullable: bool = True,
        count_combines: bool = False,
        compiled: bool = True,
    ) -> None:
        self._single = not isinstance(aggregation, Mapping)
        self._aggregations: dict[str, Aggregation] = _named(aggregation)
        for each in self._aggregations.values():
            if self.needs_invert and not each.invertible:
                raise NotInvertibleError(
                    f"{type(self).__name__} takes rows out by invert, and {each} has none; TwoStacks needs none"
                )
        names = tuple(dict.fromkeys(c for each in self._aggregations.values() for c in each.columns))
        self._types: dict[str, ColumnType] = _declared_types(names, dtype)
        self._time_type: ColumnType | None = None
        self._plain = count_combines or not compiled
        self._counter: list[int] | None = [0] if count_combines else None
        self._nullable = nullable
        self._rebind()

    # ------------------------------------------------------------ what the user calls

    def insert(self, t: Any, v: Any = None) -> None:
        """Insert a value at a time."""
        time = self._time(t)
        row = self._row(v)
        self._admit(row)
        self._fill(row)
        self._time_cell[0] = time
        self._insert(self._cells, self._time_cell, 1)

    def bulk_insert(self, ts: Any, vs: Any = None) -> None:
        """Insert many values. All of them are checked first: a refused call changes nothing."""
        times = self._times(ts)
        columns = self._columns_of(vs)
        for name, column in columns.items():
            if len(column.values) != len(times):
                raise InvalidArgumentError(
                    f"column {name!r} has {len(column.values)} rows, and there are {len(times)} times"
                )
        self._admit_columns(columns)
        self._insert(self._physical(columns, len(times)), times, len(times))

    @abstractmethod
    def evict(self) -> None:
        """Remove the oldest row."""

    @abstractmethod
    def bulk_evict(self, t: Any) -> None:
        """Remove all rows whose time is at most t."""

    def query(self) -> Any:
        """Return the aggregate of the window: a value, or a dict of them where there are several aggregations."""
        outputs = self._binding.outputs(1)
        if len(self):
            self._module.answer(self._window, outputs)
        return self._answer(outputs, empty=not len(self))

    @abstractmethod
    def range_query(self, lo: Any, hi: Any) -> Any:
        """Return the aggregate of the rows with lo <= time <= hi."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @property
    @abstractmethod
    def oldest(self) -> Any:
        """The least time in the window, None if it is empty."""

    @property
    @abstractmethod
    def youngest(self) -> Any:
        """The greatest time in the window, None if it is empty."""

    @property
    def combines(self) -> int:
        """How often combine (or invert) was called; only with `count_combines=True`."""
        if self._counter is None:
            raise InvalidArgumentError("combines are counted only with count_combines=True")
        return self._counter[0]

    def snapshot(self) -> bytes:
        """Return the window as bytes: a header, the arrays as they are, a checksum. O(n), a copy of memory."""
        header = {"structure": type(self).__name__, "options": {"nullable": self._nullable, **self._options()}}
        schema = [(name, kind.logical) for name, kind in self._types.items()]
        schema.append(("time", None if self._time_type is None else self._time_type.logical))
        return Snapshot(header, schema, self._binding.fingerprint, self._arrays()).encode()

    @classmethod
    def restore(cls, data: bytes, aggregation: Aggregation | Mapping[str, Aggregation], **options: Any) -> Self:
        """Return the window that `snapshot` saved. Refuses bytes of another structure or aggregation, or damaged ones.

        `allow_pickle=True` reads a window of Python objects that only pickle can write; never do that with bytes of
        unknown origin.
        """
        allow_pickle = options.pop("allow_pickle", False)
        snapshot = Snapshot.decode(data, allow_pickle=allow_pickle)
        if snapshot.header.get("structure") != cls.__name__:
            raise SnapshotError(f"this is a snapshot of {snapshot.header.get('structure')}, not of {cls.__name__}")
        window = cls(aggregation, **{**snapshot.header["options"], **options})
        if snapshot.fingerprint != window._binding.fingerprint:
            raise SnapshotError(
                f"the snapshot was taken with another aggregation, or another definition of it, than {aggregation!r}"
            )
        *columns, (_, time) = snapshot.schema
        window._types = {name: NULL if kind == pa.null() else column_type(kind) for name, kind in columns}
        window._time_type = None if time is None else column_type(time)
        window._rebind()
        states = States(window._binding)
        window._adopt({name: states.revived(array) for name, array in snapshot.arrays.items()})
        return window

    def check(self) -> None:
        """Verify every invariant of the structure; raise `InvariantError` with the broken one. O(n) combines."""

        def require(holds: bool, message: str) -> None:
            if not holds:
                raise InvariantError(f"{type(self).__name__}: {message}")

        self._check(States(self._binding), require)

    def __repr__(self) -> str:
        """Show what it computes, how full it is, and the answer."""
        inner = next(iter(self._aggregations.values())) if self._single else self._aggregations
        span = f", {self.oldest!r} .. {self.youngest!r}" if len(self) else ""
        return f"<{type(self).__name__} {inner!r}: {len(self)} rows{span}>"

    # ------------------------------------------------------------ what a structure provides

    @abstractmethod
    def _allocate(self) -> None:
        """Make `_window`, the tuple of arrays that holds the structure, empty."""

    @abstractmethod
    def _insert(self, columns: tuple[Array, ...], times: Array, count: int) -> None:
        """Insert rows whose types are settled; refuse them, unchanged, if the structure cannot take their times."""

    @abstractmethod
    def _arrays(self) -> dict[str, Array]:
        """Return the arrays of a snapshot, without the free space."""

    @abstractmethod
    def _adopt(self, arrays: Mapping[str, Array]) -> None:
        """Take over the arrays of a snapshot."""

    @abstractmethod
    def _check(self, states: States, require: Any) -> None:
        """Require every invariant."""

    def _options(self) -> dict[str, Any]:
        """Return the options of the constructor that a restored window needs."""
        return {}

    def _after_conversion(self) -> None:
        """Mend what depends on more than single states, after their type has widened."""

    # ------------------------------------------------------------ types: settled by the first values, widened later

    def _rebind(self) -> None:
        self._binding: Binding = bind(
            self._aggregations,
            self._types,
            time=self._time_type or INT64,
            nullable=self._nullable,
            identity=self.needs_identity,
            plain=self._plain,
        )
        kernels = self._kernels(self._binding)
        self._module: Any = kernels if self._counter is None else counting(self._binding, self.structure, self._counter)
        self._cells: tuple[Array, ...] = (
            *(
                np.zeros(1, OBJECT if self._binding.boxed(c) else kind.physical)
                for c, kind in enumerate(self._binding.types)
            ),
            *(np.ones(1, np.bool_) for _ in self._binding.masks),
        )
        self._time_cell = np.zeros(1, np.int64)
        if not hasattr(self, "_window"):
            self._allocate()

    @classmethod
    def _kernels(cls, binding: Binding) -> Any:
        common = [kernel.__name__ for kernel in drive.COMMON]
        return binding.kernels((*cls.structure, *drive.COMMON), *common, *cls.entries)

    def _convert(self) -> None:
        """Bind anew after a type has widened, and carry the states over."""
        old = self._binding
        self._rebind()
        self._window = tuple(
            converted(old, self._binding, array) if array.dtype == old.dtype else array for array in self._window
        )
        self._after_conversion()

    def _admit(self, row: tuple[Any, ...]) -> None:
        """Widen the types of the columns so that they take this row."""
        kinds = [value_type(value) for value in row]
        if not self._nullable and self._skipped(row):
            raise ColumnTypeError(f"{row!r} holds a null, and the aggregator was built with nullable=False")
        widened = [self._widen(*each) for each in zip(self._binding.columns, kinds, row, strict=True)]
        if True in widened:
            self._convert()

    def _skipped(self, row: tuple[Any, ...]) -> bool:
        skips = any(each.skip_nan for each in self._aggregations.values())
        return any(value is None or (skips and value != value) for value in row)

    def _widen(self, name: str, kind: ColumnType, value: Any) -> bool:
        old = self._types[name]
        new = wider(old, kind) if old.physical != OBJECT or old.logical is not None else old
        if new is None:
            raise ColumnTypeError(
                f"column {name!r} holds {old}, and {value!r} is {kind}; settle the type with dtype= when building"
            )
        if new == old:
            return False
        # Refuse a type that the aggregation has no definition or no conversion for, before anything changes.
        after = bind(self._aggregations, {**self._types, name: new}, nullable=True, identity=self.needs_identity)
        if old != NULL:
            converted(self._binding, after, self._binding.slots(0))
        self._types[name] = new
        return True

    def _admit_columns(self, columns: Mapping[str, Column]) -> None:
        for name, column in columns.items():
            if column.valid is not None and not self._nullable:
                raise ColumnTypeError(f"column {name!r} holds a null, and the aggregator was built with nullable=False")
        kinds = [(name, column.type, f"an array of {column.type}") for name, column in columns.items()]
        widened = [self._widen(*each) for each in kinds]
        if True in widened:
            self._convert()

    # ------------------------------------------------------------ values and times, into physical form

    def _row(self, v: Any) -> tuple[Any, ...]:
        width = len(self._binding.columns)
        if width == 1:
            return (v,)
        if width == 0:
            return ()
        if not isinstance(v, tuple | list) or len(v) != width:
            raise ColumnTypeError(f"{width} values are needed, for {', '.join(self._binding.columns)}; got {v!r}")
        return tuple(v)

    def _fill(self, row: tuple[Any, ...]) -> None:
        """Put a row into the cells that `lift` reads."""
        binding = self._binding
        physical = [
            value if value is None or cell.dtype == OBJECT else physical_value(value, kind, name)
            for name, kind, value, cell in zip(binding.columns, binding.types, row, self._cells, strict=False)
        ]
        for cell, value in zip(self._cells, physical, strict=False):
            if value is not None or cell.dtype == OBJECT:
                cell[0] = value
        for mask, (positions, skip_nan) in zip(self._cells[len(row) :], binding.masks, strict=True):
            used = [row[p] for p in positions]
            mask[0] = not any(value is None or (skip_nan and value != value) for value in used)

    def _columns_of(self, vs: Any) -> dict[str, Column]:
        names = self._binding.columns
        if not names:
            return {}
        table = isinstance(vs, Mapping) or hasattr(vs, "column_names") or hasattr(vs, "columns")
        if len(names) > 1 and not table:
            cells = [self._row(v) for v in vs]
            vs = {name: [row[i] for row in cells] for i, name in enumerate(names)}
        return select(vs, names)

    def _physical(self, columns: Mapping[str, Column], rows: int) -> tuple[Array, ...]:
        binding = self._binding
        values = [
            boxed(columns[name])
            if binding.boxed(c)
            else np.ascontiguousarray(columns[name].values.astype(binding.types[c].physical, copy=False))
            for c, name in enumerate(binding.columns)
        ]
        masks = [
            mask_of([columns[binding.columns[p]] for p in positions], skip_nan, rows)
            for positions, skip_nan in binding.masks
        ]
        return (*values, *masks)

    def _time(self, t: Any) -> int:
        """Return a time as an integer of the window's unit."""
        if isinstance(t, int) and not isinstance(t, bool):
            return self._in_unit(t, INT64)
        if isinstance(t, np.integer):
            return self._in_unit(int(t), INT64)
        if isinstance(t, np.datetime64 | datetime.date):
            if isinstance(t, np.datetime64) and np.isnat(t):
                raise InvalidArgumentError("a row's time is NaT; every row needs a time")
            kind = value_type(t)
            assert kind.logical is not None
            if not pa.types.is_timestamp(kind.logical):  # a date is the timestamp of its midnight
                t, kind = np.datetime64(str(t), "s"), numpy_type("M8[s]")
            return self._in_unit(t, kind)
        raise InvalidArgumentError(f"a time is an integer or a datetime64; got {t!r}, a {type(t).__name__}")

    def _in_unit(self, t: Any, kind: ColumnType) -> int:
        if self._time_type is None:
            self._time_type = kind
        if kind == INT64 and self._time_type == INT64:
            if not -(2**63) <= t < 2**63:
                raise InvalidArgumentError(f"the time {t} does not fit int64")
            return int(t)
        if (kind == INT64) != (self._time_type == INT64):
            raise InvalidArgumentError(f"the window's times are {self._time_type}, and {t!r} is {kind}")
        return int(physical_value(t, self._time_type, "time"))

    def _times(self, ts: Any) -> Array:
        column = read_column(ts, "time")
        if column.valid is not None:
            row = int(np.argmin(column.valid))
            raise InvalidArgumentError(f"the time of row {row} is null; every row needs a time")
        if not len(column.values):
            return np.zeros(0, np.int64)
        kind = column.type
        if kind.family == "integer":
            kind = INT64
        elif kind.family != "temporal":
            raise InvalidArgumentError(f"times are integers or datetime64; got {kind}")
        if self._time_type is None:
            self._time_type = kind if kind == INT64 or pa.types.is_timestamp(kind.logical) else numpy_type("M8[s]")
        if kind == self._time_type:
            return np.ascontiguousarray(column.values.astype(np.int64, copy=False))
        return np.array([self._time(t) for t in np.asarray(ts)], np.int64)

    def _logical_time(self, t: Any) -> Any:
        assert self._time_type is not None
        if self._time_type == INT64:
            return int(t)
        assert self._time_type.logical is not None
        return np.datetime64(int(t), self._time_type.logical.unit)

    def _answer(self, outputs: tuple[Array, ...], *, empty: bool) -> Any:
        answers = read_answer(self._binding, outputs, empty)
        return answers[_SINGLE] if self._single else answers


def _named(aggregation: Aggregation | Mapping[str, Aggregation]) -> dict[str, Aggregation]:
    named = dict(aggregation) if isinstance(aggregation, Mapping) else {_SINGLE: aggregation}
    for name, each in named.items():
        if not isinstance(each, Aggregation):
            raise InvalidArgumentError(f"an aggregation is needed, such as agg.max('v'); {name!r} is {each!r}")
    if not named:
        raise InvalidArgumentError("at least one aggregation is needed")
    return named


def _declared_types(names: tuple[str, ...], dtype: Any) -> dict[str, ColumnType]:
    if isinstance(dtype, Mapping):
        return {name: _as_type(dtype[name]) if name in dtype else NULL for name in names}
    return {name: NULL if dtype is None else _as_type(dtype) for name in names}


def _as_type(dtype: Any) -> ColumnType:
    return column_type(dtype) if isinstance(dtype, pa.DataType) else numpy_type(dtype)
