"""Fiba against a sorted list: every operation, every arity, `check()` after every step.

concat does not commute and shows every row in its place, so a wrong order, a lost row or a stale aggregate is seen at
once. The steps run as plain Python, which is the same source as the compiled kernels; a shorter test of the same steps
runs compiled.
"""

from __future__ import annotations

import bisect
import random
import tracemalloc
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sampling import THOROUGH, examples, some

from muntin import agg, aggregators
from muntin.aggregators.fiba.check import children
from muntin.columns import read_only
from muntin.errors import ColumnTypeError, InvalidArgumentError, InvariantError

ARITIES = (2, 4, 8, 16)
"""Random steps are taken with each of them, and those of a pattern with the least and the greatest."""
TIMES = st.integers(-60, 60)
LETTERS = st.sampled_from("abcdefgh")
BULKS = st.lists(st.tuples(TIMES, LETTERS), max_size=60)


class Model:
    """A window and a dictionary side by side."""

    def __init__(self, arity: int, **options: Any) -> None:
        self.options = options
        self.window: Any = aggregators.Fiba(agg.concat("v"), min_arity=arity, **options)
        self.rows: dict[int, str] = {}

    def add(self, time: int, value: str) -> None:
        self.rows[time] = self.rows.get(time, "") + value

    def insert(self, time: int, value: str) -> None:
        self.window.insert(time, value)
        self.add(time, value)

    def bulk_insert(self, pairs: list[tuple[int, str]]) -> None:
        self.window.bulk_insert([t for t, _ in pairs], [v for _, v in pairs])
        for time, value in pairs:
            self.add(time, value)

    def evict(self) -> None:
        if not self.rows:
            with pytest.raises(IndexError):
                self.window.evict()
            return
        self.window.evict()
        del self.rows[min(self.rows)]

    def bulk_evict(self, until: int) -> None:
        self.window.bulk_evict(until)
        self.rows = {t: v for t, v in self.rows.items() if t > until}

    def evict_at(self, time: int) -> None:
        if time not in self.rows:
            with pytest.raises(KeyError):
                self.window.evict_at(time)
            return
        self.window.evict_at(time)
        del self.rows[time]

    def reload(self) -> None:
        self.window = aggregators.Fiba.restore(self.window.snapshot(), agg.concat("v"), **self.options)

    def joined(self, low: int, high: int) -> str | None:
        return "".join(self.rows[t] for t in sorted(self.rows) if low <= t <= high) or None

    def compare(self) -> None:
        times = sorted(self.rows)
        assert self.window.query() == self.joined(-(10**9), 10**9)
        assert len(self.window) == len(times)
        assert self.window.oldest == (times[0] if times else None)
        assert self.window.youngest == (times[-1] if times else None)
        self.window.check()

    def compare_everything(self) -> None:
        self.compare()
        times = sorted(self.rows)
        assert list(self.window.items()) == [(t, self.rows[t]) for t in times]
        assert [self.window.nth(rank) for rank in range(len(times))] == times


