"""Streams that earlier versions have saved go on as if they had never stopped."""

from __future__ import annotations

import gzip
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden.cases import CASES, Case, Clock, play
from queries import oracle, streams

import muntin
from muntin import Query, agg
from muntin.errors import SnapshotError
from muntin.snapshots import Snapshot
from muntin.streams.snapshots import VERSION
from muntin.types import column_type

HERE = Path(__file__).parent
FOLDERS = tuple(HERE / f"streams-{version}" for version in (2, 3))
UNCLEAR = {"sliding_rows_text": "nothing in it tells the states of all, text and last apart"}
"""Cases of version 2 that do not tell the order of their aggregates, and what is said of them."""


def in_plain_python(case: Case) -> oracle.Query:
    """Return the query of a case as the oracle takes it."""
    words = {name: getattr(case.query, name) for name in streams.WORDS if name not in ("windows", "aggregates")}
    windows, aggregates = list(case.query.windows), dict(case.query.aggregates)
    return oracle.Query(windows, aggregates, time_type=column_type(case.time), **words)


class Player(streams.Stream):
    """A stream that is played a case, and answers as the oracle does."""

    def __init__(self, case: Case, stream: Any) -> None:
        self.query, self.stream = in_plain_python(case), stream

    def played(self, case: Case, calls: Any, clock: Clock) -> list[list[oracle.Result]]:
        return [self.results(each) for each in play(self.stream, case, calls, clock)]


def recomputed(case: Case) -> tuple[list[list[oracle.Result]], list[Any]]:
    """Return what plain recomputation answers to each call after the save and to `close`, and the late rows."""
    clock = Clock()
    stream = oracle.Stream(in_plain_python(case), clock)
    found = []
    for word, given in (*case.before, *case.after):
        if word == "tick":
            clock.now = given
        arguments = () if word == "tick" else (given,)
        found.append(getattr(stream, word)(*arguments))
    return [*found[len(case.before) :], stream.close()], stream.late


def as_a_set(results: list[oracle.Result]) -> list[str]:
    return sorted(
        repr(replace(each, aggregates=rounded(each.aggregates), values=each.values and tuple(map(float, each.values))))
        for each in results
    )


def rounded(values: Any) -> Any:
    """Return values with floats to ten digits: versions may add in another order."""
    if isinstance(values, dict):
        return {name: rounded(each) for name, each in values.items()}
    if isinstance(values, list | tuple):
        return [rounded(each) for each in values]
    return float(f"{values:.10g}") if isinstance(values, float) else values


def go_on(case: Case, data: bytes, query: Query | None = None) -> None:
    """Restore a stream, play the rest, and compare each call with plain recomputation."""
    clock = Clock()
    clock.now = max((given for word, given in case.before if word == "tick"), default=0)
    stream = (query or case.query).stream(data, clock=clock)
    stream.check()
    player = Player(case, stream)
    found = player.played(case, case.after, clock)
    stream.check()
    found.append(player.results(stream.close()))
    wanted, late = recomputed(case)
    for number, (mine, right) in enumerate(zip(found, wanted, strict=True)):
        assert as_a_set(mine) == as_a_set(right), number
    assert sorted(map(repr, player.late)) == sorted(map(repr, late))


def read(folder: Path, name: str) -> bytes:
    return gzip.decompress((folder / f"{name}.snapshot.gz").read_bytes())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("name", CASES)
def test_a_saved_stream_goes_on(folder: Path, name: str) -> None:
    """Every call answers what plain recomputation does, revisions and retractions too; or it is refused by name."""
    case, data = CASES[name], read(folder, name)
    reason = UNCLEAR.get(name) if folder.name == "streams-2" else None
    if reason is None:
        go_on(case, data)
        return
    with pytest.raises(SnapshotError, match=f"the snapshot has version 2, .*{reason}"):
        case.query.stream(data)
    go_on(case, muntin.migrate(data, case.query))


def reordered(case: Case) -> Query:
    """Return the query of a case with its aggregates in another order."""
    return replace(case.query, aggregates=dict(reversed(case.query.aggregates.items())))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if len(case.query.aggregates) > 1])
def test_another_order_of_the_aggregates_is_never_read_wrong(folder: Path, name: str) -> None:
    """Version 2 does not record the order; what the states show tells it, or the snapshot is refused."""
    case = CASES[name]
    try:
        go_on(case, read(folder, name), reordered(case))
    except SnapshotError:
        assert folder.name == "streams-2"
        assert name in {**UNCLEAR, "seconds": "of seven aggregates not all orders are tried"}


@pytest.mark.parametrize("name", ["sliding_extremes", "seconds", "sliding_rows"])
def test_a_wrong_order_is_refused_though_the_caller_vouches_for_it(name: str) -> None:
    case, data = CASES[name], read(HERE / "streams-2", name)
    go_on(case, muntin.migrate(data, case.query))
    with pytest.raises(
        SnapshotError, match="its aggregates were not in the order .*, or kept otherwise than this version"
    ):
        muntin.migrate(data, reordered(case))


