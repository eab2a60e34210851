"""The query whose features are published and asked for by programs of their own."""

from __future__ import annotations

from muntin import Query, agg, window

QUERY = Query(
    {
        "hour": window.trailing("1 hour"),
        "day": window.trailing("1 day", hop="10 minutes"),
        "ten": window.trailing("10 minutes", closed="left"),
    },
    {"n": agg.count(), "spent": agg.sum("amount"), "high": agg.max("amount")},
    key="card",
    time="ts",
    watermark="20 minutes",
)
