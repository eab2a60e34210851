"""Every public call with arguments that mean nothing: a `MuntinError` that says so, never an error from deep inside."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import muntin
from muntin import Query, agg, aggregators, policies, rows, slide, stores, window
from muntin.errors import ColumnTypeError, DefinitionError, InvalidArgumentError, MuntinError
from muntin.kernels.cache import uncompiled
from muntin.testing import laws

NONSENSE = (
    *(None, -1, 2.5, float("nan"), "", "nonsense", b"x", [], {}, object(), [1, "a"], {"a": 1}, lambda: 1, 10**30, True),
    *(np.array([1, 2]), pa.array([1]), {1}, type),
)
ROWS = {"t": [1, 2, 3], "v": [1.0, 2.0, 3.0], "k": ["a", "b", "a"]}
COUNT = {"n": agg.count()}


@pytest.fixture(autouse=True)
def _uncompiled() -> Iterator[None]:
    with uncompiled():
        yield


def asked(query: Query) -> None:
    """Ask a query in both ways, and how it would be answered."""
    query.run(ROWS)
    stream = query.stream()
    stream.push(ROWS)
    stream.close()
    str(query.explain())


def pushed() -> Any:
    """Return a stream with rows."""
    stream = Query(window.tumbling(10), COUNT, time="t").stream()
    stream.push(ROWS)
    return stream


def option(name: str) -> Callable[[Any], None]:
    """Return what asks a query with one option replaced."""
    return lambda it: asked(Query(**{"windows": window.tumbling(10), "aggregates": COUNT, "time": "t", name: it}))


def of_window(make: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Return what asks for a window."""
    return lambda it: asked(Query(make(it), COUNT, time="t"))


def defined(it: Any, **facts: Any) -> None:
    """Define an aggregation, and ask for it."""

    class mine:  # as aggregations are named
        def lift(v: Any) -> Any:
            return v

        def combine(a: Any, b: Any) -> Any:
            return a + b

    name = next(iter(facts))
    made = agg.define(**{"state": "f8", **facts, name: it})(mine)
    Query(window.tumbling(10), {"a": made("v")}, time="t").run(ROWS)


def slid(name: str) -> Callable[[Any], None]:
    """Return what slides with one argument replaced."""

    def call(it: Any) -> None:
        given = {"values": np.arange(3.0), "aggregation": agg.sum("v"), "range": 2, name: it}
        slide(given.pop("values"), given.pop("aggregation"), **given)

    return call


def inserted() -> Any:
    """Return an aggregator with a row."""
    made = aggregators.TwoStacks(agg.sum("v"))
    made.insert(1, 1.0)
    return made


def stored(**options: Any) -> None:
    """Make a window in a store, and close it."""
    aggregators.MonoidTree(agg.sum("v"), **{"store": stores.Memory(), "compiled": False, **options}).close()


def cases() -> dict[str, Callable[[Any], Any]]:
    """Return calls that each take one argument."""
    frames = Query(window.trailing(10), COUNT, time="t")
    found: dict[str, Callable[[Any], Any]] = {
        f"Query({name}=)": option(name)
        for name in (
            *("windows", "aggregates", "key", "time", "watermark", "allowed_lateness", "partial", "emit_empty"),
            *("idle_timeout", "emit_early", "ordered"),
        )
    }
    found |= {
        f"slide({name}=)": slid(name)
        for name in inspect.signature(slide).parameters
        if name
        in ("values", "aggregation", "range", "slide", "times", "aggregator", "threads", "partial", "by", "closed")
    }
    found |= {
        f"Stream.{name}": lambda it, name=name: getattr(pushed(), name)(it)
        for name in ("push", "push_row", "advance", "add", "remove", "complete_from")
    }
    found |= {
        f"stream({name}=)": lambda it, name=name: Query(window.tumbling(10), COUNT, time="t").stream(**{name: it})
        for name in ("snapshot", "history", "strategy", "merge")
    }
    found |= {
        f"define({name}=)": lambda it, name=name: defined(it, **{name: it}) for name in ("state", "kind", "durations")
    }
    return found | {
        "run": frames.run,
        "over": frames.over,
        "over(at=)": lambda it: frames.over(ROWS, at=it),
        "tumbling": of_window(window.tumbling),
        "sliding(every=)": of_window(lambda it: window.sliding(10, every=it)),
        "session": of_window(window.session),
        "trailing(closed=)": of_window(lambda it: window.trailing(10, closed=it)),
        "calendar(zone=)": of_window(lambda it: window.calendar("1 day", zone=it)),
        "delta": of_window(lambda it: window.delta(it, 1.0)),
        "delta(range=)": of_window(lambda it: window.delta("v", it)),
        "rows": lambda it: window.tumbling(rows(it)),
        "define": agg.define(state="f8"),
        "by_type": lambda it: agg.by_type("x", any=it),
        "max": lambda it: option("aggregates")({"a": agg.max(it)}),
        "max(skip_nan=)": lambda it: option("aggregates")({"a": agg.max("v", skip_nan=it)}),
        "top_k(k=)": lambda it: option("aggregates")({"a": agg.top_k("v", it)}),
        "concat(separator=)": lambda it: option("aggregates")({"a": agg.concat("v", it)}),
        "bloom(bits=)": lambda it: option("aggregates")({"a": agg.bloom("v", it)}),
        "latest": muntin.latest,
        "warm": muntin.warm,
        "insert": lambda it: inserted().insert(it, 1.0),
        "insert a value": lambda it: inserted().insert(2, it),
        "bulk_insert": lambda it: inserted().bulk_insert(it, [1.0]),
        "MonoidTree(store=)": lambda it: aggregators.MonoidTree.open(it, "w", agg.sum("v")),
        "MonoidTree(chunk_pairs=)": lambda it: stored(chunk_pairs=it),
        "MonoidTree(patience=)": lambda it: stored(patience=it),
        "TwoStacks(dtype=)": lambda it: aggregators.TwoStacks(agg.sum("v"), dtype=it),
        "TwoStacks(nullable=)": lambda it: aggregators.TwoStacks(agg.sum("v"), nullable=it),
        "Fiba(min_arity=)": lambda it: aggregators.Fiba(agg.sum("v"), min_arity=it),
        "Boundary(threads=)": lambda it: aggregators.Boundary(agg.sum("v"), threads=it),
        "Enforced": lambda it: aggregators.Enforced(it, policies.at_most_rows(3)),
        "Enforced(policy=)": lambda it: aggregators.Enforced(aggregators.TwoStacks(agg.sum("v")), it),
        "register": aggregators.register,
        "laws.check": laws.check,
        "Redis": stores.Redis,
        "Lmdb": lambda it: stores.Lmdb(it) if not isinstance(it, str) else stores.Lmdb(None),  # type: ignore[arg-type]
        "restore": lambda it: aggregators.TwoStacks.restore(it, agg.sum("v")),
    }


