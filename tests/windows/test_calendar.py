"""Calendar windows: against the clock of each zone, read moment by moment, and in every engine.

What a window must hold is told here by the local date of each row alone, grouped in Python: nothing is shared with the
code that finds edges.
"""

from __future__ import annotations

import datetime as dt
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import examples

from muntin import Query, agg, window
from muntin.cli.query_file import parse_query
from muntin.errors import InvalidArgumentError
from muntin.kernels.cache import uncompiled

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo")
UTC = dt.UTC
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)


def number(day: dt.date, count: int, unit: str) -> int:
    """Return which period a local date is in: any number that differs between periods, and ascends."""
    months = day.year * 12 + day.month - 1
    days = day.toordinal() - dt.date(1970, 1, 1).toordinal()
    monday = (day - dt.timedelta(day.weekday())).toordinal() - dt.date(1969, 12, 29).toordinal()
    whole = {"day": days, "week": monday // 7, "month": months, "quarter": months // 3, "year": day.year}
    return whole[unit] // count


def grouped(times: list[dt.datetime], count: int, unit: str, zone: str) -> list[tuple[dt.datetime, ...]]:
    """Return the times that share a period."""
    clock = ZoneInfo(zone)
    by = groupby(sorted(times), key=lambda t: number(t.astimezone(clock).date(), count, unit))
    return [tuple(group) for _, group in by]


PERIODS = st.tuples(st.integers(1, 4), st.sampled_from(("day", "week", "month", "quarter", "year")))
TIMES = st.lists(
    st.datetimes(dt.datetime(1890, 1, 1), dt.datetime(2150, 1, 1)).map(lambda t: t.replace(microsecond=0, tzinfo=UTC)),
    min_size=1,
    max_size=30,
)
NEAR = st.tuples(
    st.datetimes(dt.datetime(1950, 1, 1), dt.datetime(2060, 1, 1)), st.lists(st.integers(0, 60 * 24 * 60), max_size=30)
).map(lambda pair: [pair[0].replace(microsecond=0, tzinfo=UTC) + dt.timedelta(minutes=m) for m in (0, *pair[1])])


def table(times: list[dt.datetime], unit: str = "us") -> pa.Table:
    return pa.table({"ts": pa.array(times, pa.timestamp(unit, "UTC")), "k": [0] * len(times)})


def held(answer: pa.Table) -> list[tuple[dt.datetime, ...]]:
    return sorted(tuple(sorted(row["all"])) for row in answer.to_pylist())


@given(PERIODS, st.sampled_from(ZONES), TIMES | NEAR)
@settings(max_examples=examples(60))
def test_holds_what_shares_a_period(period: tuple[int, str], zone: str, times: list[dt.datetime]) -> None:
    count, unit = period
    query = Query(window.calendar(f"{count} {unit}s", zone=zone), {"all": agg.collect("ts")}, watermark="1000 days")
    with uncompiled():
        answer = query.run(table(times))
        stream = query.stream()
        parts = [stream.push(table(times[i : i + 7])) for i in range(0, len(times), 7)] + [stream.close()]
    expected = sorted(tuple(group) for group in grouped(times, count, unit, zone))
    assert held(answer) == expected
    for row in answer.to_pylist():
        start, end = row["window"]["start"], row["window"]["end"]
        assert start <= min(row["all"])
        assert max(row["all"]) < end
        before, after = ((start - dt.timedelta(seconds=s)).astimezone(ZoneInfo(zone)).date() for s in (1, 0))
        assert number(before, count, unit) < number(after, count, unit)
    if not stream.late.num_rows:
        assert held(pa.concat_tables(parts)) == expected


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", dt.date(2024, 3, 31), 23),
        ("Europe/Berlin", dt.date(2024, 10, 27), 25),
        ("America/Sao_Paulo", dt.date(2018, 11, 4), 23),  # clocks skip midnight
        ("America/Sao_Paulo", dt.date(2018, 2, 17), 25),  # clocks go back at midnight
        ("America/Havana", dt.date(2023, 11, 5), 25),  # midnight comes twice
        ("Australia/Lord_Howe", dt.date(2024, 4, 7), 24.5),
        ("Europe/Berlin", dt.date(1945, 5, 24), 23),  # by an hour more, in summer already
        ("Africa/Monrovia", dt.date(1972, 1, 7), 24 - (44 * 60 + 30) / 3600),  # by minutes and seconds, over midnight
    ],
)
def test_days_of_other_lengths(zone: str, day: dt.date, hours: float) -> None:
    noon = dt.datetime.combine(day, dt.time(12), ZoneInfo(zone)).astimezone(UTC)
    (row,) = Query(window.calendar("1 day", zone=zone), {"n": agg.count()}).run(table([noon], "s")).to_pylist()
    start, end = row["window"]["start"], row["window"]["end"]
    assert (end - start).total_seconds() == hours * 3600
    assert start.astimezone(ZoneInfo(zone)).date() == day
    assert (start - dt.timedelta(seconds=1)).astimezone(ZoneInfo(zone)).date() == day - dt.timedelta(1)


