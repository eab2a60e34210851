"""The abstract data type of all aggregators: values in, times in order or not, one answer out.

Here is what does not depend on the structure: the types of values and times, conversion when they widen, errors,
snapshots, checks. A structure adds its kernels and declares its layout in arrays.
"""

from __future__ import annotations

import datetime
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from muntin import _html
from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import Binding, SlideRule, bind
from muntin.aggregators import drive
from muntin.aggregators.answers import read_answer, read_answers
from muntin.aggregators.states import States, converted, counting
from muntin.columns import Column, all_valid, mask_of, read_column, read_only, recast, select
from muntin.errors import (
    AggregationOverflowError,
    ColumnTypeError,
    InvalidArgumentError,
    InvariantError,
    NotInvertibleError,
    SnapshotError,
)
from muntin.kernels.tiers import code_of, working_on
from muntin.snapshots import Snapshot, refusing_forged
from muntin.turns import Turn, changing, exclusive, is_interruption
from muntin.types import (
    ANY,
    INT64,
    NULL,
    OBJECT,
    Array,
    ColumnType,
    assignable,
    boxed_value,
    column_type,
    logical_array,
    numpy_type,
    physical_value,
    plain_value,
    value_type,
    wider,
)

_SINGLE = "value"


_ONE_AT_A_TIME = frozenset(
    (
        *("insert", "bulk_insert", "evict", "bulk_evict", "evict_at", "bulk_evict_at", "update", "extend"),
        *("query", "range_query", "range_queries", "snapshot", "flush", "close"),
    )
)
"""Methods that change a window, or read what others may change."""


