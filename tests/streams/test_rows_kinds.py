"""Every kind of window over rows in order against the brute-force oracle, call by call, without a stream around it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import strategies
from sampling import examples
from streams.duel import Duel

from muntin.kernels.cache import uncompiled
from muntin.streams.rows.rows import Rows

FRAMES = ["trailing, closed and delayed", "leading", "frame", "frame of rows", "sliding rows"]
CUT = ["sliding", "cumulative", "rows every", "delta", "punctuated", "own, context aware"]
"""Windows between edges. Those by time only come from rows in order if windows without rows are wanted."""
KINDS = [*FRAMES, *CUT]
ALL_KINDS = [*KINDS, "policy"]  # of which each is compiled for itself: see test_by_policy.py


def play(duel: Duel, data: st.DataObject) -> None:
    """Play rows in any order, cut anywhere, with watermarks between them; save and load on the way."""
    table = data.draw(strategies.tables(40))
    disorder = duel.query.delay + data.draw(st.sampled_from([0, 5, 20, 40]))
    rows = data.draw(st.one_of(strategies.disordered(table, disorder), st.permutations(table)))
    for step in data.draw(strategies.advances(data.draw(strategies.cuts(rows)))):
        duel.step(step)
        if data.draw(st.integers(0, 4)) == 0:
            duel.reload()
        if duel.strategy.plan.early and data.draw(st.integers(0, 2)) == 0:
            duel.ahead()
    duel.close()


@pytest.mark.parametrize("kind", ALL_KINDS)
@given(data=st.data())
@settings(max_examples=examples(30))
def test_random_queries(kind: str, data: st.DataObject) -> None:
    with uncompiled():
        query = data.draw(strategies.queries(st.just(kind), 4))
        play(Duel(query, Rows, early=data.draw(st.booleans())), data)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=examples(15))
@pytest.mark.compiled
def test_compiled(kind: str, data: st.DataObject) -> None:
    query = data.draw(strategies.queries(st.just(kind)))
    query = replace(query, aggregates={name: strategies.AGGREGATES[name] for name in ("total", "high", "values")})
    play(Duel(query, Rows), data)


@given(data=st.data())
@settings(max_examples=examples(30))
def test_kinds_share_rows(data: st.DataObject) -> None:
    """Definitions of several kinds go on together, also when one refuses a late row that another takes."""
    with uncompiled():
        query: Any = data.draw(strategies.queries(st.sampled_from(ALL_KINDS), 4))
        play(Duel(query, Rows), data)
