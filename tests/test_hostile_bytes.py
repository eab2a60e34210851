"""Bytes and names of unknown origin: they are refused or do what they say, and none of them is ever run."""

from __future__ import annotations

import builtins
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from muntin import Query, agg, aggregators, slide, stores, window
from muntin.cli.query_file import parse_query
from muntin.errors import MuntinError, SnapshotError, StoreError
from muntin.kernels.cache import uncompiled
from muntin.snapshots import Snapshot

CODE = "__import__('builtins').__dict__.update(muntin_trap=1)"
QUERY = Query(window.tumbling(10), {"all": agg.collect("v")}, key="k", time="t")


class Trap:
    """What is noticed when it is unpickled."""

    def __reduce__(self) -> Any:
        return eval, (CODE,)


@pytest.fixture(autouse=True)
def _nothing_is_run() -> Iterator[None]:
    with uncompiled():
        yield
    assert not builtins.__dict__.pop("muntin_trap", None), "bytes of unknown origin were run"


def saved() -> bytes:
    """Return the snapshot of a small stream."""
    stream = QUERY.stream()
    stream.push({"k": ["a", "b"], "t": [1, 2], "v": ["x", "y"]})
    return stream.snapshot()


def test_no_byte_of_a_snapshot_can_be_changed_unseen() -> None:
    data = saved()
    window = aggregators.TwoStacks(agg.sum("v"))
    window.bulk_insert([1, 2, 3], [4.0, 5.0, 6.0])
    other = window.snapshot()
    for at in range(0, len(data), 41):
        with pytest.raises(SnapshotError):
            QUERY.stream(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
    for at in range(0, len(other), 17):
        with pytest.raises(SnapshotError):
            aggregators.TwoStacks.restore(other[:at] + bytes([other[at] ^ 0x10]) + other[at + 1 :], agg.sum("v"))
    for length in range(0, len(data), 61):
        with pytest.raises(SnapshotError):
            QUERY.stream(data[:length])


def forged(data: bytes, old: bytes, new: bytes) -> bytes:
    """Return a snapshot with something replaced, and the checksum that belongs to it."""
    assert len(old) == len(new)
    assert old in data
    changed = data[:-32].replace(old, new)
    return changed + hashlib.sha256(changed).digest()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"arrays"', b'"arroys"'),
        (b'"dtype": "|O"', b'"dtype": "|Q"'),
        (b'"facts"', b'"fakts"'),
        (b'"kind": "stream"', b'"kind": "strean"'),
        (b'"strategies"', b'"strotegies"'),
        (b'"bytes": ', b'"bytes": '[:-1] + b"9"),
    ],
)
def test_a_forged_snapshot_is_refused(old: bytes, new: bytes) -> None:
    data = saved()
    if old not in data:  # as JSON is written without spaces
        old, new = old.replace(b": ", b":"), new.replace(b": ", b":")
        new = new[: len(old)] if len(new) >= len(old) else new + b" " * (len(old) - len(new))
    with pytest.raises(SnapshotError):
        QUERY.stream(forged(data, old, new))


def test_pickles_in_snapshots_are_not_read() -> None:
    window = aggregators.TwoStacks(agg.collect("v"))
    window.insert(1, Trap())
    with pytest.raises(SnapshotError, match="only pickle can read"):
        aggregators.TwoStacks.restore(window.snapshot(), agg.collect("v"))
    held = Snapshot.decode(saved())
    names = [name for name, array in held.arrays.items() if array.dtype == object]
    assert names
    for name in names:
        trap: Any = np.empty(len(held.arrays[name]), object)
        trap[:] = [Trap()] * len(trap)
        with pytest.raises(SnapshotError, match="only pickle can read"):
            QUERY.stream(replace(held, arrays={**held.arrays, name: trap}).encode())


def test_the_trap_works_where_pickles_are_allowed() -> None:
    window = aggregators.TwoStacks(agg.collect("v"))
    window.insert(1, Trap())
    aggregators.TwoStacks.restore(window.snapshot(), agg.collect("v"), allow_pickle=True)
    assert builtins.__dict__.pop("muntin_trap") == 1


def test_pickles_in_stores_are_not_read() -> None:
    store = stores.Memory()
    tree = aggregators.MonoidTree(agg.collect("v"), store=store, window_id="w", chunk_pairs=4, compiled=False)
    tree.bulk_insert(list(range(40)), [Trap() for _ in range(40)])
    tree.close()
    with pytest.raises((SnapshotError, StoreError), match="only pickle can read"):
        aggregators.MonoidTree.open(store, "w", agg.collect("v"), compiled=False).check()


NAMES = [
    CODE,
    f'"); {CODE}; ("',
    f"x\n{CODE}\n",
    "__class__",
    "{0.__class__}",
    "%s",
    "a b",
    "lambda: 0",
    "'''",
    "import os",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_only_names(name: str) -> None:
    table = pa.table({"t": [1, 2], name: [1.0, 2.0], f"key {name}": ["a", "b"]})
    mine = {name + " of": agg.sum(name), "std": agg.std(name), "first": agg.first(name)}
    query = Query({name: window.tumbling(10)}, mine, key=f"key {name}", time="t")
    whole = query.run(table)
    stream = query.stream()
    stream.push(table)
    assert whole[name + " of"].to_pylist() == stream.close()[name + " of"].to_pylist() == [1.0, 2.0]
    assert slide({name: np.ones(3)}, agg.sum(name), range=2).tolist() == [1.0, 2.0, 2.0]
    repr(query), str(query.explain()), query._repr_html_()


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_an_aggregation_is_only_a_name(name: str) -> None:
    namespace = {"lift": _lift, "combine": _combine, "__module__": __name__}
    made = agg.define(state="f8")(type(name, (), namespace))
    assert Query(window.tumbling(10), {"it": made("v")}, time="t").run({"t": [1], "v": [2.0]})["it"].to_pylist() == [
        2.0
    ]


def _lift(v: Any) -> Any:
    return v


def _combine(a: Any, b: Any) -> Any:
    return a + b


TUMBLING = "[[windows]]\ntumbling = 10\n"
FILES = [
    f'time = "t"\n[aggregates]\nn = "{CODE}"\n{TUMBLING}',
    f'time = "t"\n[aggregates]\nn = "max({CODE})"\n{TUMBLING}',
    f'time = "t"\n[aggregates]\nn = "count"\n[[windows]]\n"{CODE}" = 10\n',
    f'time = "t"\n[aggregates]\nn = {{ agg = "__import__", columns = ["os"] }}\n{TUMBLING}',
    'time = "t"\n[aggregates]\nn = "count"\n[[windows]]\npolicy = "os.system"\n',
    'time = "t"\n[aggregates]\nn = "count"\n[[windows]]\nContextFree = 10\n',
    f'time = "t"\n[aggregates]\nn = "define(state=f8)"\n{TUMBLING}',
    f'time = "t"\n[aggregates]\nn = {{ agg = "Factory", columns = ["v"] }}\n{TUMBLING}',
    "= [[[",
]


@pytest.mark.parametrize("text", FILES)
def test_a_query_file_runs_nothing(text: str) -> None:
    with pytest.raises(MuntinError):
        parse_query(text)


def test_a_query_file_is_read() -> None:
    assert parse_query(f'time = "t"\n[aggregates]\nn = "count"\n{TUMBLING}').run({"t": [1]})["n"].to_pylist() == [1]
