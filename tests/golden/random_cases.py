"""Random streams, the same for the same number, whichever version of muntin draws them."""

from __future__ import annotations

import random
from typing import Any

from golden.cases import Call, Case, Marked, Shifts, some_rows

from muntin import Query, agg, policies, rows, window

WINDOWS = (
    window.tumbling(4),
    window.tumbling(7),
    window.sliding(6, every=2),
    window.sliding(5, every=3),
    window.cumulative(6, every=2),
    window.session(2),
    window.session(5),
    window.trailing(4),
    window.trailing(6, closed="left"),
    window.trailing(3, delay=2),
    window.trailing(8, hop=2),
    window.trailing(6, hop=3),
    window.leading(3),
    window.frame(3, 2),
    window.trailing(rows(3)),
    window.trailing(rows(2), delay=rows(1)),
    window.leading(rows(2)),
    window.frame(rows(2), rows(1)),
    window.tumbling(rows(3)),
    window.tumbling(rows(1)),
    window.sliding(rows(5), every=rows(2)),
    window.sliding(rows(4), every=rows(4)),
    window.sliding(rows(3), every=4),
    window.delta("km", 6.0, every=2.0),
    window.delta("w", 3, every=2),
    window.punctuated("mark"),
    window.policy(policies.at_most_rows(3)),
    window.policy(policies.sum_at_most("w", 9)),
    Marked(),
    Shifts(),
)
AGGREGATES = (
    agg.count(),
    agg.count("v"),
    agg.sum("v"),
    agg.sum("w"),
    agg.min("v"),
    agg.max("v"),
    agg.min("w"),
    agg.max("w"),
    agg.mean("v"),
    agg.std_pop("v"),
    agg.first("w"),
    agg.last("v"),
    agg.collect("w"),
    agg.concat("name"),
    agg.max("name"),
    agg.median("v"),
    agg.quantile("w", 0.75),
    agg.count_distinct("w"),
    agg.collect_distinct("name"),
    agg.top_k("w", 2),
    agg.arg_max("v", "name"),
    agg.sum("w", where="mark"),
    agg.count("v", where="mark"),
)


def random_case(seed: int) -> Case:
    """Return a random stream of one to three windows and one to four aggregates."""
    chance = random.Random(seed)
    windows = [chance.choice(WINDOWS) for _ in range(chance.choice([1, 1, 1, 2, 3]))]
    aggregates = {f"a{i}": each for i, each in enumerate(chance.sample(AGGREGATES, chance.choice([1, 2, 2, 3, 4])))}
    options: dict[str, Any] = {
        "time": "t",
        "key": chance.choice([(), "k", ("k", "j")]),
        "watermark": chance.choice([0, 2, 4]),
        "allowed_lateness": chance.choice([0, 0, 3, 8]),
    }
    further = chance.choice(["", "", "", "partial", "empty", "early", "early"])
    if further == "partial":
        options["partial"] = True
    elif further == "empty":
        options["emit_empty"] = True
    elif further == "early":
        options["emit_early"] = chance.choice([2, 5])
    at, calls = 100, []
    for _ in range(chance.randint(2, 6)):
        if chance.random() < 0.2:
            calls.append(("advance", at - chance.randint(0, 4)))
        else:
            count = chance.randint(1, 9)
            calls.append(("push", some_rows(chance.randint(0, 10**6), at, count, late=chance.choice([2, 6, 15]))))
            at += count // 2 + chance.choice([0, 0, 1, 4])
    cut = chance.randint(1, len(calls) - 1)
    before: tuple[Call, ...] = tuple(calls[:cut])
    return Case(Query(windows, aggregates, **options), before, tuple(calls[cut:]))