@pytest.mark.parametrize("name", cases())
def test_nonsense_is_refused_in_our_own_words(name: str) -> None:
    call = cases()[name]
    refused = 0
    for it in NONSENSE:
        try:
            call(it)
        except MuntinError:
            refused += 1
        except Exception as error:  # noqa: BLE001  # the very point
            pytest.fail(f"{name} of {it!r}: {type(error).__name__}: {error}")
    assert refused > 3


def collecting(aggregation: Any, column: pa.Array) -> Any:
    """Return the answer for two rows."""
    table = pa.table({"t": [1, 2], "v": column})
    return Query(window.tumbling(10), {"it": aggregation}, time="t").run(table)["it"].to_pylist()


MAPS = pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64()))


@pytest.mark.parametrize("aggregation", [agg.collect("v"), agg.top_k("v", 1), agg.collect_distinct("v")], ids=repr)
def test_maps_are_refused_where_answers_would_have_no_type(aggregation: Any) -> None:
    with pytest.raises(ColumnTypeError, match=r"the column 'v' holds map<string, int64>.*take one of its values"):
        collecting(aggregation, MAPS)


def test_maps_and_lists_are_taken_where_they_can_be() -> None:
    assert collecting(agg.first("v"), MAPS) == [[("a", 1)]]
    lists = pa.array([[1, 2], [3]])
    assert collecting(agg.collect("v"), lists) == [[[1, 2], [3]]]
    with pytest.raises(ColumnTypeError, match="the column 'v' holds list<item: int64>"):
        collecting(agg.collect_distinct("v"), lists)


def test_a_lower_that_returns_none_among_numbers_says_so() -> None:
    @agg.define(state={"n": "i8", "total": "f8"})
    class half:
        def lift(v: Any) -> Any:
            return (1, v)

        def combine(a: Any, b: Any) -> Any:
            return (a.n + b.n, a.total + b.total)

        def lower(s: Any) -> Any:
            return (s.n, None)

    with pytest.raises(DefinitionError, match="one of several numbers cannot be None"):
        Query(window.tumbling(10), {"it": half("v")}, time="t").run(ROWS)


def test_results_of_no_type_say_so() -> None:
    @agg.define(state="object")
    class mixed:
        def lift(v: Any) -> Any:
            return [v]

        def combine(a: Any, b: Any) -> Any:
            return a + b

        def lower(s: Any) -> Any:
            return 1 if len(s) > 1 else object()

    with pytest.raises(ColumnTypeError, match="the results of windows make no Arrow column"):
        Query(window.tumbling(2), {"it": mixed("v")}, time="t").run(ROWS)


def test_a_misspelt_option_and_a_list_of_aggregates_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgumentError, match="a query has no option 'watermrak'.*watermark"):
        Query(window.tumbling(10), COUNT, watermrak=5)  # type: ignore[call-arg]  # the very mistake
    with pytest.raises(InvalidArgumentError, match="aggregates is .*; give names to them"):
        Query(window.tumbling(10), [agg.count()])  # type: ignore[arg-type]
