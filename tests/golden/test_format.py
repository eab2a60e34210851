"""A reader of saved states that knows nothing but what the page about the format says: no line of muntin runs in it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from golden.cases import CASES

HERE = Path(__file__).parent
SEQUENCES: dict[bytes, Any] = {b"l": list, b"t": tuple, b"e": set, b"z": frozenset, b"o": list}


def read(data: bytes) -> tuple[dict[str, Any], pa.Schema, dict[str, Any]]:
    """Return the header, the schema and the arrays of a state."""
    magic, version, length = struct.unpack_from("<8sHI", data)
    assert magic == b"muntin\x00\x01"
    assert version == 1
    assert hashlib.sha256(data[:-32]).digest() == data[-32:]
    at = 14 + length
    header = json.loads(data[14:at])
    schema = pa.ipc.read_schema(pa.py_buffer(data[at : at + header["schema"]]))
    at += header["schema"]
    arrays = {}
    for each in header["arrays"]:
        arrays[each["name"]] = array_of(data[at : at + each["bytes"]], each["dtype"])
        assert len(arrays[each["name"]]) == each["rows"]
        at += each["bytes"]
    assert at == len(data) - 32
    return header, schema, arrays


def array_of(data: bytes, kind: Any) -> Any:
    if kind == "|O":
        return value_of(io.BytesIO(data))
    if isinstance(kind, list):
        kind = np.dtype([(name, base, tuple(shape)) for name, base, shape in kind], align=True)
    return np.frombuffer(data, kind)


def value_of(data: io.BytesIO) -> Any:
    tag = data.read(1)
    if tag in b"NTF":
        return {b"N": None, b"T": True, b"F": False}[tag]
    (length,) = struct.unpack("<Q", data.read(8))
    if tag in SEQUENCES:
        return SEQUENCES[tag](value_of(data) for _ in range(length))
    text = data.read(length)
    if tag == b"f":
        return struct.unpack("<d", text)[0]
    if tag in (b"g", b"a"):
        kind, _, raw = text.partition(b" ")
        values = np.frombuffer(raw, kind.decode())
        return values[0].item() if tag == b"g" else values.tolist()
    return {b"i": int, b"s": bytes.decode, b"b": bytes}[tag](text)


def keys_of(arrays: dict[str, Any]) -> dict[int, tuple[Any, ...]]:
    """Return the key of each key number."""
    table = pa.ipc.open_stream(pa.py_buffer(arrays["keys.keys"].tobytes())).read_all()
    if not table.num_columns:
        return dict.fromkeys(arrays["keys.numbers"].tolist(), ())
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return dict(zip(arrays["keys.numbers"].tolist(), rows, strict=True))


def state_of(name: str) -> tuple[dict[str, Any], pa.Schema, dict[str, Any]]:
    return read(gzip.decompress((HERE / "streams-3" / f"{name}.snapshot.gz").read_bytes()))


def pushed(name: str) -> list[dict[str, Any]]:
    """Return the rows before the save, in the order in which they came."""
    return [row for word, given in CASES[name].before if word == "push" for row in given]


@pytest.mark.parametrize("name", CASES)
def test_every_state_is_read(name: str) -> None:
    header, schema, arrays = state_of(name)
    facts = header["facts"]
    assert (facts["kind"], facts["version"]) == ("stream", 3)
    if facts["core"] is None:
        return
    query = CASES[name].query
    key = [each.removeprefix("key ") for each in schema.names if each.startswith("key ")]
    assert key == list(query.key)
    assert schema.names[0] == "time t"
    assert facts["counts"]["rows"] == len(pushed(name))
    assert set(keys_of(arrays).values()) <= {tuple(row[part] for part in key) for row in pushed(name)}
    late = pa.ipc.open_stream(pa.py_buffer(arrays["late"].tobytes())).read_all()
    assert late.num_rows == facts["counts"]["dropped"]


def test_slices_are_read() -> None:
    """Each has the count, the sum and the greatest value of the rows between its edges."""
    for name, prefix in (("sliding", "0.0."), ("sliding_extremes", "0.0.")):
        header, _, arrays = state_of(name)
        keys = keys_of(arrays)
        (place,) = header["facts"]["core"]["places"][0]
        assert prefix == f"0.{place['prefix']}"
        owned = {aggregate: [f for f, whose in place["fields"] if aggregate in whose] for aggregate in place["names"]}
        owners = np.repeat(arrays[f"{prefix}keys"], arrays[f"{prefix}sizes"])
        states = arrays[f"{prefix}states"]
        assert len(states) == len(owners) > 10
        for owner, low, high, state in zip(
            owners, arrays[f"{prefix}low"], arrays[f"{prefix}high"], states, strict=True
        ):
            rows = [row for row in pushed(name) if (row["k"],) == keys[owner] and low <= row["t"] < high]
            values = [row["v"] for row in rows if row["v"] is not None]
            if name == "sliding":
                count, total = (state[owned[each][at]] for each, at in (("n", 0), ("total", 1)))
                assert (count, total) == (len(rows), sum(values))
            elif values:
                assert (state[owned["hi"][0]], state[owned["lo"][0]]) == (max(values), min(values))
            else:
                assert state[owned["hi"][1]] == 0


def test_rows_are_read() -> None:
    """They are the last ones of each key, with all that is read of them."""
    for name, column in (("trailing", "v"), ("trailing_text", "name")):
        _, _, arrays = state_of(name)
        keys = keys_of(arrays)
        assert arrays["0.groups"].tolist() == [1]
        assert arrays["0.0.windows"].tolist() == [0]
        valid = arrays[f"0.0.rows.valid.{column}"]
        values = [
            value if ok else None for value, ok in zip(arrays[f"0.0.rows.value.{column}"], valid.tolist(), strict=True)
        ]
        times = arrays["0.0.rows.times"].tolist()
        owners = [keys[number] for number in arrays["0.0.rows.keys"].tolist()]
        held = Counter(zip(owners, times, values, strict=True))
        came = Counter(((row["k"],), row["t"], row[column]) for row in pushed(name))
        assert held <= came
        missing = came - held
        assert all(time < min(times) + 4 for _, time, _ in missing)
        words = arrays["0.0.rows.beside.0.word"]
        watermark = int(arrays["0.watermark"][0])
        assert [word >= 0 for word in words] == [time <= watermark for time in times]