class Machine(RuleBasedStateMachine):
    """Random operations on a window of one arity."""

    arity = 0

    @initialize(pairs=BULKS)
    def begin(self, pairs: list[tuple[int, str]]) -> None:
        self.model = Model(self.arity, compiled=False)
        self.model.bulk_insert(pairs)

    @rule(time=TIMES, value=LETTERS)
    def insert(self, time: int, value: str) -> None:
        self.model.insert(time, value)

    @rule(step=st.integers(0, 3), value=LETTERS)
    def insert_in_order(self, step: int, value: str) -> None:
        self.model.insert(max(self.model.rows, default=0) + step, value)

    @rule(pairs=BULKS)
    def bulk_insert(self, pairs: list[tuple[int, str]]) -> None:
        self.model.bulk_insert(pairs)

    @rule(start=TIMES, count=st.integers(1, 100))
    def bulk_insert_a_run(self, start: int, count: int) -> None:
        self.model.bulk_insert([(start + i, "r") for i in range(count)])

    @rule()
    def evict(self) -> None:
        self.model.evict()

    @rule(share=st.floats(0, 1.1), off=st.integers(-1, 1))
    def bulk_evict(self, share: float, off: int) -> None:
        times = sorted(self.model.rows) or [0]
        self.model.bulk_evict(times[min(int(share * len(times)), len(times) - 1)] + off)

    @rule(time=TIMES)
    def evict_at(self, time: int) -> None:
        self.model.evict_at(time)

    @rule(share=st.floats(0, 1, exclude_max=True))
    def evict_one_that_is_there(self, share: float) -> None:
        if self.model.rows:
            times = sorted(self.model.rows)
            self.model.evict_at(times[int(share * len(times))])

    @rule(low=TIMES, high=TIMES)
    def range_query(self, low: int, high: int) -> None:
        assert self.model.window.range_query(low, high) == self.model.joined(low, high)
        assert self.model.window.rank(low) == bisect.bisect_left(sorted(self.model.rows), low)

    @rule(bounds=st.lists(st.tuples(TIMES, TIMES), max_size=6))
    def range_queries(self, bounds: list[tuple[int, int]]) -> None:
        found = self.model.window.range_queries([low for low, _ in bounds], [high for _, high in bounds])
        assert found == [self.model.joined(low, high) for low, high in bounds]

    @rule()
    def reload(self) -> None:
        self.model.reload()
        self.model.compare_everything()

    @invariant()
    def compare(self) -> None:
        if hasattr(self, "model"):
            self.model.compare()


@pytest.mark.parametrize("arity", ARITIES)
def test_state_machine(arity: int) -> None:
    kind = type(f"Machine{arity}", (Machine,), {"arity": arity})
    case = kind.TestCase
    case.settings = settings(
        max_examples=examples(40), stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
    )
    case().runTest()


@pytest.mark.parametrize("arity", ARITIES)
@pytest.mark.slow
def test_long_runs(arity: int) -> None:
    """Larger trees than hypothesis makes, with steps drawn so that the window breathes."""
    chance = random.Random(arity)
    model = Model(arity, compiled=False)
    for _ in range(examples(250)):
        move = chance.choice(["insert"] * 3 + ["ahead"] * 3 + ["evict"] * 3 + ["bulk", "cut", "evict_at", "range"])
        if move == "insert":
            model.insert(chance.randrange(5000), chance.choice("abc"))
        elif move == "ahead":
            model.insert(max(model.rows, default=0) + 1, chance.choice("abc"))
        elif move == "evict":
            model.evict()
        elif move == "bulk":
            base, spread = chance.randrange(5000), chance.choice([5, 300, 5000])
            count = chance.randrange(1, 400)
            model.bulk_insert([(base + chance.randrange(spread), chance.choice("abc")) for _ in range(count)])
        elif move == "cut" and model.rows:
            times = sorted(model.rows)
            model.bulk_evict(times[int(chance.random() ** 3 * len(times))] + chance.choice([-1, 0, 0, 1]))
        elif move == "evict_at" and model.rows:
            model.evict_at(chance.choice(sorted(model.rows)))
        elif move == "range":
            low = chance.randrange(5000)
            high = low + chance.randrange(3000)
            assert model.window.range_query(low, high) == model.joined(low, high)
        model.compare()
    model.compare_everything()


# ---------------------------------------------------------------- shapes


def figure_1() -> Any:
    """Return a window whose tree is that of the paper's Figure 1: some entries came only to leave again."""
    window = aggregators.Fiba(agg.concat("v"), min_arity=2)
    for time in [20, -2, 19, 23, 2, 22, 15, 3, 4, 9, 8, 0, 12, 6, 18, 21, 27, 10, 7, 13, 1, 17, 11, 5, 26, 14]:
        window.insert(time, chr(96 + time) if 1 <= time <= 22 else "?")
    for time in (0, 23, 26, -2, 27):
        window.evict_at(time)
    return window


