"""What defines a query, as text: saved states are of the query with the same facts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from muntin.aggregations.aggregation import Aggregation
from muntin.durations import spelled
from muntin.query.computing import expression_facts
from muntin.query.query import ProcessingTime, Query

_ALWAYS = ("watermark", "allowed_lateness", "partial", "emit_empty", "idle_timeout", "emit_early")
_IF_GIVEN = {"forget_after": None, "ordered": False, "changes": None}
"""Options that most queries leave out are no facts of theirs, so that their states do not change."""
_PLACES = (
    "the windows are the same in another order, and window_id in the answers is that order: put them back, the windows "
    "of the state first"
)


def facts(query: Query) -> dict[str, str]:
    """Return what defines a query, as text; equal durations are spelled alike. O(windows and aggregates).

    >>> from muntin import agg, window
    >>> query = Query(window.tumbling("60 seconds"), {"high": agg.max("v")}, watermark="5000ms")
    >>> facts(query)["window 0"], facts(query)["watermark"]
    ("window.tumbling('1 minute')", "'5 seconds'")
    """
    words = {f"window {i}": each.spelled().fingerprint for i, each in enumerate(query.windows)}
    for name, each in query.aggregates.items():
        aggregation = _spelled_out(each)
        columns = ", ".join(aggregation.columns)
        words[f"aggregate {name}"] = f"{aggregation.identity} over {columns} ({aggregation.fingerprint})"
    given = [*_ALWAYS, *(name for name, default in _IF_GIVEN.items() if getattr(query, name) != default)]
    options = {name: getattr(query, name) for name in given}
    return {
        "key": ", ".join(query.key),
        "time": str(query.time),
        **words,
        **{name: repr(value if name == "changes" else _option(value)) for name, value in options.items()},
        **expression_facts(query),
    }


def fingerprint(asked: Mapping[str, str]) -> str:
    """Return a hash of the facts of a query."""
    return hashlib.sha256(json.dumps(dict(asked), sort_keys=True).encode()).hexdigest()


def differences(saved: Mapping[str, str], query: Query, further: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return in what a state's query differs from another one: facts by name, each with both in words. O(facts).

    `further` are facts that an engine adds to those of the query.

    >>> from muntin import agg, window
    >>> old = Query(window.tumbling("1 minute"), {"high": agg.max("v"), "n": agg.count()}, watermark="5 seconds")
    >>> new = Query(window.tumbling("60 seconds"), {"n": agg.count(), "high": agg.min("v")}, watermark="5000 ms")
    >>> differences(facts(old), new)
    {'aggregate high': "its aggregate high is agg.max('v'), this one's is agg.min('v')"}
    """
    asked = {**facts(query), **(further or {})}
    if saved == asked:
        return {}
    found = {
        name: in_words(name, saved.get(name), asked.get(name))
        for name in dict.fromkeys((*asked, *sorted(saved)))
        if saved.get(name) != asked.get(name)
    }
    if found and windows_of(saved) != windows_of(asked) and sorted(windows_of(saved)) == sorted(windows_of(asked)):
        found["windows"] = _PLACES
    return found


def windows_of(words: Mapping[str, str]) -> list[str]:
    """Return the windows of a query's facts, by their numbers."""
    return [words[name] for name in (f"window {i}" for i in range(len(words))) if name in words]


def in_words(name: str, saved: str | None, asked: str | None) -> str:
    """Return in what one fact differs from another."""
    before, now = (_shown(name, text) for text in (saved, asked))
    if before == now:
        now = "one of the same name that is defined otherwise"
    return f"its {name} is {before}, this one's is {now}"


def _shown(name: str, text: str | None) -> str:
    """Return a fact without the hash of a definition, which says nothing to a reader."""
    if text is None:
        return "none"
    return text.rpartition(" over ")[0] if name.startswith("aggregate ") else text


def _spelled_out(aggregation: Aggregation) -> Aggregation:
    durations = {name for each in aggregation.factory.definitions.values() for name in each.durations}
    if not durations:
        return aggregation
    given = ((name, spelled(value) if name in durations else value) for name, value in aggregation.parameters)
    return replace(aggregation, parameters=tuple(given), _algebras={})


def _option(value: Any) -> Any:
    if isinstance(value, ProcessingTime):
        return ProcessingTime(spelled(value.duration))
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return None if value is None else spelled(value)
