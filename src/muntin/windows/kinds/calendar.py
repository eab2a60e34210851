"""The word for calendar windows: by the wall clock of one zone, or of one that each row names."""

from __future__ import annotations

from muntin.errors import InvalidArgumentError
from muntin.windows.kinds.calendar_by_column import CalendarByColumn
from muntin.windows.kinds.calendar_periods import Calendar
from muntin.windows.words import word


@word(plain=("zone", "zone_column"), first_is_length=False)
def calendar(period: str, *, zone: str = "UTC", zone_column: str | None = None) -> Calendar | CalendarByColumn:
    """Return windows by the wall clock of a zone: [first moment of a period, first moment of the next).

    A period is a number of days, weeks (from Monday), months, quarters or years, or short: "1d", "1w", "1mo", "1q",
    "1y". Multiples count from the year 0, days and weeks from the epoch: "6 months" begin in January and July. Times
    without a zone are taken as UTC, and dates as days of the wall clock.

    With `zone_column` each row names the zone of its windows. Rows of a key are together where these begin and end at
    the same moments, so that a key with several zones has windows that overlap. A row whose zone is null is in no
    window.

    >>> import pyarrow as pa
    >>> from muntin import Query, agg, window
    >>> sales = pa.table({"ts": pa.array([0, 3_000_000], pa.timestamp("s")), "v": [1, 2]})
    >>> query = Query(window.calendar("1 month", zone="Europe/Berlin"), {"total": agg.sum("v")})
    >>> [(str(each["start"]), str(each["end"])) for each in query.run(sales)["window"].to_pylist()]
    [('1969-12-31 23:00:00', '1970-01-31 23:00:00'), ('1970-01-31 23:00:00', '1970-02-28 23:00:00')]
    """
    if zone_column is None:
        return Calendar(period, zone)
    if zone != "UTC":
        raise InvalidArgumentError(
            f"window.calendar: zone is {zone!r} and zone_column is {zone_column!r}; give one of them: a zone for all "
            "rows, or the column with the zone of each"
        )
    return CalendarByColumn(period, zone_column)
