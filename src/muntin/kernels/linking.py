"""Makes machine code of a kernel once, with all that it calls in it.

numba makes machine code of every function by itself, and has LLVM optimise each together with all that it calls: what
is called on the lowest level is optimised again on each level above it, and all but the last of that code is never run.
Half of the time to compile went there. Here the functions that a kernel calls stay as they are until the kernel itself
is made: only then all of them are linked, and optimised as one.

It takes over three steps of numba's code libraries, so that it is installed in the compiling process alone.
"""

from __future__ import annotations

from typing import Any

from llvmlite.binding import Linkage
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import cpu_target


class LinkedAtOnce(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """The code of one function, which is made into machine code only where Python can call it."""

    _linking_libraries: list[Any]
    _shared_module: Any

    def get_pointer_to_function(self, name: str) -> int:
        """Return where the function begins that Python calls; 0 where there is none, as in all that kernels call."""
        if not self._finalized and all(each.name != name for each in self._final_module.functions):
            return 0
        address: int = super().get_pointer_to_function(name)
        return address

    def add_linking_library(self, library: Any) -> None:
        """Take note of what this function calls, without making machine code of it."""
        self._linking_libraries.append(library)

    def _get_module_for_linking(self) -> Any:
        """Return the code as others take it in: each function once in all, and none that is not called."""
        if self._finalized:
            return super()._get_module_for_linking()
        if self._shared_module is None:
            self._shared_module = self._final_module.clone()
            for each in self._shared_module.functions:
                if not each.is_declaration and each.linkage == Linkage.external:
                    each.linkage = "linkonce_odr"
        return self._shared_module

    def finalize(self) -> None:
        """Link all that is called, however far down, and make machine code of it."""
        self._linking_libraries = _reached_from(self._linking_libraries)
        super().finalize()
        self._shared_module = None

    def _optimize_functions(self, ll_module: Any) -> None:
        """Leave a function as it was written: it is optimised with the kernel that it is linked into."""
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Optimise a kernel with all that it calls, which nobody else will call.

        Where LLVM knows that, a call passes only what is used of its arguments (each array of a named tuple is seven),
        and what is called in one place is written there: a slide of `Fiba` takes little more than half the time.

        numba does it twice, first to bring counts of references together that cancel each other. Where nothing is
        counted once will do: a sixth less, for the same code.
        """
        counted = False
        for each in self._final_module.functions:
            counted = counted or each.name == "NRT_incref"
            if not each.is_declaration and each.linkage == Linkage.linkonce_odr:
                each.linkage = "internal"
        if counted:
            super()._optimize_final_module()
            return
        passes = self._codegen._module_pass_manager()
        manager, *builder = passes if isinstance(passes, tuple) else (passes,)  # as the version of numba has it
        manager.run(self._final_module, *builder)

    def _verify_declare_only_symbols(self) -> None:
        """Refuse machine code that would call a function which it lacks: to call it would end the process."""
        super()._verify_declare_only_symbols()
        missing = {each.name for each in self._final_module.functions if each.is_declaration}
        for library in self._linking_libraries:
            for each in library._final_module.functions:
                if not each.is_declaration and each.name in missing:
                    raise AssertionError(f"{each.name} was not linked")


def _reached_from(libraries: list[Any]) -> list[Any]:
    """Return all that is called, callers before what they call: LLVM takes in only what is missing by then."""
    seen: set[int] = set()
    ordered: list[Any] = []

    def reach(library: Any) -> None:
        if id(library) not in seen:
            seen.add(id(library))
            for each in () if library._finalized else library._linking_libraries:
                reach(each)
            ordered.append(library)

    for library in libraries:
        reach(library)
    return ordered[::-1]


def install() -> None:
    """Have numba in this process make machine code so, from now on."""
    codegen = cpu_target.target_context.codegen()
    set_env = codegen.set_env

    def set_env_of_code(name: str, environment: Any) -> None:
        if codegen._engine.is_symbol_defined(name):  # a function without machine code has no place for one
            set_env(name, environment)

    codegen.set_env = set_env_of_code
    codegen._library_class = LinkedAtOnce
