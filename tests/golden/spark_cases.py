"""Queries on Spark whose checkpoints lie in this folder."""

from __future__ import annotations

from golden.cases import AFTER, BEFORE, EXTREMES, NUMBERS, VALUES, Case

from muntin import Query, agg, rows, window

_SPARK_AFTER = tuple(call for call in AFTER if call[0] == "push")


def _case(windows: object, aggregates: dict[str, object], key: object) -> Case:
    query = Query(windows, aggregates, key=key, time="t", watermark=2, allowed_lateness=6)
    return Case(query, BEFORE, _SPARK_AFTER)


SPARK_CASES = {
    "slices": _case(
        [window.sliding(6, every=2), window.session(3)], {**NUMBERS, **EXTREMES, "all": agg.collect("v")}, ["k", "j"]
    ),
    "rows": _case(
        [window.trailing(4), window.tumbling(rows(4)), window.punctuated("mark")], {**NUMBERS, **VALUES}, "k"
    ),
}
