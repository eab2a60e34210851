"""An aggregation of one's own, in ten lines: how evenly something draws power."""

from muntin import aggregations as agg


@agg.define(state={"n": "i8", "total": "f8", "peak": "f8"}, commutative=True)
class load_factor:
    """The mean over the peak: 1 where it is always the same, near 0 where there are rare peaks."""

    def lift(v):
        return (1, v, v)

    def combine(a, b):
        return (a.n + b.n, a.total + b.total, max(a.peak, b.peak))

    def lower(s):
        return s.total / (s.n * s.peak) if s.peak > 0 else None
