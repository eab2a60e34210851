"""Durations as they are written: words, short forms, and what is refused."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampling import examples

import muntin
from muntin import Query, agg, window
from muntin.durations import parse_duration
from muntin.errors import InvalidArgumentError

SHORT = {
    "ns": "nanoseconds",
    "us": "microseconds",
    "ms": "milliseconds",
    "s": "seconds",
    "min": "minutes",
    "h": "hours",
    "d": "days",
    "w": "weeks",
}


@settings(max_examples=examples(50))
@given(terms=st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(sorted(SHORT))), min_size=1, max_size=4))
def test_short_forms_mean_the_words(terms: list[tuple[int, str]]) -> None:
    words = " ".join(f"{n} {SHORT[unit]}" for n, unit in terms)
    expected = sum(parse_duration(f"{n} {SHORT[unit]}") for n, unit in terms)
    assert parse_duration("".join(f"{n}{unit}" for n, unit in terms)) == expected
    assert parse_duration(" ".join(f"{n} {unit.upper()}" for n, unit in terms)) == expected
    assert parse_duration(words) == expected


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("7d", datetime.timedelta(days=7)),
        ("1h", datetime.timedelta(hours=1)),
        ("30min", datetime.timedelta(minutes=30)),
        ("15s", datetime.timedelta(seconds=15)),
        ("250ms", datetime.timedelta(milliseconds=250)),
        ("2w", datetime.timedelta(weeks=2)),
        ("10us", datetime.timedelta(microseconds=10)),
        ("-1.5h", datetime.timedelta(hours=-1.5)),
        ("1h30min", datetime.timedelta(hours=1.5)),
        ("interval 1 d", datetime.timedelta(days=1)),
    ],
)
def test_short_forms(text: str, meant: datetime.timedelta) -> None:
    assert parse_duration(text) == meant // datetime.timedelta(microseconds=1) * 1000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1m", "'1m': 'm' may mean minutes or months; write 'min' for minutes"),
        ("5M", "'m' may mean minutes or months"),
        ("1mo", "months and years differ in length"),
        ("1y", "use window.calendar"),
        ("2q", "use window.calendar"),
        ("1x", r"'x' is no unit; the units are week \(w\), day \(d\), hour \(h\), minute \(min\)"),
        ("h", "'h' is no duration; write it like '10 minutes', '1h30min' or '7d'"),
        ("1h!", "is no duration"),
        ("0.3ns", "no whole number of nanoseconds"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        window.tumbling(text)


def test_short_forms_stand_wherever_a_duration_does() -> None:
    def asked(hour: Any, minute: Any, second: Any) -> Query:
        return Query(
            [window.sliding(hour, every=minute, offset=second), window.session(minute), window.trailing(hour)],
            {"n": agg.count()},
            watermark=second,
            allowed_lateness=minute,
            idle_timeout=hour,
            emit_early=muntin.ProcessingTime(second),
        )

    times = np.arange(0, 10_000, 700).astype("M8[s]")
    table = pa.table({"ts": times})
    assert asked("1h", "1min", "1s").run(table) == asked("1 hour", "1 minute", "1 second").run(table)
    counts = [muntin.slide(times, agg.count(), range=each, times=times).tolist() for each in ("1h", "1 hour")]
    assert counts[0] == counts[1]


def test_short_periods_of_calendars() -> None:
    times = pa.table({"ts": np.arange(0, 900, 17).astype("M8[D]").astype("M8[s]")})
    for short, words in {"1d": "1 day", "2w": "2 weeks", "1mo": "1 month", "1q": "1 quarter", "1y": "year"}.items():
        answers = [Query(window.calendar(each), {"n": agg.count()}).run(times) for each in (short, words)]
        assert answers[0] == answers[1]
    with pytest.raises(InvalidArgumentError, match="the period is '1m'; give a number of days"):
        window.calendar("1m")
