"""One version of machine code per kernel, whatever integers it is called with.

numba types a literal in a call, such as the 0 of `find(low, 0)`, by its value, and recompiles the called kernel for it,
with all its callees. That took a third of the compile time; LLVM propagates constants anyway where it inlines.
"""

from __future__ import annotations

from typing import Any


def for_any_integer(dispatcher: Any) -> Any:
    """Return a numba function that others call with plain integers, never with literals."""
    if not hasattr(dispatcher, "get_call_template"):
        return dispatcher  # NUMBA_DISABLE_JIT is set
    from numba.core.types import IntegerLiteral, unliteral

    exact = dispatcher.get_call_template

    def widened(args: Any, kws: Any) -> Any:
        return exact([unliteral(arg) if isinstance(arg, IntegerLiteral) else arg for arg in args], kws)

    dispatcher.get_call_template = widened
    return dispatcher
