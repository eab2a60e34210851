"""What a stream's snapshot holds, read from its arrays, without the query or a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.durations import BEFORE_TIME
from muntin.errors import InvalidArgumentError
from muntin.keys.table import KeyTable
from muntin.snapshots import Snapshot
from muntin.streams.slices.generations import by_key
from muntin.types import Array

_EMITTED = "emitted.name0"
"""The keys of windows that late rows may revise."""
SLICES = ("start", "end", "rows", "windows")
"""The columns of a slice: its edges in time, the number of its rows if it is counted, and the windows it serves."""


def totals(lengths: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of keys, slices, kept rows and emitted windows, from the lengths of a snapshot's arrays.

    Emitted windows are in the ledger if late rows may revise them; if slices imply them, only the revised ones.
    Aggregations kept separately share their slices, which count once. O(arrays).

    >>> totals({"keys.numbers": 2, "0.0.key": 5, "0.1.key": 5, "0.emitted.name0": 1, "1.rows.keys": 7})
    {'keys': 2, 'slices': 5, 'rows': 7, 'emitted': 1}
    """
    strategies = sorted({name.partition(".")[0] for name in lengths if name[0].isdigit()})
    slices = rows = 0
    for each in strategies:
        slices += lengths.get(f"{each}.0.key", lengths.get(f"{each}.0.low", 0))
        apart = [length for name, length in lengths.items() if _is_under(name, each, "rows.tags")]
        rows += max(apart, default=0)
        rows += sum(length for name, length in lengths.items() if _is_under(name, each, "rows.keys"))
    emitted = sum(length for name, length in lengths.items() if name.endswith(_EMITTED))
    return {"keys": lengths.get("keys.numbers", 0), "slices": slices, "rows": rows, "emitted": emitted}


def _is_under(name: str, strategy: str, ending: str) -> bool:
    return name.startswith(f"{strategy}.") and name.endswith(f".{ending}")


def key_types(snapshot: Snapshot) -> dict[str, pa.DataType]:
    """Return the types of the key columns by name."""
    kinds = {name.removeprefix("key "): kind for name, kind in snapshot.schema if name.startswith("key ")}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def as_key(key: Any, types: Mapping[str, pa.DataType]) -> list[pa.Array]:
    """Return a key, a value or a tuple of them, as the columns of one row; reject anything else."""
    values = key if isinstance(key, tuple | list) else (key,)
    if len(values) != len(types):
        names = ", ".join(map(repr, types)) or "none"
        raise InvalidArgumentError(f"key is {key!r}, {len(values)} values, and the key columns are {names}")
    try:
        return [pa.array([value], kind) for value, kind in zip(values, types.values(), strict=True)]
    except pa.ArrowException as error:
        kinds = ", ".join(f"{name} {kind}" for name, kind in types.items())
        raise InvalidArgumentError(f"key is {key!r}, and the key columns are {kinds}: {error}") from error


def of_key(snapshot: Snapshot, key: list[pa.Array]) -> tuple[dict[str, int], pa.Table]:
    """Return the counts of slices, rows and emitted windows of one key, and its slices. O(state)."""
    arrays = by_key(snapshot.arrays)
    number = _number(arrays, key)
    groups = snapshot.header["core"]["strategies"]
    time = next(kind for name, kind in snapshot.schema if name.startswith("time ")) or pa.int64()
    parts = [_slices(arrays, f"{i}.0.", number, time, each["windows"]) for i, each in enumerate(groups)]
    slices = pa.concat_tables([part for part in parts if part is not None] or [_schema(time).empty_table()])
    rows = sum(_rows(arrays, str(i), number) for i in range(len(groups)))
    emitted = sum(int((array == number).sum()) for name, array in arrays.items() if name.endswith(_EMITTED))
    return {"slices": slices.num_rows, "rows": rows, "emitted": emitted}, slices


def _number(arrays: Mapping[str, Array], key: list[pa.Array]) -> int:
    """Return the number of a key in a snapshot; -1 if it is not there."""
    if not key:
        return 0
    table = KeyTable([each.type for each in key])
    table.load({name.removeprefix("keys."): array for name, array in arrays.items() if name.startswith("keys.")})
    return int(table.find(key, 1)[0])


def _schema(time: pa.DataType) -> pa.Schema:
    kinds = (time, time, pa.int64(), pa.list_(pa.int64()))
    return pa.schema(dict(zip(SLICES, kinds, strict=True)))


def _slices(
    arrays: Mapping[str, Array], prefix: str, number: int, time: pa.DataType, windows: list[int]
) -> pa.Table | None:
    """Return the slices of a key in one set; None if that is not a set of slices."""
    if f"{prefix}sizes" not in arrays:
        return None
    sizes = np.where(arrays[f"{prefix}keys"] == number, arrays[f"{prefix}sizes"], 0)
    mine = np.repeat(sizes > 0, arrays[f"{prefix}sizes"])
    low, high = (arrays[prefix + name][mine] for name in ("low", "high"))
    count = arrays[f"{prefix}count"][mine] if f"{prefix}count" in arrays else None
    rows = pa.nulls(len(low), pa.int64()) if count is None else pa.array(count)
    served = pa.array([windows] * len(low), pa.list_(pa.int64()))
    return pa.table([_times(low, time), _times(high, time), rows, served], _schema(time))


def _times(values: Array, time: pa.DataType) -> pa.Array:
    plain = pa.array(values)
    return plain.cast(pa.int32()).cast(time) if pa.types.is_date32(time) else plain.cast(time)


def _rows(arrays: Mapping[str, Array], strategy: str, number: int) -> int:
    """Return how many raw rows a strategy keeps of a key."""
    held = [array for name, array in arrays.items() if _is_under(name, strategy, "rows.keys")]
    if held:
        return sum(int((array == number).sum()) for array in held)
    return max((_kept(arrays, prefix, number) for prefix in _keeping(arrays, strategy)), default=0)


def _keeping(arrays: Mapping[str, Array], strategy: str) -> Iterator[str]:
    return (name.removesuffix("rows.tags") for name in arrays if _is_under(name, strategy, "rows.tags"))


def _kept(arrays: Mapping[str, Array], prefix: str, number: int) -> int:
    """Return the number of rows kept for the slices of a key: each row has the tag of its slice."""
    keys = np.repeat(arrays[f"{prefix}keys"], arrays[f"{prefix}sizes"])
    return int(np.isin(arrays[f"{prefix}rows.tags"], arrays[f"{prefix}tag"][keys == number]).sum())


def latest_row(snapshot: Snapshot) -> int:
    """Return the greatest time of a row, or a later one if the state does not record it. O(state) then."""
    known = snapshot.header["core"].get("latest")
    if known is not None:
        return int(known)
    arrays = by_key(snapshot.arrays)
    times = [array for name, array in arrays.items() if name.rpartition(".")[2] in ("times", "last", "low")]
    latest = max((int(each.max(initial=BEFORE_TIME)) for each in times if each.dtype.kind == "i"), default=BEFORE_TIME)
    return max(latest, int(snapshot.header["core"]["progress"]["seen"]))
