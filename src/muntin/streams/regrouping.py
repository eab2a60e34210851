"""Regroups snapshots by key: one snapshot of some keys of several.

Works on the arrays alone, without the query or a stream, so it can run beside a checkpoint. Every array of a snapshot
is by key, by slice, by row or by emitted window, or of the whole stream; unknown arrays are rejected rather than
guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from muntin.durations import END_OF_TIME
from muntin.errors import SnapshotError
from muntin.snapshots import Snapshot
from muntin.streams.places import Places, moved
from muntin.streams.slices.generations import by_key
from muntin.streams.snapshots import require_readable
from muntin.types import Array

_OF_SLICES = ("low", "high", "first", "last", "count", "skip", "states")
_BOUNDS = ("ids", "sinces", "floors", "gap")
"""Which windows slices are of, and since when; streams of earlier builds record no ids."""
_NUMBERED = ("gone", "done", "seen", "sent", "front")
"""What strategies over rows in order count for each key number."""
_ENTRIES = re.compile(r"(of\.\d+\.entries\.\w+\.)keys")
"""What definitions over rows in order keep besides rows: tables that begin with keys, in their order."""
_ALIKE = ("watermark", "seen", "horizon")
"""The progress of a stream: the same in all streams driven by one engine."""
_HINT = "choose a number of buckets that is a multiple of what there is: then each is divided, and none are joined"


def known_keys(snapshot: Snapshot) -> list[pa.Array]:
    """Return the key columns of a snapshot, one row per key, in the order of the masks of `regrouped`."""
    columns = pa.ipc.open_stream(pa.py_buffer(snapshot.arrays["keys.keys"].tobytes())).read_all().columns
    return [column.combine_chunks() for column in columns]


def regrouped(groups: Sequence[tuple[Snapshot, Array]]) -> Snapshot:
    """Return one snapshot of some keys of several snapshots, each with a mask of its keys as `known_keys` orders them.

    No key is in two of them. All are of one query, and of streams with the same progress. O(state).

    >>> from muntin import Query, agg, window
    >>> from muntin.streams.driven import DrivenStream
    >>> query = Query(window.tumbling(10), {"n": agg.count()}, key="k", time="t")
    >>> stream = DrivenStream(query, pa.schema({"t": pa.int64(), "k": pa.string()}))
    >>> stream.take(pa.table({"t": [1, 2, 3], "k": ["a", "b", "b"]}))
    >>> half = regrouped([(stream.save(), np.array([False, True]))])
    >>> other = DrivenStream.load(query, pa.schema({"t": pa.int64(), "k": pa.string()}), half)
    >>> other.set_watermark(10)
    >>> other.emit().select(["k", "n"]).to_pylist()
    [{'k': 'b', 'n': 2}]
    """
    for each, _ in groups:
        require_readable(each.header)
    first = groups[0][0]
    _same([sorted(each.header["query"].items()) for each, _ in groups], "the query, which some have not adopted yet,")
    shares: list[_Share] = []
    for snapshot, mask in ((_in_places_of(first, each), mask) for each, mask in groups):
        shares.append(_Share.of(snapshot, mask, sum(len(each.keys) for each in shares)))
    strategies = _same([each.header["core"]["strategies"] for each, _ in groups], "the way that windows are kept")
    arrays = {"late": first.arrays["late"], **_keys(shares)}
    for i, group in enumerate(strategies):
        how = _STRATEGIES.get(group["name"])
        if how is None:
            raise SnapshotError(f"what the strategy {group['name']!r} keeps cannot be divided by key")
        kept = how([each.under(f"{i}.") for each in shares], len(group["windows"]))
        arrays |= _named(f"{i}.", kept)
    unknown = [name for share in shares for name in share.arrays if name not in arrays]
    if unknown:
        raise SnapshotError(f"the state holds {unknown[0]!r}, which cannot be divided by key")
    return Snapshot(_header([each.header for each, _ in groups]), first.schema, first.fingerprint, arrays)


def _in_places_of(first: Snapshot, snapshot: Snapshot) -> Snapshot:
    """Return a snapshot with everything where the first has it, whose aggregates may be in another order."""
    one, other = (each.header["core"]["places"] for each in (first, snapshot))
    if one == other:
        return snapshot
    _same([each.header["core"]["strategies"] for each in (first, snapshot)], "the way that windows are kept")
    arrays = dict(snapshot.arrays)
    for i, (theirs, mine) in enumerate(zip(other, one, strict=True)):
        prefix = f"{i}."
        held = {name.removeprefix(prefix): arrays.pop(name) for name in list(arrays) if name.startswith(prefix)}
        arrays |= _named(
            prefix, moved(held, [Places.from_json(each) for each in theirs], [Places.from_json(each) for each in mine])
        )
    return replace(snapshot, arrays=arrays)


# ------------------------------------------------------------ shares


@dataclass(frozen=True)
class _Share:
    """Some keys of one snapshot, or of a part of it, with their new numbers."""

    arrays: Mapping[str, Array]
    keys: Array
    """The old numbers of the keys, ascending."""
    numbers: Array
    """The new number of each old one; -1 for keys left out."""

    @classmethod
    def of(cls, snapshot: Snapshot, mask: Array, first: int) -> _Share:
        arrays = by_key(snapshot.arrays)
        known = arrays["keys.numbers"]
        keys = known[mask]
        numbers = np.full(int(known.max(initial=-1)) + 1, -1, np.int64)
        numbers[keys] = first + np.arange(len(keys))
        return cls(arrays, keys, numbers)

    def under(self, prefix: str) -> _Share:
        """Return the share of the arrays under a prefix."""
        named = {name.removeprefix(prefix): array for name, array in self.arrays.items() if name.startswith(prefix)}
        return _Share(named, self.keys, self.numbers)

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def mine(self, keys: Array) -> Array:
        """Return a mask of these keys, by old number: those in the share."""
        mine: Array = self.numbers[keys] >= 0
        return mine

    def by_number(self, values: Array, unset: int) -> Array:
        """Return the values of an array indexed by key number."""
        inside = self.keys < len(values)
        found = np.full(len(self.keys), unset, np.int64)
        found[inside] = values[self.keys[inside]]
        return found


_Shares = Sequence[_Share]


def _joined(arrays: Iterable[Array]) -> Array:
    return np.concatenate(list(arrays))


def _same(values: Sequence[Any], what: str) -> Any:
    """Return the common value; reject values that differ."""
    if any(repr(each) != repr(values[0]) for each in values):
        raise SnapshotError(f"the states cannot be joined, since {what} differs among them: {_HINT}")
    return values[0]


def _greatest(arrays: Iterable[Array]) -> Array:
    greatest: Array = np.maximum.reduce(list(arrays))
    return greatest


def _rows_of(shares: _Shares, owner: str, names: Iterable[str]) -> dict[str, Array]:
    """Return the rows of a table that belong to the keys in column `owner`."""
    masks = [each.mine(each[owner]) for each in shares]
    pairs = list(zip(shares, masks, strict=True))
    rows = {name: _joined(each[name][mask] for each, mask in pairs) for name in names}
    return rows | {owner: _joined(each.numbers[each[owner][mask]] for each, mask in pairs)}


def _named(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {prefix + name: array for name, array in arrays.items()}


# ------------------------------------------------------------ what all strategies have


def _header(headers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    cores = [each["core"] for each in headers]
    progress = [each["progress"] for each in cores]
    for name in _ALIKE:
        _same([each[name] for each in progress], "how far they have come")
    # Each stream times its own early results: the joint one waits as long as the last of them.
    later = {name: max(each[name] for each in progress) for name in progress[0]}
    # Rows are numbered in order of arrival: new ones must come after all others.
    names = dict.fromkeys(name for each in headers for name in each["counts"])
    counts = {name: max(each["counts"].get(name, 0) for each in headers) for name in names}
    complete: dict[str, int | None] = {}
    for each in headers:
        for window, since in each["complete_from"].items():
            known = complete.get(window)
            complete[window] = since if known is None else known if since is None else max(known, since)
    windows = _same([each["windows"] for each in headers], "the windows")
    core = {**cores[0], "progress": later, **_of_changes(cores)}
    return {**headers[0], "counts": counts, "complete_from": complete, "windows": windows, "core": core}


def _of_changes(cores: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what streams know of queries before theirs: together they lack what one of them lacks."""
    found: dict[str, Any] = {}
    if all("latest" in each for each in cores):
        found["latest"] = max(each["latest"] for each in cores)
    begun: dict[str, dict[str, int]] = {}
    for name, since in ((n, s) for each in cores for n, s in each.get("begun", {}).items()):
        mine = begun.setdefault(name, {})
        mine |= {i: max(time, mine.get(i, time)) for i, time in since.items()}
    if begun:
        found["begun"] = begun
    if any("adopted" in each for each in cores):
        found["adopted"] = max((each["adopted"] for each in cores if "adopted" in each), key=lambda at: at[0] - at[1])
    return found


