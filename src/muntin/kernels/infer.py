"""Asks the compiler about a definition: the result type of `lower`, whether it compiles; cached on disk."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from muntin.errors import DefinitionError
from muntin.kernels import cache
from muntin.kernels.background import report
from muntin.kernels.folder import read_checked, usable_folder, write_checked
from muntin.kernels.generate import Part, generate

_MAGIC = b"muntin types 1\n"
_known: dict[str, tuple[list[str], int | None]] = {}


def infer_result(part: Part) -> tuple[list[np.dtype[Any]], int | None]:
    """Return the types of the answer's values, and the length if the answer is an array.

    Sampling answers would be wrong: a `lower` that returns 0 for some states and 0.5 for others is a float.
    """
    try:
        names, length = _remembered("result", _text(part), lambda: _infer(part))
    except DefinitionError:
        raise
    except Exception as error:
        raise DefinitionError(
            f"the type of the answers cannot be inferred, as the compiler fails ({type(error).__name__}: {error}); "
            'declare it, as in result="f8"'
        ) from error
    return [np.dtype(name) for name in names], length


def check_compiles(part: Part, inputs: tuple[np.dtype[Any], ...]) -> None:
    """Raise a `DefinitionError` if the functions of a definition do not compile for columns of these types.

    Kernels that are not compiled yet run any Python, and would fail in the middle of a stream.
    """
    try:
        _remembered(f"check_{'_'.join(each.str[1:] for each in inputs)}", _text(part), lambda: _check(part, inputs))
    except DefinitionError:
        raise
    except Exception as error:  # noqa: BLE001  # of the compiler, not of the definition: its kernels stay plain as well
        report(f"{type(error).__name__}: {error}")


def _text(part: Part) -> str:
    return generate([part], gaps=False, kernels=()).text


def _remembered(
    question: str, text: str, answer: Callable[[], tuple[list[str], int | None]]
) -> tuple[list[str], int | None]:
    """Return the cached answer about a definition, from this process or from disk, or compute it."""
    digest = f"{question}_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    if digest not in _known:
        path = usable_folder() / f"{digest}.json"
        held = read_checked(path, _MAGIC)
        if held is not None:
            names, length = json.loads(held)
            _known[digest] = (list(names), length)
        else:
            _known[digest] = answer()
            with contextlib.suppress(OSError):  # a cache that cannot be written only costs time
                write_checked(path, _MAGIC, json.dumps(_known[digest]).encode())
    return _known[digest]


def _check(part: Part, inputs: tuple[np.dtype[Any], ...]) -> tuple[list[str], int | None]:
    import numba

    module = cache.load(generate([part], gaps=False, kernels=()), compiled=True)
    with _explained():
        state = _state(module)
        if "lift" in part.functions:
            module._p0_lift.compile(tuple(map(numba.from_dtype, inputs)))
        for name, arguments in (("combine", 2), ("invert", 2), ("neutral", 0), ("lower", 1)):
            if name in part.functions:
                getattr(module, f"_p0_{name}").compile((state,) * arguments)
    return [], None


_COLOURS = re.compile("\x1b\\[[0-9;]*m")


def _explain(error: str) -> str:
    """Return why a definition did not compile, in muntin's terms."""
    noise = ("Failed in", "During:", "File ")
    error = _COLOURS.sub("", error)
    lines = [line for line in error.splitlines() if line.strip() and not line.strip().startswith(noise)]
    return (
        "the aggregation cannot be compiled; its functions may use numbers, arrays, math and numpy only "
        '(state="object" allows any Python). numba says:\n  ' + "\n  ".join(lines[:8])
    )


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    from numba.core.errors import NumbaError

    try:
        yield
    except NumbaError as error:
        raise DefinitionError(_explain(str(error))) from error


def _state(module: ModuleType) -> Any:
    """Return the type of a state."""
    module._p0_blank.compile(())
    return module._p0_blank.overloads[()].signature.return_type


def _infer(part: Part) -> tuple[list[str], int | None]:
    from numba import types
    from numba.core.errors import NumbaError
    from numba.np.numpy_support import as_dtype

    module = cache.load(generate([part], gaps=False, kernels=()), compiled=True)
    with _explained():
        state = _state(module)
        module._p0_lower.compile((state,))
        result = module._p0_lower.overloads[(state,)].signature.return_type
    if isinstance(result, types.Optional):
        result = result.type
    if isinstance(result, types.Array):
        raise DefinitionError('a lower that returns an array must say its type and length: result=("f8", 10)')
    members = list(result.types) if isinstance(result, types.BaseTuple) else [result]
    try:
        return [as_dtype(types.unliteral(member)).str for member in members], None
    except (NotImplementedError, NumbaError):
        hint = "; one of several numbers cannot be None: return None for all of them" if "none" in str(result) else ""
        raise DefinitionError(
            f"lower returns {result}; a result is a number, several numbers, or an array{hint}"
        ) from None
