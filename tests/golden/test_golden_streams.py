"""Streams that earlier versions have saved go on as if they had never stopped."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from golden.cases import CASES, Case, Clock, play
from queries import oracle, streams

from muntin import Query
from muntin.types import column_type

FOLDERS = (Path(__file__).parent / "streams-3",)


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
    return sorted(repr(replace(each, aggregates=rounded(each.aggregates))) for each in results)


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
    """Every call answers what plain recomputation does, revisions and retractions included."""
    go_on(CASES[name], read(folder, name))


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
