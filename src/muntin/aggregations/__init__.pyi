from typing import Any

from muntin.aggregations.aggregation import Aggregation as Aggregation
from muntin.aggregations.arithmetic import count as count
from muntin.aggregations.define import Factory as Factory
from muntin.aggregations.define import by_type as by_type
from muntin.aggregations.define import define as define
from muntin.aggregations.per import per as per
from muntin.aggregations.sketches import bloom_contains as bloom_contains
from muntin.kernels.runtime import hash64 as hash64

# `define` turns a class into a Factory, which type checkers cannot see of a class decorator. What each takes is said
# here for them and for editors; a test compares it with the definitions.

class _OfColumn(Factory):
    def __call__(  # type: ignore[override]
        self, v: str, *, skip_nan: bool = ..., where: str | None = ...
    ) -> Aggregation: ...

class _Arg(Factory):
    def __call__(  # type: ignore[override]
        self, by: str, value: str, *, skip_nan: bool = ..., where: str | None = ...
    ) -> Aggregation: ...

class _OfTwo(Factory):
    def __call__(  # type: ignore[override]
        self, x: str, y: str, *, skip_nan: bool = ..., where: str | None = ...
    ) -> Aggregation: ...

class _Bloom(Factory):
    def __call__(  # type: ignore[override]
        self, v: str, bits: int = 1024, hashes: int = 4, *, skip_nan: bool = ..., where: str | None = ...
    ) -> Aggregation: ...

class _Concat(Factory):
    def __call__(  # type: ignore[override]
        self, v: str, separator: str = "", *, skip_nan: bool = ..., where: str | None = ...
    ) -> Aggregation: ...

class _EwmMean(Factory):
    def __call__(  # type: ignore[override]
        self, v: str, half_life: Any, *, skip_nan: bool = ..., where: str | None = ...
    ) -> Aggregation: ...

class _Histogram(Factory):
    def __call__(  # type: ignore[override]
        self, v: str, edges: Any, *, skip_nan: bool = ..., where: str | None = ...
    ) -> Aggregation: ...

class _Hyperloglog(Factory):
    def __call__(  # type: ignore[override]
        self, v: str, precision: int = 12, *, skip_nan: bool = ..., where: str | None = ...
    ) -> Aggregation: ...

class _MomentSketch(Factory):
    def __call__(  # type: ignore[override]
        self, v: str, q: float = 0.5, *, skip_nan: bool = ..., where: str | None = ...
    ) -> Aggregation: ...

class _Quantile(Factory):
    def __call__(  # type: ignore[override]
        self, v: str, q: float, *, skip_nan: bool = ..., where: str | None = ...
    ) -> Aggregation: ...

class _Regression(Factory):
    def __call__(  # type: ignore[override]
        self, y: str, x: str, *, skip_nan: bool = ..., where: str | None = ...
    ) -> Aggregation: ...

class _TopK(Factory):
    def __call__(  # type: ignore[override]
        self, v: str, k: int, *, skip_nan: bool = ..., where: str | None = ...
    ) -> Aggregation: ...

all: _OfColumn
any: _OfColumn
arg_max: _Arg
arg_min: _Arg
bit_and: _OfColumn
bit_or: _OfColumn
bit_xor: _OfColumn
bloom: _Bloom
bottom_k: _TopK
collect: _OfColumn
collect_distinct: _OfColumn
concat: _Concat
correlation: _OfTwo
count_distinct: _OfColumn
covariance: _OfTwo
ewm_mean: _EwmMean
first: _OfColumn
first_k: _TopK
geometric_mean: _OfColumn
histogram: _Histogram
hyperloglog: _Hyperloglog
kurtosis: _OfColumn
last: _OfColumn
last_k: _TopK
linear_regression: _Regression
longest_increasing_run: _OfColumn
m4: _OfColumn
max: _OfColumn
max_count: _OfColumn
mean: _OfColumn
median: _OfColumn
min: _OfColumn
min_count: _OfColumn
mode: _OfColumn
moment_sketch: _MomentSketch
product: _OfColumn
quantile: _Quantile
range: _OfColumn
skewness: _OfColumn
std: _OfColumn
std_pop: _OfColumn
sum: _OfColumn
time_weighted_mean: _OfColumn
top_k: _TopK
var: _OfColumn
var_pop: _OfColumn
