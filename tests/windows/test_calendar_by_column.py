"""Calendar windows by a zone for each row: against the local dates of the rows, in every engine.

What a window must hold is told here by Python's own calendar: the first moment of a local day is midnight by the offset
before it, which is the moment of the change where clocks skip midnight.
"""

from __future__ import annotations

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queries import oracle, strategies
from queries.oracle.finding import of_kind
from queries.oracle.results import Found, Row
from queries.streams import TYPES
from queries.test_stream import play
from sampling import examples

import muntin
from muntin import Query, agg, window
from muntin.cli.query_file import parse_query
from muntin.errors import ColumnTypeError, InvalidArgumentError
from muntin.kernels.cache import uncompiled
from muntin.types import column_type
from muntin.windows.kinds.calendar_by_column import CalendarByColumn

ZONES = ("UTC", "Europe/Berlin", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo")
SECONDS = column_type(pa.timestamp("s", "UTC"))
TYPES["zone"] = column_type(pa.string())
MONTHS = {"month": 1, "quarter": 3, "year": 12}


def local_period(time: int, period: str, zone: str) -> tuple[int, int]:
    """Return the seconds at which the local period of a moment begins and ends."""
    clock = ZoneInfo(zone)
    day = dt.datetime.fromtimestamp(time, clock).date()
    if period in MONTHS:
        month = (day.year * 12 + day.month - 1) // MONTHS[period] * MONTHS[period]
        ends = [dt.date(*divmod_month(each)) for each in (month, month + MONTHS[period])]
    else:
        first = day if period == "day" else day - dt.timedelta(day.weekday())
        ends = [first, first + dt.timedelta(1 if period == "day" else 7)]
    start, end = (int(dt.datetime.combine(each, dt.time(), clock).timestamp()) for each in ends)
    return start, end


def divmod_month(month: int) -> tuple[int, int, int]:
    return month // 12, month % 12 + 1, 1


@of_kind.register(CalendarByColumn)
def by_zone(definition: CalendarByColumn, rows: list[Row]) -> list[Found]:
    spans: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        zone = row.values[definition.zone_column]
        if zone is not None:
            spans.setdefault(local_period(row.time, definition.period, zone), []).append(row)
    return [Found(span, *span, tuple(members), span[1]) for span, members in sorted(spans.items())]


def in_hours(rows: list[dict[str, Any]], since: dt.datetime, zones: list[str | None]) -> list[dict[str, Any]]:
    """Return rows with times in steps of three hours from a moment on, and zones."""
    begin = int(since.replace(tzinfo=dt.UTC).timestamp())
    return [{**row, "t": begin + 3 * 3600 * row["t"], "zone": zone} for row, zone in zip(rows, zones, strict=True)]


CHANGES = st.sampled_from([dt.datetime(2024, 3, 30), dt.datetime(2024, 10, 26), dt.datetime(2018, 11, 3, 12)])
"""Clocks go forward and back in most zones; in São Paulo they skip midnight."""


@given(data=st.data())
@settings(deadline=None, max_examples=examples(60))
def test_streams_answer_as_the_clocks_say(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(["n", "all", "total", "median"]), min_size=1, unique=True))
    hours = 3600 * data.draw(st.sampled_from([0, 3, 24]))
    query = oracle.Query(
        [window.calendar(data.draw(st.sampled_from(["day", "week", "month"])), zone_column="zone")],
        {name: strategies.AGGREGATES[name] for name in names},
        key=data.draw(st.sampled_from([(), ("k",)])),
        watermark=hours,
        allowed_lateness=3600 * data.draw(st.sampled_from([0, 5, 60])),
        emit_early=data.draw(st.sampled_from([None, None, 86_400])),
        time_type=SECONDS,
    )
    plain = data.draw(strategies.tables(25))
    some = st.lists(st.sampled_from([*ZONES, None]), min_size=len(plain), max_size=len(plain))
    table = in_hours(plain, data.draw(CHANGES), data.draw(some))
    steps = data.draw(strategies.cuts(data.draw(st.one_of(st.just(table), st.permutations(table)))))
    with uncompiled():
        play(query, table, steps, "auto", data.draw(st.sets(st.integers(0, len(steps)), max_size=2)))


