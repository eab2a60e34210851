"""Ctrl-C between any two lines of a call on a stream: it is as it was, as it will be, or refuses to go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from interrupting import interrupted, spread

from muntin import Query, agg, rows, window
from muntin.errors import InterruptedCallError
from muntin.streams.stream import Stream

WINDOWS = {
    "tumbling": window.tumbling(4),
    "session": window.session(3),
    "rows": window.sliding(rows(3), every=rows(2)),
    "trailing": window.trailing(5),
}
AGGREGATES = {
    "numbers": {"n": agg.count(), "high": agg.max("v")},
    "texts": {"all": agg.concat("w"), "middle": agg.median("v")},
}
CALLS: dict[str, Callable[[Stream], Any]] = {
    "push": lambda stream: stream.push(table(17, 3, 19)),
    "push_row": lambda stream: stream.push_row({"t": 18, "v": 2.0, "w": "x", "k": "c"}),
    "advance": lambda stream: stream.advance(17),
    "close": lambda stream: stream.close(),
}


def table(*times: int) -> dict[str, Any]:
    return {"t": times, "v": [t * 1.5 for t in times], "w": [str(t) for t in times], "k": ["ab"[t % 2] for t in times]}


def begun(windows: str, aggregates: str) -> Stream:
    query = Query(WINDOWS[windows], AGGREGATES[aggregates], key="k", time="t", watermark=2, allowed_lateness=9)
    stream = query.stream()
    stream.push(table(1, 2, 6, 5, 9))
    stream.push(table(8, 10, 12, 13))
    return stream


def told(stream: Stream, *, open: bool) -> Any:
    """Return all that a stream says from now on."""
    stream.check()
    said = [{key: count for key, count in stream.metrics().items() if key in ("rows", "late", "keys", "watermark")}]
    if open:
        said += [stream.push(table(20, 14)).to_pylist(), stream.late.to_pylist()]
    return [*said, stream.close().to_pylist()]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("aggregates", AGGREGATES)
@pytest.mark.parametrize("windows", WINDOWS)
def test_a_stream_is_whole_or_refuses_to_go_on(windows: str, aggregates: str, call: str) -> None:
    do = CALLS[call]
    before, stream = told(begun(windows, aggregates), open=True), begun(windows, aggregates)
    do(begun(windows, aggregates))  # what is done once in a process, such as making kernels, is done by now
    with interrupted(-1) as lines:
        do(stream)
    after = told(stream, open=call != "close")
    outcomes = set()
    for at in spread(lines[0]):
        stream = begun(windows, aggregates)
        with pytest.raises(KeyboardInterrupt), interrupted(at):
            do(stream)
        try:
            found = told(stream, open=not stream._state.closed)
        except InterruptedCallError:
            outcomes.add("refused")
            continue
        assert found in (before, after), f"a part of {call} is there after it was interrupted at line {at} of {lines}"
        outcomes.add("whole")
    assert "whole" in outcomes


def test_what_was_interrupted_says_so() -> None:
    stream = begun("tumbling", "numbers")
    stream._halfway = True
    for call in (*CALLS.values(), Stream.snapshot, Stream.check, Stream.take_late):
        with pytest.raises(InterruptedCallError, match="was interrupted in the middle.*go on from a snapshot"):
            call(stream)
