"""The type of what a definition's `lower` returns, as the compiler sees it; remembered on disk."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from muntin.errors import DefinitionError
from muntin.kernels import cache
from muntin.kernels.generate import Part, generate

_known: dict[str, tuple[list[str], int | None]] = {}


def infer_result(part: Part) -> tuple[list[np.dtype[Any]], int | None]:
    """Return the types of the answer's values, and the length where the answer is an array.

    A sample of answers would be wrong here: a `lower` that says 0 for some states and 0.5 for others is a float.
    """
    text = generate([part], gaps=False, kernels=()).text
    digest = hashlib.sha256(text.encode()).hexdigest()[:24]
    path = cache.cache_folder() / f"result_{digest}.json"
    if digest not in _known:
        try:
            names, length = json.loads(path.read_text())
            _known[digest] = (list(names), length)
        except (OSError, ValueError):
            _known[digest] = _infer(part)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                cache.write_atomically(path, json.dumps(_known[digest]).encode())
            except OSError:
                pass  # a cache that cannot be written only costs time
    names, length = _known[digest]
    return [np.dtype(name) for name in names], length


def _infer(part: Part) -> tuple[list[str], int | None]:
    from numba import types
    from numba.core.errors import NumbaError
    from numba.np.numpy_support import as_dtype

    module = cache.load(generate([part], gaps=False, kernels=()), compiled=True)
    try:
        blank = module._p0_blank
        blank.compile(())
        state = blank.overloads[()].signature.return_type
        module._p0_lower.compile((state,))
        result = module._p0_lower.overloads[(state,)].signature.return_type
    except NumbaError as error:
        raise DefinitionError(cache.explain(error)) from error
    if isinstance(result, types.Optional):
        result = result.type
    if isinstance(result, types.Array):
        raise DefinitionError('a lower that returns an array must say its type and length: result=("f8", 10)')
    members = list(result.types) if isinstance(result, types.BaseTuple) else [result]
    try:
        return [as_dtype(types.unliteral(member)).str for member in members], None
    except (NotImplementedError, NumbaError):
        raise DefinitionError(f"lower returns {result}; a result is a number, several numbers, or an array") from None
