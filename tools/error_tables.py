"""Writes the errors of moments into docs/numerics.md, beside those of two passes by NumPy: `tools/error_tables.py`.

10,000 values with a spread of 1e-3 at an offset, windows of 1,000 rows. The truth is computed in rational numbers and
decimals of 50 digits from the values as they are, rounded to float64. An error is the greatest over sampled windows,
relative to the answer. Two passes are what most programs do with a window at hand: the mean, and then sums of powers of
the deviations from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from pages import rewritten

from muntin import agg, slide

PAGE = Path(__file__).parent.parent / "docs" / "numerics.md"
BEGIN, END = "<!-- errors: begin -->", "<!-- errors: end -->"
OFFSETS = (1e3, 1e6, 1e9)
ROWS, WIDTH, SAMPLES = 10_000, 1_000, 12
EXACT = Context(prec=50)

Columns = Mapping[str, np.ndarray]


def decimal(value: Fraction) -> Decimal:
    """Return a rational number as a decimal of 50 digits."""
    return EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))


def truths(x: list[float], y: list[float]) -> dict[str, Decimal]:
    """Return what is to be found of one window."""
    n = len(x)
    xs, ys = [Fraction(v) for v in x], [Fraction(v) for v in y]
    mean_x, mean_y = sum(xs) / n, sum(ys) / n
    off_x, off_y = [v - mean_x for v in xs], [v - mean_y for v in ys]
    m2, m3, m4 = (sum((v**k for v in off_x), Fraction(0)) for k in (2, 3, 4))
    m2_y = sum((v * v for v in off_y), Fraction(0))
    cross = sum((a * b for a, b in zip(off_x, off_y, strict=True)), Fraction(0))
    root = EXACT.sqrt(decimal(m2))
    return {
        "mean": decimal(mean_x),
        "var": decimal(m2 / (n - 1)),
        "skewness": EXACT.divide(
            EXACT.multiply(EXACT.sqrt(Decimal(n)), decimal(m3)), EXACT.multiply(decimal(m2), root)
        ),
        "kurtosis": decimal(n * m4 / (m2 * m2) - 3),
        "covariance": decimal(cross / (n - 1)),
        "correlation": EXACT.divide(decimal(cross), EXACT.multiply(root, EXACT.sqrt(decimal(m2_y)))),
        "slope of y on x": decimal(cross / m2),
    }


def two_passes(x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the same by NumPy, with the mean first."""
    n = len(x)
    off_x, off_y = x - x.mean(), y - y.mean()
    m2, cross = (off_x**2).sum(), (off_x * off_y).sum()
    return {
        "mean": x.mean(),
        "var": m2 / (n - 1),
        "skewness": np.sqrt(n) * (off_x**3).sum() / m2**1.5,
        "kurtosis": n * (off_x**4).sum() / m2**2 - 3,
        "covariance": cross / (n - 1),
        "correlation": cross / np.sqrt(m2 * (off_y**2).sum()),
        "slope of y on x": cross / m2,
    }


def slid(columns: Columns, aggregator: str) -> dict[str, np.ndarray]:
    """Return the same by `slide`, for all windows."""
    one = {name: getattr(agg, name)("x") for name in ("mean", "var", "skewness", "kurtosis")}
    two = {name: getattr(agg, name)("x", "y") for name in ("covariance", "correlation")}
    answers = {name: slide(columns, each, range=WIDTH, aggregator=aggregator) for name, each in {**one, **two}.items()}
    line = slide(columns, agg.linear_regression("y", "x"), range=WIDTH, aggregator=aggregator)
    return {**answers, "slope of y on x": line["slope"]}


def errors(offset: float) -> dict[str, dict[str, float]]:
    """Return for each aggregation the greatest relative error of each way to compute it."""
    random = np.random.default_rng(1)
    x = random.exponential(1e-3, ROWS) + offset
    columns = {"x": x, "y": 0.5 * (x - offset) + random.exponential(1e-3, ROWS) - offset}
    ways: dict[str, Callable[[int, str], Any]] = {}
    for title, aggregator in (("`slide` by rows", "prefix_sums"), ("merged states", "two_stacks")):
        found = slid(columns, aggregator)
        ways[title] = lambda end, name, found=found: found[name][end]
    passes = {}
    worst: dict[str, dict[str, float]] = {}
    for end in random.integers(WIDTH, ROWS, SAMPLES).tolist():
        window = slice(end - WIDTH + 1, end + 1)
        passes[end] = two_passes(columns["x"][window], columns["y"][window])
        ways["two passes"] = lambda end, name: passes[end][name]
        for name, truth in truths(columns["x"][window].tolist(), columns["y"][window].tolist()).items():
            for title, way in ways.items():
                off = abs(Decimal(float(way(end, name))) / truth - 1)
                known = worst.setdefault(name, {})
                known[title] = max(known.get(title, 0.0), float(off))
    return worst


def table() -> str:
    """Return the table as Markdown."""
    found = {offset: errors(offset) for offset in OFFSETS}
    ways = list(next(iter(found[OFFSETS[0]].values())))
    lines = [
        "| relative error at offset 1e3 / 1e6 / 1e9 | " + " | ".join(ways) + " |",
        "| --- " * (len(ways) + 1) + "|",
    ]
    for name in found[OFFSETS[0]]:
        cells = [" / ".join(f"{found[offset][name][way]:.0e}" for offset in OFFSETS) for way in ways]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Put the table into the page."""
    PAGE.write_text(rewritten(PAGE, BEGIN, END, f"\n{table()}\n"))


if __name__ == "__main__":
    main()