def _keys(shares: _Shares) -> dict[str, Array]:
    tables = []
    for each in shares:
        table = pa.ipc.open_stream(pa.py_buffer(each["keys.keys"].tobytes())).read_all()
        tables.append(table.filter(pa.array(each.mine(each["keys.numbers"]))))
    whole = pa.concat_tables(tables).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, whole.schema) as writer:
        writer.write_table(whole)
    keys = np.frombuffer(sink.getvalue(), np.uint8).copy()
    return {"keys.numbers": np.arange(whole.num_rows), "keys.keys": keys, "keys.free": np.zeros(0, np.int64)}


def _emitted(shares: _Shares) -> dict[str, Array]:
    """Return the ledger of emitted windows; they stay in order, since keys do."""
    parts = [each.under("emitted.") for each in shares]
    return _named("emitted.", _rows_of(parts, "name0", parts[0].arrays))


def _sets(shares: _Shares) -> list[str]:
    return sorted({name.partition(".")[0] for name in shares[0].arrays if name[0].isdigit()}, key=int)


# ------------------------------------------------------------ slices


def _slices(shares: _Shares, definitions: int) -> dict[str, Array]:  # noqa: ARG001  # all strategies have one form
    arrays = _emitted(shares) | _own_edges(shares)
    for name in _sets(shares):
        arrays |= _named(f"{name}.", _slice_set([each.under(f"{name}.") for each in shares]))
    for name in (each for each in _BOUNDS if each in shares[0].arrays):
        arrays[name] = np.array(_same([each[name].tolist() for each in shares], "since when windows are answered"))
        arrays[name] = arrays[name].astype(np.int64)
    return arrays | {"marks": _greatest(each["marks"] for each in shares)}


