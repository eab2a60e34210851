"""The quantiles of the smoothest density that has given moments (Gan et al., moment-based quantile sketches).

Plain loops over small arrays: compiled into the kernels, and run as they stand where those are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

GRID = 128
ORDER = 10


def quantile_of_moments(low: float, high: float, n: float, powers: Any, logs: Any, q: float) -> float:
    """Return the q-quantile. On a logarithmic scale where the values span a factor of more than 100."""
    if not (high > low) or not math.isfinite(high) or not math.isfinite(low):
        return low if high == low else math.nan
    if low > 0.0 and high / low > 100.0:
        return math.exp(_quantile(math.log(low), math.log(high), n, logs, q))
    return _quantile(low, high, n, powers, q)


def _quantile(low: float, high: float, n: float, sums: Any, q: float) -> float:
    centre, radius = (low + high) / 2.0, (high - low) / 2.0
    wanted = _chebyshev_moments(centre, radius, n, sums)
    # Shifting raw moments to the centre cancels digits; higher orders than this hold noise (their section 4.3.2).
    usable = int(13.06 / (0.78 + math.log10(abs(centre) / radius + 1.0)))
    order = max(min(usable, ORDER), 2)
    density = np.ones(GRID)
    while order >= 2:
        if _fit(wanted, order, density):
            break
        order -= 2
    if order < 2:
        density[:] = 1.0
    return centre + radius * _invert_distribution(density, q)


def _chebyshev_moments(centre: float, radius: float, n: float, sums: Any) -> Any:
    """Return the mean of each Chebyshev polynomial over the values scaled to [-1, 1]."""
    scaled = np.zeros(ORDER + 1)
    for i in range(ORDER + 1):
        total, binomial = 0.0, 1.0
        for j in range(i + 1):
            raw = 1.0 if j == 0 else sums[j - 1] / n
            total += binomial * raw * (-centre) ** (i - j)
            binomial = binomial * (i - j) / (j + 1)
        scaled[i] = total / radius**i
    moments = np.zeros(ORDER + 1)
    before, current = np.zeros(ORDER + 1), np.zeros(ORDER + 1)
    before[0] = 1.0
    current[1] = 1.0
    moments[0], moments[1] = 1.0, scaled[1]
    for i in range(2, ORDER + 1):
        after = -before
        after[1:] += 2.0 * current[:-1]
        before, current = current, after
        moments[i] = (current * scaled).sum()
    return moments


def _polynomials(order: int) -> Any:
    values = np.ones((order + 1, GRID))
    for g in range(GRID):
        x = -1.0 + (2.0 * g + 1.0) / GRID
        values[1, g] = x
        for i in range(2, order + 1):
            values[i, g] = 2.0 * x * values[i - 1, g] - values[i - 2, g]
    return values


def _fit(wanted: Any, order: int, density: Any) -> bool:
    """Find by Newton's method the exponent whose density has the wanted moments; say whether it was found."""
    basis = _polynomials(order)
    size = order + 1
    weights = np.zeros(size)
    weights[0] = -math.log(2.0)
    potential = _evaluate(basis, weights, wanted, density)
    for _ in range(60):
        gradient = np.zeros(size)
        hessian = np.zeros((size, size))
        worst = 0.0
        for i in range(size):
            gradient[i] = (basis[i] * density).sum() * (2.0 / GRID) - wanted[i]
            worst = max(worst, abs(gradient[i]))
            for j in range(i + 1):
                hessian[i, j] = (basis[i] * basis[j] * density).sum() * (2.0 / GRID)
                hessian[j, i] = hessian[i, j]
            hessian[i, i] += 1e-12
        if worst < 1e-8:
            return True
        step = _solve(hessian, gradient)
        scale = 1.0
        while scale > 1e-4:
            moved = weights - scale * step
            tried = _evaluate(basis, moved, wanted, density)
            if tried < potential:
                break
            scale /= 2.0
        if scale <= 1e-4:
            _evaluate(basis, weights, wanted, density)
            return worst < 1e-4
        weights, potential = moved, tried
    return False


def _evaluate(basis: Any, weights: Any, wanted: Any, density: Any) -> float:
    """Fill in the density of an exponent and return the potential that Newton's method lowers."""
    total = 0.0
    for g in range(GRID):
        exponent = 0.0
        for i in range(len(weights)):
            exponent += weights[i] * basis[i, g]
        density[g] = math.exp(min(exponent, 300.0))
        total += density[g]
    dot = 0.0
    for i in range(len(weights)):
        dot += weights[i] * wanted[i]
    return total * (2.0 / GRID) - dot


def _solve(matrix: Any, right: Any) -> Any:
    """Solve a small symmetric system by elimination with row exchange."""
    n = len(right)
    a, x = matrix.copy(), right.copy()
    for i in range(n):
        pivot = i
        for r in range(i + 1, n):
            if abs(a[r, i]) > abs(a[pivot, i]):
                pivot = r
        if pivot != i:
            for c in range(n):
                a[i, c], a[pivot, c] = a[pivot, c], a[i, c]
            x[i], x[pivot] = x[pivot], x[i]
        if a[i, i] == 0.0:
            continue
        for r in range(i + 1, n):
            factor = a[r, i] / a[i, i]
            for c in range(i, n):
                a[r, c] -= factor * a[i, c]
            x[r] -= factor * x[i]
    for i in range(n - 1, -1, -1):
        for c in range(i + 1, n):
            x[i] -= a[i, c] * x[c]
        x[i] = x[i] / a[i, i] if a[i, i] != 0.0 else 0.0
    return x


def _invert_distribution(density: Any, q: float) -> float:
    """Return where in [-1, 1] the density has passed the share q."""
    total = density.sum()
    below = 0.0
    for g in range(GRID):
        if below + density[g] >= q * total:
            inside = (q * total - below) / density[g] if density[g] > 0.0 else 0.0
            return -1.0 + (g + inside) * 2.0 / GRID
        below += density[g]
    return 1.0
