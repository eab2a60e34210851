"""Snapshots of aggregators, and windows in stores, that earlier versions have written."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from golden.write_aggregators import AGGREGATIONS, GONE, KINDS, POLICY, STORED, cases, some_rows

from muntin import aggregators, stores
from muntin.errors import MuntinError
from muntin.testing.oracle import recompute

FILES = tuple(Path(__file__).parent / f"aggregators-{version}.tar.xz" for version in (2, 3))
"""As of the versions with streams of format 2 and of format 3."""


def files(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as packed:
        return {each.name: packed.extractfile(each).read() for each in packed}  # type: ignore[union-attr]  # all files


@pytest.fixture(scope="module", params=FILES, ids=lambda path: path.name.partition(".")[0])
def written(request: pytest.FixtureRequest) -> dict[str, bytes]:
    return files(request.param)


def rounded(value: Any) -> Any:
    return float(f"{value:.10g}") if isinstance(value, float) else value


def go_on(window: Any, aggregation: Any, rows: list[tuple[int, Any]]) -> None:
    """Insert more rows into a restored window and evict some; compare each answer with plain recomputation."""
    rows = sorted(((time, value) for time, value in rows if time > GONE), key=lambda row: row[0])
    window.check()
    assert len(window) == len(rows)
    assert rounded(window.query()) == rounded(recompute(aggregation, rows))
    for time, value in [(60 + i, rows[i][1]) for i in range(9)]:
        window.insert(time, value)
        rows.append((time, value))
        window.check()
        assert rounded(window.query()) == rounded(recompute(aggregation, rows))
    for until in (GONE + 5, 55, 64):
        window.bulk_evict(until)
        rows = [row for row in rows if row[0] > until]
        window.check()
        assert rounded(window.query()) == rounded(recompute(aggregation, rows))


@pytest.mark.parametrize(("kind", "name"), cases(), ids=lambda word: word)
def test_a_saved_window_goes_on(written: dict[str, bytes], kind: str, name: str) -> None:
    aggregation = AGGREGATIONS[name]
    window = KINDS[kind].restore(written[f"{kind}-{name}.snapshot"], aggregation, compiled=False)
    go_on(window, aggregation, some_rows(kind, name))


def test_a_saved_window_under_a_policy_goes_on(written: dict[str, bytes]) -> None:
    data, aggregation = written["enforced.snapshot"], AGGREGATIONS["sum"]
    window = aggregators.Enforced.restore(data, aggregation, kind=aggregators.TwoStacks, policy=POLICY)
    rows = [*some_rows("enforced", "sum"), (50, 1.5), (51, None), (52, 2.5)]
    for time, value in rows[-3:]:
        window.insert(time, value)
    window.check()
    assert window.query() == recompute(aggregation, rows[-9:])


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("kind", ["monoid_tree", "log_monoid_tree"])
@pytest.mark.parametrize("store", ["memory", "lmdb"])
def test_a_window_in_a_store_goes_on(
    written: dict[str, bytes], tmp_path: Path, store: str, kind: str, name: str
) -> None:
    held: Any
    if f"{kind}-" not in written["memory.json"].decode():
        assert kind == "log_monoid_tree"  # without a store when streams had format 2
        return
    if store == "memory":
        held = stores.Memory()
        held._values = {key.encode(): bytes.fromhex(value) for key, value in json.loads(written["memory.json"]).items()}
    else:
        (tmp_path / "data.mdb").write_bytes(written["data.mdb"])
        held = stores.Lmdb(tmp_path, most_bytes=1 << 20)
    with KINDS[kind].open(held, f"{kind}-{name}", STORED[name], compiled=False) as window:
        go_on(window, STORED[name], some_rows(kind, name))
    held.close()


def test_damaged_snapshots_of_windows_are_refused(written: dict[str, bytes]) -> None:
    """Whatever byte is another one; nothing is read of them."""
    data = written["fiba-text.snapshot"]
    for at in range(0, len(data), 37):
        with pytest.raises(MuntinError):
            KINDS["fiba"].restore(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :], AGGREGATIONS["text"])
