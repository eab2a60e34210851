"""Binding: several aggregations fused into one product state, with the types of their columns resolved.

From here on there is one state, one `lift`, one `combine`: a kernel cannot tell how many aggregations it runs.
"""

from __future__ import annotations

import hashlib
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.define import Definition, can_say_none, loose, require_values
from muntin.columns import Column, boxed, mask_of, read_only, trues
from muntin.durations import in_any_unit, in_unit_of
from muntin.errors import AggregationOverflowError, ColumnTypeError, DefinitionError
from muntin.forks import Renewed
from muntin.kernels import cache
from muntin.kernels.allocation import can_raise
from muntin.kernels.generate import (
    NULL_BITS,
    Asked,
    Field,
    Generated,
    Member,
    Output,
    Part,
    Rule,
    generate,
    owners,
    wide_name,
)
from muntin.kernels.infer import check_compiles, infer_result
from muntin.kernels.source import Function, stable_text
from muntin.kernels.sums_text import Sums
from muntin.memory import room
from muntin.types import (
    ANY,
    INT64,
    NULL,
    OBJECT,
    Array,
    ColumnType,
    column_type,
    fitting_decimal,
    logical_array,
    numpy_type,
)


@dataclass(frozen=True)
class Ending:
    """What makes answers of states and of where their windows end, where `lower` asks for that."""

    type: ColumnType
    lower: Callable[[Any, Any], Any] = field(compare=False)

    def answers(self, states: Array, ends: Array | None) -> Array:
        """Return the answers of states, the fields of one array; `ends` is None where windows have none. O(n)."""
        with np.errstate(all="ignore"):  # as in kernels
            return np.asarray(self.lower(states.view(np.recarray), ends)).astype(self.type.physical)


@dataclass(frozen=True)
class Result:
    """The type of one aggregation's answers: one type, or several named ones, or an array of a fixed length."""

    types: tuple[ColumnType, ...]
    names: tuple[str, ...] = ()
    length: int | None = None
    ending: Ending | None = None
    """What is still to be done: then kernels give states, and their fields are the names."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of one row of output."""
        if self.names:
            fields = [(name, kind.physical) for name, kind in zip(self.names, self.types, strict=True)]
            return np.dtype(fields, align=not any(kind.physical == OBJECT for kind in self.types))
        return self.types[0].physical if self.length is None else np.dtype((self.types[0].physical, (self.length,)))

    @property
    def logical(self) -> pa.DataType | None:
        """The type of the answers as Arrow has it; None if any Python object may be one."""
        if self.ending is not None:
            return self.ending.type.logical
        if self.names:
            return pa.struct([(name, kind.logical) for name, kind in zip(self.names, self.types, strict=True)])
        single = self.types[0].logical
        return single if self.length is None else pa.list_(single, self.length)

    def array(self, values: Array, valid: Array | None) -> pa.Array:
        """Return answers as an Arrow array; `valid` is False where they are null, None for nowhere."""
        if self.names:
            arrays = [
                logical_array(np.ascontiguousarray(values[name]), valid, kind)
                for name, kind in zip(self.names, self.types, strict=True)
            ]
            mask = None if valid is None else pa.array(~valid)
            return pa.StructArray.from_arrays(arrays, list(self.names), mask=mask)
        if self.length is not None:
            flat = logical_array(values.reshape(-1), None, self.types[0])
            mask = None if valid is None else pa.array(~valid)
            return pa.FixedSizeListArray.from_arrays(flat, self.length, mask=mask)
        return logical_array(values, valid, self.types[0])


@dataclass(frozen=True)
class SlideCondition:
    """A condition of a slide policy: a function of what some aggregations say."""

    function: Function
    constants: Mapping[str, Any]
    members: Mapping[str, str]
    """The names that the function uses, and the aggregations of the binding that they stand for."""

    @property
    def identity(self) -> Any:
        """Everything that decides its meaning."""
        return self.function.identity, stable_text(dict(self.constants)), tuple(self.members.items())


