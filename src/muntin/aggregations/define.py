"""`agg.define`: an aggregation from plain Python functions. Every built-in one is made with it.

A definition is a class used as a namespace: `lift`, `combine`, and optionally `lower`, `invert` and `neutral`. The
positional parameters of `lift` are the columns. `widen` is for `by_type`: it turns a state of the integer definition
into one of this, when floats turn up among integers. `check` is called with the parameters when an aggregation is
made, and raises `ValueError` for values that mean nothing. `terms`, `from_sums` and `lost` are for arrays: see
`define`. Keyword-only parameters of any function are parameters of the aggregation, but for five that muntin fills in:
`time` (the row's event time, `lift` only), `end` (of the window, `lower` only), `lowest` and `highest` (the extreme
values of the first column's type) and `has_nan` (whether NaN can come).
"""

from __future__ import annotations

import ast
import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.durations import in_any_unit
from muntin.errors import ColumnTypeError, DefinitionError, InvalidArgumentError
from muntin.kernels import cache
from muntin.kernels.generate import Generated
from muntin.kernels.runtime import as_token
from muntin.kernels.source import Emitter, Function, capture, stable_text
from muntin.suggestions import near
from muntin.types import is_whole

Kind = Literal["distributive", "algebraic", "holistic"]
StateSpec = Any
"""A dtype, "object", "sorted", "distinct", a mapping of field names to dtypes, or a function of the parameters."""
EVERY_ONES = ("skip_nan", "where")
"""Arguments that every aggregation takes, so that none has a parameter of that name."""
FILLED_IN = ("time", "end", "lowest", "highest", "has_nan")
OF_COLUMNS = ("types", "columns", "time")
"""What functions of `derived` may ask for besides parameters: of the columns, and the type of the times."""
SUMS = ("terms", "from_sums", "lost")
"""The functions of windows over arrays as differences of sums. No state means anything else with them."""
STATES = ("lift", "combine", "invert", "neutral", "widen", "from_sums")
"""The functions that return a state."""
_FUNCTIONS = ("lift", "combine", "lower", "invert", "neutral", "widen", "check", *SUMS)


