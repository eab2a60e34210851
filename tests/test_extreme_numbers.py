"""Every size that somebody can ask for, with numbers that no machine holds: an answer, or a `MuntinError`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muntin
from muntin import Query, agg, aggregators, policies, rows, slide, stores, window
from muntin.errors import MuntinError

EXTREMES = (
    *(0, -1, 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, -(10**30), 10**400, 0.0, -0.5, 1e-300, 1e300),
    *(float("nan"), float("inf"), -float("inf"), np.int64(2**62), np.float64("nan"), True, "x", "9" * 5000, None),
)
ROWS = {"t": [1, 2, 3], "v": [1.0, 2.0, 3.0]}
TIMES = {"t": np.array([1, 2, 3], "M8[ns]"), "v": [1.0, 2.0, 3.0]}
COUNT = {"n": agg.count()}


def asked(windows: Any, aggregates: Any = COUNT, **options: Any) -> None:
    """Ask in both ways, of times that are numbers and times that are times."""
    query = Query(windows, aggregates, time="t", **options)
    query.run(ROWS)
    str(query.explain())
    stream = query.stream()
    stream.push(ROWS)
    stream.snapshot()
    stream.close()
    query.run(TIMES)


def of(aggregation: Callable[[Any], Any]) -> Callable[[Any], None]:
    return lambda it: asked(window.tumbling(10), {"a": aggregation(it)})


def inserted(window: Any) -> None:
    window.insert(1, 2.0)
    window.query()


def filled(kind: Any) -> Any:
    window = kind(agg.sum("v"))
    window.bulk_insert([1, 2, 3], [1.0, 2.0, 3.0])
    return window


def enforced(policy: Any) -> None:
    inserted(aggregators.Enforced(aggregators.TwoStacks(agg.sum("v")), policy))


def stored(**options: Any) -> None:
    inserted(aggregators.MonoidTree(agg.sum("v"), store=stores.Memory(), **options))


def advanced(it: Any) -> None:
    stream = Query(window.sliding(10, every=5), COUNT, time="t").stream()
    stream.push(ROWS)
    stream.advance(it)
    stream.push(ROWS)
    stream.close()


CALLS: dict[str, Callable[[Any], Any]] = {
    "tumbling": lambda it: asked(window.tumbling(it)),
    "tumbling(offset=)": lambda it: asked(window.tumbling(10, offset=it)),
    "tumbling(rows)": lambda it: asked(window.tumbling(rows(it)), partial=True),
    "sliding": lambda it: asked(window.sliding(it, every=5)),
    "sliding(every=)": lambda it: asked(window.sliding(10, every=it)),
    "sliding(rows, every=)": lambda it: asked(window.sliding(rows(10), every=rows(it))),
    "sliding(rows, every=time)": lambda it: asked(window.sliding(rows(10), every=it)),
    "session": lambda it: asked(window.session(it)),
    "trailing": lambda it: asked(window.trailing(it)),
    "trailing(delay=)": lambda it: asked(window.trailing(10, delay=it)),
    "trailing(hop=)": lambda it: asked(window.trailing(10, hop=it)),
    "trailing(rows)": lambda it: asked(window.trailing(rows(it))),
    "trailing(rows, delay=)": lambda it: asked(window.trailing(rows(2), delay=rows(it))),
    "leading": lambda it: asked(window.leading(it)),
    "leading(rows)": lambda it: asked(window.leading(rows(it))),
    "frame(before=)": lambda it: asked(window.frame(it, 1)),
    "frame(after=)": lambda it: asked(window.frame(1, it)),
    "frame(rows)": lambda it: asked(window.frame(rows(it), rows(1))),
    "cumulative": lambda it: asked(window.cumulative(it, every=5)),
    "cumulative(every=)": lambda it: asked(window.cumulative(10, every=it)),
    "calendar": lambda it: asked(window.calendar(it)),
    "delta(range=)": lambda it: asked(window.delta("v", it)),
    "delta(every=)": lambda it: asked(window.delta("v", 10.0, every=it)),
    "delta(offset=)": lambda it: asked(window.delta("v", 10.0, offset=it)),
    "watermark": lambda it: asked(window.tumbling(10), watermark=it),
    "allowed_lateness": lambda it: asked(window.tumbling(10), allowed_lateness=it),
    "forget_after": lambda it: asked(window.tumbling(rows(2)), forget_after=it),
    "idle_timeout": lambda it: asked(window.tumbling(10), idle_timeout=it),
    "emit_early": lambda it: asked(window.tumbling(10), emit_early=it),
    "most_late": lambda it: Query(window.tumbling(10), COUNT, time="t").stream(most_late=it).push(ROWS),
    "advance": advanced,
    "quantile": of(lambda it: agg.quantile("v", it)),
    "top_k": of(lambda it: agg.top_k("v", it)),
    "bloom": of(lambda it: agg.bloom("v", it)),
    "bloom(hashes=)": of(lambda it: agg.bloom("v", hashes=it)),
    "hyperloglog": of(lambda it: agg.hyperloglog("v", it)),
    "moment_sketch": lambda it: str(Query(window.tumbling(10), {"a": agg.moment_sketch("v", it)}, time="t").explain()),
    "ewm_mean": of(lambda it: agg.ewm_mean("v", half_life=it)),
    "slide(range=)": lambda it: slide(np.arange(3.0), agg.sum("v"), range=it),
    "slide(slide=)": lambda it: slide(np.arange(3.0), agg.sum("v"), range=2, slide=it),
    "slide(threads=)": lambda it: slide(np.arange(3.0), agg.sum("v"), range=2, threads=it) if it != 2**31 else None,
    "slide(min_rows=)": lambda it: slide(np.arange(3.0), agg.sum("v"), range=2, min_rows=it),
    "slide(times=)": lambda it: slide(np.arange(3.0), agg.sum("v"), range=it, times=np.arange(3)),
    "FlatFat(capacity=)": lambda it: inserted(aggregators.FlatFat(agg.sum("v"), capacity=it)),
    "Fiba(min_arity=)": lambda it: inserted(aggregators.Fiba(agg.sum("v"), min_arity=it)),
    "Boundary(range=)": lambda it: inserted(aggregators.Boundary(agg.sum("v"), range=it)),
    "Boundary(slide=)": lambda it: inserted(aggregators.Boundary(agg.sum("v"), range=8, slide=it)),
    "Boundary(threads=)": lambda it: inserted(aggregators.Boundary(agg.sum("v"), threads=it)),
    "MonoidTree(chunk_pairs=)": lambda it: stored(chunk_pairs=it),
    "MonoidTree(patience=)": lambda it: stored(patience=it),
    "at_most_rows": lambda it: enforced(policies.at_most_rows(it)),
    "at_most_duration": lambda it: enforced(policies.at_most_duration(it)),
    "sum_at_most": lambda it: enforced(policies.sum_at_most("v", it)),
    "steady_mean": lambda it: enforced(policies.steady_mean("v", it)),
    "insert": lambda it: aggregators.TwoStacks(agg.sum("v")).insert(it, 1.0),
    "bulk_evict": lambda it: filled(aggregators.Fiba).bulk_evict(it),
    "range_query": lambda it: filled(aggregators.FlatFat).range_query(it, it),
    "Redis(timeout=)": lambda it: stores.Redis(timeout=it),
    "Redis(lease_seconds=)": lambda it: stores.Redis(lease_seconds=it),
    "Redis(replicas=)": lambda it: stores.Redis(replicas=it),
    "show": lambda it: muntin.show(ROWS, it),
}


@pytest.mark.parametrize("name", CALLS)
def test_extreme_numbers_are_taken_or_refused(name: str) -> None:
    refused = 0
    for it in EXTREMES:
        try:
            CALLS[name](it)
        except MuntinError:
            refused += 1
        except Exception as error:  # noqa: BLE001  # the very point
            shown = repr(it) if isinstance(it, float) else str(it)[:40]
            pytest.fail(f"{name} of {shown}: {type(error).__name__}: {str(error)[:200]}")
    assert refused


@pytest.mark.parametrize("it", [0, -1, 2**63, 10**30, float("nan"), 1.5, True, "x", None], ids=str)
def test_a_store_of_no_size_is_refused(it: Any, tmp_path: Path) -> None:
    with pytest.raises(MuntinError, match="most_bytes is"):
        stores.Lmdb(tmp_path / "store", most_bytes=it)