@dataclass(frozen=True)
class SlideRule:
    """A slide policy as an aggregator passes it on: conditions, and how their answers are joined."""

    conditions: tuple[SlideCondition, ...]
    joined: str
    thorough: bool

    @property
    def identity(self) -> Any:
        """Everything that decides its meaning."""
        return tuple(each.identity for each in self.conditions), self.joined, self.thorough


_FEW = 16
_LONGEST = 1 << 28
"""The length of an array in a state that no memory could hold twice."""
_NULL = np.uint64(NULL_BITS)
_NO_MASK = trues(0)


class _Nulls(Enum):
    """How nulls among the answers of an aggregation are told."""

    NONE = "there are none"
    BITS = "by the bits of a NaN"
    MASKED = "by a mask"


def _where_valid(values: Array, mask: Array, nulls: _Nulls) -> Array | None:
    """Return where answers are not null, None where that is everywhere."""
    if nulls is _Nulls.NONE:
        return None
    if nulls is _Nulls.MASKED:
        return mask if np.count_nonzero(mask) < len(mask) else None
    bits = values.view(np.uint64)
    if len(bits) <= _FEW and NULL_BITS not in bits.tolist():  # in a third of the time that NumPy takes
        return None
    valid: Array = bits != _NULL
    return valid


@dataclass(frozen=True)
class Mask:
    """Which rows an aggregation takes: those where its columns are not null, and `where` is true."""

    columns: tuple[int, ...]
    """The numbers of the columns that must not be null."""
    skip_nan: bool
    """Whether NaN counts as null."""
    where: int | None
    """The number of the boolean column that must be true."""

    def of(self, columns: Sequence[Column], rows: int) -> Array:
        """Return it for `rows` rows of all columns of the binding. O(rows)."""
        where = None if self.where is None else columns[self.where]
        return mask_of([columns[c] for c in self.columns], self.skip_nan, rows, where)

    def takes(self, row: Sequence[Any]) -> bool:
        """Say whether one row is taken. O(columns)."""
        used = [row[c] for c in self.columns]
        wanted = self.where is None or bool(row[self.where])
        return wanted and not any(value is None or (self.skip_nan and value != value) for value in used)


