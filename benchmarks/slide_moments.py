"""`slide` mean and std by rows, slide 1, one thread, against the fastest library that is as accurate: at least 2 times.

Speed bought with drift does not count, so the greatest error of each library is measured first, over sampled windows,
on two data sets: standard normal values, and an offset of 1e8 with rare spikes from 1e9 to 1e12 of both signs (an
algorithm that subtracts what leaves the window may keep a spike's rounding error forever). The reference is
`math.fsum`, for std over deviations from the mean, corrected for that mean's own rounding: off by a few units of 2^-53.
The error of a mean is relative to the mean of |x| in the window, that of a std to the std itself.

A library is a rival if at every range and on both data sets its error is at most 10 times muntin's plus 100 times
2^-52. If no library is, the rivals are the most accurate one and those whose worst error is at most twice as large: the
figure then compares with less accurate code, and its note says so. All are shown. Times are for the normal data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from harness import OURS, Entrant, Figure, against_fastest, check_entrants, rounds_for, rows_for
from libraries import Contest

NAMES = ("mean", "std")
RANGES = (16, 1024, 32768, 1048576)
ROWS = 10_000_000
SPIKES = 200
SAMPLED_VALUES = 8_000_000
"""The most values in all sampled windows of one range."""
FACTOR, SLACK = 10.0, 100.0 * 2.0**-52


def run(quick: bool) -> Iterator[Figure]:
    """Yield the figures: first all errors, then the races."""
    rows = rows_for(quick, ROWS)
    normal, spiky, spikes = _data(rows)
    contests = [Contest(normal), Contest(spiky)]
    ranges = [width for width in RANGES if width < rows]
    errors: dict[tuple[str, int], list[dict[str, float]]] = {}
    for width in ranges:
        ends = _sample(rows, width, spikes)
        references = [_reference(each.values, width, ends) for each in contests]
        for name in NAMES:
            errors[name, width] = [
                _errors(each.entrants(name, width), name, reference, ends)
                for each, reference in zip(contests, references, strict=True)
            ]
    for name in NAMES:
        rivals, note = _rivals([found for width in ranges for found in errors[name, width]])
        for width in ranges:
            what = f"{name}, range {width}, {rows / 1e6:g} M rows"
            entrants = [_judged(each, errors[name, width], rivals) for each in contests[0].entrants(name, width)]
            check_entrants(entrants, what, skip=2, rtol=1e-5)
            yield against_fastest("slide_moments", what, entrants, target=2.0, rounds=rounds_for(quick, 5), note=note)


def _data(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(2)
    normal = random.standard_normal(rows)
    spiky = 1e8 + random.standard_normal(rows)
    spikes = np.sort(random.choice(rows, SPIKES, replace=False))
    spiky[spikes] += 10.0 ** random.uniform(9.0, 12.0, SPIKES) * random.choice([-1.0, 1.0], SPIKES)
    return normal, spiky, spikes


def _sample(rows: int, width: int, spikes: np.ndarray) -> np.ndarray:
    """Choose the last rows of windows: at random, at the very end, and where a spike has just left."""
    count = max(8, min(400, SAMPLED_VALUES // width))
    anywhere = np.random.default_rng(3).integers(width, rows, count // 2)
    after = spikes[spikes + width < rows] + width
    after = after[:: max(1, len(after) // max(1, count // 2))]
    return np.unique(np.concatenate((anywhere, after, [rows - 1])))


def _reference(values: np.ndarray, width: int, ends: np.ndarray) -> Mapping[str, np.ndarray]:
    """Return the true mean and std of the sampled windows, and the scale of the values."""
    rows = []
    for end in ends:
        window = values[end - width + 1 : end + 1]
        mean = math.fsum(window.tolist()) / width
        off = window - mean
        squares = math.fsum((off * off).tolist()) - math.fsum(off.tolist()) ** 2 / width
        rows.append((mean, math.sqrt(squares / (width - 1)), float(np.abs(window).mean())))
    mean_, std, scale = np.array(rows).T
    return {"mean": mean_, "std": std, "scale": scale}


def _errors(
    entrants: list[Entrant], name: str, reference: Mapping[str, np.ndarray], ends: np.ndarray
) -> dict[str, float]:
    """Return the greatest error of each library over its sampled windows."""
    scale = reference["scale" if name == "mean" else "std"]
    found = {}
    for each in entrants:
        here = ends < each.rows
        got: Any = np.asarray(each.run(), dtype=np.float64)[ends[here]]
        error = np.abs(got - reference[name][here]) / scale[here]
        found[each.name] = float(np.max(np.where(np.isnan(error), np.inf, error), initial=0.0))
    return found


def _rivals(errors: list[dict[str, float]]) -> tuple[set[str], str]:
    """Return the libraries as accurate as muntin, or else the most accurate ones, and which case it is."""
    libraries = set(errors[0]) - {OURS, "duckdb"}
    accurate = {each for each in libraries if all(e[each] <= FACTOR * e[OURS] + SLACK for e in errors)}
    if accurate:
        return accurate, "the error on normal / spiky data is beside each; rivals are as accurate as muntin"
    worst = {each: max(e[each] for e in errors) for each in libraries}
    nearest = {each for each in libraries if worst[each] <= 2.0 * min(worst.values())}
    return nearest, "the error on normal / spiky data is beside each; none is as accurate, rivals are the most accurate"


def _judged(entrant: Entrant, errors: list[dict[str, float]], rivals: set[str]) -> Entrant:
    """Return the entrant with its errors in the note, as a rival only if accurate."""
    shown = " / ".join(f"{found[entrant.name]:.0e}" for found in errors)
    note = ", ".join(filter(None, (f"error {shown}", entrant.note)))
    return replace(entrant, note=note, rival=entrant.name in rivals or entrant.name == OURS)
