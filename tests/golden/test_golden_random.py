"""Random streams that earlier versions have saved: each goes on, or is refused by name; none answers wrong."""

from __future__ import annotations

import random
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from golden.random_cases import random_case
from golden.test_golden_streams import go_on
from golden.write_random import SEEDS

import muntin
from muntin.errors import SnapshotError

FILES = tuple(Path(__file__).parent / f"random-{version}.tar.xz" for version in (2, 3))
UNCLEAR = "nothing in it tells the states of"


@pytest.fixture(scope="module", params=FILES, ids=lambda path: path.name.partition(".")[0])
def written(request: pytest.FixtureRequest) -> dict[int, bytes]:
    with tarfile.open(request.param) as packed:
        files = {each.name: packed.extractfile(each) for each in packed}
        return {int(name.partition(".")[0]): file.read() for name, file in files.items() if file is not None}


def test_random_streams_go_on(written: dict[int, bytes]) -> None:
    assert set(written) == set(SEEDS)
    refused = {}
    for seed, data in written.items():
        case = random_case(seed)
        try:
            go_on(case, data)
        except SnapshotError as error:
            refused[seed] = str(error)
    assert len(refused) <= len(written) // 6
    for seed, reason in refused.items():
        if UNCLEAR in reason:
            go_on(random_case(seed), muntin.migrate(written[seed], random_case(seed).query))
        else:
            assert "cannot go on" in reason, seed


def test_random_streams_with_their_aggregates_in_another_order(written: dict[int, bytes]) -> None:
    reasons = {}
    for seed, data in written.items():
        case = random_case(seed)
        names = list(case.query.aggregates)
        random.Random(seed).shuffle(names)
        query = replace(case.query, aggregates={name: case.query.aggregates[name] for name in names})
        try:
            go_on(case, data, query)
        except SnapshotError as error:
            reasons[seed] = str(error)
    known = (UNCLEAR, "cannot go on", "put them into the order")
    assert all(any(each in reason for each in known) for reason in reasons.values()), reasons