@dataclass(frozen=True)
class Binding:
    """Aggregations with resolved types: what a kernel is generated for."""

    names: tuple[str, ...]
    aggregations: tuple[Aggregation, ...]
    columns: tuple[str, ...]
    types: tuple[ColumnType, ...]
    parts: tuple[Part, ...]
    results: tuple[Result, ...]
    masks: tuple[Mask, ...]
    """What is read behind the columns."""
    gaps: bool
    plain: bool
    time: ColumnType | None
    own: tuple[bool, ...]
    """For each aggregation, whether it was defined outside this package."""
    rule: Rule | None = None
    _modules: dict[Any, ModuleType] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def states(self) -> tuple[tuple[int, Part], ...]:
        """The parts that have a state of their own, with their numbers; the others share one of these."""
        return tuple((k, self.parts[k]) for k in sorted(set(owners(self.parts))))

    @cached_property
    def fixed(self) -> bool:
        """Whether the state is a record of numbers, and kernels are compiled."""
        return all(part.fixed for part in self.parts)

    @cached_property
    def bounded(self) -> bool:
        """Whether a state does not grow with its rows, as lists of all values do: more of them may be kept."""
        return self.fixed or all(each.kind != "holistic" for each in self.aggregations)

    @cached_property
    def compiled(self) -> bool:
        """Whether kernels run compiled."""
        return self.fixed and not self.plain and all(kind.physical != OBJECT for kind in self.types)

    @property
    def invertible(self) -> bool:
        """Whether every aggregation can take rows out again."""
        return all("invert" in part.functions for part in self.parts)

    @cached_property
    def may_fail(self) -> bool:
        """Whether combining or lifting can raise an error: with Python objects, or where a definition says `raise`."""
        functions = [function for part in self.parts for function in part.functions.values()]
        functions += [each.function for each in self.rule.conditions] if self.rule is not None else []
        return not self.fixed or any(map(can_raise, functions))

    @property
    def exact(self) -> bool:
        """Whether no state holds a float: the result does not depend on the order of additions."""
        return self.fixed and not self.float_fields

    @property
    def narrow(self) -> bool:
        """Whether a state is a single number, and a combine so short that its latency is what counts."""
        names = self.dtype.names or ()
        return len(names) == 1 and self.dtype[names[0]].shape == ()

    @property
    def float_fields(self) -> int:
        """How many floats, or arrays of them, a state holds."""
        return sum(field.dtype.kind == "f" for _, part in self.states for field in part.fields or ())

    @property
    def lifts_objects(self) -> bool:
        """Whether all states are objects, made of Python values: a list of dates should hold dates, not numbers.

        Of distinct values only the number is asked for, and sorted windows answer with values of the column's own type,
        so that dates may be numbers.
        """
        return all(part.fields is None and not part.distinct and not part.sorted for part in self.parts)

    def boxed(self, column: int) -> bool:
        """Whether `lift` gets this column's values as Python objects."""
        as_number = self.types[column].family in ("temporal", "duration") and not self.lifts_objects
        return not self.fixed and not as_number

    def inputs(self, columns: Mapping[str, Column], rows: int) -> tuple[Array, ...]:
        """Return what `lift` reads of `rows` rows: the values of each column, and masks of those that count.

        Values are read-only, as Arrow's are: for others kernels would be compiled again. O(rows) for masks and objects.
        """
        used = [columns[name] for name in self.columns]
        values = [
            read_only(boxed(column) if is_boxed else column.values.astype(physical, copy=False))
            for column, (physical, is_boxed) in zip(used, self._input_types, strict=True)
        ]
        return (*values, *(mask.of(used, rows) for mask in self.masks))

    @cached_property
    def no_inputs(self) -> tuple[Array, ...]:
        """What `lift` reads of no rows, in the types of `inputs`."""
        columns = zip(self.columns, self.types, strict=True)
        return self.inputs({name: Column(np.zeros(0, kind.physical), None, kind) for name, kind in columns}, 0)

    @cached_property
    def _input_types(self) -> tuple[tuple[np.dtype[Any], bool], ...]:
        """The physical type of each column, and whether `lift` gets its values as Python objects."""
        return tuple((kind.physical, self.boxed(c)) for c, kind in enumerate(self.types))

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type of a slot that holds one state."""
        if not self.fixed:
            return OBJECT
        fields: list[Any] = []
        for k, part in self.states:
            for f in part.fields or ():
                shape = () if f.length is None else ((f.length,),)
                fields.append((f"p{k}_{f.name}", f.dtype, *shape))
        fields += [(f"r{m}", np.dtype("i8")) for m in sorted({p.mask for p in self.parts if p.mask is not None})]
        return np.dtype(fields, align=True)

    @cached_property
    def owned_fields(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The fields of a state in order, each with the names of the aggregations it belongs to.

        If a state is an object they are numbers: the places in the tuple of its parts.
        """
        whose: dict[str, list[str]] = {}
        parts = {k: place for place, (k, _) in enumerate(self.states)}
        masks = sorted({part.mask for part in self.parts if part.mask is not None})
        for name, part, owner in zip(self.names, self.parts, owners(self.parts), strict=True):
            own = [f"p{owner}_{f.name}" for f in part.fields or ()] if self.fixed else [str(parts[owner])]
            if part.mask is not None:
                own.append(f"r{part.mask}" if self.fixed else str(len(parts) + masks.index(part.mask)))
            for each in own:
                whose.setdefault(each, []).append(name)
        order = self.dtype.names or [str(place) for place in range(len(parts) + len(masks))]
        return tuple((each, tuple(whose[each])) for each in order)

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """What each of `inputs` is, whatever the order of aggregations: a column, or a mask of rows."""
        masks = (
            f"mask of {', '.join(self.columns[c] for c in mask.columns)}"
            + (" without NaN" if mask.skip_nan else "")
            + ("" if mask.where is None else f" where {self.columns[mask.where]}")
            for mask in self.masks
        )
        return (*(f"column {name}" for name in self.columns), *masks)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what a slot's bytes mean."""
        prints = [aggregation.fingerprint for aggregation in self.aggregations]
        columns = [aggregation.columns for aggregation in self.aggregations]
        return hashlib.sha256(f"{prints}{self.names}{columns}".encode()).hexdigest()

    def slots(self, count: int) -> Array:
        """Return room for `count` states."""
        return np.zeros(count, self.dtype) if self.fixed else np.full(count, None, OBJECT)

    def outputs(self, rows: int) -> tuple[Array, ...]:
        """Return the arrays that `emit` writes, two for each aggregation: its values, and where they are not null."""
        arrays: list[Array] = []
        for dtype, nulls in self._output_types:
            masked = nulls is _Nulls.MASKED
            arrays += (np.zeros(rows, dtype), trues(rows)) if masked else (room(rows, dtype), _NO_MASK)
        return tuple(arrays)

    @cached_property
    def _output_types(self) -> tuple[tuple[np.dtype[Any], _Nulls], ...]:
        """The type of each aggregation's answers, and how nulls among them are told."""
        return tuple((result.dtype, self._nulls(part)) for part, result in zip(self.parts, self.results, strict=True))

    def _nulls(self, part: Part) -> _Nulls:
        if not (part.output.nullable or (part.empty is None and (self.gaps or part.mask is not None))):
            return _Nulls.NONE
        return _Nulls.BITS if part.output.floating else _Nulls.MASKED

    def raw_results(self, outputs: tuple[Array, ...]) -> list[tuple[Array, Array | None]]:
        """Return the values of each aggregation and where they are not null, None where that is everywhere."""
        written = zip(self._output_types, outputs[::2], outputs[1::2], strict=True)
        raw = [(values, _where_valid(values, mask, nulls)) for (_, nulls), values, mask in written]
        for aggregation, result, (values, valid) in zip(self.aggregations, self.results, raw, strict=True):
            if result.types[0].family == "decimal" and not result.names:
                _fit_decimals(aggregation, result.types[0], values, valid)
        return raw

    @cached_property
    def summed(self) -> bool:
        """Whether states follow from sums over rows, none of which is skipped."""
        numbers = self.fixed and all(kind.physical != OBJECT for kind in self.types)
        return numbers and all("terms" in part.functions and part.mask is None for part in self.parts)

    def kernels(
        self, functions: tuple[Callable[..., Any], ...], *entries: str, sorted_store: bool = False, sums: Sums = "no"
    ) -> ModuleType:
        """Return the module in which these kernels run this binding."""
        compiled = (self.compiled or (sorted_store and not self.plain)) and not cache.is_uncompiled()
        key = (functions, entries, sorted_store, sums, compiled)
        if key not in self._modules:
            generated = self.generate(functions, *entries, sorted_store=sorted_store, sums=sums)
            if compiled:
                self._check_own()
            self._modules[key] = cache.load(generated, compiled=compiled)
        return self._modules[key]

    def _check_own(self) -> None:
        """Refuse definitions of users that do not compile, before any kernel runs them."""
        for part, own in zip(self.parts, self.own, strict=True):
            if own and part.fixed:
                times = ((self.time or INT64).physical,) if part.uses_time else ()
                check_compiles(part, (*(self.types[c].physical for c in part.columns), *times))

    @cached_property
    def uncompiled(self) -> Binding:
        """The same binding, run as plain Python."""
        return replace(self, plain=True, _modules={})

    def generate(
        self, functions: tuple[Callable[..., Any], ...], *entries: str, sorted_store: bool = False, sums: Sums = "no"
    ) -> Generated:
        """Write that module."""
        generated = generate(
            self.parts,
            gaps=self.gaps,
            kernels=functions,
            entries=entries,
            sorted_store=sorted_store,
            sums=sums,
            rule=self.rule,
        )
        if generated.injected and self.compiled:
            name, value = next(iter(generated.injected.items()))
            raise DefinitionError(
                f"a compiled aggregation cannot use {name.split('_', 2)[-1]!r}, a {type(value).__name__} outside it; "
                'use numbers, tuples, arrays, modules and functions, or state="object"'
            )
        return generated


