"""The line of each key in a TOML text, which the standard library's parser does not tell.

The text has been parsed before, so this only handles well-formed text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

Path = tuple[str | int, ...]
_STRING = re.compile(r'"""(?:\\.|.)*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\])*"|\'[^\']*\'', re.DOTALL)
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BLANK = re.compile(r"(?:[ \t\r\n,]|#[^\n]*)*")
_SCALAR = re.compile(r"[^\s,\]}#]+(?: \d\d:[^\s,\]}#]+)?")


def lines_of(text: str) -> Mapping[Path, int]:
    r"""Return the line of every key and every element of an array, by its path. O(n).

    >>> lines_of('time = "ts"\n[[windows]]\nsession = 5\n')
    {('time',): 1, ('windows',): 2, ('windows', 0): 2, ('windows', 0, 'session'): 3}
    """
    return _Reader(text).read()


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """Return the line of a path, or of its nearest parent that has one; else 1.

    >>> line_of({("windows", 0): 7}, ("windows", 0, "every"))
    7
    """
    return next((lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in lines), 1)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Path, int] = {}
        self.tables: dict[Path, int] = {}  # the number of tables in an array of tables so far

    def read(self) -> dict[Path, int]:
        here: Path = ()
        while self._skip():
            if self.text.startswith("[[", self.at):
                here = self._header(2)
                number = self.tables.get(here, 0)
                self.tables[here] = number + 1
                here = (*here, number)
                self._note(here)
            elif self.text[self.at] == "[":
                here = self._header(1)
                self._note(here)
            else:
                self._assignment(here)
        return self.lines

    def _skip(self) -> bool:
        """Skip space and comments; return whether anything follows."""
        found = _BLANK.match(self.text, self.at)
        assert found is not None
        self.at = found.end()
        return self.at < len(self.text)

    def _note(self, path: Path) -> None:
        line = self.text.count("\n", 0, self.at) + 1
        for n in range(1, len(path) + 1):
            self.lines.setdefault(path[:n], line)

    def _header(self, brackets: int) -> Path:
        self.at += brackets
        names = self._names()
        path: Path = ()
        for i, name in enumerate(names):
            path = (*path, name)
            is_the_array = brackets == 2 and i == len(names) - 1
            if path in self.tables and not is_the_array:
                path = (*path, self.tables[path] - 1)
        self.at = self._end_of_space() + brackets
        return path

    def _end_of_space(self) -> int:
        at = self.at
        while self.text[at] in " \t":
            at += 1
        return at

    def _names(self) -> list[str]:
        """Read a key, perhaps dotted."""
        names = []
        while True:
            self.at = self._end_of_space()
            found = _STRING.match(self.text, self.at) or _BARE.match(self.text, self.at)
            assert found is not None
            names.append(found[0].strip("\"'"))
            self.at = found.end()
            self.at = self._end_of_space()
            if self.text[self.at] != ".":
                return names
            self.at += 1

    def _assignment(self, here: Path) -> None:
        begin = self.at
        path = (*here, *self._names())
        after, self.at = self.at, begin
        self._note(path)
        self.at = after + 1  # the equals sign
        self._value(path)

    def _value(self, path: Path) -> None:
        self._skip()
        opening = self.text[self.at]
        if opening == "[":
            self._elements(path)
        elif opening == "{":
            self.at += 1
            while self._skip() and self.text[self.at] != "}":
                self._assignment(path)
            self.at += 1
        else:
            found = _STRING.match(self.text, self.at) or _SCALAR.match(self.text, self.at)
            assert found is not None
            self.at = found.end()

    def _elements(self, path: Path) -> None:
        self.at += 1
        number = 0
        while self._skip() and self.text[self.at] != "]":
            self._note((*path, number))
            self._value((*path, number))
            number += 1
        self.at += 1
