"""Functions as text: read from their source, normalised, and rewritten under other names.

Kernels are specialised by generated code, so a definition is its source plus the values of the names it uses. That text
is also its identity (a fingerprint) and what is sent to other processes.
"""

from __future__ import annotations

import ast
import builtins
import datetime
import decimal
import hashlib
import inspect
import pickle
import textwrap
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from muntin.errors import DefinitionError
from muntin.kernels.parsing import syntax_tree

RUNTIME = "muntin.kernels.runtime"
_MISSING = object()
_WITH_TEXTS = (bool, int, float, str, bytes, type(None), decimal.Decimal, datetime.date, datetime.timedelta)
"""Types whose values have a text that is the same in every process."""


@dataclass(frozen=True, eq=False)
class Function:
    """A plain Python function as text, with the values of its outer names."""

    name: str
    text: str
    outer: Mapping[str, Any]
    """Modules, constants, arrays and other `Function`s, by their name in the text."""

    @cached_property
    def identity(self) -> str:
        """The text with all that it refers to: functions with the same identity mean the same, in any process."""
        return self.text + "".join(f"\n{name} = {stable_text(self.outer[name])}" for name in sorted(self.outer))

    def __eq__(self, other: object) -> bool:
        """Compare by content."""
        return isinstance(other, Function) and self.identity == other.identity

    def __hash__(self) -> int:
        """Hash by content."""
        return hash(self.identity)

    @cached_property
    def tree(self) -> ast.FunctionDef:
        """The parsed text, not to be changed: see `parse`."""
        return self.parse()

    def parse(self) -> ast.FunctionDef:
        """Return a new syntax tree that the caller may change."""
        node = syntax_tree(self.text).body[0]
        assert isinstance(node, ast.FunctionDef)
        return node

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the positional parameters."""
        return tuple(a.arg for a in self.tree.args.posonlyargs + self.tree.args.args)

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword-only parameters and their defaults (`inspect.Parameter.empty` if there is none)."""
        args = self.tree.args
        return {
            a.arg: inspect.Parameter.empty if default is None else self._default(a.arg, default)
            for a, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
        }

    def _default(self, name: str, node: ast.expr) -> Any:
        try:
            return ast.literal_eval(node)
        except ValueError:
            raise DefinitionError(
                f"{self.name}: the default of {name!r} must be a literal, not {ast.unparse(node)!r}"
            ) from None


def stable_text(value: Any) -> str:
    """Return a text of a value that is the same in every process, and unique to the value.

    >>> stable_text((1, 2.5, "a"))
    "(1, 2.5, 'a')"
    """
    if isinstance(value, Function):
        return value.identity
    if isinstance(known := getattr(value, "stable_text", None), str):
        return known
    if isinstance(value, decimal.Context):  # its repr shows flags, which change with use
        return f"Context({value.prec}, {value.rounding})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{stable_text(k)}: {stable_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple | list):
        return f"({', '.join(map(stable_text, value))})"
    if isinstance(value, (*_WITH_TEXTS, ModuleName)):
        return repr(value)
    if hasattr(value, "dtype") and hasattr(value, "tobytes"):
        return f"{value.dtype.str}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if hasattr(value, "__qualname__"):
        return f"<{value.__module__}.{value.__qualname__}>"
    try:
        return hashlib.sha256(pickle.dumps(value)).hexdigest()
    except Exception:  # noqa: BLE001  # whatever pickle raises: it has no text, and equals only itself
        return f"<{type(value).__name__} at {id(value)}>"


@dataclass(frozen=True)
class ModuleName:
    """An outer value that is a module. Modules cannot be copied, so a name represents one."""

    name: str


def capture(function: Callable[..., Any], where: str) -> Function:
    r"""Read a function's source and the outer values it uses. `where` names it in errors.

    >>> def double(x):
    ...     return 2 * x
    >>> capture(double, "double").text
    'def double(x):\n    return 2 * x'
    """
    if getattr(function, "__name__", "") == "<lambda>":
        raise DefinitionError(f"{where} is a lambda; write it with def, so that its source can be read")
    function = getattr(function, "py_func", function)  # numba's dispatchers keep the plain function
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise DefinitionError(
            f"the source of {where} cannot be read; define it in a file or a notebook cell, not by exec"
        ) from error
    node = syntax_tree(source).body[0]
    if not isinstance(node, ast.FunctionDef):
        raise DefinitionError(f"{where} must be a plain function, written with def")
    _normalise(node)
    return Function(node.name, ast.unparse(node), _outer_values(function, node, where))


def _normalise(node: ast.FunctionDef) -> None:
    """Drop what does not affect the meaning, so that equal functions have equal texts."""
    node.decorator_list = []
    node.returns = None
    for argument in node.args.posonlyargs + node.args.args + node.args.kwonlyargs:
        argument.annotation = None
    if ast.get_docstring(node) is not None:
        node.body = node.body[1:] or [ast.Pass()]