def test_figure_1_of_the_paper() -> None:
    """The tree of the paper's Figure 1, value by value: each node's times, and the aggregate of its kind."""
    window = figure_1()
    window.check()
    nodes = {node.times: (node.kind, node.aggregate) for node in walk(window._picture())}
    assert nodes == {
        ("7", "15"): ("inner", "ghijklmno"),
        ("3",): ("left", "cdef"),
        ("1", "2"): ("left", "abcdef"),
        ("4", "5", "6"): ("up", "def"),
        ("9", "12"): ("up", "hijklmn"),
        ("8",): ("up", "h"),
        ("10", "11"): ("up", "jk"),
        ("13", "14"): ("up", "mn"),
        ("20",): ("right", "qrst"),
        ("17", "18", "19"): ("up", "qrs"),
        ("21", "22"): ("right", "qrstuv"),
    }
    assert window.query() == "abcdefghijklmnoqrstuv"
    assert len(window) == 21
    window.insert(16, "p")
    window.check()
    assert window.query() == "abcdefghijklmnopqrstuv"
    window.bulk_evict(11)
    window.check()
    assert window.query() == "lmnopqrstuv"


def walk(node: Any) -> list[Any]:
    return [node, *(each for child in node.children for each in walk(child))]


def depths(window: Any) -> list[int]:
    """Return the number of entries of each leaf, from left to right."""
    found: list[int] = []

    def visit(node: int) -> None:
        kids = children(window._window, node, window.min_arity)
        if not kids:
            found.append(int(window._window.links[4 * node + 2]))
        for kid in kids:
            visit(kid)

    visit(int(window._window.marks[0]))
    return found


@pytest.mark.parametrize("arity", ARITIES)
def test_rows_in_order_leave_full_leaves(arity: int) -> None:
    window = aggregators.Fiba(agg.concat("v"), min_arity=arity, compiled=False)
    for time in range(400):
        window.insert(time, "x")
    *leaves, last = depths(window)
    assert set(leaves) == {2 * arity - 2}
    assert 1 <= last <= 2 * arity - 1


@pytest.mark.parametrize("arity", some(ARITIES, 3))
class TestPatterns:
    """Patterns that end at an edge."""

    def test_evict_everything_and_refill(self, arity: int) -> None:
        model = Model(arity, compiled=False)
        for turn in range(3):
            model.bulk_insert([(turn * 1000 + t, "ab"[t % 2]) for t in range(300)])
            model.compare_everything()
            if turn == 0:
                for _ in range(300):
                    model.evict()
            elif turn == 1:
                model.bulk_evict(10**6)
            model.compare()
        for time in sorted(model.rows, reverse=True):
            model.evict_at(time)
        model.compare_everything()

    def test_bulk_into_an_empty_tree(self, arity: int) -> None:
        chance = random.Random(arity)
        model = Model(arity, compiled=False)
        model.bulk_insert([(chance.randrange(10**6), "abc"[i % 3]) for i in range(500)])
        model.compare_everything()

    def test_bulk_that_doubles_the_tree(self, arity: int) -> None:
        model = Model(arity, compiled=False)
        model.bulk_insert([(2 * t, "a") for t in range(400)])
        model.bulk_insert([(2 * t + 1, "b") for t in range(399)])
        model.compare_everything()
        model.bulk_insert([(-t, "c") for t in range(1, 800)])
        model.compare_everything()

    def test_all_times_equal(self, arity: int) -> None:
        model = Model(arity, compiled=False)
        model.bulk_insert([(7, letter) for letter in "abcdefgh"])
        model.insert(7, "i")
        model.bulk_insert([(7, letter) for letter in "jklm"])
        assert model.window.query() == "abcdefghijklm"
        assert len(model.window) == 1
        model.compare_everything()
        model.evict()
        model.compare()

    def test_bulks_that_repeat_times_of_the_window_and_their_own(self, arity: int) -> None:
        """A bulk with times that the window has already is combined with them, and counted only once."""
        model = Model(arity, compiled=False)
        model.bulk_insert([(t, "a") for t in range(300)])
        model.bulk_insert([(t, "b") for t in range(0, 300, 3)])
        assert len(model.window) == 300
        model.compare_everything()
        model.bulk_insert([(t % 310, "c") for t in range(0, 900, 7)])
        model.compare_everything()
        model.bulk_evict(150)
        assert len(model.window) == len(model.rows)
        model.compare_everything()

    def test_descending_inserts(self, arity: int) -> None:
        model = Model(arity, compiled=False)
        for time in range(300, 0, -1):
            model.insert(time, "x")
            if time % 10 == 0:
                model.compare()
        model.compare_everything()

    def test_every_cut(self, arity: int) -> None:
        """A bulk eviction at, before and after every time of a tree of three levels or so."""
        whole = Model(arity, compiled=False)
        whole.bulk_insert([(3 * t, chr(97 + t % 26)) for t in range(12 * arity)])
        data = whole.window.snapshot()
        for until in range(-1, 36 * arity + 1):
            model = Model(arity, compiled=False)
            model.window = aggregators.Fiba.restore(data, agg.concat("v"), compiled=False)
            model.rows = dict(whole.rows)
            model.bulk_evict(until)
            model.compare()

    def test_the_sum_of_many_small_cuts(self, arity: int) -> None:
        model = Model(arity, compiled=False)
        model.bulk_insert([(t, "x") for t in range(500)])
        for until in range(3, 520, 7):
            model.bulk_evict(until)
            model.compare()


