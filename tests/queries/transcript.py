"""Transcripts: conversations with a stream as text, each line of which a person can check.

A file holds cases. A case is a headline, settings as Python expressions, and then what is done and what comes of it:

    === late row, within the lateness
    windows: window.tumbling(10), window.session(3)
    aggregates: total=agg.sum("v"), n=agg.count()
    columns: t region v          the columns of the rows below; the time is the first ("t v" unless said)
    key: region                  none unless said
    watermark: 2                 and lateness: 0 unless said
    options: partial=True        more options of the query
    time: pa.timestamp("s")      the type of the times: integers unless said; then rows may say 2024-03-31T01:30:00

    push
        1 north 10
    advance 12
        north 0 [0, 10) 10 1
    push
        2 north 5
        -7 north 9
        ->
        north 0 [0, 10) 15 2 #1
    late
        -7 north 9
    close

Under `push` are rows, then `->` and what is emitted, if anything; under `advance` and `close` what is emitted, and
under `tick 7` what is when the clock, which begins with 0, says 7 and the stream is asked what is due by it. A result
is its key, window_id, window, aggregates in their order, and `#` with the revision unless that is 0. The window is
`[start, end)`, for trailing windows by time `(start, end]`, and `[start, end]` where these are the times of the first
and last row; `rows 0:3` or `values 0:10` behind it are the further fields. A retracted one has `retracted` for its
aggregates. `late` under a push lists the rows that no window took. The order of results does not matter. `#` at the
beginning of a line makes it a comment.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from queries import definitions
from queries.oracle import Query, Result

from muntin import ProcessingTime, agg, policies, rows, window
from muntin.types import column_type

HERE = Path(__file__).parent / "transcripts"
SPACE = {
    "ProcessingTime": ProcessingTime,
    "agg": agg,
    "policies": policies,
    "rows": rows,
    "window": window,
    "pa": pa,
    "own": definitions,
}
TOKEN = re.compile(r"\[[^\]]*\]|'[^']*'|\S+")
WINDOW = re.compile(
    r"(?P<before>.*?)(?P<open>[\[(])(?P<start>[^,\])]+), (?P<end>[^,\])]+)(?P<close>[\])])(?P<after>.*)"
)


@dataclass
class Step:
    """One call, and what must come of it."""

    line: int
    action: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    watermark: int = 0
    emitted: list[Result] = field(default_factory=list)
    late: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Case:
    """A query and the steps of a conversation."""

    name: str
    query: Query
    steps: list[Step]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows that are pushed."""
        return [row for step in self.steps for row in step.rows]

    def __str__(self) -> str:
        return self.name


def load() -> list[Case]:
    """Read all transcripts."""
    return [case for path in sorted(HERE.glob("*.txt")) for case in read(path.stem, path.read_text())]


def read(stem: str, text: str) -> Iterator[Case]:
    """Read the cases of one file."""
    current: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("==="):
            if current:
                yield _case(stem, current)
            current = [(number, line)]
        elif current and line.strip() and not line.lstrip().startswith("#"):
            current.append((number, line))
    if current:
        yield _case(stem, current)


def _case(stem: str, lines: list[tuple[int, str]]) -> Case:
    title = lines[0][1].strip("= ")
    settings = {"columns": "t v", "key": "", "watermark": "0", "lateness": "0", "options": "", "time": "pa.int64()"}
    body = 1
    while body < len(lines) and (match := re.match(r"(\w+): (.*)", lines[body][1])):
        settings[match[1]] = match[2].strip()
        body += 1
    columns = settings["columns"].split()
    query = Query(
        windows=_evaluate(f"[{settings['windows']}]"),
        aggregates=_evaluate(f"dict({settings['aggregates']})"),
        key=settings["key"].split(),
        time=columns[0],
        watermark=_evaluate(settings["watermark"]),
        allowed_lateness=_evaluate(settings["lateness"]),
        time_type=column_type(_evaluate(settings["time"])),
        **_evaluate(f"dict({settings['options']})"),
    )
    return Case(f"{stem}: {title}", query, _Steps(query, columns).read(lines[body:]))


def _evaluate(text: str) -> Any:
    return eval(text, dict(SPACE))


class _Steps:
    """Reads the steps of one case."""

    def __init__(self, query: Query, columns: list[str]) -> None:
        self.query, self.columns = query, columns

    def read(self, lines: list[tuple[int, str]]) -> list[Step]:
        steps: list[Step] = []
        into = ""
        for number, line in lines:
            if not line[0].isspace():
                word, _, rest = line.strip().partition(" ")
                into = {"push": "rows", "late": "late"}.get(word, "emitted")
                if word != "late":
                    steps.append(Step(number, word, watermark=self.time(rest) if rest else 0))
            elif line.strip() == "->":
                into = "emitted"
            elif into == "emitted":
                steps[-1].emitted.append(self.result(line))
            else:
                getattr(steps[-1], into).append(self.row(line))
        return steps

    def row(self, line: str) -> dict[str, Any]:
        first, *others = TOKEN.findall(line)
        return dict(zip(self.columns, [self.time(first), *map(_value, others)], strict=True))

    def time(self, text: str) -> int:
        if "T" not in text:
            return int(text)
        logical: Any = self.query.time_type.logical
        return int(np.datetime64(text.strip(), logical.unit).astype(np.int64))

    def result(self, line: str) -> Result:
        match = WINDOW.match(line)
        assert match, f"{line!r} is no result"
        *key, window_id = map(_value, match["before"].split())
        words = TOKEN.findall(match["after"])
        further: dict[str, Any] = {}
        if words and words[0] in ("rows", "values"):
            low, high = words[1].split(":")
            further[words[0]] = (_value(low), _value(high))
            words = words[2:]
        revision = int(words.pop()[1:]) if words and words[-1].startswith("#") else 0
        names = list(self.query.aggregates)
        retracted = words == ["retracted"]
        answers: Mapping[str, Any] = dict.fromkeys(names)
        if not retracted:
            answers = dict(zip(names, map(_value, words), strict=True))
        start, end = self.time(match["start"]), self.time(match["end"])
        return Result(tuple(key), window_id, start, end, answers, revision, retracted, **further)


def _value(text: str) -> Any:
    if text == "null":
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