def test_a_day_that_never_was() -> None:
    """Samoa had no 30 December 2011: the 29th ends where the 31st begins."""
    zone = ZoneInfo("Pacific/Apia")
    times = [dt.datetime(2011, 12, 29, 23, tzinfo=zone), dt.datetime(2011, 12, 31, 1, tzinfo=zone)]
    query = Query(window.calendar("1 day", zone="Pacific/Apia"), {"n": agg.count()}, emit_empty=True)
    first, second = query.run(table([t.astimezone(UTC) for t in times], "s"))["window"].to_pylist()[:2]
    assert first["end"] == second["start"]
    assert (second["end"] - second["start"]).total_seconds() == 24 * 3600


def test_gapless_and_empty_windows() -> None:
    times = [dt.datetime(2024, 1, 15, tzinfo=UTC), dt.datetime(2024, 5, 15, tzinfo=UTC)]
    query = Query(window.calendar("1 month", zone="Europe/Berlin"), {"n": agg.count()}, emit_empty=True)
    answer = query.run(table(times))
    windows = answer["window"].to_pylist()
    assert answer["n"].to_pylist() == [1, 0, 0, 0, 1]
    assert [each["start"] for each in windows[1:]] == [each["end"] for each in windows[:-1]]
    stream = query.stream()
    emitted = [*stream.push(table(times)).to_pylist(), *stream.close().to_pylist()]
    assert [(each["window"], each["n"]) for each in emitted] == list(zip(windows, answer["n"].to_pylist(), strict=True))


def test_late_rows_revise() -> None:
    berlin = ZoneInfo("Europe/Berlin")

    def rows(*days: tuple[int, int]) -> pa.Table:
        return table([dt.datetime(2024, month, day, 0, 0, tzinfo=berlin).astimezone(UTC) for month, day in days])

    query = Query(window.calendar("1 month", zone="Europe/Berlin"), {"n": agg.count()}, allowed_lateness="10 days")
    stream = query.stream()
    assert stream.push(rows((3, 1), (3, 31), (4, 1)))["n"].to_pylist() == [2]
    assert stream.push(rows((3, 15), (2, 29))).select(["n", "revision"]).to_pylist() == [{"n": 3, "revision": 1}]
    assert stream.late.num_rows == 1
    assert stream.close()["n"].to_pylist() == [1]


