"""Whether a definition may allocate memory or raise errors, besides arithmetic.

Compiled code counts references to every array that it takes out of a tuple, by an atomic instruction each, which costs
more than a whole combine: a slide of `Daba` takes 57 ns with it and 6 ns without. If nothing is allocated nothing needs
counting: the arrays belong to the caller. Only known arithmetic on numbers qualifies; all else is compiled with
reference counts, correct but slower.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from muntin.kernels.source import RUNTIME, Function, ModuleName

_BUILTINS = {"abs", "bool", "float", "int", "len", "max", "min", "range", "round"}
NUMPY = {
    "abs", "ceil", "copysign", "cos", "exp", "expm1", "fabs", "floor", "fmax", "fmin", "hypot", "isfinite", "isinf",
    "isnan", "log", "log10", "log1p", "log2", "maximum", "minimum", "sign", "sin", "sqrt", "tan", "tanh", "trunc",
    "bool_", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
}  # fmt: skip
_PLAIN = (
    ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.AugAssign, ast.If, ast.IfExp, ast.While,
    ast.For, ast.Break, ast.Continue, ast.Pass, ast.Expr, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Tuple,
    ast.Name, ast.Attribute, ast.Constant, ast.Call, ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop,
)  # fmt: skip


def allocates(function: Function, window: str | None = None) -> bool:
    """Return whether a function might allocate: True unless it is plain arithmetic.

    It may read the sorted window; `window` is the name of that parameter.

    >>> def mean(s): return s.total / s.n
    >>> def pair(x): return [x, x]
    >>> from muntin.kernels.source import capture
    >>> allocates(capture(mean, "mean")), allocates(capture(pair, "pair"))
    (False, True)
    """
    return not all(_is_plain(node, function, window) for node in _walk(function.tree)) or any(
        allocates(value) if isinstance(value, Function) else not _is_number_or_name(value)
        for value in function.outer.values()
    )


def kernel_allocates(node: ast.FunctionDef) -> bool:
    """Return whether a kernel's text creates an array: calls a NumPy function that is not one of numbers.

    >>> kernel_allocates(ast.parse("def fresh(n): return np.empty(n)").body[0])
    True
    >>> kernel_allocates(ast.parse("def root(x): return np.sqrt(np.float64(x))").body[0])
    False
    """
    called = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
    modules = [each for each in called if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name)]
    return any(each.value.id == "np" and each.attr not in NUMPY for each in modules if isinstance(each.value, ast.Name))


def can_raise(function: Function) -> bool:
    """Return whether a function, or one that it calls, raises errors."""
    raises = any(isinstance(node, ast.Raise | ast.Assert) for node in ast.walk(function.tree))
    return raises or any(can_raise(value) for value in function.outer.values() if isinstance(value, Function))


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all below it, except raised values: those are created once, and end the call."""
    if not isinstance(node, ast.Raise):
        yield node
        for child in ast.iter_child_nodes(node):
            yield from _walk(child)


def _is_plain(node: ast.AST, function: Function, window: str | None) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name) and node.value.id == window and not isinstance(node.slice, ast.Slice)
    if isinstance(node, ast.Call):
        return _is_plain_call(node.func, function) and not node.keywords
    if isinstance(node, ast.Constant):
        return isinstance(node.value, bool | int | float | type(None))
    return isinstance(node, _PLAIN)


def _is_plain_call(called: ast.expr, function: Function) -> bool:
    if isinstance(called, ast.Name):
        return called.id in function.outer or called.id in _BUILTINS
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        module = function.outer.get(called.value.id)
        return module == ModuleName("math") or (module == ModuleName("numpy") and called.attr in NUMPY)
    return False


def _is_number_or_name(value: object) -> bool:
    """Return whether an outer value is a number, a module, or one of the functions that definitions may call."""
    numbers = isinstance(value, bool | int | float | type(None) | ModuleName)
    return numbers or getattr(value, "__module__", None) in (RUNTIME, "math")