@dataclass(frozen=True)
class Definition:
    """What `define` read from a class: functions as text, the state's shape, and the facts."""

    name: str
    doc: str
    functions: Mapping[str, Function]
    state: StateSpec
    result: Any
    empty: Any
    commutative: bool
    selective: bool
    kind: Kind
    durations: tuple[str, ...] = ()
    """The parameters that are durations: functions get them in the unit of the times."""
    own: bool = True
    """Whether it was defined outside this package."""
    compensated: bool = True
    """Whether sums of `terms` carry what is rounded off them."""
    known_as: str = ""
    """The fingerprint that its states have kept, though functions have changed."""
    derived: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """What makes further keywords of functions from the parameters and the types of columns."""
    nulls: bool = False
    """Whether rows with nulls are lifted, too."""

    @property
    def invertible(self) -> bool:
        """Whether `invert` was defined."""
        return "invert" in self.functions

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names that `lift` gives to its columns."""
        return self.functions["lift"].arguments if "lift" in self.functions else ("v",)

    @cached_property
    def asks_for_nan(self) -> bool:
        """Whether a function asks if NaN can come."""
        return any("has_nan" in function.keywords for function in self.functions.values())

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The aggregation's own parameters and their defaults, in the order in which the functions name them."""
        found: dict[str, Any] = {}
        for key, function in self.functions.items():
            for name, default in function.keywords.items() if key != "check" else ():
                known = name in FILLED_IN or name in self.derived
                if not known and found.get(name, inspect.Parameter.empty) is inspect.Parameter.empty:
                    found[name] = default
        for make in self.derived.values():
            for name, each in inspect.signature(make).parameters.items():
                if name not in OF_COLUMNS:
                    found.setdefault(name, each.default)
        return found

    @cached_property
    def shortcut(self) -> str:
        """The functions that `fingerprint` leaves out, as text."""
        texts = [self.functions[name].identity for name in SUMS if name in self.functions]
        return f"{texts}{self.compensated}"

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that decides the meaning of a state."""
        if self.known_as:
            return self.known_as
        texts = [f"{name}:{function.identity}" for name, function in sorted(self.functions.items()) if name not in SUMS]
        texts += [f"{name}:{stable_text(make)}" for name, make in self.derived.items()]
        specs = [
            capture(spec, "state").identity if callable(spec) else stable_text(spec)
            for spec in (self.state, self.result)
        ]
        return hashlib.sha256("\n".join([*texts, *specs, stable_text(self.empty)]).encode()).hexdigest()


def define(
    *unbracketed: Any,
    state: StateSpec = None,
    result: Any = None,
    empty: Any = None,
    commutative: bool = False,
    selective: bool = False,
    kind: Kind | None = None,
    durations: tuple[str, ...] = (),
    compensated: bool = True,
    derived: Mapping[str, Callable[..., Any]] | None = None,
    nulls: bool = False,
) -> Callable[[type], Factory]:
    """Return an aggregation from a class of plain functions.

    `state` maps field names to types, and `combine` sees states with these fields; or it is a single type, and states
    are bare values. A type is a NumPy dtype, a pair (dtype, length) for an array, or the name of a parameter of `lift`,
    which stands for that column's type. `"object"` allows any Python value as state, and `"sorted"` is the sorted
    window itself, of which `lower(s)` may use `s[k]` and `len(s)`. `"distinct"` is the set of distinct values, of which
    `lower(s)` may use only `len(s)`; without `lower` that is the answer.

    `result` is the type of what `lower` returns, or a mapping of names to types if it returns several; without it the
    type is inferred. `empty` is the answer for no rows (null by default). `commutative` and `selective` (`combine`
    always returns one of its arguments) are promises; `muntin.testing.laws.check` tests them.

    `durations` names parameters passed as durations; functions get them in the unit of the times. A `lower(s, *, end)`
    gets the ends of the windows: it is called once, with arrays (`s.total`, `end`), and `end` is None if windows have
    none, as in aggregators; it needs a state with several fields, and `result`.

    `derived` maps names to functions of the parameters, which are called once the types of the columns are known; they
    may also ask for `types` and `columns`, the types and names of the columns, and `time`, the type of the times, None
    where it is not known yet. The other functions, and `state` and `result` if these are functions, take what they
    return under these names. With `nulls`, for states of Python objects, rows with nulls are lifted too, as None.

    If the state of a window follows from sums over its rows, windows of one length over arrays can be differences of
    such sums, at half the cost. `terms(v, c)` returns the numbers to sum for a row, `from_sums(n, c, a, b)` the state
    of n rows with these sums (here two), and `c` is a number near the values, the same for both; for two columns there
    are two. The sums are exact except for their rounding and errors for which `lost(n, a, b, a_error, b_error)` gets
    bounds. If it returns True, digits may be missing, and `lift` and `combine` run the windows. With
    `compensated=False` sums within 256 rows skip the compensation for rounding: for terms that do not cancel.

    A definition is compiled into every kernel: one O(1) `combine` costs a nanosecond or so.

    >>> import muntin
    >>> @muntin.agg.define(state={"n": "i8", "total": "f8"}, commutative=True)
    ... class mean_square:
    ...     def lift(v):
    ...         return (1, v * v)
    ...     def combine(a, b):
    ...         return (a.n + b.n, a.total + b.total)
    ...     def lower(s):
    ...         return s.total / s.n
    >>> muntin.slide([1.0, 2.0, 3.0], mean_square("v"), range=2).tolist()
    [1.0, 2.5, 6.5]
    """
    if unbracketed:
        raise DefinitionError("agg.define needs the type of the state: write @agg.define(state=...) above the class")

    def decorate(namespace: type) -> Factory:
        _require_facts(namespace, state, result, kind, durations)
        functions = _read_functions(namespace, state)
        definition = Definition(
            name=namespace.__name__,
            doc=inspect.getdoc(namespace) or "",
            functions=functions,
            state=state,
            result=result,
            empty=empty,
            commutative=commutative,
            selective=selective,
            kind=kind or _guess_kind(functions, state),
            durations=durations,
            own=not namespace.__module__.startswith("muntin."),
            compensated=compensated,
            derived=derived or {},
            nulls=nulls,
        )
        _require_shapes(definition)
        return Factory(namespace.__name__, {"any": definition}, definition.doc)

    return decorate


def _require_facts(namespace: Any, state: Any, result: Any, kind: Any, durations: Any) -> None:
    """Refuse what is no class, no type and no name."""
    if not isinstance(namespace, type):
        raise DefinitionError(f"agg.define decorates a class that holds lift, combine and the like, not {namespace!r}")
    where = namespace.__name__
    for name, spec in (("state", state), ("result", result)):
        types = spec.values() if isinstance(spec, Mapping) else () if spec is None or callable(spec) else (spec,)
        if (isinstance(spec, Mapping) and not spec) or (name == "state" and spec is None):
            raise DefinitionError(f"{where}: {name} is {spec!r}; give the type of at least one field")
        for each in types:
            if not isinstance(each, str | tuple | type | np.dtype):
                raise DefinitionError(f"{where}: {name} is {spec!r}; give types, such as 'f8', or a mapping of names")
    if kind is not None and not (isinstance(kind, str) and kind in get_args(Kind)):
        raise DefinitionError(f"{where}: kind is {kind!r}; it is one of {', '.join(get_args(Kind))}")
    if isinstance(durations, str) or not all(isinstance(each, str) for each in _items(durations, where)):
        raise DefinitionError(f"{where}: durations is {durations!r}; give the names of parameters, as a tuple")


def _items(names: Any, where: str) -> tuple[Any, ...]:
    try:
        return tuple(names)
    except TypeError as error:
        raise DefinitionError(f"{where}: durations is {names!r}; give the names of parameters, as a tuple") from error


def _read_functions(namespace: type, state: StateSpec) -> dict[str, Function]:
    where = namespace.__name__
    members = {name: value for name, value in vars(namespace).items() if inspect.isfunction(value)}
    unknown = [name for name in members if name not in _FUNCTIONS]
    if unknown:
        raise DefinitionError(f"{where} defines {unknown[0]!r}; an aggregation has {', '.join(_FUNCTIONS)}")
    functions = {name: capture(members[name], f"{where}.{name}") for name in _FUNCTIONS if name in members}
    for name, function in functions.items():
        taken = [word for word in (*function.arguments, *function.keywords) if word in EVERY_ONES]
        if taken:
            raise DefinitionError(f"{where}.{name} has a parameter {taken[0]!r}, which every aggregation takes already")
    if "lift" in functions and functions["lift"].arguments[:1] == ("self",):
        raise DefinitionError(f"{where}.lift takes columns only{_without_self(functions['lift'])}")
    if isinstance(state, str) and state == "distinct":
        own = [name for name in functions if name not in ("lower", "check")]
        if own:
            raise DefinitionError(f'{where} defines {own[0]!r}; with state="distinct" it has lower and check only')
        functions = {name: capture(f, f"distinct.{name}") for name, f in _distinct_functions().items()} | functions
    missing = [] if state == "sorted" else [name for name in ("lift", "combine") if name not in functions]
    if missing:
        raise DefinitionError(f"{where} must define {missing[0]}")
    for name, count in (("combine", 2), ("invert", 2), ("lower", 1), ("neutral", 0), ("widen", 1)):
        if name in functions and len(functions[name].arguments) != count:
            raise DefinitionError(
                f"{where}.{name} must take {count} positional parameter(s), not {len(functions[name].arguments)}"
                f"{_without_self(functions[name])}"
            )
    if isinstance(state, Mapping):
        require_values(where, functions, tuple(state))
    _require_sums(where, functions)
    return functions


def _without_self(function: Function) -> str:
    """Say that there is no `self`, where a function has one."""
    parameters = ", ".join(function.arguments[1:])
    hint = f"; functions of a definition have no self: write def {function.name}({parameters})"
    return hint if function.arguments[:1] == ("self",) else ""


def require_values(where: str, functions: Mapping[str, Function], fields: tuple[str, ...] | None) -> None:
    """Refuse functions that return a tuple of more or fewer values than the state has fields; None: it is one value."""
    for name in STATES:
        counts = _tuple_lengths(functions[name].tree) if name in functions else []
        wrong = [count for count in counts if fields is None or count != len(fields)]
        if wrong:
            returned = f"a tuple of {wrong[0]} value{'s' if wrong[0] != 1 else ''}"
            held = "is one value" if fields is None else f"has {len(fields)}, {', '.join(fields)}"
            raise DefinitionError(
                f"{where}.{name} returns {returned}, but the state {held}; return one value for each field of state="
            )


def _tuple_lengths(function: ast.AST) -> list[int]:
    """Return the lengths of the tuples that a function returns, as far as its text shows them."""
    return [len(each.elts) for each in _returned(function) if isinstance(each, ast.Tuple) and not _unpacks(each)]


def _unpacks(value: ast.Tuple) -> bool:
    return any(isinstance(each, ast.Starred) for each in value.elts)


def _require_sums(where: str, functions: Mapping[str, Function]) -> None:
    """Refuse functions of sums that do not fit each other."""
    given = [name for name in SUMS if name in functions]
    if not given:
        return
    if len(given) < len(SUMS) or "lift" not in functions:
        raise DefinitionError(f"{where} defines {given[0]}; lift, {', '.join(SUMS)} are needed together")
    columns = len(functions["lift"].arguments)
    counts = {len(each.elts) if isinstance(each, ast.Tuple) else 0 for each in _returned(functions["terms"].tree)}
    if len(counts) != 1 or 0 in counts:
        raise DefinitionError(
            f"{where}.terms must return a tuple, of the same number of terms wherever it returns: (v,) for one"
        )
    (terms,) = counts
    each_column, each_term = f"one for each column ({columns})", f"one for each term that terms returns ({terms})"
    taken = {
        "terms": (2 * columns, f"a value and a centre, {each_column}"),
        "from_sums": (1 + columns + terms, f"the number of rows, centres, {each_column}, and sums, {each_term}"),
        "lost": (1 + 2 * terms, f"the number of rows, sums, {each_term}, and as many bounds of their errors"),
    }
    for name, (count, meaning) in taken.items():
        if len(functions[name].arguments) != count:
            raise DefinitionError(
                f"{where}.{name} must take {count} positional parameters, not {len(functions[name].arguments)}: "
                f"{meaning}"
            )


def _arms(value: ast.expr | None) -> list[ast.expr | None]:
    """Return the arms of a conditional, and of conditionals in these; else the value itself."""
    return [*_arms(value.body), *_arms(value.orelse)] if isinstance(value, ast.IfExp) else [value]


def _returned(function: ast.AST) -> list[ast.expr | None]:
    """Return what a function returns, but for functions inside of it: both arms of a conditional."""
    found: list[ast.expr | None] = []
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.Return):
            found += _arms(node.value)
        elif not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):  # what these return is their own
            found += _returned(node)
    return found


def _require_shapes(definition: Definition) -> None:
    unknown = [name for name in definition.durations if name not in definition.parameters]
    if unknown:
        raise DefinitionError(f"{definition.name} has no parameter {unknown[0]!r}, which durations= names")
    ended = [name for name, function in definition.functions.items() if "end" in function.keywords]
    if not ended:
        return
    if ended != ["lower"]:
        raise DefinitionError(f"{definition.name}.{ended[0]} asks for end; only lower is told where a window ends")
    fields = definition.state if isinstance(definition.state, Mapping) else {}
    if len(fields) < 2 or isinstance(definition.result, Mapping | tuple) or definition.result is None:
        raise DefinitionError(
            f"{definition.name}: a lower that asks for end needs a state of several fields, and the type of one result"
        )


def _guess_kind(functions: Mapping[str, Function], state: StateSpec) -> Kind:
    if state in ("object", "sorted", "distinct") or (isinstance(state, Mapping) and "object" in state.values()):
        return "holistic"
    return "algebraic" if "lower" in functions else "distributive"


def _distinct_functions() -> dict[str, Callable[..., Any]]:
    """Return the functions of state="distinct": sets, which are only made anew where they grow."""

    def lift(v: Any) -> Any:
        return frozenset((as_token(v),))

    def combine(a: Any, b: Any) -> Any:
        return a if b <= a else b if a <= b else a | b

    def neutral() -> Any:
        return frozenset()

    def lower(s: Any) -> Any:
        return len(s)

    return {"lift": lift, "combine": combine, "neutral": neutral, "lower": lower}


@dataclass(frozen=True, repr=False)
class Factory:
    """Makes aggregations over columns, as `agg.max("v")` does. It may choose its definition by the columns' types."""

    name: str
    definitions: Mapping[str, Definition]
    """By the family of the first column's type; `any` stands for all that are not named."""
    doc: str = ""
    parameter_types: Mapping[str, type] = field(default_factory=dict)
    """What some parameters must be, where functions would only fail with a row. No state depends on it."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """The most that some parameters may be. No state depends on it."""
    readers: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """What some parameters are turned into, by functions that raise ValueError or TypeError for what means nothing."""
    __muntin_factory__ = True

    def __post_init__(self) -> None:
        """Show the definition's docstring as this factory's own."""
        object.__setattr__(self, "__doc__", self.doc)
        object.__setattr__(self, "__name__", self.name)

    @property
    def first(self) -> Definition:
        """The definition whose columns and parameters all the others share."""
        return next(iter(self.definitions.values()))

    def returning(self, result: Any) -> Factory:
        """Return the same aggregation with another type of result."""
        changed = {family: replace(chosen, result=result) for family, chosen in self.definitions.items()}
        return replace(self, definitions=changed)

    def known_as(self, fingerprint: str) -> Factory:
        """Return the same aggregation, whose states mean what those of an earlier definition did.

        So that snapshots and checkpoints with these states can be read. Every change of a function makes another one.
        """
        kept = {family: replace(chosen, known_as=fingerprint) for family, chosen in self.definitions.items()}
        return replace(self, definitions=kept)

    def taking(self, **types: type) -> Factory:
        """Return the same aggregation, which refuses parameters of other types than these."""
        return replace(self, parameter_types=types)

    def limited(self, **limits: int) -> Factory:
        """Return the same aggregation, which refuses greater parameters than these."""
        return replace(self, limits=limits)

    def reading(self, **readers: Callable[[Any], Any]) -> Factory:
        """Return the same aggregation, of which these functions read parameters: a list becomes a tuple."""
        return replace(self, readers=readers)

    def lowered_by(self, name: str, lower: Callable[..., Any], doc: str = "", *, kind: Kind = "algebraic") -> Factory:
        """Return the aggregation of the same state with another answer; in one query the two share it."""
        changed = {
            family: replace(
                chosen,
                name=name,
                doc=doc,
                kind=kind,
                functions={**chosen.functions, "lower": capture(lower, f"{name}.lower")},
                known_as="",
            )
            for family, chosen in self.definitions.items()
        }
        return Factory(name, changed, inspect.cleandoc(doc))

    def definition(self, family: str, column: str, kind: object) -> Definition:
        """Return the definition for a family of types."""
        chosen = self.definitions.get(family, self.definitions.get("any"))
        if chosen is None:
            takes = ", ".join(self.definitions)
            raise ColumnTypeError(f"{self.name} of column {column!r}: it takes {takes} columns, and this is {kind}")
        return chosen

    def __call__(self, *arguments: Any, skip_nan: bool = False, where: str | None = None, **named: Any) -> Aggregation:
        """Return the aggregation over these columns, then parameters, by position or by name.

        Null is skipped, with `skip_nan` NaN too, and with `where` the rows for which that boolean column is not true.
        """
        columns = self.first.columns
        parameters = self.first.parameters
        slots = [*columns, *parameters]
        if len(arguments) > len(slots):
            raise DefinitionError(
                f"{self.name} takes {', '.join(slots) or 'no arguments'}; got {len(arguments)} values"
            )
        given = dict(zip(slots, arguments, strict=False))
        for name, value in named.items():
            if name not in slots:
                raise DefinitionError(
                    f"{self.name} has no parameter {name!r}; it takes {', '.join(slots)}{near(name, slots)}"
                )
            if name in given:
                raise DefinitionError(f"{self.name} got {name!r} twice")
            given[name] = value
        resolved = tuple((name, self._parameter(name, given, parameters)) for name in parameters)
        self._require_types(dict(resolved))
        self._check(dict(resolved))
        for name in self.first.durations:
            self._require_positive(name, dict(resolved)[name])
        if not isinstance(skip_nan, bool | np.bool_):
            raise DefinitionError(f"{self.name}: skip_nan is {skip_nan!r}; it is True or False")
        if where is not None and not isinstance(where, str):
            raise DefinitionError(f"{self.name}: where is {where!r}; give the name of a boolean column")
        return Aggregation(self, tuple(self._column(name, given) for name in columns), resolved, skip_nan, where)

    def _require_positive(self, name: str, duration: Any) -> None:
        try:
            length = in_any_unit(duration, name)
        except InvalidArgumentError as error:
            raise DefinitionError(f"{self.name}: {error}") from error
        if length <= 0:
            raise DefinitionError(f"{self.name}: {name} is {duration!r}; it must be positive")

    def _require_types(self, parameters: Mapping[str, Any]) -> None:
        for name, kind in self.parameter_types.items():
            value = parameters[name]
            fits = is_whole(value) if kind is int else isinstance(value, kind)
            if not fits:
                wanted = "an integer" if kind is int else "a text"
                raise DefinitionError(f"{self.name}: {name} is {value!r}; it must be {wanted}")
        for name, most in self.limits.items():
            if parameters[name] > most:
                raise DefinitionError(f"{self.name}: {name} is {parameters[name]!r}; it must be at most {most}")

    def _check(self, parameters: Mapping[str, Any]) -> None:
        function = self.first.functions.get("check")
        if function is None:
            return
        try:
            loose(function, {})(*(parameters[name] for name in function.arguments))
        except (ValueError, TypeError) as error:
            raise DefinitionError(f"{self.name}: {error}") from error

    def _column(self, name: str, given: Mapping[str, Any]) -> str:
        value = given.get(name)
        if value is None:
            raise DefinitionError(f"{self.name} needs the name of its column {name!r}")
        if not isinstance(value, str):
            raise DefinitionError(f"{self.name}: the column {name!r} is named by a string, not by {value!r}")
        return value

    def _parameter(self, name: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> Any:
        value = given.get(name, defaults[name])
        if value is inspect.Parameter.empty:
            raise DefinitionError(f"{self.name} needs the parameter {name!r}")
        try:
            return self.readers[name](value) if name in self.readers else value
        except (ValueError, TypeError) as error:
            raise DefinitionError(f"{self.name}: {error}") from error

    def __repr__(self) -> str:
        """Show the call that makes an aggregation."""
        return f"agg.{self.name}({', '.join([*self.first.columns, *self.first.parameters])})"


def by_type(name: str, doc: str = "", **choices: Factory) -> Factory:
    """Return one aggregation that picks a definition by the type of the first column.

    The families are boolean, integer, floating, temporal, duration, decimal and other; `any` is for all others.

    >>> import muntin
    >>> agg = muntin.agg
    >>> middle = agg.by_type("middle", integer=agg.min, any=agg.mean)
    >>> muntin.slide([7, 9], middle("v"), range=2).tolist(), muntin.slide([7.0, 9.0], middle("v"), range=2).tolist()
    ([7, 7], [7.0, 8.0])
    """
    definitions: dict[str, Definition] = {}
    if not isinstance(name, str) or not name:
        raise DefinitionError(f"by_type: the name is {name!r}; give a text")
    for family, factory in choices.items():
        if not isinstance(factory, Factory):
            raise DefinitionError(f"by_type {name!r}: {family} is {factory!r}; give an aggregation such as agg.min")
        if family == "any":
            for name_of, definition in factory.definitions.items():
                definitions.setdefault(name_of, definition)
        else:
            definitions[family] = factory.definition(family, family, family)
    return Factory(name, definitions, inspect.cleandoc(doc) or next(iter(choices.values())).doc)


def numeric(name: str, factory: Factory) -> Factory:
    """Return an aggregation that takes numbers only: a variance of timestamps, or of words, is refused."""
    families = ("floating", "integer", "boolean", "decimal")
    return by_type(name, factory.doc, **dict.fromkeys(families, factory))


def numeric_or_temporal(name: str, factory: Factory) -> Factory:
    """Return an aggregation that takes numbers, times and durations."""
    families = ("floating", "integer", "boolean", "decimal", "temporal", "duration")
    return by_type(name, factory.doc, **dict.fromkeys(families, factory))


def loose(function: Function, constants: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a captured function as one that can be called, in any process, its keywords filled in."""
    emitter = Emitter()
    name = emitter.function(function, "loose", constants=constants)
    made: Callable[..., Any] = getattr(cache.load_fresh(Generated(emitter.text, emitter.injected, ())), name)
    return made


def can_say_none(function: Function) -> bool:
    """Say whether a function has a `return None`, and so a result that can be null."""
    return any(isinstance(node, ast.Return) and _has_none(node.value) for node in ast.walk(function.tree))


def _has_none(value: ast.expr | None) -> bool:
    if isinstance(value, ast.IfExp):
        return _has_none(value.body) or _has_none(value.orelse)
    return value is None or (isinstance(value, ast.Constant) and value.value is None)
