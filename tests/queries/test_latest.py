"""`muntin.latest`: of all that a stream emits it keeps what `run` answers, for every kind of window and table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from queries import strategies
from queries.strategies import KINDS
from queries.streams import Stream, asked
from queries.test_stream import same
from sampling import examples

import muntin
from muntin import Query, agg, policies, rows, window
from muntin.errors import InvalidArgumentError
from muntin.kernels.cache import uncompiled
from muntin.windows.kinds.row_frames import RowFrame


@pytest.mark.parametrize("kind", [*(kind for kind in KINDS if kind != "frame of rows"), "several"])
@given(data=st.data())
@settings(max_examples=examples(12))
def test_what_run_says_of_random_streams(kind: str, data: st.DataObject) -> None:
    """Rows come so that none is dropped; early results change nothing.

    But for frames by rows that do not end with their row: one that grows looks like another that begins with its row.
    And, with early results, but for markers at equal times: such windows share all that answers say of them.
    """
    query = data.draw(strategies.queries(strategies.ANY_KIND if kind == "several" else st.just(kind)))
    by_rows = [each for each in query.windows if isinstance(each, RowFrame)]
    assume(not any(each.tells_at for each in by_rows))
    if not by_rows and data.draw(st.booleans()):
        query = replace(query, emit_early=data.draw(strategies.EARLY))
    table = data.draw(strategies.tables())
    slack = query.delay + max(0, query.lateness - 1)
    pushes = data.draw(strategies.cuts(data.draw(strategies.disordered(table, slack))))
    if not table:
        return
    ours = Stream(query, table)
    with uncompiled():
        emitted = [ours.stream.push(ours.table(push.rows)) for push in pushes]
        emitted.append(ours.stream.close())
        final = ours.results(asked(query).run(ours.table(table)))
    marked = {i for i, each in enumerate(query.windows) if isinstance(each, type(window.punctuated("mark")))}
    spans = [(each.key, each.window_id, each.start, each.end) for each in final if each.window_id in marked]
    assume(query.emit_early is None or len(spans) == len(set(spans)))
    kept = muntin.latest(pa.concat_tables(emitted, promote_options="permissive"))
    last = [replace(each, revision=0) for each in ours.results(kept)]
    assert same(last, final), f"{last}\n{final}"


def answers() -> tuple[pa.Table, pa.Table]:
    """Return all answers of a stream with late rows and equal times, and what `run` says of the same rows."""
    pushes = [{"t": [1, 5, 5, 20], "k": ["a", "a", None, "a"]}, {"t": [5, 3, 4], "k": ["a", "a", None]}]
    pushes.append({"t": [5, 21], "k": ["a", "b"]})
    windows = [window.session(3), window.trailing(4), window.trailing(rows(3)), window.tumbling(rows(2))]
    query = Query(windows, {"n": agg.count(), "all": agg.collect("t")}, key="k", time="t", allowed_lateness=100)
    with uncompiled():
        stream = query.stream()
        emitted = [*map(stream.push, pushes), stream.close()]
        whole = {name: [cell for push in pushes for cell in push[name]] for name in ("t", "k")}
        return pa.concat_tables(emitted), query.run(whole)


def test_a_window_of_a_policy_that_moves_to_the_bounds_of_a_new_one() -> None:
    """The window of the first row at 2 moves to [1, 2], and so does that of the second, whose first emission it is."""
    query = Query(
        window.policy(policies.at_most_duration(2)),
        {"all": agg.collect("t")},
        time="t",
        watermark=1,
        allowed_lateness=10,
        emit_early=1,
    )
    times = [0, 2, 2, 1]
    with uncompiled():
        stream = query.stream()
        emitted = pa.concat_tables([*(stream.push({"t": [time]}) for time in times), stream.close()])
        final = query.run({"t": times})
    assert listed(muntin.latest(emitted)) == listed(final)
    assert sorted(muntin.latest(emitted)["all"].to_pylist()) == [[0], [0, 1], [1, 2], [1, 2, 2]]


@pytest.mark.parametrize("pushes", [[[9]], [[11], [9]], [[11], [9], [13]]])
def test_after_a_history(pushes: list[list[int]]) -> None:
    """What a stream revises or retracts, though it was due by the history and never emitted, hides nothing."""
    query = Query([window.session(3), window.tumbling(20)], {"n": agg.count()}, time="t", allowed_lateness=50)
    with uncompiled():
        stream = query.stream(history={"t": [10, 12, 40]})
        emitted = pa.concat_tables([*(stream.push({"t": push}) for push in pushes), stream.close()])
        final = query.run({"t": [10, 12, 40, *(time for push in pushes for time in push)]})
    assert listed(muntin.latest(emitted)) == listed(final)


def listed(table: pa.Table) -> list[str]:
    return sorted(repr({**row, "revision": 0}) for row in table.to_pylist())


def test_arrow() -> None:
    emitted, final = answers()
    kept = muntin.latest(emitted)
    assert kept.num_rows < emitted.num_rows
    assert kept.schema == emitted.schema
    assert listed(kept) == listed(final)
    assert muntin.latest(final) == final
    assert muntin.latest(emitted.slice(0, 0)).num_rows == 0
    assert listed(muntin.latest(emitted.to_batches()[0])) == listed(muntin.latest(pa.table(emitted.to_batches()[0])))


def test_pandas_keeps_its_index() -> None:
    emitted, final = answers()
    frame = emitted.to_pandas()
    frame.index = frame.index + 100
    kept = muntin.latest(frame)
    assert type(kept) is type(frame)
    assert listed(pa.Table.from_pandas(kept, emitted.schema, preserve_index=False)) == listed(final)
    assert kept.index.isin(frame.index).all()
    assert kept.equals(frame.loc[kept.index])


def test_polars() -> None:
    import polars

    emitted, final = answers()
    kept = muntin.latest(polars.from_arrow(emitted))
    assert isinstance(kept, polars.DataFrame)
    assert listed(kept.to_arrow()) == listed(final)


def test_what_is_refused() -> None:
    emitted, _ = answers()
    for name in ("window", "window_id", "revision", "retracted"):
        with pytest.raises(InvalidArgumentError, match=f"there is no column '{name}'; give the answers of a query"):
            muntin.latest(emitted.drop_columns([name]))
    with pytest.raises(InvalidArgumentError, match="the column 'window' holds int64; it is a struct"):
        muntin.latest(emitted.set_column(1, "window", pa.array(range(emitted.num_rows))))
    bad: Any = 5
    with pytest.raises(InvalidArgumentError, match="a table is needed"):
        muntin.latest(bad)
