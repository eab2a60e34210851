"""Damaged files: `muntin run` ends with a code and one line, or answers what is in them. It never shows a traceback."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cli.files import QUERY, readings, write
from sampling import examples

FORMATS = (".parquet", ".csv", ".jsonl", ".arrow", ".feather")
STRANGE = [
    b"\x00",
    b"\xff\xfe",
    b"nan",
    b"1e999",
    b"-9" * 12,
    b'"',
    b"{",
    b"]",
    b"\r\n",
    b",,,",
    "\u202e".encode(),
    b"[[",
]


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Return a file in which something was changed, left out, put in or doubled."""
    for _ in range(chance.choice([1, 1, 2, 5])):
        at, length = chance.randrange(len(data) + 1), chance.choice([1, 2, 9, 60])
        kind = chance.choice(["flip", "cut", "put in", "twice", "end"])
        if kind == "flip":
            data = (
                data[:at]
                + bytes(each ^ 1 << chance.randrange(8) for each in data[at : at + length])
                + data[at + length :]
            )
        elif kind == "cut":
            data = data[:at] + data[at + length :]
        elif kind == "put in":
            data = data[:at] + chance.choice(STRANGE) + data[at:]
        else:
            data = data[:at] + data[max(0, at - length) :] if kind == "twice" else data[:at]
    return data


def ends_well(result) -> None:
    """Say what the command may do: succeed, or name in one line what is wrong."""
    assert "Traceback" not in result.output
    if result.exit_code:
        assert isinstance(result.exception, SystemExit), repr(result.exception)
        lines = [line for line in result.stderr.splitlines() if line.startswith("muntin: ")]
        assert len(lines) == len(result.stderr.splitlines()) == 1, result.stderr


@pytest.mark.parametrize("suffix", FORMATS)
def test_input(suffix: str, tmp_path: Path, muntin, query_file) -> None:
    write(readings(60), tmp_path / f"in{suffix}")
    whole = (tmp_path / f"in{suffix}").read_bytes()
    codes = set()
    for seed in range(max(12, examples(25))):
        (tmp_path / f"in{suffix}").write_bytes(damaged(whole, random.Random(seed)))
        result = muntin("run", query_file, "--input", tmp_path / f"in{suffix}", "--engine", "local")
        ends_well(result)
        codes.add(result.exit_code)
    assert 2 in codes
    assert suffix == ".parquet" or 0 in codes, (
        "some can still be read; of this format every page has a checksum or a size"
    )


def test_query(tmp_path: Path, muntin) -> None:
    write(readings(20), tmp_path / "in.parquet")
    file = tmp_path / "query.toml"
    codes = set()
    for seed in range(max(40, examples(120))):  # one of which can still be read
        file.write_bytes(damaged(QUERY.encode(), random.Random(seed)))
        result = muntin("run", file, "--input", tmp_path / "in.parquet", "--engine", "local")
        ends_well(result)
        codes.add(result.exit_code)
    assert len(codes) > 1, "some can still be read"
