"""The same max written by a user with `agg.define`, over the built-in: at most 1.05 times its time.

Two spellings: the plain one that a user would write, and one with everything in the built-in's source.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from harness import OURS, Entrant, Figure, check_entrants, race, rounds_for, rows_for

import muntin
from muntin import agg

ROWS = 10_000_000


@agg.define(state="f8", commutative=True)
class plain_max:
    """The greatest number."""

    def lift(v):
        return v

    def combine(a, b):
        return b if b > a else a  # noqa: FURB136  # as the built-in has it: max() treats NaN otherwise

    def neutral():
        return -math.inf


@agg.define(state="v", commutative=True, selective=True)
class full_max:
    """The greatest value, NaN above all numbers."""

    def lift(v):
        return v

    def combine(a, b, *, has_nan):
        return b if b > a or (has_nan and b != b) else a

    def neutral(*, lowest):
        return lowest


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures."""
    rows = rows_for(quick, ROWS)
    values = np.random.default_rng(5).standard_normal(rows)
    factories = {f"{OURS}, agg.max": agg.max, "plain_max": plain_max, "full_max": full_max}
    for width in (16, 1024):
        entrants = [
            Entrant(name, lambda f=factory, w=width: muntin.slide(values, f("v"), range=w), rows)
            for name, factory in factories.items()
        ]
        check_entrants(entrants, "own_aggregation")
        times = race(entrants, rounds_for(quick, 15))
        built_in, *own = times
        for name in own:
            what = f"{name} over the built-in, range {width}"
            pair = {name: times[name], built_in: times[built_in]}
            value = times[name].median / times[built_in].median
            yield Figure("own_aggregation", what, value, 1.05, False, "", pair)
