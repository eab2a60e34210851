"""One machine code for a kernel, whatever integers it is called with.

numba types a literal in a call, as the 0 of `find(low, 0)`, by its value, and compiles the kernel that is called once
more for it, with all that this one calls. That took a third of the time to compile; LLVM propagates constants anyway,
where it inlines.
"""

from __future__ import annotations

from typing import Any


def for_any_integer(dispatcher: Any) -> Any:
    """Return a numba function that other ones call with integers as such, never with literals."""
    if not hasattr(dispatcher, "get_call_template"):
        return dispatcher  # numba does not compile: NUMBA_DISABLE_JIT
    from numba.core.types import IntegerLiteral, unliteral

    exact = dispatcher.get_call_template

    def widened(args: Any, kws: Any) -> Any:
        return exact([unliteral(arg) if isinstance(arg, IntegerLiteral) else arg for arg in args], kws)

    dispatcher.get_call_template = widened
    return dispatcher
