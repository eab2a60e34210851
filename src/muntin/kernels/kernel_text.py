"""Kernels as text: their source in a generated module, with the constants they name.

A kernel may name module-level integers, as in `marks[SLICES]`. Named tuples group arrays that belong together, as in
`blocks.base`. A kernel that `replaces` another is written under its name; that one must be `replaceable`. Two kernels
of one name are rejected.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

from muntin.kernels.allocation import kernel_allocates
from muntin.kernels.parsing import syntax_tree
from muntin.kernels.vocabulary import replaced_by, written_name

Kernel = Callable[..., Any]


def kernels_text(kernels: Iterable[Kernel], entries: Iterable[str] = ()) -> str:
    """Return the text of kernels, in order, after the constants they name; `entries` are called from Python.

    >>> from muntin.streams.blocks import room_of
    >>> print(kernels_text([room_of]))
    @inlined
    def room_of(length):
        return 4 + 2 * (length & 1) << (length >> 1)
    <BLANKLINE>
    """
    writer = _Writer(frozenset(entries))
    return "\n".join([writer.text(kernel) for kernel in _chosen(kernels)])


def any_allocates(kernels: Iterable[Kernel]) -> bool:
    """Return whether any of the written kernels creates arrays. O(1) after the first time."""
    return any(_source(kernel, False).allocates for kernel in _chosen(kernels))


def _chosen(kernels: Iterable[Kernel]) -> list[Kernel]:
    """Return the kernels without replaced ones."""
    chosen: dict[str, Kernel] = {}
    for kernel in kernels:
        name = written_name(kernel)
        before = chosen.get(name)
        if before is not None and before is not kernel and replaced_by(kernel) is not before:
            raise TypeError(f"two kernels are named {name}, and neither @replaces the other")
        chosen[name] = kernel
    return list(chosen.values())


class _Writer:
    """Writes kernels, each outer value before its first use."""

    def __init__(self, entries: frozenset[str]) -> None:
        self.entries = entries
        self.names: dict[tuple[str, str], str] = {}
        """The name of each outer value in the module, by its name in a kernel and the value's text."""

    def text(self, kernel: Kernel) -> str:
        """Return the text of a kernel, after the outer values that it is the first to use."""
        source = _source(kernel, written_name(kernel) in self.entries)
        head, renames = self._outer_values(kernel, source.loaded)
        return source.layouts + "".join(head) + (_renamed(source.text, renames) if renames else source.text)

    def _outer_values(self, kernel: Kernel, loaded: Iterable[str]) -> tuple[list[str], dict[str, str]]:
        lines: list[str] = []
        renames: dict[str, str] = {}
        for name in loaded:
            value = kernel.__globals__.get(name)
            text = _value_text(value)
            if text is None:
                continue
            if (name, text) not in self.names:
                taken = set(self.names.values())
                alias = name if name not in taken else f"{name}_{len(taken)}"  # taken by another module's constant
                self.names[name, text] = alias
                lines.append(f"{alias} = {text}\n")
            if self.names[name, text] != name:
                renames[name] = self.names[name, text]
        return lines, renames


class _Source(NamedTuple):
    """The parts of a kernel's text: its own, its outer names, and its named tuples as comments."""

    text: str
    loaded: tuple[str, ...]
    layouts: str
    allocates: bool


@cache
def _source(kernel: Kernel, entry: bool) -> _Source:
    """Return the source for every module. Cached: parsing a kernel takes milliseconds, and a query has a hundred."""
    node = syntax_tree(textwrap.dedent(inspect.getsource(kernel))).body[0]
    assert isinstance(node, ast.FunctionDef)
    node.name = written_name(kernel)
    _strip(node, "entry" if entry else _mark(node))
    text = ast.unparse(ast.fix_missing_locations(node)) + "\n"
    return _Source(text, _loaded(node), "".join(_layouts(kernel)), kernel_allocates(node))


def _renamed(text: str, names: dict[str, str]) -> str:
    return ast.unparse(_Rename(names).visit(syntax_tree(text))) + "\n"


def _mark(node: ast.FunctionDef) -> str:
    """Return the decorator of a kernel that other kernels call."""
    marks = {mark.id for mark in node.decorator_list if isinstance(mark, ast.Name)}
    return "inlined" if "inlined" in marks else "jit"


def _strip(node: ast.FunctionDef, decorator: str) -> None:
    """Reduce a function to what runs, under a decorator of the generated module."""
    for argument in node.args.args:
        argument.annotation = None
    node.returns = None
    node.decorator_list = [ast.Name(decorator, ast.Load())]
    if ast.get_docstring(node) is not None:
        node.body = node.body[1:] or [ast.Pass()]


def _loaded(node: ast.FunctionDef) -> tuple[str, ...]:
    """Return the names that a function reads and does not bind."""
    names = [child for child in ast.walk(node) if isinstance(child, ast.Name)]
    bound = {name.id for name in names if not isinstance(name.ctx, ast.Load)} | {a.arg for a in node.args.args}
    return tuple(name for name in dict.fromkeys(each.id for each in names) if name not in bound)


def _value_text(value: Any) -> str | None:
    """Return the text of an outer value that kernels may name: an integer, or a named-tuple class."""
    if isinstance(value, int) and not isinstance(value, bool):
        return repr(value)
    if _is_named_tuple(value):
        return f"__import__({value.__module__!r}, fromlist=[{value.__name__!r}]).{value.__name__}"
    return None


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")


def _layouts(kernel: Kernel) -> list[str]:
    """Return the fields of the named tuples among a kernel's parameters, as comments.

    With these in the text, a changed layout is another module, so that old machine code is not found.
    """
    annotations = inspect.get_annotations(kernel).values()
    kinds: list[Any] = [kernel.__globals__.get(text) for text in annotations if isinstance(text, str)]
    return [f"# {kind.__name__}: {', '.join(kind._fields)}\n" for kind in kinds if _is_named_tuple(kind)]


class _Rename(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:  # the visitor protocol of ast
        node.id = self.names.get(node.id, node.id)
        return node