@given(data=st.data())
@settings(deadline=None, max_examples=examples(40))
def test_run_and_streams_within_the_lateness_say_the_same(data: st.DataObject) -> None:
    plain = data.draw(strategies.tables(25))
    some = st.lists(st.sampled_from([*ZONES, None]), min_size=len(plain), max_size=len(plain))
    rows = in_hours(plain, data.draw(CHANGES), data.draw(some))
    period = data.draw(st.sampled_from(["day", "week", "month", "quarter", "year"]))
    query = Query(
        window.calendar(period, zone_column="zone"),
        {"n": agg.count(), "ids": agg.collect("i")},
        "k",
        "t",
        allowed_lateness="3000 days",
    )
    kinds = {"t": SECONDS.logical, "k": pa.string(), "zone": pa.string(), "i": pa.int64()}
    table = pa.Table.from_pylist([{**row, "i": i} for i, row in enumerate(rows)], pa.schema(kinds))
    with uncompiled():
        found = query.run(table)
        stream = query.stream()
        pushed = [stream.push(table.take([i])) for i in data.draw(st.permutations(range(len(rows))))]
        last = muntin.latest(pa.concat_tables([*pushed, stream.close()]))
    wanted = sorted(
        (key, *each.name, len(each.members))
        for key in "ab"
        for each in by_zone(query.windows[0], [Row(r["t"], i, r) for i, r in enumerate(rows) if r["k"] == key])
    )
    for answers in (found, last):
        spans = [[int(each.timestamp()) for each in row["window"].values()] for row in answers.to_pylist()]
        ours = zip(answers["k"].to_pylist(), spans, answers["n"].to_pylist(), strict=True)
        assert sorted((key, *span, n) for key, span, n in ours) == wanted


def day_of(zone: str, *moments: str) -> list[float]:
    """Return how many hours the days of some moments have in a zone."""
    table = pa.table(
        {
            "ts": pa.array([dt.datetime.fromisoformat(m) for m in moments], pa.timestamp("us", "UTC")),
            "zone": [zone] * len(moments),
        }
    )
    found = Query(window.calendar("1 day", zone_column="zone"), {"n": agg.count()}).run(table)
    return [(row["window"]["end"] - row["window"]["start"]) / dt.timedelta(hours=1) for row in found.to_pylist()]


def test_days_when_clocks_change() -> None:
    assert day_of("Europe/Berlin", "2024-03-31T00:59", "2024-04-01T12:00", "2024-10-27T01:30") == [23, 24, 25]
    assert day_of("Australia/Lord_Howe", "2024-04-06T16:00", "2024-10-06T00:00") == [24.5, 23.5]
    assert day_of("America/Sao_Paulo", "2018-11-04T03:30") == [23]  # there is no midnight
    assert day_of("Pacific/Apia", "2011-12-29T12:00", "2011-12-31T12:00") == [24, 24]  # and there no 30 December


def test_zones_that_agree_share_windows_until_they_do_not() -> None:
    """Berlin and Tunis had one clock in winter 2008 and in summer too; not in summer 2009."""
    stamps = [dt.datetime(y, m, 5, 12, tzinfo=dt.UTC) for y, m in ((2008, 7), (2009, 1), (2009, 7))]
    table = pa.table(
        {"ts": pa.array([t for t in stamps for _ in range(2)]), "zone": ["Europe/Berlin", "Africa/Tunis"] * 3}
    )
    query = Query(window.calendar("1 day", zone_column="zone"), {"n": agg.count()})
    assert query.run(table)["n"].to_pylist() == [2, 2, 1, 1]


def test_windows_that_end_together_and_begin_apart() -> None:
    """The day of 23 hours in Berlin ends with one of 24 where clocks are not put forward."""
    stamps = pa.array([dt.datetime(2024, 3, 31, h, tzinfo=dt.UTC) for h in (9, 10, 11)] + [dt.datetime(2024, 4, 1, 6)])
    table = pa.table({"ts": stamps, "zone": ["Europe/Berlin", "Etc/GMT-2", "Europe/Berlin", "UTC"], "i": range(4)})
    stream = DAYS.stream()
    first = stream.push(table)
    assert sorted(first["ids"].to_pylist()) == sorted(DAYS.run(table)["ids"].to_pylist()[:2]) == [[0, 2], [1]]
    assert stream.push(table.slice(1, 1))["ids"].to_pylist() == [[1, 1]]


