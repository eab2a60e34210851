"""Kernels that are plain as long as a test says so, and then compiled: the change that a user's stream goes through."""

from __future__ import annotations

from typing import Any

import pytest

from muntin.kernels import tiers
from muntin.kernels.tiers import Entry


class Gate:
    """Whether kernels count as compiled."""

    def __init__(self) -> None:
        self.open = False


def closed_gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Make all kernels plain until the gate is opened; the first call of each after that waits for its machine code."""
    gate = Gate()
    ready, compiled_or_plain = Entry._ready, Entry.__call__

    def only_when_open(self: Entry, signature: Any) -> bool:
        if not gate.open:
            return False
        with tiers.waiting():
            return ready(self, signature)

    def call(self: Entry, *arguments: Any) -> Any:
        return compiled_or_plain(self, *arguments) if gate.open else self._run_plain(arguments)

    monkeypatch.setattr(Entry, "_ready", only_when_open)
    monkeypatch.setattr(Entry, "__call__", call)
    return gate