def bind(
    aggregations: Mapping[str, Aggregation],
    types: Mapping[str, ColumnType],
    *,
    time: ColumnType | None = None,
    nullable: bool = True,
    gaps: bool = True,
    has_nan: bool = True,
    identity: bool = False,
    plain: bool = False,
    rule: SlideRule | None = None,
) -> Binding:
    """Fuse aggregations over columns of these types. Remembered: the same call gives the same binding.

    `nullable`: rows can be null. `gaps`: windows can be empty. `has_nan`: NaN can come. `identity`: the kernel needs a
    neutral element. `plain`: run uncompiled. Saying less than is true is wrong; saying more only costs time. `time` is
    the type of the times, None where it is not known yet. `rule`: a slide policy that the kernels may ask.
    """
    flags = (nullable, gaps, has_nan, identity, plain)
    key = (
        tuple((name, each.meaning, each.columns) for name, each in aggregations.items()),
        tuple(types[c] for each in aggregations.values() for c in each.reads),
        (time, *flags),
        None if rule is None else rule.identity,
    )
    with _lock():
        binding = _bindings.get(key)
        if binding is None:
            while len(_bindings) >= _MOST_BINDINGS:
                del _bindings[next(iter(_bindings))]
            binding = _bind(aggregations, types, time, *flags)
            if rule is not None:
                binding = replace(binding, rule=_rule(rule, binding))
            _bindings[key] = binding
    return binding


