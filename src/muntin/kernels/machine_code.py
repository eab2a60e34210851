"""Machine code on disk: one file per kernel and signature, with a checksum, beside the text of its module.

numba uses this in place of its own cache. Its own requires a source file of a certain age per kernel, and an index that
is rewritten for each signature; a name made of hashes needs neither, so files can be copied, shipped with the package
and written by several processes.
"""

from __future__ import annotations

import contextlib
import hashlib
import pickle
from pathlib import Path
from typing import Any

from muntin.kernels.folder import delete, read_checked, write_checked

_MAGIC = b"muntin machine code 1\n"


class MachineCode:
    """The files of one kernel: written to the first of several folders, read from all of them."""

    cache_path = None  # read by numba for its own reports

    def __init__(self, folders: tuple[Path, ...], module: str, kernel: str) -> None:
        self._folders = folders
        self._stem = f"{module}.{kernel}"

    def path(self, signature: Any, folder: Path | None = None) -> Path:
        """Return the file of one signature."""
        digest = hashlib.sha256(str(signature).encode()).hexdigest()[:16]
        return (folder or self._folders[0]) / f"{self._stem}.{digest}.code"

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the machine code of a signature, or None. Deletes a damaged file."""
        for folder in self._folders:
            path = self.path(signature, folder)
            payload = read_checked(path, _MAGIC)
            if payload is None:
                continue
            target_context.refresh()  # the runtime of compiled code must be loaded before the code: 0.2 s, once
            with contextlib.suppress(Exception):  # whatever pickle or LLVM raise: it is recompiled
                return _rebuild(payload, target_context)
            delete(path)
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Write the machine code of a signature. Code with addresses of this process is not saved."""
        from numba.core.serialize import dumps

        if any(not each.can_cache for each in result.lifted) or result.library.has_dynamic_globals:
            return
        payload = dumps(result._reduce())
        write_checked(self.path(signature), _MAGIC, payload)

    def enable(self) -> None:
        """Do nothing: numba enables its caches."""

    def disable(self) -> None:
        """Do nothing: numba disables its caches."""

    def flush(self) -> None:
        """Do nothing: files are written at once."""


def _rebuild(payload: bytes, target_context: Any) -> Any:
    from numba.core.compiler import CompileResult

    result = CompileResult._rebuild(target_context, *pickle.loads(payload))  # noqa: S301  # from a file of ours alone, see `read_checked`
    result.library._shared_module = None  # for inlining into other kernels, which entries never are
    return result
