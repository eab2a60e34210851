"""The words by which query files name kinds of windows, and the options of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

_Make = TypeVar("_Make", bound=Callable[..., Any])


@dataclass(frozen=True)
class Word:
    """How a kind of window is written in a query file: `NAME = first`, and options beside it."""

    make: Callable[..., Any]
    lengths: frozenset[str]
    """Which of the first argument ("") and the options are lengths: durations, or numbers of rows."""
    options: tuple[str, ...]
    required: Mapping[str, str]
    """The required options, each with an example."""
    takes_first: bool = True
    """Whether the function takes a first argument; if not, it is written `NAME = true`."""
    first_is_needed: bool = True
    """Whether it must be given; if not, `NAME = true` leaves it out."""


WORDS: dict[str, Word] = {}
"""The kinds of windows that a file can name, by word."""


def word(
    *,
    first_is_length: bool = True,
    takes_first: bool = True,
    first_is_needed: bool = True,
    lengths: tuple[str, ...] = (),
    plain: tuple[str, ...] = (),
    required: Mapping[str, str] | None = None,
) -> Callable[[_Make], _Make]:
    """Let query files name windows by the function that creates them.

    `lengths` and `plain` are its options, `required` the mandatory ones, each with an example. The first argument is a
    length unless `first_is_length` is false; unless `first_is_needed` it may be left out, by `NAME = true`, which is
    all that can be written if `takes_first` is false.

    >>> sorted(WORDS)[:2]
    ['calendar', 'cumulative']
    """

    def decorate(make: _Make) -> _Make:
        own = ("",) if first_is_length and takes_first else ()
        options = (*lengths, *plain)
        WORDS[make.__name__] = Word(
            make, frozenset((*own, *lengths)), options, required or {}, takes_first, first_is_needed
        )
        return make

    return decorate