def _rule(rule: SlideRule, binding: Binding) -> Rule:
    """Find a policy's aggregations among those of a binding."""
    conditions = tuple(
        Asked(each.function, each.constants, _members(each.members, binding)) for each in rule.conditions
    )
    return Rule(conditions, rule.joined, rule.thorough)


def _members(named: Mapping[str, str], binding: Binding) -> tuple[Member, ...]:
    members = []
    for name, aggregation in named.items():
        k = binding.names.index(aggregation)
        result = binding.results[k]
        if result.ending is not None:
            raise DefinitionError(f"{binding.aggregations[k]} asks for the end of its window, which no policy knows")
        members.append(Member(name, k, result.names, tuple(kind.physical for kind in result.types), result.length))
    return tuple(members)


_MOST_BINDINGS = 256
"""With the kernels of each, half a megabyte or so."""
_bindings: dict[Any, Binding] = {}
_lock = Renewed(threading.RLock)


def _bind(
    aggregations: Mapping[str, Aggregation],
    types: Mapping[str, ColumnType],
    time: ColumnType | None,
    nullable: bool,
    gaps: bool,
    has_nan: bool,
    identity: bool,
    plain: bool,
) -> Binding:
    columns = tuple(dict.fromkeys(c for aggregation in aggregations.values() for c in aggregation.reads))
    masks: dict[Mask, int] = {}
    parts, results, own = [], [], []
    for aggregation in aggregations.values():
        kinds = tuple(types[c] for c in aggregation.columns)
        # Where a neutral element is used, NaN comes: it is that of min.
        builder = _PartBuilder(aggregation, kinds, time, has_nan or identity or nullable)
        positions = tuple(columns.index(c) for c in aggregation.columns)
        where = None if aggregation.where is None else columns.index(aggregation.where)
        if where is not None:
            _require_boolean(aggregation, types[columns[where]])
        mask = None
        never_null = () if builder.definition.nulls else positions
        if where is not None or (nullable and never_null) or (identity and not builder.has_neutral):
            mask = len(columns) + masks.setdefault(Mask(never_null, aggregation.skip_nan, where), len(masks))
        parts.append(builder.part(positions, mask))
        results.append(builder.result)
        own.append(builder.definition.own)
    return Binding(
        tuple(aggregations),
        tuple(aggregations.values()),
        columns,
        tuple(types[c] for c in columns),
        tuple(parts),
        tuple(results),
        tuple(masks),
        gaps,
        plain,
        time,
        tuple(own),
    )