def test_times_at_the_ends_of_int64() -> None:
    window = aggregators.Fiba(agg.concat("v"), min_arity=2, compiled=False)
    ends = [-(2**63), 2**63 - 1, 0, -(2**63) + 1, 2**63 - 2]
    for time, letter in zip(ends, "aezbd", strict=True):
        window.insert(time, letter)
    window.bulk_insert([2**63 - 1, -(2**63)], ["E", "A"])
    window.check()
    assert window.query() == "aAbzdeE"
    window.bulk_evict(-(2**63))
    assert window.query() == "bzdeE"
    window.bulk_evict(2**63 - 1)
    assert window.query() is None


# ---------------------------------------------------------------- compiled


LAST_AND_SUM = {"last": agg.last("v"), "sum": agg.sum("v")}
"""One that does not commute, and one that counts; the tests share it, since each other one takes half a minute."""


@pytest.mark.compiled
def test_compiled_against_plain() -> None:
    """The same random steps by the compiled kernels and by the plain ones: the same answers, the same bytes."""
    chance = random.Random(5)
    both: list[Any] = [
        aggregators.Fiba(LAST_AND_SUM, dtype="i8", nullable=False, compiled=compiled) for compiled in (True, False)
    ]
    for _ in range(200):
        move = chance.randrange(9)
        time, value = chance.randrange(2000), chance.randrange(100)
        times = [chance.randrange(2000) for _ in range(chance.randrange(1, 200))]
        for window in both:
            if move <= 2:
                window.insert(time, value)
            elif move == 3:
                window.bulk_insert(times, list(range(len(times))))
            elif move <= 5 and len(window):
                window.evict()
            elif move == 6:
                window.bulk_evict(time // 3)
            elif move == 7 and len(window):
                window.evict_at(window.nth(time % len(window)))
            elif move == 8 and len(window):
                assert window.rank(time) <= len(window)
        assert both[0].query() == both[1].query()
        assert both[0].range_query(time, time + 300) == both[1].range_query(time, time + 300)
        assert both[0].snapshot() == both[1].snapshot()
    both[0].check()


@pytest.mark.compiled
@pytest.mark.thorough
def test_millions_of_random_operations_without_a_leak() -> None:
    """Memory stays that of the largest window, whatever came and went; the answer stays right."""
    chance = np.random.default_rng(3)
    window = aggregators.Fiba(LAST_AND_SUM, dtype="i8", nullable=False)
    operations, now, done, most, held = 1_500_000 * THOROUGH, 0, 0, 0, 0
    bytes_at_half = 0
    while done < operations:
        count = int(chance.integers(1, 100_000))
        times = now + chance.integers(-200_000, 200_000, count) if count % 2 else now + np.arange(count)
        window.bulk_insert(times, np.ones(count, np.int64))
        held = window.query()["sum"]
        now += count // 4
        before = window.rank(now - 300_000)
        window.bulk_evict(now - 300_001)
        scattered = now + chance.integers(-200_000, 200_000, 20_000)
        for part in np.array_split(scattered, 10):  # one by one, out of order, by the kernel that `insert` calls
            window._reserve(len(part) * window._levels, len(part) * window._levels)
            ones = read_only(np.ones(len(part), np.int64))
            window._module.append_rows(window._window, (ones,), read_only(part), 0, len(part))
        for time in set(scattered[:50].tolist()):
            window.evict_at(time)
        singles = int(chance.integers(0, len(window) // 4 + 1))
        window._module.evict_rows(window._window, singles)
        done += count + before + singles + 20_050
        most = max(most, held)
        if done < operations // 2:
            bytes_at_half = sum(array.nbytes for array in window._window)
    window.check()
    assert sum(array.nbytes for array in window._window) <= 1.6 * bytes_at_half
    assert window.query() == window.range_query(-(10**9), 10**9)
    window.bulk_evict(now + 10**9)
    assert len(window) == 0
    window.check()


@pytest.mark.slow
def test_memory_of_rows_in_order() -> None:
    """At most 28 bytes a row for a time and a float64 state, whether they come singly or in bulks."""

    @agg.define(state="f8")
    class plain_sum:
        def lift(v):
            return v

        def combine(a, b):
            return a + b

    rows = 12_000
    for bulks in (1, 6, 60):
        window = aggregators.Fiba(plain_sum("v"), min_arity=8, dtype="f8", nullable=False, compiled=False)
        for part in np.array_split(np.arange(rows), bulks):
            window.bulk_insert(part, np.ones(len(part)))
        assert window.query() == rows
        assert sum(array.nbytes for array in window._window) <= 28 * rows


# ---------------------------------------------------------------- the rest of the contract


def test_min_arity_is_checked() -> None:
    with pytest.raises(InvalidArgumentError, match="one of 2, 4, 8, 16; got 3"):
        aggregators.Fiba(agg.sum("v"), min_arity=3)
    window = aggregators.Fiba(agg.sum("v"), min_arity=16, compiled=False)
    assert aggregators.Fiba.restore(window.snapshot(), agg.sum("v"), compiled=False).min_arity == 16


def test_ranks_at_the_edges() -> None:
    window = aggregators.Fiba(agg.sum("v"), compiled=False)
    assert window.rank(5) == 0
    with pytest.raises(IndexError, match="0 times"):
        window.nth(0)
    window.bulk_insert(range(0, 100, 2), range(50))
    assert window.nth(-1) == 98
    assert (window.rank(-5), window.rank(50), window.rank(51), window.rank(1000)) == (0, 25, 26, 50)
    for bad in (50, -51):
        with pytest.raises(IndexError, match="none of rank"):
            window.nth(bad)


def test_times_may_be_datetimes() -> None:
    start = np.datetime64("2024-01-01T00:00", "s")
    window = aggregators.Fiba(agg.concat("v"), min_arity=2)
    window.bulk_insert(start + np.array([30, 10, 20]), ["c", "a", "b"])
    window.insert(start + 15, "x")
    assert window.query() == "axbc"
    assert window.oldest == start + 10
    assert window.nth(1) == start + 15
    assert window.rank(start + 20) == 2
    window.evict_at(start + 15)
    window.bulk_evict(start + 10)
    assert [time for time, _ in window.items()] == [start + 20, start + 30]
    assert "2024-01-01T00:00:20" in window.draw()


def test_types_widen_in_a_tree() -> None:
    window = aggregators.Fiba(agg.sum("v"), min_arity=2, compiled=False)
    window.bulk_insert(range(20), [1] * 20)
    window.insert(3, 0.5)
    window.insert(-1, None)
    window.check()
    assert window.query() == 20.5
    for _ in range(4):
        window.evict()
        window.check()
    assert window.query() == 17.5 - 0.5 * (window.oldest > 3)


class Brittle:
    """A value that refuses to be joined with some others."""

    def __init__(self, name: str) -> None:
        self.name = name


@agg.define(state="object")
class joined:
    def lift(v):
        return v.name

    def combine(a, b):
        if "!" in a + b:
            raise ValueError("no")
        return a + b


@pytest.mark.parametrize("arity", [2, 4])
def test_a_combine_that_raises_changes_nothing(arity: int) -> None:
    window = aggregators.Fiba(joined("v"), min_arity=arity)
    refused = 0
    for count in range(1, 60):
        window.insert((count * 7) % 60, Brittle("x"))
        before = list(window.items())
        for time in (-1, (count * 7) % 60, 17, 99):
            try:
                window.insert(time, Brittle("!"))
            except ValueError:
                refused += 1
            else:
                window.evict_at(time)  # it came into a leaf of its own, and was not combined yet
            window.check()
            assert list(window.items()) == before
        if count > 20:
            with pytest.raises(ValueError, match="no"):
                window.bulk_insert([50, 3, 60, 70, 5, 2, 1], [Brittle(x) for x in "ab!cdef"])
            window.check()
            assert list(window.items()) == before
    assert refused > 150


class Text:
    """A text whose addition fails at will."""

    adds_left = -1

    def __init__(self, text: str) -> None:
        self.text = text

    def __add__(self, other: Text) -> Text:
        Text.adds_left -= 1
        if Text.adds_left == 0:
            raise ValueError("no")
        return Text(self.text + other.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text) and self.text == other.text

    __hash__ = None  # type: ignore[assignment]  # nobody asks for it


@agg.define(state="object")
class texts:
    def lift(v):
        return v

    def combine(a, b):
        return a + b

    def lower(s):
        return s.text


@pytest.mark.parametrize("arity", [2, 4])
def test_a_call_whose_combine_raises_changes_nothing(arity: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of its combines it is."""
    monkeypatch.setattr(Text, "adds_left", -1)
    chance = random.Random(arity)
    window = aggregators.Fiba(texts("v"), min_arity=arity)
    window.bulk_insert(range(0, 400, 2), [Text("o") for _ in range(200)])
    refused = 0
    for step in range(30):
        rows = chance.randrange(2, 20)
        times, late = [chance.randrange(400) for _ in range(rows)], chance.randrange(400)
        call, *arguments = (
            ("insert", late, Text("i")),
            ("bulk_insert", times, [Text("b") for _ in times]),
            ("evict",),
            ("evict_at", window.nth(chance.randrange(len(window)))),
            ("bulk_evict", window.nth(0) + 3),
        )[step % 5]
        before, fails_at = list(window.items()), 1
        while True:
            Text.adds_left = fails_at
            try:
                getattr(window, call)(*arguments)
            except ValueError:
                refused += 1
                Text.adds_left = -1
                assert list(window.items()) == before
                window.check()
                fails_at += 1
            else:
                break
        Text.adds_left = -1
        window.check()
    assert refused > 300


def bytes_of_a_bulk(rows: int) -> int:
    """Return the most memory that a bulk of two rows needs while it runs, the least of some."""
    window = aggregators.Fiba(joined("v"))
    window.bulk_insert(range(rows), [Brittle("x")] * rows)
    least = 1 << 60
    for late in range(5):
        tracemalloc.start()
        window.bulk_insert([late * 10 - 1, late * 10 - 1], [Brittle("y"), Brittle("z")])
        least = min(least, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert window.query().count("y") == 5
    window.check()
    return least


def test_a_bulk_of_python_objects_copies_nothing_of_the_tree() -> None:
    assert bytes_of_a_bulk(20_000) < 64_000  # a copy is ten times as much


def test_a_refused_bulk_changes_nothing() -> None:
    window = aggregators.Fiba(agg.sum("v"), compiled=False)
    window.bulk_insert([3, 1, 2], [1, 2, 3])
    before = window.snapshot()
    with pytest.raises(InvalidArgumentError):
        window.bulk_insert([1, None], [1, 2])
    with pytest.raises(ColumnTypeError):
        window.bulk_insert([1, 2], ["a", "b"])
    with pytest.raises(KeyError, match="the time 9"):
        window.evict_at(9)
    assert window.snapshot() == before


# ---------------------------------------------------------------- pictures


def test_pictures() -> None:
    window = aggregators.Fiba(agg.concat("v"), min_arity=2)
    assert window.draw() == "an empty tree"
    window.bulk_insert(range(30), ["<", *"abcdefghijklmnopqrstuvwxyz", "&", "x", "y"])
    text = window.draw()
    assert all(str(window.nth(rank)) in text for rank in range(len(window)))
    assert all(arrow in text for arrow in "↑↕↙↘")
    picture = ET.fromstring(window.draw("svg"))
    assert sum(element.tag.endswith("rect") for element in picture) == len(walk(window._picture()))
    with pytest.raises(InvalidArgumentError, match='"text" or "svg"'):
        window.draw("png")


def test_the_pictures_in_the_documentation_are_what_draw_gives() -> None:
    docs = Path(__file__).parents[2] / "docs"
    assert (docs / "fiba.svg").read_text() == figure_1().draw("svg") + "\n"
    small = aggregators.Fiba(agg.concat("v"), min_arity=2)
    small.bulk_insert(range(1, 10), "abcdefghi")
    assert f"```text\n{small.draw()}\n```" in (docs / "fiba.md").read_text()


# ---------------------------------------------------------------- check() itself


@pytest.mark.parametrize("arity", ARITIES)
@pytest.mark.parametrize("near", [True, False])
def test_single_inserts_in_one_call(arity: int, near: bool) -> None:
    """Rows that follow each other into a leaf have what is above it recomputed once, when the last has come."""
    chance = random.Random(arity)
    model = Model(arity, compiled=False)
    model.bulk_insert([(8 * time, "o") for time in range(80)])
    for _ in range(12):
        begin, count = chance.randrange(640), chance.randrange(1, 30)
        times = [begin + i // 2 if near else chance.randrange(-5, 700) for i in range(count)]
        letters = np.array([chance.choice("abc") for _ in times], object)
        model.window._reserve(20 * count, 20 * count)
        columns = (read_only(letters), read_only(np.ones(count, np.bool_)))
        model.window._module.append_rows(model.window._window, columns, read_only(np.array(times)), 0, count)
        for time, letter in zip(times, letters, strict=True):
            model.add(time, letter)
        model.compare()
    model.compare_everything()


@pytest.mark.parametrize("arity", [2, 4])
@pytest.mark.parametrize("held", [1, 5, 300])
@pytest.mark.parametrize("rows", [5, 17, 250])
@pytest.mark.parametrize("spread", [True, False])
def test_a_chunk_needs_no_more_nodes_than_there_is_room_for(arity: int, held: int, rows: int, spread: bool) -> None:
    chance = random.Random(rows)
    window = aggregators.Fiba(agg.max("v"), min_arity=arity, dtype="i8", nullable=False, compiled=False)
    window.bulk_insert(np.arange(held) * 1000, np.zeros(held, np.int64))
    times = sorted(chance.sample(range(-500, 1000 * held), rows)) if spread else list(range(1 - rows, 1))
    most = window._run("most_new_nodes", window._window, rows)
    before = window._window.marks[[5, 6]].copy()
    window._insert_chunk((np.zeros(rows, np.int64),), np.array(times), 0, rows)
    window.check()
    assert (window._window.marks[[5, 6]] - before).max() <= most
    assert len(window) == len({*times, *(1000 * time for time in range(held))})


@pytest.mark.parametrize("held", [[], [5], [3, 5, 9]])
@pytest.mark.parametrize("times", [[1, 2], [5, 5], [5, 6], [2, 4, 5, 9, 9, 10], [10, 11], [1, 3, 2], [12, 11]])
def test_late_rows_are_counted_and_unsorted_ones_recognised(held: list[int], times: list[int]) -> None:
    window = aggregators.Fiba(agg.max("v"), dtype="i8", nullable=False, compiled=False)
    window.bulk_insert(np.array(held, np.int64), np.zeros(len(held), np.int64))
    late = sum(time <= held[-1] for time in times) if held else 0
    counted = window._run("count_late", window._window, np.array(times))
    assert counted == (late if times == sorted(times) else -1)


def test_an_empty_window_evicts_nothing_up_to_any_time() -> None:
    window = aggregators.Fiba(agg.max("v"), dtype="i8", nullable=False, compiled=False)
    for _ in range(2):
        for until in (-(2**63), 0, 2**63 - 1, 2**63, np.int64(3)):
            window.bulk_evict(until)
            window.check()
        assert (len(window), window.query()) == (0, None)
        window.bulk_insert([1, 2], [1, 2])
        window.bulk_evict(2)


def test_an_eviction_that_fails_is_not_an_interrupted_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("combine")

    window = aggregators.Fiba(agg.max("v"), dtype="i8", nullable=False, compiled=False)
    window.bulk_insert([1, 2], [1, 2])
    for evict in (lambda: window.bulk_evict(1), window.evict):
        with monkeypatch.context() as failing:
            failing.setattr(window, "_run", fail)
            with pytest.raises(ValueError, match="combine"):
                evict()
        assert window.query() == 2


def _broken(change: Any) -> Any:
    window = aggregators.Fiba(agg.concat("v"), min_arity=2, compiled=False)
    window.bulk_insert(range(60), ["x"] * 60)
    window.bulk_evict(20)
    window.evict()
    window.check()
    change(window._window, int(window._window.marks[0]))
    return window


@pytest.mark.parametrize(
    ("message", "change"),
    [
        ("times out of order", lambda w, root: w.times.__setitem__(root * 4, 10**6)),
        ("has 0 entries|has a parent|says|used twice", lambda w, root: w.marks.__setitem__(0, w.kids[0])),
        ("is not on spine", lambda w, root: w.links.__setitem__(4 * int(w.marks[1]) + 3, 0)),
        ("does not know its parent", lambda w, root: w.links.__setitem__(4 * int(w.marks[1]), 0)),
        ("left finger", lambda w, root: w.marks.__setitem__(1, w.marks[2])),
        ("levels", lambda w, root: w.marks.__setitem__(7, 9)),
        ("covers", lambda w, root: w.times.__setitem__(root * 4 + 3, 99)),
        ("aggregate of the node", lambda w, root: w.slots.__setitem__(int(w.marks[2]) * 4 + 3, w.slots[root * 4])),
        (
            "the fold of the node",
            lambda w, root: w.folds.__setitem__(int(w.links[4 * root + 1]) * 5 + 1, w.slots[root * 4]),
        ),
        ("neither in the tree nor free", lambda w, root: w.marks.__setitem__(3, 0)),
        ("used twice", lambda w, root: w.marks.__setitem__(336, root)),
        ("aggregates are ready", lambda w, root: w.marks.__setitem__(8, 77)),
        ("has 9 entries", lambda w, root: w.links.__setitem__(4 * int(w.marks[1]) + 2, 9)),
        ("neither in use nor free", lambda w, root: w.marks.__setitem__(6, w.marks[6] + 1)),
    ],
)
def test_check_finds_what_is_broken(message: str, change: Any) -> None:
    with pytest.raises(InvariantError, match=message):
        _broken(change).check()


@pytest.mark.compiled
def test_compiled_range_queries() -> None:
    window: Any = aggregators.Fiba({"high": agg.max("v"), "rows": agg.count()}, dtype="f8")
    assert window.range_queries([], []) == {"high": [], "rows": []}
    assert window.range_queries([1], [5]) == {"high": [None], "rows": [0]}
    window.bulk_insert(np.arange(0, 2000, 2), np.arange(1000.0))
    lows, highs = np.array([0, 1, 1, 10, 5000, 100]), np.array([1999, 1, 2, 5, 6000, 1000])
    assert window.range_queries(lows, highs) == {
        "high": [999.0, None, 1.0, None, None, 500.0],
        "rows": [1000, 0, 1, 0, 0, 451],
    }
    with pytest.raises(InvalidArgumentError, match="1 lower bounds and 2 upper ones"):
        window.range_queries([1], [2, 3])
