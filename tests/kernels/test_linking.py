"""Kernels are linked once, with all that they call: nothing is missing, and a function that is shared is there once."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from numba import types

from muntin.kernels import compiler
from muntin.kernels.generate import standalone

PROGRAM = """
from numba import njit
from muntin.kernels import linking
linking.install()
inner = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)

@inner
def lowest(x):
    return x * x + 1

@inner
def middle(x):
    return lowest(x) + 10 if x > 2 else lowest(x - 1)

@njit(no_cfunc_wrapper=True)
def kernel(x):
    return lowest(x) - middle(x) if x < 0 else middle(x)

print(kernel(3), kernel(2), kernel(-1))
print(*(each.overloads[each.signatures[0]].library._finalized for each in (lowest, middle)))
{more}
"""
IN_THE_WRONG_ORDER = """
in_order = linking._reached_from
linking._reached_from = lambda libraries: in_order(libraries)[::-1]

@njit(no_cfunc_wrapper=True)
def other(x):
    return middle(x + 1)

try:
    other(3)
except AssertionError as error:
    print(error)
"""


def say(tmp_path: Path, more: str = "") -> list[str]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(more=more))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_kernel_and_what_it_calls(tmp_path: Path) -> None:
    """Functions that only kernels call get no machine code of their own."""
    assert say(tmp_path) == ["20 2 -3", "False False"]


@pytest.mark.slow
def test_what_lacks_a_function_is_refused(tmp_path: Path) -> None:
    """LLVM leaves out what nobody has asked for by then; to call that would end the process."""
    said = say(tmp_path, IN_THE_WRONG_ORDER)[-1]
    assert "lowest" in said
    assert said.endswith("was not linked")


def twice(x: int) -> int:
    return 2 * x


def twice_and_one(x: int) -> int:
    return twice(x) + 1


@pytest.mark.compiled
@pytest.mark.slow
def test_a_kernel_that_another_one_calls_is_kept_too(tmp_path: Path) -> None:
    """The compiling process has made it as a part of the other by then, which is no code of its own."""
    text = standalone(twice, twice_and_one).compiled.encode()
    path = tmp_path / f"muntin_kernel_{hashlib.sha256(text).hexdigest()[:24]}.py"
    path.write_bytes(text)
    modules: dict[Path, ModuleType] = {}
    for number, name in enumerate(("twice_and_one", "twice")):
        reply = compiler._compile(compiler.Request(number, path, name, (types.int64,)), modules)
        assert not reply.error
    assert len(list(tmp_path.glob("*.code"))) == 2