@pytest.mark.parametrize("name", CASES)
def test_a_converted_snapshot_is_one_of_this_version(name: str) -> None:
    case, data = CASES[name], read(HERE / "streams-2", name)
    converted = muntin.migrate(data, case.query)
    assert Snapshot.decode(converted).header["version"] == VERSION
    go_on(case, muntin.migrate(converted, case.query))
    assert Snapshot.decode(data).header["version"] == 2  # and the other one is as it was


def test_what_cannot_go_on_is_refused_by_its_window() -> None:
    """Rows that came after windows were last emitted, as where a stream on Spark had no watermark yet."""
    case, known = CASES["delta"], Snapshot.decode(read(HERE / "streams-2", "delta"))
    arrays = {**known.arrays, "0.0.kind.born_key": np.zeros(1, np.int64)}
    with pytest.raises(
        SnapshotError, match=r"version 2, in which window.delta\('km', .*\), window 0, cannot go on: rows"
    ):
        case.query.stream(replace(known, arrays=arrays).encode())
    case, known = CASES["tumbling_rows"], Snapshot.decode(read(HERE / "streams-2", "tumbling_rows"))
    arrays = {**known.arrays, "0.0.apart": np.zeros(3, np.int64)}
    with pytest.raises(
        SnapshotError, match=r"window.tumbling\(rows\(4\)\), window 0, cannot go on: late rows that only"
    ):
        case.query.stream(replace(known, arrays=arrays).encode())


def test_a_snapshot_of_another_query_is_refused_with_all_differences() -> None:
    case, data = CASES["seconds"], read(HERE / "streams-2", "seconds")
    other = replace(case.query, watermark="3 seconds", key="j", aggregates={"n": agg.count()})
    with pytest.raises(SnapshotError, match=r"of another query: its key is k, this one's is j; .*watermark is '2 sec"):
        other.stream(data)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("name", ["sliding", "trailing", "tiles", "tumbling_rows", "everything"])
def test_damaged_snapshots_are_refused(folder: Path, name: str) -> None:
    case, data = CASES[name], read(folder, name)
    for at in range(0, len(data), max(1, len(data) // 40)):
        with pytest.raises(SnapshotError):
            case.query.stream(data[:at] + bytes([data[at] ^ 8]) + data[at + 1 :])
        with pytest.raises(SnapshotError):
            case.query.stream(data[:at])


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("name", ["sliding", "trailing", "trailing_rows", "tiles", "tumbling_rows", "delta"])
def test_snapshots_that_lack_an_array_are_refused(folder: Path, name: str) -> None:
    """Their checksum is right: whoever made them up knew the format."""
    case, known = CASES[name], Snapshot.decode(read(folder, name))
    for missing in known.arrays:
        arrays = {each: array for each, array in known.arrays.items() if each != missing}
        with suppress(SnapshotError):  # a few are no more than counts
            case.query.stream(replace(known, arrays=arrays).encode()).check()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_snapshot_of_the_future_is_refused_by_its_version(folder: Path) -> None:
    case, known = CASES["sliding"], Snapshot.decode(read(folder, "sliding"))
    later = replace(known, header={**known.header, "version": 4}).encode()
    with pytest.raises(
        SnapshotError, match="has version 4, of a later version of muntin; this one reads versions 2 to 3"
    ):
        case.query.stream(later)
    container = later[:8] + (2).to_bytes(2, "little") + later[10:]
    with pytest.raises(SnapshotError, match="has format 2; this version of muntin reads format 1"):
        case.query.stream(container)


def test_the_cases_cover_what_may_go_wrong() -> None:
    """Windows that were emitted before the save are revised and retracted after it, and some rows are late."""
    found = {name: recomputed(case) for name, case in CASES.items()}
    results = {name: [each for call in calls for each in call] for name, (calls, _) in found.items()}
    assert sum(any(each.revision for each in mine) for mine in results.values()) > len(CASES) * 2 / 3
    assert sum(any(each.retracted for each in mine) for mine in results.values()) >= 5
    assert sum(bool(late) for _, late in found.values()) >= 10


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_case_has_a_file_and_the_files_are_small(folder: Path) -> None:
    sizes = {path.name.partition(".")[0]: path.stat().st_size for path in folder.iterdir()}
    assert set(sizes) == set(CASES)
    assert max(sizes.values()) < 8000


@pytest.mark.parametrize("name", ["sliding", "trailing", "tumbling_rows", "tiles", "punctuated"])
def test_a_converted_snapshot_is_adopted_by_another_query(name: str) -> None:
    """An aggregate more is null in windows that had begun, as where this version wrote the state."""
    case = CASES[name]
    more = replace(case.query, aggregates={**case.query.aggregates, "most": agg.max("w")})
    answers = []
    for folder in FOLDERS:
        clock = Clock()
        stream = more.stream(muntin.migrate(read(folder, name), case.query), adopt=True, clock=clock)
        found = [*play(stream, case, case.after, clock), stream.close()]
        answers.append([sorted(map(repr, rounded(table.to_pylist()))) for table in found])
    assert answers[0] == answers[1]
    with pytest.raises(SnapshotError, match=r"muntin\.migrate converts the snapshot"):
        more.stream(read(FOLDERS[0], name), adopt=True)
