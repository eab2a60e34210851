"""Ctrl-C between any two lines of a call: the window is as it was, as it will be, or refuses to go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from interrupting import interrupted, spread

from muntin import agg, aggregators, policies, stores
from muntin.errors import InterruptedCallError

BEGIN = 9


def filled(window: Any) -> Any:
    """Return a window in which rows have come, been asked for and left."""
    window.bulk_insert(range(6), VALUES[:6])
    window.query()
    for t in range(6, BEGIN):
        window.evict()
        window.insert(t, VALUES[t])
    return window


VALUES = [float(v) for v in (5, 3, 8, 8, 1, 9, 2, 7, 7, 4, 6, 3)]
KINDS: dict[str, Callable[[], Any]] = {
    kind.__name__: lambda kind=kind: kind(agg.sum("v") if kind.needs_invert else agg.max("v"))
    for kind in (
        *(aggregators.Recalculate, aggregators.SubtractOnEvict, aggregators.TwoStacks, aggregators.Daba),
        *(aggregators.FlatFit, aggregators.SlickDeque, aggregators.FlatFat, aggregators.BaseIntervals),
        *(aggregators.Boundary, aggregators.LogMonoidTree, aggregators.MonoidTree, aggregators.Fiba),
    )
}
KINDS |= {
    "plain TwoStacks": lambda: aggregators.TwoStacks(agg.max("v"), compiled=False),
    "TwoStacks of texts": lambda: aggregators.TwoStacks(agg.concat("v")),
    "Boundary with a second thread": lambda: aggregators.Boundary(agg.max("v"), threads=2),
    "SlickDeque by invert": lambda: aggregators.SlickDeque(agg.sum("v")),
    "a stored MonoidTree": lambda: aggregators.MonoidTree(agg.sum("v"), store=stores.Memory(), chunk_pairs=4),
    "an enforced TwoStacks": lambda: aggregators.Enforced(
        aggregators.TwoStacks(agg.max("v")), policies.at_most_rows(7)
    ),
}
CALLS: dict[str, Callable[[Any], Any]] = {
    "insert": lambda window: window.insert(BEGIN, VALUES[BEGIN]),
    "bulk_insert": lambda window: window.bulk_insert(range(BEGIN, BEGIN + 3), VALUES[BEGIN : BEGIN + 3]),
    "evict": lambda window: window.evict(),
    "bulk_evict": lambda window: window.bulk_evict(4),
    "query": lambda window: window.query(),
}


def made(kind: str) -> Any:
    window = KINDS[kind]()
    if "texts" in kind:
        window.bulk_insert(range(6), [str(v) for v in VALUES[:6]])
        return window
    return filled(window)


def told(window: Any) -> Any:
    """Return all that a window says of itself, now and when it goes on."""
    window.check()
    said = [(len(window), window.oldest, window.youngest, window.query())]
    window.evict()
    said.append((len(window), window.query()))
    window.bulk_insert([100, 101], said[0][-1:] * 2 if isinstance(said[0][-1], str) else [1.0, 2.0])
    said.append((len(window), window.query()))
    window.check()
    return said


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_window_is_whole_or_refuses_to_go_on(kind: str, call: str) -> None:
    do = CALLS[call]
    before, window = told(made(kind)), made(kind)
    if "texts" in kind and "insert" in call:
        do = {"insert": lambda w: w.insert(6, "x"), "bulk_insert": lambda w: w.bulk_insert([6, 7], "xy")}[call]
    do(made(kind))  # what is done once in a process, such as making kernels, is done by now
    with interrupted(-1) as lines:
        do(window)
    after = told(window)
    outcomes = set()
    for at in spread(lines[0]):
        window = made(kind)
        with pytest.raises(KeyboardInterrupt), interrupted(at):
            do(window)
        try:
            found = told(window)
        except InterruptedCallError:
            outcomes.add("refused")
            continue
        assert found in (before, after), f"a part of {call} is there after it was interrupted at line {at}"
        outcomes.add("whole")
    assert "whole" in outcomes