def _own_edges(shares: _Shares) -> dict[str, Array]:
    """Return the intervals by which slices of user-defined windows were cut; each bucket began its own."""
    arrays: dict[str, Array] = {}
    for name in (name for name in shares[0].arrays if name.startswith("own.") and name.endswith(".lows")):
        other = name.removesuffix("lows") + "highs"
        pairs = np.unique(np.concatenate([np.stack((each[name], each[other]), axis=1) for each in shares]), axis=0)
        if (pairs[1:, 0] < pairs[:-1, 1]).any():
            raise SnapshotError(f"the states cannot be joined, since their slices were cut by different edges: {_HINT}")
        arrays[name], arrays[other] = pairs[:, 0].copy(), pairs[:, 1].copy()
    return arrays


def _slice_set(shares: _Shares) -> dict[str, Array]:
    kept = [each.mine(np.repeat(each["keys"], each["sizes"])) for each in shares]
    pairs = list(zip(shares, kept, strict=True))
    arrays = _rows_of(shares, "keys", ("sizes",))
    arrays |= {
        name: _joined(each[name][mask] for each, mask in pairs) for name in _OF_SLICES if name in shares[0].arrays
    }
    arrays["merges"] = _greatest(each["merges"] for each in shares)
    return arrays if "tag" not in shares[0].arrays else arrays | _under_tags(shares, kept)


def _under_tags(shares: _Shares, kept: list[Array]) -> dict[str, Array]:
    """Return the data kept under the tags of slices, which are renumbered consecutively."""
    named = 0
    tags: list[Array] = []
    parts: list[dict[str, Array]] = []
    for each, mask in zip(shares, kept, strict=True):
        new = np.full(int(each["named"][0]), -1, np.int64)
        mine = each["tag"][mask]
        new[mine] = named + np.arange(len(mine))
        named += len(mine)
        tags.append(new[mine])
        parts.append(_kept_rows(each, new) | _runs(each, new))
    arrays = {name: _joined(part[name] for part in parts) for name in parts[0]}
    return arrays | {"tag": _joined(tags), "unused": np.zeros(0, np.int64), "named": np.array([named])}


def _kept_rows(share: _Share, new: Array) -> dict[str, Array]:
    if "rows.tags" not in share.arrays:
        return {}
    rows = new[share["rows.tags"]] >= 0
    mixed = new[share["rows.mixed"]]
    arrays = {name: array[rows] for name, array in share.under("rows.").arrays.items() if name != "mixed"}
    return _named("rows.", arrays | {"tags": new[arrays["tags"]], "mixed": mixed[mixed >= 0]})


