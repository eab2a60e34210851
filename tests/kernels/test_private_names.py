"""Names of numba and llvmlite that another version may lack: without one, kernels stay plain, and the log says so."""

from __future__ import annotations

import contextlib
import importlib
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forking import Fork
from numba.core import types

from muntin import agg, slide
from muntin.kernels import background, cache, compiler, infer, linking, tiers
from muntin.kernels.background import Background, Job
from muntin.kernels.compiler import Reply, Request
from muntin.kernels.generate import standalone
from muntin.kernels.intrinsics import cpu_target

pytestmark = pytest.mark.compiled

NAMES = {
    # by module: what is imported or called when the first kernel is loaded
    "numba": ("njit",),
    "numba.core.cgutils": ("get_item_pointer", "get_or_insert_function"),
    "numba.core.codegen": ("JITCodeLibrary",),
    "numba.core.compiler": ("CompileResult",),
    "numba.core.compiler_lock": ("global_compiler_lock",),
    "numba.core.errors": ("NumbaError",),
    "numba.core.extending": ("intrinsic", "overload"),
    "numba.core.registry": ("cpu_target",),
    "numba.core.serialize": ("dumps",),
    "numba.core.types": ("IntegerLiteral", "unliteral"),
    "numba.np.linalg": ("ensure_blas",),
    "numba.np.numpy_support": ("as_dtype",),
    "llvmlite.binding": ("Linkage",),
    "llvmlite.ir": ("VectorType",),
}
MEMBERS = {
    # by class: what is called on its instances, or set on them
    "numba.core.dispatcher.Dispatcher": (
        "typeof_pyval", "overloads", "compile", "add_overload", "stats", "targetctx", "get_call_template",
    ),
    "numba.core.compiler.CompileResult": ("_reduce", "_rebuild", "entry_point", "lifted", "library", "fndesc"),
    "numba.core.base.BaseContext": ("insert_user_function", "refresh", "make_array", "get_constant", "codegen"),
    "numba.core.codegen.CPUCodeLibrary": (
        "_get_module_for_linking", "_optimize_functions", "_optimize_final_module", "_final_module", "_finalized",
        "_linking_libraries", "_shared_module", "has_dynamic_globals", "finalize", "add_linking_library",
        "_verify_declare_only_symbols", "_codegen",
    ),
    "numba.core.codegen.JITCodeLibrary": ("get_pointer_to_function",),
    "numba.core.codegen.CPUCodegen": ("_module_pass_manager", "_data_layout", "_tm_features", "_library_class"),
    "numba.core.codegen.JITCPUCodegen": ("set_env", "_engine"),
}  # fmt: skip
ALL = [(owner, name) for table in (NAMES, MEMBERS) for owner, names in table.items() for name in names]


def take_away(owner: str, name: str) -> None:
    """Take a name away, for all who look for it from now on."""
    if owner in NAMES:
        place: Any = importlib.import_module(owner)
        if name in vars(place):
            delattr(place, name)
        else:
            place.__getattr__ = None
        return
    module, _, kind = owner.rpartition(".")
    place = getattr(importlib.import_module(module), kind)

    def gone(self: Any, *_: Any) -> Any:
        raise AttributeError(f"no {name}")

    for each in (place, *place.__subclasses__()):
        setattr(each, name, property(gone, gone))


def total(values: Any) -> float:
    result = 0.0
    for i in range(len(values)):
        result += values[i]
    return result


class Failing(Background):
    """A compiling process that always fails, so that this one compiles."""

    def submit(self, path: Path, kernel: str, signature: Any, cost: float) -> Job:
        job = Job(Request(0, path, kernel, signature), cost)
        self._end(job, Reply(0, 0.0, "on purpose"))
        return job


@agg.define(state="f8", result="f8")
class greatest:
    """The greatest."""

    def lift(v):  # type: ignore[no-untyped-def]  # definitions have no types
        return v

    def combine(a, b):  # type: ignore[no-untyped-def]  # definitions have no types
        return max(a, b)

    def lower(s):  # type: ignore[no-untyped-def]  # definitions have no types
        return s * 2.0


VALUES = np.arange(5.0)


def answers() -> list[Any]:
    """Load a kernel, compile it here, and ask for two aggregations of which none is compiled."""
    kernel = cache.load(standalone(total), compiled=True).total
    found: list[Any] = []
    with tiers.waiting():
        found += [kernel(VALUES), kernel(VALUES[:3])]
    token = tiers._patient.set(False)
    found += [slide(VALUES, each, range=2).tolist() for each in (agg.sum("v"), greatest("v"))]
    tiers._patient.reset(token)
    return found


EXPECTED = [10.0, 3.0, [0.0, 1.0, 3.0, 5.0, 7.0], [0.0, 2.0, 4.0, 6.0, 8.0]]


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def without(owner: str, name: str, folder: Path) -> tuple[list[Any], list[str], Reply]:
    """Return answers without a name, what was logged, and the reply of the compiling process without it."""
    records = Records()
    logging.getLogger("muntin").addHandler(records)
    background._reported.clear()
    tiers.background = Failing()
    infer._known.clear()
    cache._modules.clear()
    cache._recent.clear()
    for module in [each for each in sys.modules if each.startswith("muntin.kernels.intr")]:
        del sys.modules[module]  # imported again, by whoever loads the first kernel
        delattr(sys.modules["muntin.kernels"], module.rpartition(".")[2])
    take_away(owner, name)
    found = answers()
    path = next(iter(folder.rglob("muntin_kernel_*.py")), folder / "none.py")
    with contextlib.suppress(Exception):  # as in compiler.main
        importlib.reload(linking).install()
    signature = (types.float64[::1],)
    return found, records.texts, compiler._compile(Request(0, path, "total", signature), {})


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUNTIN_CACHE_DIR", str(tmp_path))
    cpu_target.target_context.refresh()  # once, for all forks of this process


@pytest.mark.parametrize(("owner", "name"), ALL, ids=[f"{owner}.{name}" for owner, name in ALL])
def test_without_a_name_users_get_their_answers(owner: str, name: str, tmp_path: Path) -> None:
    found, logged, reply = Fork(lambda: without(owner, name, tmp_path)).answer()
    assert found == EXPECTED
    assert len(logged) == 1, "it is logged once, by the failing process at the latest"
    assert reply.number == 0
