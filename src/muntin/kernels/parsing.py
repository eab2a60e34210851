"""Parses Python, from several threads at once."""

import ast
import threading

from muntin.forks import Renewed

# Python before 3.11.8 and 3.12.2 keeps one recursion depth for all threads. If the collector runs in the middle of a
# parse and switches to another thread that parses too, the first fails with "AST constructor recursion depth mismatch",
# though nothing is wrong with its text.
_one_at_a_time = Renewed(threading.Lock)
_TRIES = 8  # other code of the process parses without this lock


def syntax_tree(text: str) -> ast.Module:
    """Return the tree of a module's text, which the caller may change. O(length).

    >>> ast.unparse(syntax_tree("1+1"))
    '1 + 1'
    """
    with _one_at_a_time():
        for _ in range(_TRIES - 1):
            try:
                return ast.parse(text)
            except SystemError:
                continue
        return ast.parse(text)