def _require_boolean(aggregation: Aggregation, kind: ColumnType) -> None:
    if kind.family != "boolean" and kind != NULL:
        raise ColumnTypeError(
            f"{aggregation}: the column {aggregation.where!r} holds {kind}; where= takes a column of booleans"
        )


class _PartBuilder:
    """Resolves the types of one aggregation."""

    def __init__(
        self, aggregation: Aggregation, kinds: tuple[ColumnType, ...], time: ColumnType | None, has_nan: bool
    ) -> None:
        self.aggregation = aggregation
        self.kinds = kinds
        column = aggregation.columns[0] if aggregation.columns else ""
        family = kinds[0].family if kinds else "any"
        # A column of nulls only has no type yet; any definition does, since no value will reach it.
        known = aggregation.factory.definitions
        if kinds and kinds[0].logical == pa.null() and "any" not in known:
            family = next(iter(known))
        self.definition: Definition = aggregation.factory.definition(family, column, kinds[0] if kinds else "")
        self.named_types = dict(zip(self.definition.columns, kinds, strict=True)) | {"time": time or INT64}
        self.parameters = dict(aggregation.parameters)
        for name in self.definition.durations:
            given, what = self.parameters[name], f"{aggregation.name}: {name}"
            self.parameters[name] = in_any_unit(given, what) if time is None else in_unit_of(given, time, what)
        for name, make in self.definition.derived.items():
            self.parameters[name] = self._of_parameters(make, types=kinds, columns=aggregation.columns, time=time)
        self.constants = self.parameters | _extremes(kinds) | {"has_nan": has_nan and _floating(kinds)}
        self.functions = dict(self.definition.functions)
        neutral = self.functions.get("neutral")
        if neutral and any(self.constants.get(word, "") is None for word in neutral.keywords):
            del self.functions["neutral"]  # the type has no extreme value: the empty marker stands in
        self.has_neutral = "neutral" in self.functions
        asks_for_end = "lower" in self.functions and "end" in self.functions["lower"].keywords
        self.ended_by = self.functions.pop("lower") if asks_for_end else None
        self.state = self.definition.state
        if callable(self.state):
            self.state = self._of_parameters(self.state)
        self.fields = self._fields()
        if self.definition.own:
            self._require_values()

    def _require_values(self) -> None:
        """Refuse functions that return another number of values than the state has, where the types decide that."""
        if isinstance(self.state, Mapping):
            require_values(self.definition.name, self.functions, tuple(self.state))
        elif self.fields is not None and self.fields[0].length is None and self.fields[0].dtype != OBJECT:
            require_values(self.definition.name, self.functions, None)

    def _of_parameters(self, spec: Callable[..., Any], **further: Any) -> Any:
        known = self.parameters | further
        return spec(**{name: known[name] for name in inspect.signature(spec).parameters})

    def _fields(self) -> tuple[Field, ...] | None:
        if self.state in ("object", "sorted", "distinct"):
            return None
        spec = self.state if isinstance(self.state, Mapping) else {"value": self.state}
        return tuple(self._field(name, reference) for name, reference in spec.items())

    def _field(self, name: str, reference: Any) -> Field:
        if not name.isidentifier():
            raise DefinitionError(f"{self.aggregation.name}: a state field is named {name!r}, which is no identifier")
        if isinstance(reference, tuple):
            return Field(name, self._resolve(reference[0]).physical, self._length(reference))
        return Field(name, self._resolve(reference).physical)

    def _length(self, reference: tuple[Any, ...]) -> int:
        length = reference[1] if len(reference) == 2 else None
        if not isinstance(length, int | np.integer) or not 0 < length < _LONGEST:
            raise DefinitionError(
                f"{self.aggregation.name}: {reference!r} is no array of a state; give type and length, ('f8', 10)"
            )
        return int(length)

    def _resolve(self, reference: Any) -> ColumnType:
        if isinstance(reference, ColumnType):
            return reference
        if reference in self.named_types:
            return self.named_types[reference]
        if reference == "object":
            return ANY
        if reference == "difference":
            return _difference(self.kinds[0])
        if reference == "decimal":
            return _decimal_sum(self.kinds[0])
        if reference == "decimal mean":
            return _decimal_mean(self.kinds[0])
        try:
            return numpy_type(reference)
        except TypeError as error:
            raise DefinitionError(
                f"{self.aggregation.name}: {reference!r} is neither a NumPy type nor a column of lift"
            ) from error

    @cached_property
    def result(self) -> Result:
        """The type of the answers: as declared, else the state's own where there is no lower, else inferred."""
        spec = self.definition.result
        if self.ended_by is not None:
            held = self.fields or ()
            kinds = tuple(numpy_type(field.dtype) for field in held)
            return Result(kinds, tuple(field.name for field in held), ending=self._ending(self.ended_by))
        if callable(spec):
            spec = self._of_parameters(spec)
        if isinstance(spec, Mapping):
            return Result(tuple(self._resolve(r) for r in spec.values()), tuple(spec))
        if isinstance(spec, tuple):
            return Result((self._resolve(spec[0]),), length=self._length(spec))
        if spec is not None:
            return Result((self._resolve(spec),))
        fields = self.fields
        if fields is None or any(field.dtype == OBJECT for field in fields):
            return Result((ANY if "lower" in self.functions or fields is None else self._resolve(self._only()),))
        if "lower" not in self.functions and len(fields) == 1:
            return Result((self._resolve(self._only()),), length=fields[0].length)
        dtypes, length = infer_result(self.part((), None, Output()))
        if len(dtypes) == 1:
            return Result((numpy_type(dtypes[0]),), length=length)
        return Result(tuple(numpy_type(d) for d in dtypes), tuple(f"f{i}" for i in range(len(dtypes))))

    def _ending(self, lower: Function) -> Ending:
        return Ending(self._resolve(self.definition.result), loose(lower, self.constants))

    def _only(self) -> Any:
        reference = next(iter(self.state.values())) if isinstance(self.state, Mapping) else self.state
        return reference[0] if isinstance(reference, tuple) else reference

    def part(self, columns: tuple[int, ...], mask: int | None, output: Output | None = None) -> Part:
        """Return the part for a kernel, reading its columns at these positions."""
        if output is None:
            nullable = "lower" in self.functions and can_say_none(self.functions["lower"])
            single = not self.result.names and self.result.length is None
            floating = single and self.result.types[0].physical == np.dtype("f8")
            output = Output(self.result.names, self.result.length, nullable, floating)
        return Part(
            functions=self.functions,
            constants=self.constants,
            columns=columns,
            mask=mask,
            fields=self.fields,
            scalar=not isinstance(self.state, Mapping),
            sorted=isinstance(self.state, str) and self.state == "sorted",
            output=output,
            empty=self.definition.empty,
            distinct=isinstance(self.state, str) and self.state == "distinct",
            wide=tuple(map(self._wide, self.kinds[: len(columns)])),
            compensated=self.definition.compensated,
        )

    def _wide(self, kind: ColumnType) -> str | None:
        """Return the type of 64 bits as which functions see a column's values, if that is another.

        Of a definition for numbers true is 1. Values that go into Python objects are none of these.
        """
        known = self.aggregation.factory.definitions
        if self.fields is None and self.state != "sorted":
            return None
        if kind.family == "boolean":
            return "int64" if "floating" in known and "any" not in known else None
        return wide_name(kind.physical)


