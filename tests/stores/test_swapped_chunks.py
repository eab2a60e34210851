"""What a store may do to its values, two at a time: an answer is right, or there is none."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sampling import examples

from muntin import agg, aggregators, stores
from muntin.aggregators.stored import chunks
from muntin.errors import DamagedChunkError, LeaseError, StoreError

CONCAT = agg.concat("v", "")
Values = dict[bytes, bytes]


def letter(t: int) -> str:
    """Return the value of a row."""
    return chr(97 + t % 26)


def fill(window: Any, times: range) -> None:
    """Insert rows."""
    window.bulk_insert(list(times), [letter(t) for t in times])


def built() -> tuple[Values, Values]:
    """Return all values of a store with two windows, one of them opened twice; and the last but one of each key."""
    store, before = stores.Memory(), {}
    kept: Values = {}

    def note() -> None:
        for key, value in store._values.items():
            if kept.get(key, value) != value:
                before[key] = kept[key]
        kept.update(store._values)

    window = aggregators.MonoidTree(CONCAT, store=store, window_id="w", chunk_pairs=4, compiled=False)
    fill(window, range(60))
    window.flush()
    note()
    window.bulk_evict(9)
    window.close()
    note()
    window = aggregators.MonoidTree.open(store, "w", CONCAT, compiled=False)
    fill(window, range(60, 100))
    window.flush()
    note()
    window.close()
    note()
    other = aggregators.MonoidTree(CONCAT, store=store, window_id="other", chunk_pairs=4, compiled=False)
    fill(other, range(7, 97))
    other.close()
    note()
    return dict(store._values), before


def answered(values: Values) -> list[Any]:
    """Return what the first window of a store answers, until it is empty."""
    store = stores.Memory()
    store._values = dict(values)
    window = aggregators.MonoidTree.open(store, "w", CONCAT, compiled=False)
    try:
        answers = [window.query(), window.range_query(20, 70)]
        while len(window):
            window.bulk_evict(window.oldest + 10)
            answers.append(window.query())
        return answers
    finally:
        window.close(flush=False)


def swapped(values: Values, a: bytes, b: bytes) -> Values:
    return {**values, a: values[b], b: values[a]}


def duplicated(values: Values, a: bytes, b: bytes) -> Values:
    return {**values, a: values[b]}


def deleted(values: Values, a: bytes, b: bytes) -> Values:
    return {key: value for key, value in values.items() if key not in (a, b)}


def truncated(values: Values, a: bytes, b: bytes) -> Values:
    return {**values, a: values[a][: len(values[a]) // 2], b: values[b][:-1]}


FAULTS: list[Callable[[Values, bytes, bytes], Values]] = [swapped, duplicated, deleted, truncated]


def right_or_refused(values: Values, right: list[Any]) -> bool:
    """Say whether a store is refused, or answers what it should."""
    try:
        return answered(values) == right
    except StoreError:
        return True


@pytest.fixture(scope="module")
def store() -> tuple[Values, Values, list[Any]]:
    values, before = built()
    return values, before, answered(values)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_no_pair_of_values_gives_a_wrong_answer(fault: Any, store: tuple[Values, Values, list[Any]]) -> None:
    values, _, right = store
    assert right[0] == "".join(map(letter, range(10, 100)))
    mine = [key for key in values if b"{w}" in key]
    pairs = list(itertools.product(mine, values))
    alike = [(a, b) for a, b in pairs if a != b and a.partition(b"}")[2] == b.partition(b"}")[2]]
    special = [(a, b) for a, b in pairs if a != b and not a[-16:].isalnum() and b"{w}" in b]
    sample = random.Random(5).sample(pairs, examples(25)) + alike + special[: examples(15)]
    for a, b in sample:
        if a != b:
            assert right_or_refused(fault(values, a, b), right), (a, b)


def test_no_value_that_is_out_of_date_gives_a_wrong_answer(store: tuple[Values, Values, list[Any]]) -> None:
    values, before, right = store
    old = [key for key in before if b"{w}" in key]
    assert {key.partition(b":{w}:")[2] for key in old} >= {b"manifest0", b"manifest1", b"confirmed", b"owner"}
    for a, b in itertools.combinations_with_replacement(old, 2):
        last = {b"muntin:{w}:manifest%d" % n for n in (0, 1)} & {a, b}
        if last and b"muntin:{w}:confirmed" in (a, b):
            continue  # then the store is what it was once, as after a restore of a backup
        assert right_or_refused({**values, a: before[a], b: before[b]}, right), (a, b)


def golden(number: int) -> stores.Memory:
    """Return a store as a version of muntin wrote it: the sum of 40 rows."""
    store = stores.Memory()
    held = json.loads((Path(__file__).parent / "golden" / f"store-{number}.json").read_text())
    store._values = {key.encode(): bytes.fromhex(value) for key, value in held.items()}
    return store


@pytest.mark.parametrize("number", [1, 2])
def test_stores_of_every_format_are_read(number: int) -> None:
    store = golden(number)
    with aggregators.MonoidTree.open(store, "w", agg.sum("v"), compiled=False) as window:
        assert window.query() == sum(range(40))
        window.bulk_insert(list(range(40, 90)), list(range(40, 90)))
    formats = {value[4] for value in store._values.values() if value[:4] == chunks.MAGIC}
    assert formats == {number, 2}
    with aggregators.MonoidTree.open(store, "w", agg.sum("v"), compiled=False) as again:
        assert again.query() == sum(range(90))
        again.check()


def test_a_window_of_the_second_format_refuses_chunks_of_the_first() -> None:
    store = golden(2)
    chunk = next(key for key in sorted(store._values) if b":00:" in key)
    store._values[chunk] = golden(1)._values[chunk]
    with pytest.raises(DamagedChunkError, match="has format 1; of this window muntin reads format 2"):
        aggregators.MonoidTree.open(store, "w", agg.sum("v"), compiled=False).check()


class Interrupted(stores.Memory):
    """A store in which something happens just before the next conditional write."""

    def __init__(self) -> None:
        super().__init__()
        self.then: Callable[[], None] | None = None

    def put_if(self, key: bytes, expected: bytes | None, items: Any) -> bool:
        then, self.then = self.then, None
        if then is not None:
            then()
        return super().put_if(key, expected, items)


def test_who_was_held_up_while_it_flushed_overwrites_nothing() -> None:
    store = Interrupted()
    stalled = aggregators.MonoidTree(CONCAT, store=store, window_id="w", chunk_pairs=4, compiled=False)
    fill(stalled, range(50))
    stalled.flush()

    def taken_over() -> None:
        store._held.clear()  # the lease has run out
        with aggregators.MonoidTree.open(store, "w", CONCAT, compiled=False) as other:
            fill(other, range(50, 90))

    fill(stalled, range(50, 60))
    store.then = taken_over
    with pytest.raises(LeaseError, match="another process has opened the window"):
        stalled.flush()
    stalled.close(flush=False)
    store._held.clear()
    with aggregators.MonoidTree.open(store, "w", CONCAT, compiled=False) as again:
        assert again.query() == "".join(map(letter, range(90)))
        again.check()


def test_who_was_held_up_while_it_opened_a_window_opens_nothing() -> None:
    store = Interrupted()
    first = aggregators.MonoidTree(CONCAT, store=store, window_id="w", chunk_pairs=4, compiled=False)
    fill(first, range(50))
    first.flush()
    store._held.clear()
    store.then = first.flush  # it had the window until now, and flushes once more
    with pytest.raises(LeaseError, match="another process has written to the window while it was being opened"):
        aggregators.MonoidTree.open(store, "w", CONCAT, compiled=False)
    first.close(flush=False)


def test_a_window_that_another_has_just_claimed_is_not_opened() -> None:
    """Also before that one has written anything."""
    store = Interrupted()
    with aggregators.MonoidTree(CONCAT, store=store, window_id="w", chunk_pairs=4, compiled=False) as first:
        fill(first, range(50))
    (owner,) = (key for key in store._values if key.endswith(b"owner"))
    store.then = lambda: store.put_many({owner: b"9 another"})
    with pytest.raises(LeaseError, match="another process has written to the window while it was being opened"):
        aggregators.MonoidTree.open(store, "w", CONCAT, compiled=False)


def test_a_claim_whose_reply_was_lost_is_a_claim() -> None:
    class Losing(stores.Memory):
        losing = False

        def put_if(self, key: bytes, expected: bytes | None, items: Any) -> bool:
            done = super().put_if(key, expected, items)
            if self.losing and done:
                self.losing = False
                raise StoreError("the reply was lost")
            return done

    store = Losing()
    with aggregators.MonoidTree(CONCAT, store=store, window_id="w", chunk_pairs=4, compiled=False) as first:
        fill(first, range(50))
    store.losing = True
    with aggregators.MonoidTree.open(store, "w", CONCAT, compiled=False) as again:
        assert again.query() == "".join(map(letter, range(50)))
    assert not store.losing
