"""What goes wrong in a simulated pipeline."""

from __future__ import annotations

import errno
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from muntin.arrays import spans
from muntin.kernels import cache, tiers
from muntin.kernels.background import Background
from muntin.keys import encoding, order
from muntin.streams.slices import slice_set
from muntin.windows import found


class CrashError(Exception):
    """The process is gone, and with it all that was in its memory."""


@contextmanager
def refused_memory(nth: int) -> Iterator[None]:
    """Let the nth call of NumPy fail for want of memory, wherever that is."""
    calls = 0

    def look(frame: Any, event: str, called: Any) -> None:
        nonlocal calls
        if event == "c_call" and _may_allocate(called):
            calls += 1
            if calls == nth:
                sys.setprofile(None)
                raise MemoryError(f"refused at call {nth}, {called.__name__}")

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)


def _may_allocate(called: Any) -> bool:
    module = getattr(called, "__module__", None) or ""
    return module.startswith("numpy") or isinstance(getattr(called, "__self__", None), np.ndarray)


class DyingCompiler(Background):
    """A compiling process that is killed in the middle of a request, as often as it is started."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._chance = random.Random(seed)  # of its own: a thread starts the process again
        self.starts = 0

    def _command(self) -> list[str]:
        self.starts += 1
        return ["sh", "-c", f"head -c {self._chance.randrange(8_000)} > /dev/null; kill -KILL $$"]


def _forget_shared() -> None:
    """Let the kernels that all queries share be loaded anew: they know their folder, which does not last."""
    for loaded in (
        encoding._loaded,
        encoding._loaded_finding,
        order._placing,
        slice_set.slicing,
        found.finding,
        spans._bounds_kernels,
    ):
        loaded.cache_clear()


@contextmanager
def dying_compiler(seed: int) -> Iterator[DyingCompiler]:
    """Run kernels as users do who have compiled nothing yet, while whoever compiles them dies again and again."""
    compiler = DyingCompiler(seed)
    impatient, compiled = tiers._patient.set(False), cache._plain.set(False)
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, MUNTIN_CACHE_DIR=folder),
        patch.object(tiers, "background", compiler),
        patch.object(cache, "_modules", {}),  # kernels for which nobody has asked yet
    ):
        _forget_shared()
        try:
            yield compiler
        finally:
            compiler.close()
            _forget_shared()
            cache._plain.reset(compiled)
            tiers._patient.reset(impatient)


class Disk:
    """Checkpoints, by the number of the step that comes next. A write fails, stops in the middle, or is damaged."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.checkpoints: list[tuple[int, bytes]] = []

    def write(self, position: int, data: bytes, fault: str | None) -> None:
        if fault == "full disk":
            raise OSError(errno.ENOSPC, "no space left on device")
        if fault == "torn write":
            self.checkpoints.append((position, data[: self.chance.randrange(len(data))]))
            raise CrashError
        if fault == "damaged write":
            at = self.chance.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ 1 << self.chance.randrange(8)]) + data[at + 1 :]
        self.checkpoints.append((position, data))
