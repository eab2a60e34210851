"""Every leaf of the trees that say what slices must be able to do, reached by windows and aggregations of its kind."""

from __future__ import annotations

from typing import Any

import pytest

from muntin import agg, rows, window
from muntin.query.plan import Plan
from muntin.streams.decisions import KEPT, REMOVALS, SPLITS, Facts, decide
from muntin.streams.plan import Forced, strategies_for
from muntin.streams.rows.rows import Rows
from muntin.streams.slices.kept_set import KeptSet
from muntin.streams.slices.object_set import ObjectSet
from muntin.streams.slices.run_set import RunSet
from muntin.streams.slices.slice_set import SliceSet
from muntin.streams.slices.slices import Slices
from muntin.types import FLOAT64, INT64

TUMBLING, SESSION, TRAILING = window.tumbling(10), window.session(5), window.trailing(10)
COUNTED, LAST_ROWS = window.tumbling(rows(3)), window.sliding(rows(3), every=5)
MARKED = window.punctuated("mark")
SUM, MAX, COLLECT, MEDIAN = agg.sum("v"), agg.max("v"), agg.collect("v"), agg.median("v")

KEPT_CASES = {
    "in order, forward context aware": ("rows", [TRAILING], [SUM], True),
    "in order, holistic and commutative": ("values", [TUMBLING], [MEDIAN], True),
    "in order": ("nothing", [COUNTED, SESSION, MARKED], [SUM, COLLECT], True),
    "out of order, not commutative": ("rows", [TUMBLING], [SUM, COLLECT], False),
    "out of order, context aware but no session": ("rows", [TUMBLING, MARKED], [SUM], False),
    "out of order, by rows": ("rows", [COUNTED], [SUM], False),
    "out of order, holistic and commutative": ("values", [TUMBLING], [SUM, MEDIAN], False),
    "out of order, commutative": ("nothing", [TUMBLING, SESSION], [SUM, MAX], False),
}
SPLIT_CASES = {
    "in order, forward context aware": ("split", [TUMBLING, LAST_ROWS], [SUM], True),
    "in order": ("whole", [TUMBLING, MARKED, SESSION], [SUM], True),
    "context free": ("whole", [TUMBLING, COUNTED], [COLLECT], False),
    "out of order, sessions": ("whole", [TUMBLING, SESSION], [COLLECT], False),
    "out of order, context aware but no session": ("split", [SESSION, MARKED], [SUM], False),
}
REMOVAL_CASES = {
    "in order": ("never", [COUNTED], [SUM], True),
    "not by rows": ("never", [TUMBLING, SESSION, TRAILING], [MAX], False),
    "by rows, invertible": ("invert", [COUNTED, TUMBLING], [agg.count(), SUM], False),
    "by rows, selective": ("skip", [COUNTED], [MAX, agg.min("v")], False),
    "by rows, not invertible": ("recompute", [COUNTED], [MAX, MEDIAN], False),
}
CASES = [
    *(("kept", rule, *case) for rule, case in KEPT_CASES.items()),
    *(("split", rule, *case) for rule, case in SPLIT_CASES.items()),
    *(("removal", rule, *case) for rule, case in REMOVAL_CASES.items()),
]


@pytest.mark.parametrize(("tree", "rule", "answer", "windows", "aggregations", "ordered"), CASES)
def test_leaf(tree: str, rule: str, answer: str, windows: Any, aggregations: Any, ordered: bool) -> None:
    decisions = decide(Facts.of(windows, aggregations, ordered=ordered))
    leaf = getattr(decisions, tree)
    assert (leaf.rule, leaf.answer) == (rule, answer)
    assert f"({rule}: {leaf.why})" in str(decisions)


def test_every_leaf_is_reached() -> None:
    for tree, cases in ((KEPT, KEPT_CASES), (SPLITS, SPLIT_CASES), (REMOVALS, REMOVAL_CASES)):
        assert [leaf.rule for leaf in tree] == list(cases)


def plan(windows: list[Any], aggregates: dict[str, Any], *, ordered: bool = False) -> Plan:
    return Plan(dict(enumerate(windows)), aggregates, {"v": FLOAT64}, INT64, ordered=ordered)


@pytest.mark.parametrize(
    ("aggregates", "ordered", "kinds"),
    [
        ({"all": COLLECT, "sum": SUM}, False, [ObjectSet, SliceSet]),
        ({"run": agg.longest_increasing_run("v"), "sum": SUM}, False, [KeptSet, SliceSet]),
        ({"all": COLLECT, "sum": SUM}, True, [SliceSet, SliceSet]),
        ({"run": agg.longest_increasing_run("v"), "sum": SUM}, True, [SliceSet]),
        ({"middle": MEDIAN, "sum": SUM}, False, [SliceSet, RunSet]),
    ],
)
def test_slices_keep_what_was_decided(aggregates: Any, ordered: bool, kinds: list[type]) -> None:
    slices = Slices(plan([TUMBLING, SESSION], aggregates, ordered=ordered))
    assert [type(each) for each in slices.sets] == kinds
    assert slices.decisions.split.rule == ("in order" if ordered else "out of order, sessions")


def test_windows_that_split_slices_are_answered_from_rows() -> None:
    windows = [TUMBLING, TRAILING, SESSION, COUNTED]
    whole = plan(windows, {"all": COLLECT})
    by_kind = strategies_for(whole, Forced())
    assert {type(each): list(each.plan.windows) for each in by_kind} == {Slices: [0, 2], Rows: [1, 3]}
    assert "an edge to where a slice has rows" in str(Slices.can(plan([TRAILING], {"all": COLLECT})))
    assert "not by time" in str(Slices.can(plan([COUNTED], {"all": COLLECT})))
