"""Names that are wrong: what is raised, and which name it suggests."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pyarrow as pa
import pytest

import muntin
from muntin import Query, agg, suggestions, window
from muntin.errors import ColumnError, DefinitionError, InvalidArgumentError, MuntinError


def test_every_suggested_name_is_there_and_every_wrong_one_is_not() -> None:
    for module, meant in ((agg, suggestions.AGGREGATIONS), (window, suggestions.WINDOWS), (muntin, suggestions.MUNTIN)):
        for wrong, right in meant.items():
            assert right in module.__all__
            assert wrong not in module.__all__


@pytest.mark.parametrize(
    ("module", "wrong", "message"),
    [
        (agg, "avg", "there is no agg.avg; did you mean agg.mean?"),
        (agg, "average", "did you mean agg.mean?"),
        (agg, "stdev", "did you mean agg.std?"),
        (agg, "stddev", "did you mean agg.std?"),
        (agg, "Stddev_Pop", "did you mean agg.std_pop?"),
        (agg, "quantil", "did you mean agg.quantile?"),
        (agg, "collect_set", "did you mean agg.collect_distinct?"),
        (window, "rolling", "there is no window.rolling; did you mean window.trailing?"),
        (window, "expanding", "there is no window.expanding; did you mean window.lifetime?"),
        (window, "hop", "did you mean window.sliding?"),
        (window, "tumble", "did you mean window.tumbling?"),
        (window, "sesion", "did you mean window.session?"),
        (window, "context_free", "did you mean window.ContextFree?"),
        (window, "xyzzy", "there is no window.xyzzy; there are Context"),
        (muntin, "Qurey", "there is no muntin.Qurey; did you mean muntin.Query?"),
        (muntin, "aggregation", "did you mean muntin.aggregators?"),
    ],
)
def test_attributes(module: object, wrong: str, message: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(module, wrong)
    assert message in str(caught.value)
    assert not hasattr(module, wrong)


def test_names_that_python_asks_for_are_not_guessed() -> None:
    with pytest.raises(AttributeError, match="^module 'agg' has no attribute '__wrapped__'$"):
        agg.__wrapped__  # noqa: B018


def test_a_misspelt_option_of_a_query() -> None:
    good = Query(window.tumbling(5), {"n": agg.count()}, time="t")
    for wrong, right in {"windws": "windows", "window": "windows", "aggs": "aggregates", "keys": "key"}.items():
        with pytest.raises(InvalidArgumentError, match=f"a query has no option '{wrong}'; did you mean {right}[?]"):
            Query(window.tumbling(5), {"n": agg.count()}, **{wrong: 1})
    with pytest.raises(InvalidArgumentError, match="'zzz'; there are aggregates, allowed_lateness"):
        dataclasses.replace(good, zzz=1)
    assert copy.copy(good) == good
    assert dataclasses.replace(good, time="ts").time == "ts"
    assert pickle.loads(pickle.dumps(good.windows)) == good.windows


def test_aggregates_without_names() -> None:
    with pytest.raises(InvalidArgumentError, match="aggregates is .*; give names to them"):
        Query(window.tumbling(5), [agg.count()])


def test_unknown_columns_name_the_nearest() -> None:
    rows = {"time": [1], "length": [2], "Caller": ["a"]}
    for wrong, right in {"lenght": "length", "caller": "Caller"}.items():
        with pytest.raises(ColumnError, match=f"no column '{wrong}'; the columns are .*; did you mean '{right}'[?]"):
            muntin.slide(rows, agg.max(wrong), range=2)
    query = Query(window.tumbling(5), {"n": agg.count()}, time="tme")
    for asked in (query.run, query.stream().push, lambda table: query.explain(table.schema)):
        with pytest.raises(MuntinError, match="no column 'tme'; .*; did you mean 'time'[?]"):
            asked(pa.table(rows))
    with pytest.raises(ColumnError, match=r"no column 'x'; the columns are 'time', 'length', 'Caller'$"):
        muntin.slide(rows, agg.max("x"), range=2)


def test_unknown_parameters_name_the_nearest() -> None:
    with pytest.raises(DefinitionError, match="has no parameter 'seperator'; it takes .*; did you mean 'separator'[?]"):
        agg.concat("v", seperator="-")
