from muntin.aggregations.aggregation import Aggregation as Aggregation
from muntin.aggregations.arithmetic import count as count
from muntin.aggregations.define import Factory as Factory
from muntin.aggregations.define import by_type as by_type
from muntin.aggregations.define import define as define
from muntin.aggregations.sketches import bloom_contains as bloom_contains
from muntin.kernels.runtime import hash64 as hash64

# `define` turns each of these classes into a Factory, which type checkers cannot see of a class decorator.
all: Factory
any: Factory
arg_max: Factory
arg_min: Factory
bit_and: Factory
bit_or: Factory
bit_xor: Factory
bloom: Factory
collect: Factory
collect_distinct: Factory
concat: Factory
correlation: Factory
count_distinct: Factory
covariance: Factory
ewm_mean: Factory
first: Factory
geometric_mean: Factory
hyperloglog: Factory
kurtosis: Factory
last: Factory
linear_regression: Factory
longest_increasing_run: Factory
m4: Factory
max: Factory
max_count: Factory
mean: Factory
median: Factory
min: Factory
min_count: Factory
moment_sketch: Factory
product: Factory
quantile: Factory
range: Factory
skewness: Factory
std: Factory
std_pop: Factory
sum: Factory
time_weighted_mean: Factory
top_k: Factory
var: Factory
var_pop: Factory
