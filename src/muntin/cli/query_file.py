"""Queries in TOML files: what `muntin run` and `muntin explain` read.

    time = "ts"
    key = "plug"
    watermark = "10 seconds"

    [[windows]]
    sliding = "24 hours"
    every = "1 minute"

    [[windows]]
    trailing = "100 rows"

    [aggregates]
    peak = "max(watts)"
    usual = { agg = "quantile", columns = ["watts"], q = 0.5 }

Windows may have names, used where they become columns: `[windows.hour]` instead of `[[windows]]`.

Every error is one line, with the line of the file and the key.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from muntin import aggregations
from muntin.aggregations.aggregation import Aggregation
from muntin.cli import toml_lines
from muntin.errors import MuntinError
from muntin.query import Query
from muntin.suggestions import AGGREGATIONS, WINDOWS, hint
from muntin.windows import Window, rows, tumbling
from muntin.windows.words import WORDS, Word

_ROWS = re.compile(r"\s*(\d+)\s+rows?\s*", re.IGNORECASE)
_CALL = re.compile(r"\s*([a-z_][a-z0-9_]*)\s*(?:\((.*)\))?\s*", re.DOTALL)
_ARGUMENT = re.compile(r"""\s*(?:([A-Za-z_]\w*)\s*=\s*)?("[^"]*"|'[^']*'|[^,"'\s][^,"']*?)\s*(?:,|$)""")
_WORDS = {"true": True, "false": False}
_SETTINGS = tuple(each.name for each in fields(Query) if each.name not in ("windows", "aggregates"))


class QueryFileError(MuntinError):
    """A file is not a query. The message names the file, the line and the key."""


def read_query(path: str | Path) -> Query:
    """Return the query of a TOML file."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors begin it with a mark
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise QueryFileError(f"{path} cannot be read: {reason}") from error
    return parse_query(text, str(path))