def rows(zones: Any, unit: str = "s") -> pa.Table:
    return pa.table({"ts": pa.array(range(len(zones)), pa.timestamp(unit)), "zone": zones, "i": range(len(zones))})


DAYS = Query(window.calendar("1 day", zone_column="zone"), {"ids": agg.collect("i")}, allowed_lateness="1 day")


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (
            rows(["UTC", "Europe/Berln"]),
            InvalidArgumentError,
            "'zone' holds 'Europe/Berln' in row 1, and there is no such",
        ),
        (rows(["UTC", ""]), InvalidArgumentError, "holds '' in row 1"),
        (rows([1, 2]), ColumnTypeError, "'zone' holds int64, and zones are names"),
        (rows(["UTC"]).set_column(0, "ts", pa.array([1])), InvalidArgumentError, "needs times of a known unit"),
    ],
)
def test_what_is_refused(table: pa.Table, error: type[Exception], message: str) -> None:
    stream = DAYS.stream()
    for call in (DAYS.run, stream.push):
        with pytest.raises(error, match=message):
            call(table)
    assert stream.metrics()["rows"] == 0


def test_definitions_that_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="give one of them"):
        window.calendar("1 day", zone="Europe/Berlin", zone_column="zone")
    with pytest.raises(InvalidArgumentError, match="zone_column is 5"):
        window.calendar("1 day", zone_column=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="the period is '1 fortnight'"):
        window.calendar("1 fortnight", zone_column="zone")


def test_a_row_without_a_zone_is_in_no_window() -> None:
    table = rows(["UTC", None, "UTC"])
    assert DAYS.run(table)["ids"].to_pylist() == [[0, 2]]
    stream = DAYS.stream()
    stream.push(table)
    assert stream.take_late()["i"].to_pylist() == [1]
    assert stream.close()["ids"].to_pylist() == [[0, 2]]
    assert DAYS.run(rows(pa.array([None, None], pa.string()))).num_rows == 0


def test_dates_are_days_of_any_wall_clock() -> None:
    table = pa.table({"ts": pa.array([3, 3, 4], pa.date32()), "zone": ["UTC", "Asia/Tokyo", None], "i": range(3)})
    (only,) = DAYS.run(table).to_pylist()
    assert (only["window"]["start"], only["window"]["end"], only["ids"]) == (
        dt.date(1970, 1, 4),
        dt.date(1970, 1, 5),
        [0, 1],
    )


def test_a_refused_push_changes_nothing() -> None:
    """A time beyond the calendar is found when the row is taken."""
    stream = DAYS.stream()
    stream.push(rows(["UTC"]))
    far = pa.table({"ts": pa.array([2**45], pa.timestamp("s")), "zone": ["UTC"], "i": [9]})
    with pytest.raises(InvalidArgumentError, match="outside the years"):
        stream.push(far)
    stream.push(rows(["UTC"]))
    assert stream.close()["ids"].to_pylist() == [[0, 0]]


def test_keys_that_come_and_go_take_no_memory() -> None:
    query = Query(window.calendar("1 day", zone_column="zone"), {"n": agg.count()}, key="k")
    with uncompiled():
        stream = query.stream()
        for day in range(300):
            stamps = pa.array([86_400 * day + 7, 86_400 * day + 70_000], pa.timestamp("s"))
            stream.push({"ts": stamps, "zone": ["UTC", "Asia/Tokyo"], "k": [f"k{day}"] * 2})
        assert stream.metrics()["keys"] < 150
        assert stream.metrics()["kept"] < 10


def test_a_query_file() -> None:
    text = '[[windows]]\ncalendar = "1 day"\nzone_column = "zone"\n[aggregates]\nn = "count()"'
    assert parse_query(text).windows == (window.calendar("1 day", zone_column="zone"),)
    assert repr(window.calendar("1 day", zone_column="zone")) == "window.calendar('1 day', zone_column='zone')"
