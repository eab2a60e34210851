"""Columns in Arrow's rarer layouts are read as what they hold, as values, keys and late rows, by every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from muntin import Query, agg, slide, window
from muntin.errors import ColumnTypeError
from muntin.layouts import plain_column

TEXTS = ["b", "", None, "a" * 40]
LISTS = [[1], None, [], [2, 3]]
NESTED = [["b"], None, [], [None]]
HALVES = pa.array(np.array([1.5, -0.0, 7.0, 0.0], np.float16), mask=np.array([False, False, True, False]))


class Metres(pa.ExtensionType):
    """A type of somebody else's, which Python cannot hash."""

    def __init__(self) -> None:
        super().__init__(pa.string(), "tests.metres")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Metres:
        return cls()


def runs() -> pa.Array:
    return pc.run_end_encode(pa.array(TEXTS))


LAYOUTS = {
    "string_view": (pa.array(TEXTS, pa.string_view()), pa.array(TEXTS)),
    "binary_view": (pa.array([b"b", b"", None, b"a"], pa.binary_view()), pa.array([b"b", b"", None, b"a"])),
    "runs": (runs(), pa.array(TEXTS)),
    "extension": (pa.ExtensionArray.from_storage(Metres(), pa.array(TEXTS)), pa.array(TEXTS)),
    "list_view": (pa.array(LISTS, pa.list_view(pa.int64())), pa.array(LISTS)),
    "views in lists": (pa.array(NESTED, pa.list_(pa.string_view())), pa.array(NESTED)),
    "halves": (HALVES, HALVES),
}


def answers(column: pa.Array) -> list[Any]:
    """Return what every engine says of a column, as a value and as a key, and of late rows that have it."""
    data = pa.table({"t": [1, 2, 13, 14], "v": column})
    values = Query(window.tumbling(10), {"last": agg.last("v"), "all": agg.collect("v"), "n": agg.count("v")}, time="t")
    keys = Query(window.trailing(20), {"n": agg.count()}, key="v", time="t")
    found = [
        values.run(data),
        keys.run(data).sort_by("n"),
        keys.over(data)["n"],
        slide(data["v"], agg.last("v"), range=2),
    ]
    for query in (values, keys):
        stream = query.stream()
        parts = [stream.push(data.slice(0, 1)), stream.push(data.slice(1)), stream.close()]
        found.append(pa.concat_tables(parts))
    stream = Query(window.tumbling(1), {"n": agg.count()}, time="t").stream()
    stream.push(data)
    stream.push({"t": [100]})
    stream.push(data)
    return [each.to_pylist() for each in (*found, stream.late)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_rare_layout_is_read_as_what_it_holds(layout: str) -> None:
    rare, plain = LAYOUTS[layout]
    assert plain_column(rare).type == plain.type
    assert answers(rare) == answers(plain)


def test_columns_that_are_not_read_stay_as_they_are_beside_the_answers() -> None:
    data = pa.table({"t": [1, 2, 3, 4], "v": LAYOUTS["string_view"][0]})
    found = Query(window.trailing(2), {"n": agg.count()}, time="t").over(data)
    assert found["v"].type == pa.string_view()
    assert found["n"].to_pylist() == [1, 2, 2, 2]


def test_values_that_cannot_be_compared_are_refused_by_name_and_change_nothing() -> None:
    data = pa.table({"t": [1, 2], "v": pa.array([[1], [None]])})
    query = Query(window.trailing(10), {"it": agg.max("v")}, time="t")
    refused = pytest.raises(ColumnTypeError, match=r"agg.max\('v'\): .* not supported .*; give values of one type")
    with refused:
        query.run(data)
    stream = query.stream()
    stream.push(data.slice(0, 1))
    before = stream.snapshot()
    with refused:
        stream.push(data.slice(1))
    assert stream.snapshot() == before
