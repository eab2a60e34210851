"""Two threads on one stream or aggregator: the second is refused, and the first goes on as if it had never called."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from muntin import Query, agg, aggregators, window
from muntin.errors import ConcurrentUseError
from muntin.kernels.cache import uncompiled

PATIENCE = 60.0


@pytest.fixture(autouse=True)
def _uncompiled() -> Iterator[None]:
    with uncompiled():
        yield


class Gate:
    """Something that a call meets on its way, and waits at until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def wait(self) -> None:
        self.reached.set()
        assert self.opened.wait(PATIENCE)


def held_up(gate: Gate, call: Callable[[], Any], meanwhile: Callable[[], None]) -> Any:
    """Return what a call returns that is held up at a gate in another thread, while something else is done here."""
    answers: list[Any] = []

    def work() -> None:
        with uncompiled():
            answers.append(call())

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert gate.reached.wait(PATIENCE)
        meanwhile()
    finally:
        gate.opened.set()
        thread.join(PATIENCE)
    (answer,) = answers
    return answer


QUERY = Query(window.tumbling(10), {"n": agg.count()}, time="t", idle_timeout=1000)
CALLS: dict[str, Callable[[Any], Any]] = {
    "push": lambda stream: stream.push({"t": [5]}),
    "push_row": lambda stream: stream.push_row(5),
    "advance": lambda stream: stream.advance(50),
    "tick": lambda stream: stream.tick(),
    "close": lambda stream: stream.close(),
    "snapshot": lambda stream: stream.snapshot(),
    "late": lambda stream: stream.late,
    "take_late": lambda stream: stream.take_late(),
    "add": lambda stream: stream.add(window.tumbling(5)),
    "remove": lambda stream: stream.remove(0),
    "ask": lambda stream: stream.ask({"t": [5]}),
    "check": lambda stream: stream.check(),
}


def test_a_stream_refuses_a_second_thread_and_nothing_is_lost() -> None:
    gate, waits = Gate(), [False]

    def clock() -> int:
        if waits[0]:
            waits[0] = False
            gate.wait()
        return 0

    stream = QUERY.stream(clock=clock)
    stream.push({"t": [1]})
    waits[0] = True

    def meanwhile() -> None:
        for name, call in CALLS.items():
            with pytest.raises(ConcurrentUseError, match=f"another call is at work on this Stream, and {name}.. came"):
                call(stream)
        assert stream.metrics()["rows"] == 1

    assert held_up(gate, lambda: stream.push({"t": [3, 12]}), meanwhile)["n"].to_pylist() == [2]
    stream.check()
    assert stream.push({"t": [30]})["n"].to_pylist() == [1]


def test_a_stream_refuses_a_call_from_within_a_call() -> None:
    streams: list[Any] = []

    def clock() -> int:
        if streams:
            streams[0].tick()
        return 0

    stream = QUERY.stream(clock=clock)
    stream.push({"t": [1]})
    before = stream.snapshot()
    streams.append(stream)
    with pytest.raises(ConcurrentUseError, match="tick.. came in between"):
        stream.push({"t": [2]})
    streams.clear()
    assert stream.snapshot() == before
    assert stream.close()["n"].to_pylist() == [1]


@pytest.mark.parametrize("name", ["TwoStacks", "Fiba", "FlatFat", "MonoidTree"])
def test_an_aggregator_refuses_a_second_thread_and_nothing_is_lost(name: str) -> None:
    gate = Gate()

    class Slow:
        """Values that take their time to come."""

        def __iter__(self) -> Iterator[int]:
            gate.wait()
            return iter([10, 20])

    made = getattr(aggregators, name)(agg.sum("v"))
    made.insert(1, 1)
    calls: list[Callable[[], Any]] = [
        lambda: made.insert(5, 5),
        lambda: made.bulk_insert([5], [5]),
        made.evict,
        lambda: made.bulk_evict(1),
        made.query,
        made.snapshot,
        lambda: made.range_query(0, 9),
    ]

    def meanwhile() -> None:
        for call in calls:
            with pytest.raises(ConcurrentUseError, match="use it from one thread at a time"):
                call()

    held_up(gate, lambda: made.bulk_insert([2, 3], Slow()), meanwhile)
    assert (len(made), made.query()) == (3, 31)
    made.check()


def test_threads_may_take_turns() -> None:
    stream, turns = QUERY.stream(clock=lambda: 0), threading.Lock()

    def work(start: int) -> None:
        with uncompiled():
            for t in range(start, start + 5):
                with turns:
                    stream.push({"t": [t % 10]})

    threads = [threading.Thread(target=work, args=(start,)) for start in (0, 100)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
    assert stream.close()["n"].to_pylist() == [10]