class Aggregator(ABC):
    """A window of rows, each with a time, and the aggregate of all of them.

    `aggregation` is one aggregation, or a mapping of names to several, which then share the structure. Column types are
    those of the first values, and widen if they must (integers to floats); `dtype` fixes them from the start.
    `nullable=False` promises that no value is null, and saves eight bytes per state. `count_combines` counts calls of
    combine in `combines`, and runs uncompiled. `compiled=False` runs the same kernels as plain Python.
    """

    structure: ClassVar[tuple[Any, ...]]
    """The kernels of this structure: `push`, `pop`, `total`, and its further operations."""
    entries: ClassVar[tuple[str, ...]] = ()
    """The kernels called from Python, besides the common ones."""
    title: ClassVar[str] = ""
    """The public name, if it differs from that of the class."""
    needs_invert: ClassVar[bool] = False
    needs_identity: ClassVar[bool] = False
    _turn: Turn
    """Held by the thread whose call is running."""
    _halfway = False
    """Whether a call was interrupted while it changed the window."""
    _codes_of: Any = None
    """The module of kernels whose machine code is in `_codes`."""
    _codes: dict[str, Callable[..., Any]]
    _window: Any
    """The arrays of the structure: a named tuple, declared beside the structure's kernels."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Let only one thread at a time call the methods defined here."""
        super().__init_subclass__(**options)
        for name in _ONE_AT_A_TIME & vars(cls).keys():
            setattr(cls, name, exclusive(vars(cls)[name]))

    def __init__(
        self,
        aggregation: Aggregation | Mapping[str, Aggregation],
        *,
        dtype: Any = None,
        nullable: bool = True,
        count_combines: bool = False,
        compiled: bool = True,
    ) -> None:
        self._turn = threading.RLock()  # methods call each other
        for name, flag in (("nullable", nullable), ("count_combines", count_combines), ("compiled", compiled)):
            if not isinstance(flag, bool | np.bool_):
                raise InvalidArgumentError(f"{name} is {flag!r}; it is True or False")
        self._single = not isinstance(aggregation, Mapping)
        self._aggregations: dict[str, Aggregation] = named(aggregation)
        for each in self._aggregations.values():
            if self.needs_invert and not each.invertible:
                raise NotInvertibleError(
                    f"{type(self).__name__} takes rows out by invert, and {each} has none; TwoStacks needs none"
                )
        names = tuple(dict.fromkeys(c for each in self._aggregations.values() for c in each.reads))
        conditions = {each.where for each in self._aggregations.values()}
        self._types: dict[str, ColumnType] = _declared_types(names, dtype, conditions)
        self._declared = frozenset(name for name, kind in self._types.items() if kind != NULL)
        self._time_type: ColumnType | None = None
        self._plain = count_combines or not compiled
        self._counter: list[int] | None = [0] if count_combines else None
        self._nullable = bool(nullable)
        self._rebind()

    @classmethod
    @abstractmethod
    def over(cls, binding: Binding, rows: int) -> tuple[Any, Any]:
        """Return the kernels of this structure and an empty window with room for `rows` rows in order."""

    @classmethod
    def require_suited(cls, binding: Binding) -> None:
        """Raise `NotInvertibleError` for aggregations that this structure cannot hold."""
        if cls.needs_invert and not binding.invertible:
            what = ", ".join(map(str, binding.aggregations))
            raise NotInvertibleError(
                f"{cls.__name__} takes rows out by invert, and {what} has none; TwoStacks needs none"
            )

    # ------------------------------------------------------------ public methods

    @exclusive
    def insert(self, t: Any, v: Any = None) -> None:
        """Insert a value at a time. A rejected value changes nothing."""
        types, row, physical = self._read_value(v)
        time_type, time = self._read_time(t)
        self._require_units(time_type)
        self._accept(np.array([time], np.int64))
        with changing(self):
            self._take_types(time_type, types)
            self._fill(row, physical)
            self._time_cell[0] = time
            self._insert(self._cell_views, self._time_view, 1)

    @exclusive
    def bulk_insert(self, ts: Any, vs: Any = None) -> None:
        """Insert many values. All are checked first: a rejected call changes nothing."""
        columns, times = self._taken_as_they_are(ts, vs) or self._read_rows(ts, vs)
        if len(times):
            with working_on(len(times)), changing(self):
                self._insert(columns, times, len(times))

    def _taken_as_they_are(self, ts: Any, vs: Any) -> tuple[tuple[Array, ...], Array] | None:
        """Return the columns and times of rows that need no check except of their order; None for all others.

        Those are NumPy arrays of the types that kernels take. What depends on the types was checked the first time.
        """
        if (
            self._taken_type is None
            or type(ts) is not np.ndarray
            or type(vs) is not np.ndarray
            or vs.dtype != self._taken_type
            or ts.dtype != INT64.physical
            or ts.shape != vs.shape
            or ts.ndim != 1
            or not len(ts)
        ):
            return None
        times = read_only(ts)
        self._accept(times)
        columns: tuple[Array, ...] = (read_only(vs),)
        if self._binding.masks:
            columns += tuple(all_valid(len(ts)) for _ in self._binding.masks)
        return columns, times

    def _read_rows(self, ts: Any, vs: Any) -> tuple[tuple[Array, ...], Array]:
        """Return the columns and times of rows in the types that kernels take, widening those of the window."""
        time_type, times = self._read_times(ts)
        self._require_units(time_type)
        columns = self._columns_of(vs)
        for name, column in columns.items():
            if len(column.values) != len(times):
                raise InvalidArgumentError(
                    f"column {name!r} has {len(column.values)} rows, and there are {len(times)} times"
                )
        types = self._admitted([(name, column.type, column) for name, column in columns.items() if len(times)])
        columns = {name: recast(column, types[name], name) for name, column in columns.items()}
        if not len(times):
            return (), times
        self._require_no_null(columns, len(times))
        self._accept(times)
        with changing(self):
            self._take_types(time_type, types)
        return self._physical(columns, len(times)), read_only(times)

    @abstractmethod
    def evict(self) -> None:
        """Remove the oldest row."""

    @abstractmethod
    def bulk_evict(self, t: Any) -> None:
        """Remove all rows whose time is at most t."""

    @exclusive
    def query(self) -> Any:
        """Return the aggregate of the window: a value, or a dict of values for several aggregations."""
        outputs = self._binding.outputs(1)
        empty = not len(self)
        if not empty:
            self._lower(self._run, "answer", self._window, outputs)
        return self._answer(outputs, empty=empty)

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

    @exclusive
    def snapshot(self) -> bytes:
        """Return the window as bytes: a header, the arrays as they are, a checksum. O(n), a copy of memory."""
        header = {"structure": self._name(), "options": {"nullable": self._nullable, **self._options()}}
        schema = [(name, kind.logical) for name, kind in self._types.items()]
        schema.append(("time", None if self._time_type is None else self._time_type.logical))
        return Snapshot(header, schema, self._binding.fingerprint, self._arrays()).encode()

    @classmethod
    def restore(cls, data: bytes, aggregation: Aggregation | Mapping[str, Aggregation], **options: Any) -> Self:
        """Return the window that `snapshot` saved. Rejects bytes of another structure or aggregation, or damaged ones.

        `allow_pickle=True` reads a window of Python objects that only pickle can write; never use it on bytes of
        unknown origin.
        """
        allow_pickle = options.pop("allow_pickle", False)
        snapshot = Snapshot.decode(data, allow_pickle=allow_pickle)
        if snapshot.header.get("structure") != cls._name():
            raise SnapshotError(f"this is a snapshot of {snapshot.header.get('structure')}, not of {cls._name()}")
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
        with refusing_forged():
            window._adopt({name: states.revived(array) for name, array in snapshot.arrays.items()})
        return window

    @exclusive
    def check(self) -> None:
        """Verify every invariant of the structure; raise `InvariantError` with the broken one. O(n) combines."""

        def require(holds: bool, message: str) -> None:
            if not holds:
                raise InvariantError(f"{self._name()}: {message}")

        self._check(States(self._binding), require)

    def __repr__(self) -> str:
        """Return the aggregations, the number of rows, and the answer."""
        inner = next(iter(self._aggregations.values())) if self._single else self._aggregations
        span = f", {self.oldest!r} .. {self.youngest!r}" if len(self) else ""
        return f"<{self._name()} {inner!r}: {len(self)} rows{span}>"

    def _repr_html_(self) -> str:
        """Return a table, for notebooks."""
        rows = [(str(name), repr(each)) for name, each in self._aggregations.items()]
        ends = [("oldest", self.oldest), ("youngest", self.youngest)] if len(self) else []
        return _html.table(self._name(), [*rows, ("rows", len(self)), *ends])

    @classmethod
    def _name(cls) -> str:
        return cls.title or cls.__name__

    # ------------------------------------------------------------ what a structure provides

    @abstractmethod
    def _allocate(self) -> None:
        """Create an empty `_window`, the named tuple of arrays of the structure."""

    @abstractmethod
    def _accept(self, times: Array) -> None:
        """Reject times that the structure cannot take. Changes nothing."""

    @abstractmethod
    def _insert(self, columns: tuple[Array, ...], times: Array, count: int) -> None:
        """Insert rows that were accepted, in the window's types."""

    @abstractmethod
    def _arrays(self) -> dict[str, Array]:
        """Return the arrays of a snapshot, without the free space."""

    @abstractmethod
    def _adopt(self, arrays: Mapping[str, Array]) -> None:
        """Load the arrays of a snapshot."""

    @abstractmethod
    def _check(self, states: States, require: Any) -> None:
        """Require every invariant."""

    def _form(self) -> tuple[tuple[Any, ...], tuple[str, ...]]:
        """Return the kernels of the structure's current form, and which of them are called from Python."""
        return self.structure, self.entries

    def _rule(self) -> SlideRule | None:
        """Return the slide policy that the kernels call, for the current type of times."""
        return None

    def _options(self) -> dict[str, Any]:
        """Return the options of the constructor that a restored window needs."""
        return {}

    def _arguments(self) -> tuple[dict[str, Aggregation], dict[str, Any]]:
        """Return the aggregations and the options that build such a window."""
        return self._aggregations, {"nullable": self._nullable, **self._options()}

    def _empty_copy(self) -> Self:
        """Return an empty window with the same aggregations, options and types."""
        aggregations, options = self._arguments()
        copy = type(self)(aggregations, **options)
        copy._types, copy._time_type = dict(self._types), self._time_type
        copy._rebind()
        copy._allocate()
        return copy

    def _after_conversion(self) -> None:
        """Repair what depends on more than single states, after their type has widened."""

    # ------------------------------------------------------------ types: those of the first values, widened later

    def _rebind(self) -> None:
        self._binding: Binding = bind(
            self._aggregations,
            self._types,
            time=self._time_type,
            nullable=self._nullable,
            identity=self.needs_identity,
            plain=self._plain,
            rule=self._rule(),
        )
        self._module: Any = self._load_kernels()
        self._cells: tuple[Array, ...] = (
            *(
                np.zeros(1, OBJECT if self._binding.boxed(c) else kind.physical)
                for c, kind in enumerate(self._binding.types)
            ),
            *(np.ones(1, np.bool_) for _ in self._binding.masks),
        )
        self._taken_type = self._type_taken_as_it_is()
        self._time_cell = np.zeros(1, np.int64)
        # Kernels get everything read-only: another kind of array would need another compilation.
        self._cell_views = tuple(map(read_only, self._cells))
        self._time_view = read_only(self._time_cell)
        if not hasattr(self, "_window"):
            self._allocate()

    def _type_taken_as_it_is(self) -> np.dtype[Any] | None:
        """Return the type of values that need no check: of a single column, if times are int64; else None."""
        binding = self._binding
        if self._time_type != INT64 or len(binding.columns) != 1 or any(a.skip_nan for a in binding.aggregations):
            return None
        kind = binding.types[0]
        plain = not binding.boxed(0) and kind.family in ("boolean", "integer", "floating")
        return kind.physical if plain and numpy_type(kind.physical) == kind == self._types[binding.columns[0]] else None

    def _run(self, name: str, *arguments: Any) -> Any:
        """Run a kernel whose arguments keep their types as long as the window has these kernels.

        After the first time its machine code is called directly: numbers are int64, and arrays are those of the window,
        of its answers, or rows from `read_only`.
        """
        module = self._module
        if self._codes_of is not module:
            self._codes, self._codes_of = {}, module
        code = self._codes.get(name)
        if code is not None:
            return code(*arguments)
        kernel = getattr(module, name)
        answer = kernel(*arguments)
        code = code_of(kernel, arguments)
        if code is not None:
            self._codes[name] = code
        return answer

    def _run_changing(self, name: str, *arguments: Any) -> None:
        """Run a kernel as `_run` does, as the part of a call that changes the window.

        The same as `with changing(self)`, which takes a quarter of a microsecond.
        """
        self._halfway = True
        try:
            self._run(name, *arguments)
        except BaseException as error:
            self._halfway = is_interruption(type(error))
            raise
        self._halfway = False

    def _load_kernels(self) -> Any:
        structure, entries = self._form()
        if self._counter is not None:
            return counting(self._binding, structure, self._counter)
        return kernels_of(self._binding, structure, entries)

    def _take_types(self, time_type: ColumnType, types: dict[str, ColumnType]) -> None:
        """Adopt types that fit; if they are wider, rebind and convert the states."""
        if self._time_type == time_type and self._types == types:
            return
        self._time_type, self._types = time_type, types
        old = self._binding
        self._rebind()
        if not len(self):
            self._allocate()
            return
        self._window = self._window._make(
            converted(old, self._binding, array) if array.dtype == old.dtype else array for array in self._window
        )
        self._after_conversion()

    def _admitted(self, values: list[tuple[str, ColumnType, Any]]) -> dict[str, ColumnType]:
        """Return the column types widened for these values. Changes nothing; rejects what does not fit."""
        if all(kind is self._types[name] for name, kind, _ in values):
            return self._types
        types = dict(self._types)
        for name, kind, shown in values:
            old = types[name]
            if name in self._declared:
                new = old if assignable(kind, old) else None
            else:
                new = old if old == ANY else wider(old, kind)
            if new is None:
                what = f"an array of {kind}" if isinstance(shown, Column) else shown
                raise ColumnTypeError(
                    f"column {name!r} holds {old}, and {what!r} is {kind}; give the type with dtype= when building"
                )
            types[name] = new
        if types != self._types:
            after = bind(self._aggregations, types, nullable=self._nullable, identity=self.needs_identity)
            if len(self):
                converted(self._binding, after, self._binding.slots(0))
        return types

    def _require_units(self, time_type: ColumnType) -> None:
        """Reject times whose unit cannot express a duration of an aggregation."""
        if self._time_type is not None:
            return
        timed = {name: each for name, each in self._aggregations.items() if each.definition.durations}
        if timed:
            bind(timed, self._types, time=time_type)

    def _skipped(self, row: tuple[Any, ...]) -> bool:
        skips = any(each.skip_nan for each in self._aggregations.values())
        return any(value is None or (skips and value != value) for value in row)

    def _require_no_null(self, columns: Mapping[str, Column], rows: int) -> None:
        if self._nullable:
            return
        skips = any(each.skip_nan for each in self._aggregations.values())
        for name, column in columns.items():
            if (skips or column.valid is not None) and not mask_of([column], skips, rows).all():
                raise ColumnTypeError(f"column {name!r} holds a null, and the aggregator was built with nullable=False")

    # ------------------------------------------------------------ values and times, into physical form

    def _row(self, v: Any) -> tuple[Any, ...]:
        width = len(self._binding.columns)
        if width == 1:
            return (plain_value(v),)
        if width == 0:
            return ()
        if not isinstance(v, tuple | list) or len(v) != width:
            raise ColumnTypeError(f"{width} values are needed, for {', '.join(self._binding.columns)}; got {v!r}")
        return tuple(map(plain_value, v))

    def _read_value(self, v: Any) -> tuple[dict[str, ColumnType], tuple[Any, ...], list[Any]]:
        """Return the types widened for a row's value, the value of each column, and those as kernels take them."""
        row = self._row(v)
        names = self._binding.columns
        types = self._admitted([(name, value_type(value), value) for name, value in zip(names, row, strict=True)])
        physical = [
            value if value is None or types[name].physical == OBJECT else physical_value(value, types[name], name)
            for name, value in zip(names, row, strict=True)
        ]
        if not self._nullable and self._skipped(row):
            raise ColumnTypeError(f"{row!r} holds a null, and the aggregator was built with nullable=False")
        return types, row, physical

    def _fill(self, row: tuple[Any, ...], physical: list[Any]) -> None:
        """Put a row into the cells that `lift` reads."""
        for cell, value, held in zip(self._cells, row, physical, strict=False):
            if value is not None or cell.dtype == OBJECT:
                cell[0] = boxed_value(value) if cell.dtype == OBJECT else held
        for cell, mask in zip(self._cells[len(row) :], self._binding.masks, strict=True):
            cell[0] = mask.takes(row)

    def _columns_of(self, vs: Any) -> dict[str, Column]:
        names = self._binding.columns
        if not names:
            return {}
        if len(names) == 1 and type(vs) is np.ndarray:
            return {names[0]: read_column(vs, names[0])}
        table = isinstance(vs, Mapping) or hasattr(vs, "column_names") or hasattr(vs, "columns")
        if len(names) > 1 and not table:
            cells = [self._row(v) for v in vs]
            vs = {name: [row[i] for row in cells] for i, name in enumerate(names)}
        return select(vs, names)

    def _physical(self, columns: Mapping[str, Column], rows: int) -> tuple[Array, ...]:
        return tuple(map(read_only, self._binding.inputs(columns, rows)))

    def _time(self, t: Any) -> int:
        """Return a time as an integer of the window's unit."""
        return self._read_time(t)[1]

    def _read_time(self, t: Any) -> tuple[ColumnType, int]:
        """Return the window's time type widened for this time, and the time in its unit. Changes nothing."""
        if type(t) is int and self._time_type is INT64 and -(2**63) <= t < 2**63:
            return INT64, t
        t = t.to_datetime64() if hasattr(t, "to_datetime64") else t
        if isinstance(t, int | np.integer) and not isinstance(t, bool | np.timedelta64):
            t, kind = int(t), INT64
            if not -(2**63) <= t < 2**63:
                raise InvalidArgumentError(f"the time {t} does not fit int64")
        elif isinstance(t, np.datetime64 | datetime.date):
            if isinstance(t, np.datetime64) and np.isnat(t):
                raise InvalidArgumentError("a row's time is NaT; every row needs a time")
            kind = value_type(t)
            if not pa.types.is_timestamp(kind.logical):  # a date is the timestamp of its midnight
                t, kind = np.datetime64(str(t), "s"), numpy_type("M8[s]")
        else:
            raise InvalidArgumentError(f"a time is an integer or a datetime64; got {t!r}, a {type(t).__name__}")
        window = self._time_type or kind
        if (kind == INT64) != (window == INT64):
            raise InvalidArgumentError(f"the window's times are {window}, and {t!r} is {kind}")
        return window, t if window == INT64 else int(physical_value(t, window, "time"))

    def _read_times(self, ts: Any) -> tuple[ColumnType, Array]:
        """Return the window's time type widened for these times, and the times in its unit. Changes nothing."""
        column = read_column(ts, "time")
        if column.valid is not None:
            row = int(np.argmin(column.valid))
            raise InvalidArgumentError(f"the time of row {row} is null; every row needs a time")
        kind = INT64 if column.type.family == "integer" or not len(column.values) else column.type
        if kind.family not in ("integer", "temporal"):
            raise InvalidArgumentError(f"times are integers or datetime64; got {kind}")
        if kind != INT64 and not pa.types.is_timestamp(kind.logical):
            kind = numpy_type("M8[s]")
        window = (self._time_type or kind) if len(column.values) else (self._time_type or INT64)
        if kind == window and (kind == INT64 or kind == column.type):
            if column.values.dtype == np.uint64 and column.values.max() >= 2**63:
                raise InvalidArgumentError(f"the time {column.values.max()} does not fit int64")
            return window, np.ascontiguousarray(column.values.astype(np.int64, copy=False))
        whole = logical_array(column.values, None, column.type)
        return window, np.array(
            [self._read_time(t.as_py() if kind == INT64 else _stamp(t))[1] for t in whole], np.int64
        )

    def _read_bounds(self, los: Any, his: Any) -> tuple[Array, Array]:
        """Return the bounds of many ranges in the unit of the window."""
        low, high = (read_only(self._read_times(each)[1]) for each in (los, his))
        if len(low) != len(high):
            raise InvalidArgumentError(f"there are {len(low)} lower bounds and {len(high)} upper ones")
        return low, high

    def _logical_time(self, t: Any) -> Any:
        assert self._time_type is not None
        if self._time_type == INT64:
            return int(t)
        assert self._time_type.logical is not None
        return np.datetime64(int(t), self._time_type.logical.unit)

    def _lower(self, answer: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a call that lowers a state; an answer that does not fit raises a named error."""
        try:
            return answer(*arguments)
        except OverflowError as error:
            raise AggregationOverflowError(f"{', '.join(map(str, self._aggregations.values()))}: {error}") from error

    def _answer(self, outputs: tuple[Array, ...], *, empty: bool) -> Any:
        answers = read_answer(self._binding, outputs, empty)
        return answers[_SINGLE] if self._single else answers

    def _answers(self, outputs: tuple[Array, ...], held: Array) -> Any:
        answers = read_answers(self._binding, outputs, held)
        return next(iter(answers.values())) if self._single else answers


def kernels_of(binding: Binding, structure: tuple[Any, ...], entries: tuple[str, ...]) -> Any:
    """Return the module of a structure's kernels and the common ones."""
    common = [kernel.__name__ for kernel in drive.COMMON]
    return binding.kernels((*structure, *drive.COMMON), *common, *entries)


def _stamp(scalar: Any) -> Any:
    """Return an Arrow date or timestamp as a datetime64, whatever its unit."""
    if pa.types.is_date(scalar.type):
        return np.datetime64(str(scalar.as_py()), "s")
    return np.datetime64(scalar.value, scalar.type.unit)


def named(aggregation: Aggregation | Mapping[str, Aggregation]) -> dict[str, Aggregation]:
    """Return aggregations by name; reject anything else."""
    named = dict(aggregation) if isinstance(aggregation, Mapping) else {_SINGLE: aggregation}
    for name, each in named.items():
        if not isinstance(each, Aggregation):
            raise InvalidArgumentError(f"an aggregation is needed, such as agg.max('v'); {name!r} is {each!r}")
    if not named:
        raise InvalidArgumentError("at least one aggregation is needed")
    return named


def _declared_types(names: tuple[str, ...], dtype: Any, conditions: Collection[str | None]) -> dict[str, ColumnType]:
    """Return the types that `dtype` declares; if it is one for all columns, `conditions` are still booleans."""
    if isinstance(dtype, Mapping):
        return {name: _as_type(dtype[name]) if name in dtype else NULL for name in names}
    return {name: NULL if dtype is None or name in conditions else _as_type(dtype) for name in names}


def _as_type(dtype: Any) -> ColumnType:
    try:
        return column_type(dtype) if isinstance(dtype, pa.DataType) else numpy_type(dtype)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"dtype is {dtype!r}; give a type of NumPy or Arrow, such as 'f8'") from error
