"""The ledger of emitted windows against a dict, which compares one window after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from muntin.streams.emitted import EmittedWindows

Names = tuple[int, int]
names = st.tuples(st.integers(0, 2), st.integers(-2, 2))
windows = st.dictionaries(names, st.tuples(st.integers(0, 2), st.booleans()), max_size=8)


@dataclass
class Entry:
    content: int
    revision: int
    retracted: bool


def ledger_of(entries: dict[Names, int]) -> EmittedWindows:
    columns = tuple(np.array([name[i] for name in entries], np.int64) for i in range(2))
    content = np.array(list(entries.values()), np.int64)
    return EmittedWindows.of(columns, content, twice=2 * content)


def as_dict(ledger: EmittedWindows) -> dict[Names, Entry]:
    found = zip(zip(*ledger.names, strict=True), ledger.content, ledger.revision, ledger.retracted, strict=True)
    return {
        (int(a), int(b)): Entry(int(content), int(revision), bool(gone)) for (a, b), content, revision, gone in found
    }


@given(st.lists(windows, max_size=6))
@settings(deadline=None, max_examples=examples(200))
def test_changes_are_those_of_a_dict(steps: list[dict[Names, tuple[int, bool]]]) -> None:
    ledger = EmittedWindows.none(names=2, twice=np.int64)
    model: dict[Names, Entry] = {}
    for step in steps:
        now = ledger_of({name: content for name, (content, _) in step.items()})
        changes = ledger.changes(now, np.array([emit for _, emit in step.values()], np.bool_))
        emitted, retracted = {}, {}
        for name, (content, may_emit) in step.items():
            old = model.get(name)
            if may_emit and (old is None or old.retracted or old.content != content):
                emitted[name] = Entry(content, 0 if old is None else old.revision + 1, False)
        for name, old in model.items():
            if name not in step and not old.retracted:
                retracted[name] = Entry(old.content, old.revision + 1, True)
        assert as_dict(changes.emitted) == emitted
        assert as_dict(changes.retracted) == retracted
        assert [list(step)[i] for i in changes.windows] == list(emitted)
        ledger = ledger.with_changes(changes)
        model |= emitted | retracted
        assert as_dict(ledger) == model
        assert list(as_dict(ledger)) == sorted(model)
        assert np.array_equal(ledger.facts["twice"], 2 * ledger.content)
        ledger = EmittedWindows.none(names=2, twice=np.int64).load(ledger.save())


def test_revisions_go_on_from_the_ledger() -> None:
    first = ledger_of({(1, 1): 5})
    again = first.with_changes(first.changes(ledger_of({(1, 1): 6})))
    numbered = again.numbered(ledger_of({(0, 0): 1, (1, 1): 7}))
    assert numbered.revision.tolist() == [0, 2]


def test_what_is_final_leaves_and_facts_change_in_place() -> None:
    ledger = ledger_of({(0, 0): 1, (0, 1): 2, (1, 0): 3})
    assert ledger.keep(np.array([True, False, True])).content.tolist() == [1, 3]
    moved = ledger.with_facts(np.array([2, 0]), twice=np.array([-1, -2]))
    assert moved.facts["twice"].tolist() == [-2, 4, -1]
    assert ledger.facts["twice"].tolist() == [2, 4, 6]