def _free_names(node: ast.FunctionDef) -> list[str]:
    bound = {a.arg for a in ast.walk(node) if isinstance(a, ast.arg)} | {node.name}
    loaded: dict[str, None] = {}
    for child in ast.walk(node):
        if isinstance(child, ast.Name):
            if isinstance(child.ctx, ast.Load):
                loaded[child.id] = None
            else:
                bound.add(child.id)
    return [name for name in loaded if name not in bound]


def _outer_values(function: Callable[..., Any], node: ast.FunctionDef, where: str) -> dict[str, Any]:
    seen = dict(function.__globals__)
    closure = inspect.getclosurevars(function).nonlocals
    outer: dict[str, Any] = {}
    for name in _free_names(node):
        value = closure.get(name, seen.get(name, _MISSING))
        if hasattr(builtins, name) and (value is _MISSING or hasattr(value, "__muntin_factory__")):
            continue  # an aggregation named `max` in a module does not change max() in a definition
        if value is _MISSING:
            raise DefinitionError(f"{where} uses the name {name!r}, which is not defined")
        outer[name] = _outer_value(value, f"{where}.{name}")
    return outer


def _outer_value(value: Any, where: str) -> Any:
    if isinstance(value, types.FunctionType) and value.__module__ != RUNTIME:
        return capture(value, where)
    if hasattr(value, "py_func") and value.py_func.__module__ != RUNTIME:
        return capture(value, where)
    return ModuleName(value.__name__) if isinstance(value, types.ModuleType) else value


class Emitter:
    """Writes captured functions into one module, each outer value once, under names that cannot clash."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.injected: dict[str, Any] = {}
        """Values without a text (any Python object); a module with some cannot be compiled."""
        self._names: dict[Any, str] = {}

    def function(
        self, function: Function, name: str, *, constants: Mapping[str, Any], change: ast.NodeTransformer | None = None
    ) -> str:
        """Write `function` as `name`, its keyword-only parameters replaced by `constants`; return the name."""
        node = function.parse()
        node.name = name
        rename = {function.name: name}
        for keyword in function.keywords:
            if keyword in ("time", "end"):  # differs from row to row, or window to window: a last parameter
                node.args.args.append(ast.arg(keyword))
            else:
                rename[keyword] = self._constant(constants[keyword], keyword)
        node.args.kwonlyargs, node.args.kw_defaults = [], []
        for outer, value in function.outer.items():
            rename[outer] = self._outer(outer, value)
        _Rename(rename).visit(node)
        if change is not None:
            node = change.visit(node)
        self.lines.append("@jit\n" + ast.unparse(ast.fix_missing_locations(node)) + "\n")
        return name

    @property
    def text(self) -> str:
        """Everything written so far."""
        return "\n".join(self.lines)

    def _outer(self, name: str, value: Any) -> str:
        if isinstance(value, Function):
            key = value.identity
            if key not in self._names:
                self._names[key] = f"_h{len(self._names)}_{value.name}"
                self.function(value, self._names[key], constants=value.keywords)
            return self._names[key]
        if isinstance(value, ModuleName):
            return self._line(f"import {value.name} as", f"_m_{value.name.replace('.', '_')}")
        if getattr(value, "__module__", None) == RUNTIME:
            return self._line(f"from {RUNTIME} import {value.__name__} as", f"_r_{value.__name__}")
        module = getattr(value, "__module__", None)
        if isinstance(value, types.BuiltinFunctionType) and module:
            return self._line(f"from {module} import {value.__name__} as", f"_b_{module}_{value.__name__}")
        if isinstance(value, np.ufunc):
            return self._line(f"from numpy import {value.__name__} as", f"_b_numpy_{value.__name__}")
        return self._constant(value, name)

    def _line(self, statement: str, alias: str) -> str:
        if alias not in self._names:
            self._names[alias] = alias
            self.lines.append(f"{statement} {alias}\n")
        return alias

    def _constant(self, value: Any, hint: str = "c") -> str:
        text = literal(value)
        key = ("constant", text if text is not None else id(value))
        if key not in self._names:
            alias = self._names[key] = f"_c{len(self._names)}_{hint}"
            if text is None:
                self.injected[alias] = value
            else:
                self.lines.append(f"{alias} = {text}\n")
        return self._names[key]


def literal(value: Any) -> str | None:
    """Return the source text of a constant, or None if it has none."""
    if isinstance(value, bool | int | str | bytes | type(None)):
        return repr(value)
    if isinstance(value, float):
        return f"float({repr(value)!r})" if value != value or value in (float("inf"), -float("inf")) else repr(value)
    if isinstance(value, tuple):
        parts = [literal(item) for item in value]
        return None if None in parts else "(" + "".join(f"{part}, " for part in parts) + ")"
    return _numpy_literal(value)


def _numpy_literal(value: Any) -> str | None:
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return f"__import__('numpy').{value.dtype.name}({literal(value.item())})"
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return f"__import__('numpy').array({_cells(value.tolist())}, {value.dtype.str!r})"
    return None


def _cells(cells: Any) -> str:
    """Return the text of nested lists of numbers; infinities have no text of their own."""
    return f"[{', '.join(map(_cells, cells))}]" if isinstance(cells, list) else str(literal(cells))


class _Rename(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:  # the visitor protocol of ast
        node.id = self.names.get(node.id, node.id)
        return node
