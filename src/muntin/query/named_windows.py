"""The windows of a query, with optional names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from muntin.durations import parse_duration
from muntin.errors import InvalidArgumentError
from muntin.windows.base import Window


class NamedWindows(tuple[Window, ...]):  # noqa: SLOT001  # a tuple has no room for slots
    """The windows of a query, with their names."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, given: Any) -> NamedWindows:
        """Return windows given as one, several, or by name. Unnamed ones are called w0, w1, ..."""
        if isinstance(given, NamedWindows):
            return given
        _require_several(given)
        named = isinstance(given, Mapping)
        windows = cls((given,) if isinstance(given, Window) else given.values() if named else given)
        windows.names = tuple(given) if named else tuple(f"w{i}" for i in range(len(windows)))
        for name in windows.names:
            if not isinstance(name, str) or not name:
                raise InvalidArgumentError(f"a window has the name {name!r}; give it a text")
        return windows

    @property
    def by_name(self) -> dict[str, Window]:
        """The windows by their names."""
        return dict(zip(self.names, self, strict=True))

    def __eq__(self, other: object) -> bool:
        """Return whether these are the same windows, with the same names if both have some."""
        return super().__eq__(other) and (not isinstance(other, NamedWindows) or self.names == other.names)

    def __ne__(self, other: object) -> bool:
        """Return whether the windows or their names differ."""
        return not self == other

    def __hash__(self) -> int:
        """Hash by the windows."""
        return super().__hash__()

    @property
    def as_given(self) -> Window | list[Window] | dict[str, Window]:
        """One window, a list, or a mapping, as given."""
        if self.names != NamedWindows.of(list(self)).names:
            return self.by_name
        return self[0] if len(self) == 1 else list(self)


def _require_several(given: Any) -> None:
    if isinstance(given, str | bytes) or not isinstance(given, Window | Iterable):
        raise InvalidArgumentError(f"windows is {given!r}; give one, such as {_example(given)}, or several")


def _example(given: Any) -> str:
    """Return an example of a window as written, with the given duration if it is one."""
    try:
        return f"window.tumbling({given!r})" if parse_duration(given) > 0 else "window.tumbling('1 minute')"
    except (InvalidArgumentError, TypeError):
        return "window.tumbling('1 minute')"


class Windows:
    """The windows of a query: set in one of three forms, and stored as a tuple."""

    def __get__(self, query: object, of: type | None = None) -> NamedWindows:
        """Return the windows; the class has none, so a query requires them."""
        if query is None:
            raise AttributeError("windows")
        windows: NamedWindows = vars(query)["windows"]
        return windows

    def __set__(self, query: object, given: Window | Sequence[Window] | Mapping[str, Window]) -> None:
        """Set the windows, in any of the three forms."""
        vars(query)["windows"] = NamedWindows.of(given)