def _floating(kinds: tuple[ColumnType, ...]) -> bool:
    return any(kind.family in ("floating", "other") for kind in kinds)


def _extremes(kinds: tuple[ColumnType, ...]) -> dict[str, Any]:
    """Return the least and the greatest value of the first column's type, None where it has none."""
    if kinds and kinds[0].physical.kind in "iu":
        info = np.iinfo(kinds[0].physical)
        return {"lowest": int(info.min), "highest": int(info.max)}
    if kinds and kinds[0].physical.kind == "f":
        return {"lowest": float("-inf"), "highest": float("nan")}  # NaN is greater than any number, as in Spark SQL
    if kinds and kinds[0].physical.kind == "b":
        return {"lowest": False, "highest": True}
    return {"lowest": None, "highest": None}


def _wide_decimals(kind: ColumnType) -> tuple[Any, int]:
    """Return what makes types of decimals as wide as this one, and how many digits they have at most."""
    return (pa.decimal256, 76) if pa.types.is_decimal256(kind.logical) else (pa.decimal128, 38)


def _decimal_sum(kind: ColumnType) -> ColumnType:
    """Return the type of a sum of decimals, which is the one in Spark SQL."""
    if kind.logical is None or kind.family != "decimal":
        return kind
    wide, most = _wide_decimals(kind)
    return column_type(wide(min(kind.logical.precision + 10, most), kind.logical.scale))


