"""muntin: sliding-window aggregation at machine speed.

`import muntin` loads nothing but this file: each name brings the modules that it needs when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from muntin._version import __version__

if TYPE_CHECKING:
    from muntin import aggregations as agg
    from muntin import aggregators, errors, metrics, policies, serving, spark, stores
    from muntin import windows as window
    from muntin.arrays.slide import explain, slide
    from muntin.kernels.folder import cache_info, clear_cache
    from muntin.plotting import plot
    from muntin.query.query import ProcessingTime, Query
    from muntin.showing import show
    from muntin.statements.sql import sql
    from muntin.streams.adopting import can_adopt
    from muntin.streams.snapshots import migrate
    from muntin.tables.latest import latest
    from muntin.warming import warm
    from muntin.watching.watch import watch
    from muntin.windows import rows

__all__ = [
    "ProcessingTime",
    "Query",
    "__version__",
    "agg",
    "aggregators",
    "cache_info",
    "can_adopt",
    "clear_cache",
    "errors",
    "explain",
    "latest",
    "metrics",
    "migrate",
    "plot",
    "policies",
    "rows",
    "serving",
    "show",
    "slide",
    "spark",
    "sql",
    "stores",
    "warm",
    "watch",
    "window",
]

_MODULES = {"agg": "aggregations", "window": "windows"} | {
    name: name for name in ("aggregators", "errors", "metrics", "policies", "serving", "spark", "stores")
}
"""Names that are modules."""
_MEMBERS = {
    "ProcessingTime": "query.query",
    "Query": "query.query",
    "cache_info": "kernels.folder",
    "can_adopt": "streams.adopting",
    "clear_cache": "kernels.folder",
    "explain": "arrays.slide",
    "latest": "tables.latest",
    "migrate": "streams.snapshots",
    "plot": "plotting",
    "rows": "windows",
    "show": "showing",
    "slide": "arrays.slide",
    "sql": "statements.sql",
    "warm": "warming",
    "watch": "watching.watch",
}
"""The modules that the other names are found in."""


if not TYPE_CHECKING:  # a type checker should refuse other names, too

    def __getattr__(name: str) -> Any:
        """Load what a name stands for; from then on it is there."""
        if name in _MODULES:
            found: Any = import_module(f"muntin.{_MODULES[name]}")
        elif name in _MEMBERS:
            found = getattr(import_module(f"muntin.{_MEMBERS[name]}"), name)
        else:
            from muntin.suggestions import MUNTIN, no_attribute

            raise no_attribute("muntin", name, __all__, MUNTIN)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return [*__all__]
