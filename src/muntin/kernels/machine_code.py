"""Machine code on disk: one file for each kernel and signature, with a checksum, beside the text of its module.

numba asks such an object wherever its own cache would be asked. Its own wants a source file of a certain age for each
kernel, and an index that is written again for each signature; a name made of hashes needs neither, so that files can be
copied, shipped with the package and written by several processes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
from pathlib import Path
from typing import Any

from muntin.kernels.folder import write_atomically

_MAGIC = b"muntin machine code 1\n"


class MachineCode:
    """The files of one kernel: written to the first of some folders, looked for in all of them."""

    cache_path = None  # asked by numba for its own reports

    def __init__(self, folders: tuple[Path, ...], module: str, kernel: str) -> None:
        self._folders = folders
        self._stem = f"{module}.{kernel}"

    def path(self, signature: Any, folder: Path | None = None) -> Path:
        """Return the file of one signature."""
        digest = hashlib.sha256(str(signature).encode()).hexdigest()[:16]
        return (folder or self._folders[0]) / f"{self._stem}.{digest}.code"

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return what was compiled for a signature, or None. A damaged file is deleted."""
        target_context.refresh()  # the runtime of compiled code is there before the code
        for folder in self._folders:
            path = self.path(signature, folder)
            payload = _read(path)
            if payload is None:
                continue
            with contextlib.suppress(Exception):  # whatever pickle or LLVM say: it is compiled again
                return _rebuild(payload, target_context)
            _delete(path)
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Write what was compiled for a signature. Code with addresses of this process in it is not kept."""
        from numba.core.serialize import dumps

        if any(not each.can_cache for each in result.lifted) or result.library.has_dynamic_globals:
            return
        payload = dumps(result._reduce())
        write_atomically(self.path(signature), _MAGIC + hashlib.sha256(payload).digest() + payload)

    def enable(self) -> None:
        """Do nothing: numba asks its caches to be switched on."""

    def disable(self) -> None:
        """Do nothing: numba asks its caches to be switched off."""

    def flush(self) -> None:
        """Do nothing: files are written at once."""


def _read(path: Path) -> bytes | None:
    """Return what a file holds; None where it is missing, damaged, or could be another user's."""
    try:
        with path.open("rb") as file:
            if hasattr(os, "getuid") and os.fstat(file.fileno()).st_uid not in (os.getuid(), 0):
                return None  # what is loaded is run
            data = file.read()
    except OSError:
        return None
    head, digest, payload = data[: len(_MAGIC)], data[len(_MAGIC) : len(_MAGIC) + 32], data[len(_MAGIC) + 32 :]
    if head == _MAGIC and hashlib.sha256(payload).digest() == digest:
        return payload
    _delete(path)
    return None


def _delete(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _rebuild(payload: bytes, target_context: Any) -> Any:
    from numba.core.compiler import CompileResult

    result = CompileResult._rebuild(target_context, *pickle.loads(payload))  # noqa: S301  # from a file of ours alone, see `_read`
    result.library._shared_module = None  # for inlining into other kernels, which entries never are
    return result
