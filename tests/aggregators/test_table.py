"""The table of aggregators: it names them all, the docs show it, and others can be added to it."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from muntin import aggregators
from muntin.aggregators.base import Aggregator
from muntin.aggregators.table import BUILT_IN, TABLE, Entry
from muntin.errors import InvalidArgumentError

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "aggregator_tables.py"))
KINDS = {TABLE[name].kind for name in BUILT_IN} - {None}


def test_every_public_aggregator_is_in_the_table() -> None:
    public = [getattr(aggregators, name) for name in aggregators.__all__]
    structures = {each for each in public if isinstance(each, type) and issubclass(each, Aggregator)} - {Aggregator}
    assert structures == KINDS


def test_the_page_shows_the_table() -> None:
    assert TOOL["page"]() == TOOL["PAGE"].read_text(), "run python tools/aggregator_tables.py"
    for name in TOOL["TABLES"]:
        assert f"<!-- table: {name} -->" in TOOL["PAGE"].read_text()


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_line_says_everything(name: str) -> None:
    entry = TABLE[name]
    assert entry.name == name
    assert entry.memory
    assert entry.takes
    if entry.kind is not None:
        assert all([entry.insert, entry.evict, entry.query, entry.ranges])
        assert entry.kind.needs_invert <= ("`invert`" in entry.takes)
    assert entry.loop is None or entry.own_loops


@pytest.mark.parametrize("name", ["auto", "lazy", "two_stacks", "flat_fat"])
def test_names_that_are_taken_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name!r} is taken"):
        aggregators.register(Entry(name, aggregators.Daba))