def parse_query(text: str, name: str = "query.toml") -> Query:
    r"""Return the query of a TOML text; errors call it `name`.

    >>> parse_query('[[windows]]\nsession = "5 minutes"\n[aggregates]\nn = "count()"').windows
    (window.session('5 minutes'),)
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise QueryFileError(_syntax(name, str(error))) from error
    return _File(name, data, toml_lines.lines_of(text)).query()


def _syntax(name: str, message: str) -> str:
    place = re.search(r" \(at line (\d+), column (\d+)\)$", message)
    if place is None:
        return f"{name}: {message}"
    return f"{name}:{place[1]}: {message[: place.start()]}, at column {place[2]}"


class _File:
    def __init__(self, name: str, data: Mapping[str, Any], lines: Mapping[toml_lines.Path, int]) -> None:
        self.name, self.data, self.lines = name, data, lines

    def query(self) -> Query:
        known = (*_SETTINGS, "windows", "aggregates")
        for key in self.data:
            if key not in known:
                raise self._wrong((key,), f"there is no such key{hint(key, known)}")
        windows, aggregates = self._windows(), self._aggregates()
        settings = {key: self.data[key] for key in _SETTINGS if key in self.data}
        for key, value in settings.items():
            self._require_setting(key, value)
            try:  # separately, so that the error names this key
                Query(windows, aggregates, **{key: value})
            except (MuntinError, TypeError) as error:
                raise self._wrong(self._guilty(key, value), str(error)) from error
        try:
            return Query(windows, aggregates, **settings)
        except MuntinError as error:
            raise self._wrong((), str(error)) from error

    def _guilty(self, key: str, value: Any) -> toml_lines.Path:
        """Return which line of a setting is wrong: of computed columns the first that is none by itself."""
        for name, text in value.items() if key == "columns" else ():
            try:
                Query(tumbling(1), {"n": aggregations.count()}, columns={name: text})
            except MuntinError:
                return (key, name)
        return (key,)

    def _require_setting(self, key: str, value: Any) -> None:
        if key in ("partial", "emit_empty", "ordered") and not isinstance(value, bool):
            raise self._wrong((key,), f"it is {value!r}; give true or false")
        if key == "columns" and not (isinstance(value, dict) and _is_list_of(str, list(value.values()))):
            raise self._wrong((key,), f'it is {value!r}; give names to expressions, such as [columns] with a = "b * c"')
        if key == "where" and not isinstance(value, str):
            raise self._wrong((key,), f'it is {value!r}; give a condition as a text, such as "price > 0"')
        if key == "key" and not (isinstance(value, str) or _is_list_of(str, value)):
            raise self._wrong((key,), f"it is {value!r}; give the name of a column, or a list of names")

    # ------------------------------------------------------------ windows

    def _windows(self) -> list[Window] | dict[str, Window]:
        found = self.data.get("windows")
        if isinstance(found, dict) and not found.keys() & WORDS.keys() and _is_list_of(dict, list(found.values())):
            return {name: self._window(each, ("windows", name)) for name, each in found.items()}
        if isinstance(found, dict):
            found = [found]
        if not _is_list_of(dict, found) or not found:
            raise self._wrong(("windows",), 'give at least one window, such as [[windows]] with tumbling = "1 minute"')
        return [self._window(each, ("windows", i)) for i, each in enumerate(found)]

    def _window(self, words: Mapping[str, Any], path: toml_lines.Path) -> Window:
        kinds = [word for word in words if word in WORDS]
        if len(kinds) != 1:
            options = {option for each in WORDS.values() for option in each.options}
            unknown = next((word for word in words if word not in options and word not in WORDS), None)
            if unknown is not None:
                raise self._wrong((*path, unknown), f"there is no such kind of window{hint(unknown, WORDS, WINDOWS)}")
            count = "no kind" if not kinds else f"{len(kinds)} kinds ({', '.join(kinds)})"
            raise self._wrong(path, f"the window has {count}; give one of {', '.join(WORDS)}")
        kind = kinds[0]
        known = WORDS[kind]
        for word in words:
            if word != kind and word not in known.options:
                raise self._wrong((*path, word), f"a {kind} window has no such word{hint(word, known.options)}")
        for word, example in known.required.items():
            if word not in words:
                raise self._wrong((*path, kind), f'it needs another word, {word}, such as {word} = "{example}"')
        values = {word: self._argument(known, words[word], word, (*path, word), kind) for word in words}
        first = values.pop(kind)
        if known.takes_first and (first is not True or known.first_is_needed):
            return self._made(lambda **named: known.make(first, **named), values, path, kind)
        if first is not True:
            raise self._wrong((*path, kind), f"it is {first!r}, and a {kind} window has no length; write {kind} = true")
        return self._made(known.make, values, path, kind)

    def _argument(self, known: Word, value: Any, word: str, path: toml_lines.Path, kind: str) -> Any:
        """Return the value of a word as an argument of the window's function."""
        is_length = ("" if word == kind else word) in known.lengths
        return self._length(value, path) if is_length else value

    def _made(self, make: Callable[..., Window], named: dict[str, Any], path: Any, kind: str) -> Window:
        try:
            return make(**named)
        except (MuntinError, TypeError) as error:
            guilty = next((word for word in named if repr(named[word]) in str(error)), kind)
            raise self._wrong((*path, guilty), str(error)) from error

    def _length(self, value: Any, path: toml_lines.Path) -> Any:
        """Return a duration or a number of rows, which may be written as "100 rows" or { rows = 100 }."""
        count = value
        if isinstance(value, dict):
            if set(value) != {"rows"}:
                raise self._wrong(path, "give a duration such as '10 minutes', or { rows = 100 }")
            count = value["rows"]
        elif isinstance(value, str) and (found := _ROWS.fullmatch(value)):
            count = int(found[1])
        else:
            return value
        try:
            return rows(count)
        except MuntinError as error:
            raise self._wrong(path, str(error)) from error

    # ------------------------------------------------------------ aggregates

    def _aggregates(self) -> dict[str, Aggregation]:
        found = self.data.get("aggregates")
        if not isinstance(found, dict) or not found:
            raise self._wrong(("aggregates",), 'give at least one, such as [aggregates] with longest = "max(len)"')
        return {name: self._aggregate(given, ("aggregates", name)) for name, given in found.items()}

    def _aggregate(self, given: Any, path: toml_lines.Path) -> Aggregation:
        if isinstance(given, str):
            name, positional, named = self._call(given, path)
        elif isinstance(given, dict) and isinstance(given.get("agg"), str):
            columns = given.get("columns", [])
            if isinstance(columns, str):
                columns = [columns]
            if not _is_list_of(str, columns):
                raise self._wrong((*path, "columns"), f"it is {columns!r}; give a list of names")
            name, positional = given["agg"], columns
            named = {key: value for key, value in given.items() if key not in ("agg", "columns")}
        else:
            raise self._wrong(path, 'give a text such as "max(len)", or { agg = "max", columns = ["len"] }')
        known = sorted(name for name in dir(aggregations) if _is_aggregation(name))
        if name not in known:
            raise self._wrong(path, f"there is no aggregation {name!r}{hint(name, known, AGGREGATIONS)}")
        try:
            made = getattr(aggregations, name)(*positional, **named)
        except (MuntinError, TypeError) as error:
            guilty = (*path, next(iter(named))) if isinstance(given, dict) and len(named) == 1 else path
            raise self._wrong(guilty, str(error)) from error
        if not isinstance(made, Aggregation):
            raise self._wrong(path, f"{name!r} is no aggregation")
        return made

    def _call(self, text: str, path: toml_lines.Path) -> tuple[str, list[Any], dict[str, Any]]:
        """Return the parts of a text such as "quantile(v, 0.9)"; words are columns, or true and false."""
        whole = _CALL.fullmatch(text)
        if whole is None:
            raise self._wrong(path, f"{text!r} is no aggregation; write it like max(len) or quantile(v, q=0.9)")
        inside = whole[2] or ""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        at = 0
        while inside[at:].strip():
            part = _ARGUMENT.match(inside, at)
            if part is None:
                raise self._wrong(path, f"{inside[at:].strip()!r} in {text!r} is no column and no value")
            if part[1]:
                named[part[1]] = _value(part[2])
            else:
                positional.append(_value(part[2]))
            at = part.end()
        return whole[1], positional, named

    def _wrong(self, path: toml_lines.Path, message: str) -> QueryFileError:
        line = toml_lines.line_of(self.lines, path)
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
        return QueryFileError(f"{self.name}:{line}: {f'{key}: ' if key else ''}{' '.join(message.split())}")


def _is_aggregation(name: str) -> bool:
    return isinstance(getattr(aggregations, name), aggregations.Factory) or name == "count"


def _value(text: str) -> Any:
    """Return a number, true or false, or else a name."""
    if text[0] in "\"'":
        return text[1:-1]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return _WORDS.get(text, text)


def _is_list_of(kind: type, value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, kind) for each in value)
