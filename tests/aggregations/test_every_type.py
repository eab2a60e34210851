"""Every aggregation over every type it takes: plain, compiled, and beside a column of 64 bits.

The table is made by asking each aggregation which families of types it has definitions for.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from muntin import agg, slide
from muntin.aggregations.aggregation import Aggregation
from muntin.aggregations.binding import bind
from muntin.aggregations.define import Factory
from muntin.errors import ColumnTypeError
from muntin.kernels.cache import uncompiled
from muntin.types import column_type

NUMBERS = [
    *(pa.bool_(), pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
]
TIMES = [pa.date32(), pa.date64(), pa.time32("ms"), pa.time64("us"), pa.timestamp("us", "UTC"), pa.duration("ms")]
OTHERS = [pa.decimal128(20, 3), pa.string(), pa.binary()]
TYPES = [*NUMBERS, *TIMES, *OTHERS]
WORDS = {pa.time32("ms"): pa.int32(), pa.decimal128(20, 3): pa.int32()}
"""From which integers Arrow makes values of a type, if not from 64 bits."""
ROWS, WIDTH = 24, 3
PARAMETERS = {
    "half_life": 3,
    "q": 0.3,
    "k": 2,
    "bits": 64,
    "hashes": 2,
    "precision": 4,
    "separator": "-",
    "edges": [3, 30],
}
COSTLY = {"moment_sketch": ("int8", "float")}
"""It takes four seconds to compile, and as long for the answers here. Only `lift` meets the type: one of each kind."""


def takes(factory: Factory, kind: pa.DataType) -> bool:
    try:
        factory.definition(column_type(kind).family, "v", kind)
    except ColumnTypeError:
        return False
    return True


def aggregations(kind: pa.DataType) -> dict[str, Aggregation]:
    """Every built-in aggregation that takes columns of a type."""
    made: dict[str, Aggregation] = {"count": agg.count("v")}
    for name in agg.__all__:
        factory = getattr(agg, name)
        if isinstance(factory, Factory) and takes(factory, kind):
            given = {key: PARAMETERS[key] for key in factory.first.parameters}
            made[name] = factory(*len(factory.first.columns) * ["v"], **given)
    return made


def compiles(aggregation: Aggregation, kind: pa.DataType) -> bool:
    """Whether its state is a record of numbers, so that it can be fused with others and compiled."""
    return bind({"it": aggregation}, {"v": column_type(kind)}, nullable=False, gaps=False).compiled


def values(kind: pa.DataType) -> pa.Array:
    random = np.random.default_rng(5)
    if pa.types.is_floating(kind):
        cells = np.concatenate([[np.nan, np.inf, 0.0, -0.0], random.uniform(-9, 99, ROWS - 4)])
        return pa.array(cells.astype(kind.to_pandas_dtype()))
    if pa.types.is_integer(kind):
        info = np.iinfo(kind.to_pandas_dtype())
        most = min(int(info.max), 2**61)  # whose sums fit int64
        cells = random.integers(max(int(info.min), -most), most, ROWS, dtype=kind.to_pandas_dtype(), endpoint=True)
        return pa.array(np.concatenate([cells[2:], [most, 0]]).astype(cells.dtype))
    small = pa.array(random.integers(0, 2 if pa.types.is_boolean(kind) else 60, ROWS), pa.int32())
    if pa.types.is_binary(kind):
        return small.cast(pa.string()).cast(kind)
    days = pa.types.is_date32(kind) or pa.types.is_date64(kind)
    return small.cast(pa.date32()).cast(kind) if days else small.cast(WORDS.get(kind, pa.int64())).cast(kind)


def answers(column: pa.Array, asked: dict[str, Aggregation], aggregator: str) -> pa.Table:
    return slide(pa.table({"v": column}), asked, range=WIDTH, aggregator=aggregator)


def groups(kind: pa.DataType) -> dict[str, dict[str, Aggregation]]:
    """What is fused into one kernel, and what has loops, or objects, of its own."""
    made = {name: each for name, each in aggregations(kind).items() if str(kind) in COSTLY.get(name, (str(kind),))}
    fused = {name: each for name, each in made.items() if compiles(each, kind)}
    return {"recalculate": fused, "auto": {name: each for name, each in made.items() if name not in fused}}


def test_the_table_is_whole() -> None:
    known = {str(kind): set(aggregations(kind)) for kind in TYPES}
    assert set.union(*known.values()) == {name for name in agg.__all__ if isinstance(getattr(agg, name), Factory)} | {
        "count"
    }
    assert {"sum", "median", "kurtosis"} <= known["bool"] & known["uint8"] & known["halffloat"] & known["double"]
    assert "median" not in known["timestamp[us, tz=UTC]"]


@pytest.mark.parametrize("kind", NUMBERS, ids=str)
def test_a_narrow_column_is_answered_as_a_wide_one(kind: pa.DataType) -> None:
    """But for answers of the column's own type, which are rounded to it."""
    wide = pa.float64() if pa.types.is_floating(kind) else kind if pa.types.is_uint64(kind) else pa.int64()
    column = values(kind)
    for aggregator, asked in groups(kind).items():
        narrow = answers(column, asked, aggregator)
        beside = answers(column.cast(pa.float32() if kind == pa.float16() else wide).cast(wide), asked, aggregator)
        for name in asked.keys() - ({"concat"} if pa.types.is_boolean(kind) else set()):  # True and 1 are other texts
            rounded = beside[name].combine_chunks().cast(narrow[name].type)
            assert repr(narrow[name].to_pylist()) == repr(rounded.to_pylist()), name


@pytest.mark.compiled
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_compiled_and_plain_answers_are_equal(kind: pa.DataType) -> None:
    column = values(kind)
    for aggregator, asked in groups(kind).items():
        if not asked:  # of decimals and texts nothing is a record of numbers
            continue
        with uncompiled():
            plain = answers(column, asked, aggregator)
        compiled = answers(column, asked, aggregator)
        assert compiled.schema == plain.schema
        for name in asked:
            if name in COSTLY:  # its answers are iterated, until they no longer change much
                ours, theirs = (np.array(each[name].to_pylist(), float) for each in (compiled, plain))
                assert np.allclose(ours, theirs, rtol=1e-7, equal_nan=True), name
            else:
                assert repr(compiled[name].to_pylist()) == repr(plain[name].to_pylist()), name