def _runs(share: _Share, new: Array) -> dict[str, Array]:
    """Return sorted runs: each begins with an entry that ends at 0 and has the tag of its slice as its key."""
    arrays: dict[str, Array] = {}
    for prefix in (name.removesuffix("log_slots") for name in share.arrays if name.endswith(".log_slots")):
        keys, ends = share[f"{prefix}keys"].copy(), share[f"{prefix}ends"]
        heads = np.flatnonzero(ends == 0)
        names = new[keys[heads]]
        keys[heads] = names
        mask = np.repeat(names >= 0, np.diff(heads, append=len(keys)))
        logged = new[share[f"{prefix}log_slots"]]
        arrays |= {f"{prefix}keys": keys[mask], f"{prefix}ends": ends[mask]}
        arrays |= {
            f"{prefix}log_slots": logged[logged >= 0],
            f"{prefix}log_keys": share[f"{prefix}log_keys"][logged >= 0],
        }
    return arrays


def _entries(shares: _Shares) -> dict[str, Array]:
    """Return a table that begins with keys, in their order, and the masks of its values."""
    names = [name for name in shares[0].arrays if not name.startswith("valid.")]
    arrays = _rows_of(shares, "keys", names)
    masks = [each.mine(each["keys"]) for each in shares]
    for name in (name for name in shares[0].arrays if name.startswith("valid.")):
        given = [each[name] for each in shares]  # empty if no value is missing
        pairs = list(zip(given, masks, strict=True))
        whole = [np.ones(len(mask), np.bool_) if len(each) != len(mask) else each for each, mask in pairs]
        some = any(len(each) for each in given)
        arrays[name] = (
            _joined(each[mask] for each, mask in zip(whole, masks, strict=True)) if some else np.zeros(0, np.bool_)
        )
    return arrays


# ------------------------------------------------------------ rows in order


def _ordered(shares: _Shares, definitions: int) -> dict[str, Array]:  # noqa: ARG001  # as above
    """Return groups of definitions over rows in order. Definitions that parted in one state part in all."""
    alike = _same([[_windows_of(each, i) for i in range(_groups_of(each))] for each in shares], "which rows they hold")
    arrays = {name: shares[0][name] for name in ("groups",)} | {"watermark": _greatest(s["watermark"] for s in shares)}
    for i in range(len(alike)):
        arrays |= _named(f"{i}.", _group([each.under(f"{i}.") for each in shares]))
    return arrays


def _groups_of(share: _Share) -> int:
    return int(share["groups"][0])


def _windows_of(share: _Share, group: int) -> list[int]:
    windows: list[int] = share[f"{group}.windows"].tolist()
    return windows


def _group(shares: _Shares) -> dict[str, Array]:
    """Return rows, with the numbers beside them, and what is known of definitions and keys."""
    arrays = _named("rows.", _entries([each.under("rows.") for each in shares]))
    arrays |= {"windows": shares[0]["windows"], "marks": _greatest(each["marks"] for each in shares)}
    arrays["wake"] = _joined(each.by_number(each["wake"], END_OF_TIME) for each in shares)
    arrays |= _rows_of(shares, "fresh.keys", ("fresh.times",))
    for prefix in sorted({found[1] for name in shares[0].arrays if (found := _ENTRIES.match(name))}):
        arrays |= _named(prefix, _entries([each.under(prefix) for each in shares]))
    for name in shares[0].arrays:
        if name in arrays:  # of rows: a column may have any name
            continue
        if name.rpartition(".")[2] in _NUMBERED:
            arrays[name] = _joined(each.by_number(each[name], 0) for each in shares)
        else:
            arrays[name] = _greatest(each[name] for each in shares)
    return arrays


# ------------------------------------------------------------ rows that change


def _changing(shares: _Shares, definitions: int) -> dict[str, Array]:  # noqa: ARG001  # as above
    """Return rows that may be taken back, emitted windows, and numbers of keys, by definition."""
    arrays = {"watermark": _greatest(each["watermark"] for each in shares)}
    for name in sorted({each.partition(".")[0] for each in shares[0].arrays} - {"watermark"}):
        parts = [each.under(f"{name}.") for each in shares]
        for kept in ("rows.", "gone.", "done.", "wake."):
            arrays |= _named(f"{name}.{kept}", _entries([each.under(kept) for each in parts]))
        emitted = [each.under("emitted.") for each in parts]
        arrays |= _named(f"{name}.emitted.", _rows_of(emitted, "name0", emitted[0].arrays))
        arrays[f"{name}.kept_from"] = _greatest(each["kept_from"] for each in parts)
    return arrays


_STRATEGIES: dict[str, Callable[[_Shares, int], dict[str, Array]]] = {
    "slices": _slices,
    "tiles": _ordered,
    "rows": _ordered,
    "states": _ordered,
    "changelog": _changing,
}
