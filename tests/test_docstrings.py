"""Every public name has a docstring; the examples of the built-in aggregations run (pytest does not find them)."""

from __future__ import annotations

import doctest

import pytest

import muntin
from muntin import agg, aggregators


@pytest.mark.parametrize("name", [n for n in agg.__all__ if isinstance(getattr(agg, n), agg.Factory)])
def test_built_in(name: str) -> None:
    factory = getattr(agg, name)
    examples = doctest.DocTestParser().get_doctest(factory.__doc__, {}, name, None, None)
    assert examples.examples, f"agg.{name} shows no example"
    assert "O(" in factory.__doc__, f"agg.{name} does not say what it costs"
    outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL).run(examples)
    assert outcome.failed == 0


@pytest.mark.parametrize("name", aggregators.__all__)
def test_aggregators(name: str) -> None:
    assert getattr(aggregators, name).__doc__


@pytest.mark.parametrize("name", [n for n in aggregators.__all__ if n not in ("Entry", "register")])
def test_aggregator(name: str) -> None:
    kind = getattr(aggregators, name)
    for method in (
        "insert",
        "bulk_insert",
        "evict",
        "bulk_evict",
        "query",
        "range_query",
        "snapshot",
        "restore",
        "check",
    ):
        assert getattr(kind, method).__doc__, f"{name}.{method} has no docstring"


def test_the_package() -> None:
    for name in muntin.__all__:
        assert getattr(getattr(muntin, name), "__doc__", None) or name == "__version__", name