def _decimal_mean(kind: ColumnType) -> ColumnType:
    """Return the type of a mean of decimals, which is the one in Spark SQL."""
    if kind.logical is None or kind.family != "decimal":
        return kind
    wide, most = _wide_decimals(kind)
    return column_type(wide(min(kind.logical.precision + 4, most), min(kind.logical.scale + 4, most)))


def _difference(kind: ColumnType) -> ColumnType:
    """Return the type of a difference; that of decimals, which has one digit more, is the one in Spark SQL."""
    if kind.logical is not None and pa.types.is_timestamp(kind.logical):
        return column_type(pa.duration(kind.logical.unit))
    if kind.logical is not None and kind.family == "decimal":
        wide, most = _wide_decimals(kind)
        return column_type(wide(min(kind.logical.precision + 1, most), kind.logical.scale))
    return INT64 if kind.family == "temporal" else kind


def _fit_decimals(aggregation: Aggregation, kind: ColumnType, values: Array, valid: Array | None) -> None:
    """Round answers to the digits of their type, in place; one that does not fit is an error. O(n)."""
    places = range(len(values)) if valid is None else np.flatnonzero(valid)
    try:
        for i in places:
            values[i] = fitting_decimal(values[i], kind)
    except OverflowError as error:
        raise AggregationOverflowError(f"{aggregation}: {error}") from error


# ---------------------------------------------------------------- the functions of one aggregation, as they stand


@dataclass(frozen=True)
class PlainAlgebra:
    """The uncompiled functions of one aggregation over columns of resolved types."""

    lift: Callable[..., Any]
    combine: Callable[[Any, Any], Any]
    lower: Callable[[Any], Any]
    invert: Callable[[Any, Any], Any] | None
    neutral: Callable[[], Any] | None


def plain_algebra(aggregation: Aggregation, kinds: tuple[ColumnType, ...]) -> PlainAlgebra:
    """Return the functions of an aggregation, uncompiled. Remembered like bindings."""
    key = (aggregation.fingerprint, kinds)
    if key not in _algebras:
        _algebras[key] = _plain_algebra(aggregation, kinds)
    return _algebras[key]


_algebras: dict[Any, PlainAlgebra] = {}


def _quiet(function: Callable[..., Any] | None) -> Any:
    """Return a function that does not warn of infinite results, as machine code does not."""
    return None if function is None else np.errstate(all="ignore")(function)


def _plain_algebra(aggregation: Aggregation, kinds: tuple[ColumnType, ...]) -> PlainAlgebra:
    builder = _PartBuilder(aggregation, kinds, None, has_nan=True)
    part = builder.part(tuple(range(len(kinds))), None, Output())
    module = cache.load(generate([part], gaps=False, kernels=()), compiled=False)
    names = ("lift", "combine", "lower", "invert", "neutral")
    words = {name: _quiet(getattr(module, f"_p0_{name}", None)) for name in names}
    lift = words["lift"] or module._p0_state
    assert words["combine"] is not None
    assert words["lower"] is not None
    lower = words["lower"]
    if (ending := builder.result.ending if builder.ended_by is not None else None) is not None:
        lower = lambda state: ending.lower(state, None)[()]  # noqa: E731  # one state has no window, and so no end
    return PlainAlgebra(
        lift if part.uses_time else lambda *values_and_time: lift(*values_and_time[:-1]),
        words["combine"],
        lower,
        words["invert"],
        words["neutral"],
    )
