"""States of rows in order, from the slices in row numbers in which states of version 2 kept windows by rows.

Beside its slices such a state held the rows that may still move from slice to slice: the time of each, and its lifted
state, once for each set of aggregates that were fused. Here the states of a row are fused into one, and slices are left
behind: a tree of rows answers the same windows.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from muntin.aggregations.binding import Binding
from muntin.aggregations.together import run_together
from muntin.aggregators.states import States
from muntin.columns import Column
from muntin.durations import BEFORE_TIME
from muntin.errors import SnapshotError
from muntin.query.plan import Plan
from muntin.streams.change import under
from muntin.streams.places import Places
from muntin.streams.rows.counting import AHEAD, DONE, EMITTED, EVERY, GONE, NUMBERS, SEEN
from muntin.streams.rows.finding import CHANGED, FRAMELESS, NEW
from muntin.streams.rows.in_states import StatesInOrder
from muntin.streams.rows.states import STATE
from muntin.types import ANY, OBJECT, Array

_NOWHERE = 2**62
"""The number of a row that never arrived, in states of version 2."""
_STATES = "row_states"


def states_from_counted(strategy: StatesInOrder, saved: Mapping[str, Array], watermark: int) -> dict[str, Array]:
    """Return the state of a strategy, empty so far, that goes on with saved slices in row numbers. O(n).

    `watermark` is that at which windows were emitted last.
    """
    plan, lead = strategy.plan, under("0.", saved)
    _require_one_numbering(plan, lead)
    ((group,), (binding,)) = strategy.groups, strategy.bindings
    keys, counts = lead["keys"], lead["row_sizes"]
    owners = np.repeat(keys, counts)
    ranks = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    states = _fused(binding, [(each, under(f"{i}.", saved)[_STATES]) for i, each in enumerate(fused_sets(plan))])
    beside: dict[Any, Array] = {
        name: np.zeros(len(owners), kind) for part in group.parts for name, kind in part.beside.items()
    }
    group.store.know_keys(int(keys.max(initial=-1)) + 1)
    part: Any
    for number, part in enumerate(group.parts):
        numbers = np.zeros((group.store.keys, NUMBERS), np.int64)
        numbers[keys] = _numbers(part, lead)
        emitted = _emitted(saved, number)
        if part.beside:
            (word,) = part.beside
            if len(emitted["key"]):
                np.maximum.at(numbers[:, EMITTED], emitted["key"], emitted["start"] + 1)
            row = ranks + numbers[owners, GONE]
            total = np.repeat(counts + lead["gone"], counts)
            beside[word] = _words(part, owners, row, total, numbers[owners], emitted)
        part._numbers = numbers.ravel()
    group.store.insert(owners, lead["times"], {STATE: Column(states, None, ANY)}, beside)
    if lead["gone"].any():  # of evicted rows it is only known that their windows are final
        group.kept_from = group.complete_from = watermark + 1
    strategy._watermark = watermark
    group.wake_at(keys, BEFORE_TIME)
    return strategy.save()


def _require_one_numbering(plan: Plan, lead: Mapping[str, Array]) -> None:
    """Reject a state whose definitions number the rows of a key apart, or which was saved in the midst of a push."""
    windows = ", ".join(f"{each!r}, window {i}" for i, each in plan.windows.items())
    why = ""
    if (lead["apart"] >= 0).any():
        why = "late rows that only some of them took have parted the numbers of their rows"
    elif ((lead["moved"] < _NOWHERE) & (lead["emitted"] > 0)).any():
        why = "rows had come since windows were emitted last"
    if why:
        raise SnapshotError(
            f"the snapshot has version 2, in which {windows}, cannot go on: {why}. Let the version that wrote it "
            "finish the stream, or push its rows again"
        )


def _numbers(part: Any, lead: Mapping[str, Array]) -> Array:
    """Return what a definition counts of each key, as `counting` describes it."""
    every, ahead = int(part._shape[EVERY]), int(part._shape[AHEAD])
    numbers = np.zeros((len(lead["keys"]), NUMBERS), np.int64)
    numbers[:, GONE] = lead["gone"]
    numbers[:, DONE] = np.maximum(0, (lead["final"] - ahead - 1) // every + 1) * every
    numbers[:, SEEN] = np.maximum(np.maximum(numbers[:, DONE], numbers[:, GONE]), lead["emitted"] - ahead)
    numbers[:, EMITTED] = numbers[:, SEEN]
    return numbers


def _emitted(saved: Mapping[str, Array], number: int) -> dict[str, Array]:
    """Return the windows of one definition that were emitted again, or might be."""
    columns = {"key": "name0", "start": "name2", "content": "content", "revision": "revision"}
    mine = saved["emitted.name1"] == number
    return {name: saved[f"emitted.{column}"][mine] for name, column in columns.items()}


def _words(part: Any, owners: Array, row: Array, total: Array, numbers: Array, emitted: Mapping[str, Array]) -> Array:
    """Return the words of rows: the revisions of the windows that begin with them."""
    every, length = int(part._shape[EVERY]), int(part._shape[AHEAD]) + 1
    words = np.where(row < numbers[:, EMITTED], np.where(row % every > 0, FRAMELESS, 0), NEW)
    place = {pair: at for at, pair in enumerate(zip(owners.tolist(), row.tolist(), strict=True))}
    for key, start, content, revision in zip(*(each.tolist() for each in emitted.values()), strict=True):
        at = place.get((key, start))
        if at is not None:  # else it is final
            now = min(start + length, int(total[at]))
            words[at] = revision if content == now else CHANGED - revision
    return words.astype(np.int32)


# ------------------------------------------------------------ states


def fused_sets(plan: Plan) -> list[Binding]:
    """Return the aggregates as version 2 fused those of windows by rows: by how a row left a slice."""
    sets: list[Binding] = []
    for group in run_together(plan.aggregates, plan.bind):
        folded = any(_leaving(plan.bind({name: each})) == "refold" for name, each in group.items())
        apart = [group] if folded else run_together(group, plan.bind, _way_out)
        sets += [plan.bind(each) for each in apart]
    return sets


def _leaving(binding: Binding) -> str:
    if not all(each.commutative for each in binding.aggregations):
        return "refold"
    if binding.invertible:
        return "invert"
    alone = len(binding.states) == 1 and not any(f.length is not None for f in binding.parts[0].fields or ())
    return "beaten" if alone and all(each.selective for each in binding.aggregations) else "refold"


def _way_out(name: str, alone: Binding) -> Hashable:
    way = _leaving(alone)
    return (way, name) if way == "beaten" else way


def _fused(whole: Binding, sets: Sequence[tuple[Binding, Array]]) -> Array:
    """Return the states of rows of several sets of aggregates as those of all aggregates."""
    mine = Places.of("", whole, states=(STATE,))
    of_name = {name: (one, held) for one, held in sets for name in one.names}
    columns = [
        _field(*of_name[whose[0]], whose[0], mine.fields_of(whose[0]).index(field), fixed=whole.fixed)
        for field, whose in mine.fields
    ]
    states = whole.slots(len(sets[0][1]))
    if whole.fixed:
        for (field, _), values in zip(mine.fields, columns, strict=True):
            states[field] = values
        return states
    for i, state in enumerate(zip(*columns, strict=True)):
        states[i] = state
    return States(whole).revived(states)


def _field(one: Binding, held: Array, name: str, number: int, *, fixed: bool) -> Any:
    """Return a field of an aggregate's states, by its number: of objects it is a part of the state, or a mask."""
    fields = Places.of("", one, states=(STATE,)).fields_of(name)
    if fixed:
        return held[fields[number]]
    if held.dtype == OBJECT:
        return [state[int(fields[number])] for state in held]
    own = [field for field in fields if field.startswith("p")]
    if number:
        return held[fields[-1]].tolist()
    part = one.parts[one.names.index(name)]
    return held[own[0]].tolist() if part.scalar else held[own].tolist()
