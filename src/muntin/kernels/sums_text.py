"""The vocabulary of windows as differences of sums: `terms`, `window_sums`, `emit_sums` and what they need.

The terms of all aggregations are one named tuple, `_T`; the words below repeat one line for each of its numbers. In the
room of `prefix_sums` each number has its own row, so that loops over it vectorise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from muntin.kernels.generate import Part

_HEAD = """\
@jit
def _middle(a, b, c):
    return max(min(a, b), min(max(a, b), c))
@jit
def _lost_by_adding(older, newer, more):
    part = newer - older
    return (older - (newer - part)) + (more - part)
@jit
def _spanned(apart, between):
    high = apart + between
    return high, _lost_by_adding(apart, high, between)
"""


Sums = Literal["no", "as defined", "compensated"]
"""Which sums carry their rounding errors: none, those of definitions that ask for it, or all."""


def term_counts(states: Sequence[tuple[int, Part]], sums: Sums) -> tuple[int, int]:
    """Return the number of terms of a binding's states, and of those with low parts."""
    counts = [(_count(part), part.compensated or sums == "compensated") for _, part in states]
    return sum(count for count, _ in counts), sum(count for count, has_low in counts if has_low)


def _count(part: Part) -> int:
    return len(part.functions["from_sums"].arguments) - 1 - len(part.columns)


def sums_text(states: Sequence[tuple[int, Part]], sums: Sums) -> str:
    """Return the text of every word for the states of a binding. Terms with low parts come first."""
    states = sorted(states, key=lambda each: not each[1].compensated)
    counts = [_count(part) for _, part in states]
    total, low = term_counts(states, sums)
    columns = sorted({c for _, part in states for c in part.columns})
    cells = {c: cell for _, part in states for c, cell in zip(part.columns, part.cells, strict=True)}
    names = [f"t{i}" for i in range(total)]

    def each(name: str, arguments: str, value: Callable[[int], str], before: Sequence[str] = ()) -> str:
        """Return the text of a word that returns a number per term."""
        return _word(name, arguments, [*before, f"return _T({', '.join(value(i) for i in range(total))})"])

    def put(name: str, count: int) -> str:
        writes = [f"room[index(row + {i}), j] = a.t{i}" for i in range(count)]
        return _word(name, "room, row, at, a", ["j = index(at)", *writes])

    reading = ["j = index(at)"]
    return "".join(
        [
            f"_T = namedtuple('_T', {names!r})\n_C = namedtuple('_C', {[f'c{c}' for c in columns]!r})\n{_HEAD}",
            _word("term_count", "", [f"return {total}"]),
            _word("low_count", "", [f"return {low}"]),
            _centre(columns, cells),
            _terms(states, counts),
            _word("no_terms", "", [f"return _T({', '.join(total * ['0.0'])})"]),
            each("add_terms", "a, b", lambda i: f"a.t{i} + b.t{i}"),
            each("subtract_terms", "a, b", lambda i: f"a.t{i} - b.t{i}"),
            each("larger_terms", "a, b", lambda i: f"max(a.t{i}, b.t{i})"),
            each("round_terms", "a, by", lambda i: f"(a.t{i} + by.t{i}) - by.t{i}" if i < low else f"a.t{i}"),
            each("scale_terms", "a, by", lambda i: f"a.t{i} * by"),
            each("term_sizes", "a", lambda i: f"abs(a.t{i})"),
            each("term_rounding", "a, b, c", lambda i: f"_lost_by_adding(a.t{i}, b.t{i}, c.t{i})"),
            each("take_terms", "room, row, at", lambda i: f"room[index(row + {i}), j]", reading),
            each("take_low", "room, row, at", lambda i: f"room[index(row + {i}), j]" if i < low else "0.0", reading),
            put("put_terms", total),
            put("put_low", low),
            _word("outgrown", "peaks, coarse", [f"return not ({_all_within(low)})"]),
            _window_sums(total, low),
            _from_sums(states, counts),
            _lost(states, counts),
        ]
    )


def _word(name: str, arguments: str, lines: Sequence[str]) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"@jit\ndef {name}({arguments}):\n{body}"


def _centre(columns: Sequence[int], cells: dict[int, str]) -> str:
    """Return the text that picks a number near each column: the median of the first, the middle and the last row."""
    lines = []
    for c in columns:
        three = [cells[c].replace("[j]", f"[index({row})]") for row in ("first", "(first + last) // 2", "last")]
        lines.append(f"c{c} = _middle({', '.join(f'float({cell})' for cell in three)})")
    return _word("centre", "columns, first, last", [*lines, f"return _C({', '.join(f'c{c}' for c in columns)})"])


def _terms(states: Sequence[tuple[int, Part]], counts: Sequence[int]) -> str:
    lines, values = ["j = index(row)"], []
    for (k, part), count in zip(states, counts, strict=True):
        lines.append(f"p{k} = _p{k}_terms({', '.join([*part.cells, *(f'around.c{c}' for c in part.columns)])})")
        values += [f"float(p{k}[{i}])" for i in range(count)]
    return _word("terms", "columns, row, around", [*lines, f"return _T({', '.join(values)})"])


def _all_within(low: int) -> str:
    """Return the text of whether the high sums of all terms with low parts are exact, as they are up to these peaks."""
    return " and ".join([f"peaks.t{i} <= coarse.t{i} * 0.25" for i in range(low)] or ["True"])


def _window_sums(total: int, low: int) -> str:
    """Return the text of a window's sums, and what is added last, which bounds the error of the addition."""
    lines = ["i, j = index(i), index(j)"]
    for t in range(total):
        upper, lower = f"room[index(upper + {t}), i]", f"room[index(lower + {t}), j]"
        if t < low:
            apart = f"room[index(upper + {total + t}), i] - room[index(lower + {total + t}), j]"
            lines += [f"h{t}, l{t} = _spanned({upper} - {lower}, high.t{t})", f"l{t} += ({apart}) + low.t{t}"]
        else:
            lines += [f"h{t} = ({upper} - {lower}) + high.t{t}", f"l{t} = low.t{t}"]
    sums = ", ".join(f"h{t} + l{t}" for t in range(total))
    rests = ", ".join(f"l{t}" for t in range(total))
    return _word("window_sums", "room, upper, i, lower, j, high, low", [*lines, f"return _T({sums}), _T({rests})"])


def _from_sums(states: Sequence[tuple[int, Part]], counts: Sequence[int]) -> str:
    lines, at = [], 0
    for (k, part), count in zip(states, counts, strict=True):
        given = [*(f"around.c{c}" for c in part.columns), *(f"sums.t{i}" for i in range(at, at + count))]
        lines.append(f"p{k} = _p{k}_from_sums({', '.join(['n', *given])})")
        at += count
    whole = f"_S({', '.join(f'p{k}' for k, _ in sorted(states, key=lambda each: each[0]))})"
    return _word("emit_sums", "outputs, row, n, around, sums", [*lines, f"emit(outputs, row, {whole})"])


def _lost(states: Sequence[tuple[int, Part]], counts: Sequence[int]) -> str:
    lines, at, parts = [], 0, []
    for (k, _), count in zip(states, counts, strict=True):
        numbers = range(at, at + count)
        lines += [f"e{i} = limits.t{i} + 2.0**-51 * abs(rests.t{i})" for i in numbers]
        given = [*(f"sums.t{i}" for i in numbers), *(f"e{i}" for i in numbers)]
        parts.append(f"_p{k}_lost({', '.join(['n', *given])})")
        at += count
    return _word("lost_digits", "n, sums, rests, limits", [*lines, f"return {' | '.join(parts)}"])
