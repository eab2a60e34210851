"""The rows of a state, or their states, as another query goes on with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from muntin.streams.change import Change, blank, named, under
from muntin.streams.rows.states import STATE
from muntin.types import Array

if TYPE_CHECKING:
    from muntin.streams.rows.rows import Group, Rows

_OF, _BESIDE, _VALUE, _VALID = "of.", "rows.beside.", "rows.value.", "rows.valid."


def adopted(rows: Rows, saved: Mapping[str, Array], change: Change) -> dict[str, Array]:
    """Return the arrays of a state as `rows`, which are empty, would have saved them. O(state)."""
    groups = [under(f"{i}.", saved) for i in range(int(saved["groups"][0]))]
    kept = [each for each in groups if not change.windows.keys().isdisjoint(each["windows"].tolist())]
    arrays = {"watermark": saved["watermark"], "groups": np.array([len(kept)], np.int64)}
    for i, each in enumerate(kept):
        arrays |= named(f"{i}.", _group(each, change))
    for i, group in enumerate(rows.empty_groups(arrays)):
        mine = under(f"{i}.", arrays)
        arrays |= named(f"{i}.", _columns(group, mine) | _beside(rows, group, mine, change, i))
    return arrays


def _group(saved: Mapping[str, Array], change: Change) -> dict[str, Array]:
    """Return what is kept of definitions that stay, under their new numbers."""
    windows = [change.windows[i] for i in saved["windows"].tolist() if i in change.windows]
    arrays = {"windows": np.array(windows, np.int64)}
    for name, array in saved.items():
        for prefix in (_OF, _BESIDE):
            number, _, rest = name.removeprefix(prefix).partition(".")
            if name.startswith(prefix) and number.isdigit():
                if int(number) in change.windows:
                    arrays[f"{prefix}{change.windows[int(number)]}.{rest}"] = array
                break
        else:
            arrays.setdefault(name, array)
    return arrays


def _columns(group: Group, saved: Mapping[str, Array]) -> dict[str, Array]:
    """Return the columns that are read; of a new one, rows that are there hold nulls."""
    count = len(saved["rows.keys"])
    arrays = {}
    for name, kind in group.store.types.items():
        known = saved.get(_VALUE + name)
        if known is None or known.dtype != kind.physical:
            arrays[_VALUE + name] = blank(np.zeros(0, kind.physical), count)
            arrays[_VALID + name] = np.zeros(count, np.bool_)
    return arrays


def _beside(rows: Rows, group: Group, saved: Mapping[str, Array], change: Change, number: int) -> dict[str, Array]:
    """Return the numbers beside rows, and their states: numbers that nobody kept begin with 0."""
    count = len(saved["rows.keys"])
    arrays = {}
    for name, held in group.store.beside.items():
        if name == STATE:
            (mine,) = rows.places
            where = f"{number}.{_BESIDE}{STATE}"
            states = {where: saved[_BESIDE + STATE]}
            arrays[_BESIDE + STATE] = change.fused(states, where, mine, group.store.bindings[0], count)
        elif f"{_BESIDE}{name}" not in saved:
            arrays[f"{_BESIDE}{name}"] = np.zeros(count, held.dtype)
    return arrays