def test_dates_are_days_of_the_wall_clock() -> None:
    days = pa.table({"ts": pa.array([dt.date(2024, 3, 31), dt.date(2024, 4, 1), dt.date(1969, 12, 31)])})
    answer = Query(window.calendar("1 quarter", zone="America/New_York"), {"n": agg.count()}).run(days)
    spans = {(each["start"], each["end"]) for each in answer["window"].to_pylist()}
    assert spans == {
        (dt.date(1969, 10, 1), dt.date(1970, 1, 1)),
        (dt.date(2024, 1, 1), dt.date(2024, 4, 1)),
        (dt.date(2024, 4, 1), dt.date(2024, 7, 1)),
    }


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_units(unit: str) -> None:
    times = [dt.datetime(1960, 2, 29, 23, 59, 59, tzinfo=UTC), dt.datetime(2100, 12, 31, tzinfo=UTC)]
    query = Query(window.calendar("1 month", zone="Asia/Kolkata"), {"n": agg.count()})
    answer = query.run(table(times, unit))
    starts = [each["start"].astimezone(ZoneInfo("Asia/Kolkata")) for each in answer["window"].to_pylist()]
    assert [(each.year, each.month, each.day, each.hour) for each in starts] == [(1960, 3, 1, 0), (2100, 12, 1, 0)]


def test_shares_slices_with_other_windows() -> None:
    times = [dt.datetime(2024, 3, 30, tzinfo=UTC) + dt.timedelta(hours=3 * i) for i in range(40)]
    query = Query(
        [window.calendar("1 day", zone="Europe/Berlin"), window.tumbling("6 hours"), window.session("2 hours")],
        {"n": agg.count()},
    )
    stream = query.stream()
    answer = pa.concat_tables([stream.push(table(times)), stream.close()])
    by = [("window_id", "ascending"), ("window.start", "ascending")]
    streamed, run = (each.flatten().sort_by(by).to_pylist() for each in (answer, query.run(table(times))))
    assert streamed == run
    assert [each.strategy for each in stream.explain().windows] == ["slices"] * 3


def test_snapshot_goes_on() -> None:
    times = [dt.datetime(2024, 3, 1, tzinfo=UTC) + dt.timedelta(days=3 * i) for i in range(20)]
    query = Query(window.calendar("1 month", zone="Europe/Berlin"), {"n": agg.count()})
    stream = query.stream()
    first = stream.push(table(times[:10]))
    again = query.stream(stream.snapshot())
    rest = pa.concat_tables([again.push(table(times[10:])), again.close()])
    assert pa.concat_tables([first, rest])["n"].to_pylist() == query.run(table(times))["n"].to_pylist()


def test_explain_and_file() -> None:
    text = '[windows]\ncalendar = "1 month"\nzone = "Europe/Berlin"\n[aggregates]\nn = "count()"'
    query = parse_query(text)
    assert query.windows == (window.calendar("1 month", zone="Europe/Berlin"),)
    shown = str(query.explain())
    assert "window.calendar('1 month', zone='Europe/Berlin')" in shown
    assert query.explain().windows[0].strategy == "slices"
    assert "ts is timestamp[us]" in shown


def refused(make: Any) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        make()
    return str(caught.value)


@pytest.mark.parametrize("period", ["1 hour", "0 months", "-1 month", "month of May", 3, None, dt.timedelta(1)])
def test_refuses_other_periods(period: Any) -> None:
    assert f"the period is {period!r}" in refused(lambda: window.calendar(period))


@pytest.mark.parametrize("zone", ["Europe/Bonn", "", None, 3, "../etc/passwd"])
def test_refuses_what_is_no_zone(zone: Any) -> None:
    assert f"no zone {zone!r}" in refused(lambda: window.calendar("1 day", zone=zone))


def test_refuses_integers_and_far_times() -> None:
    query = Query(window.calendar("1 day"), {"n": agg.count()})
    assert "needs times of a known unit" in refused(lambda: query.run({"ts": [1, 2]}))
    far = pa.table({"ts": pa.array([400_000_000_000], pa.timestamp("s"))})
    assert "outside the years 2 to 9998" in refused(lambda: query.run(far))
    stream = query.stream()
    assert "outside the years 2 to 9998" in refused(lambda: stream.push(far))
    assert stream.metrics()["rows"] == 0
