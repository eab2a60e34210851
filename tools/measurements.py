"""Writes the page of measurements, its charts and the four numbers of the README, from benchmarks/results.json.

    python tools/measurements.py [--check]

Nothing is measured here: `python benchmarks/run.py --write-readme` measures, and then runs this. `--check` writes
nothing, and fails where something would change.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tools")]

from charts import Chart  # noqa: E402  # now that its folder is known
from draw_charts import draw  # noqa: E402
from harness import OURS, Figure, Timing, duration, remembered  # noqa: E402
from pages import rewritten  # noqa: E402  # its folder, too, is known only now
from run import EXPERIMENTS  # noqa: E402
from svg import FIGURES  # noqa: E402

README, PAGE = ROOT / "README.md", ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"


def name_of(figure: Figure) -> str:
    """Return the name by which a figure is known."""
    return f"{figure.experiment}: {figure.what}"


def named(figures: Iterable[Figure], begin: str) -> Figure:
    """Return the figure whose name begins so."""
    for figure in figures:
        if name_of(figure).startswith(begin):
            return figure
    raise LookupError(f"there is no figure {begin!r} in benchmarks/results.json")


# ---------------------------------------------------------------- the README

FOUR = {
    "spark_streaming: 10 keys, 24 h every 1 min, 10 rows a second, 5 M a batch, muntin over two levels": (
        "The last 24 hours, every minute, on a Spark stream",
        "Spark's best plan: tumbling windows, then sliding ones over these",
    ),
    "spark_streaming: 10,000 keys, 60 s every 1 s, muntin over two levels": (
        "The last minute, every second, of 10,000 keys on a Spark stream",
        "the same plan",
    ),
    "slide_extremes: max, range 1024, 10 M rows": ("The maximum of the last 1,024 values of an array", ""),
    "slide_by_time: max": ("The maximum of the last hour of an array with times", ""),
}
"""What the README shows, by how its name begins: a plain label, and what the other is, where its name does not say."""


def four_numbers(figures: Sequence[Figure], facts: Mapping[str, str]) -> str:
    """Return the table of the README."""
    lines = ["| | muntin | next best | |", "|---|---|---|---|"]
    for begin, (label, explained) in FOUR.items():
        figure = named(figures, begin)
        ours, (name, other) = figure.times[OURS], fastest_rival(figure)
        lines.append(
            f"| {label} | {brief(ours.median)} a row | {brief(other.median)}, {explained or name} "
            f"| **{other.median / ours.median:.2g} times as fast** |"
        )
    return "\n".join([*lines, "", f"Medians; {facts['processor']}, {facts['date']}."])


def fastest_rival(figure: Figure) -> tuple[str, Timing]:
    """Return the fastest of those that a figure is measured against."""
    rivals = [(name, time) for name, time in figure.times.items() if time.rival and name != OURS]
    return min(rivals, key=lambda each: each[1].median)


def brief(nanoseconds: float) -> str:
    """Return a time with few digits.

    >>> brief(1.29), brief(470.2), brief(18_042_337)
    ('1.3 ns', '470 ns', '18 ms')
    """
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if nanoseconds >= 10 * unit or (unit == 1e9 and nanoseconds >= unit):
            return f"{nanoseconds / unit:.3g} {name}"
    return f"{nanoseconds:,.0f} ns" if nanoseconds >= 100 else f"{nanoseconds:.2g} ns"


# ---------------------------------------------------------------- the topics of the page


def over(
    experiment: str, pattern: str, name: str, title: str, x: str, *, y: str = "ns a row", per_second: bool = False
) -> ChartMaker:
    """Return what makes a chart of the figures of an experiment that differ in one number, the group of a pattern."""

    def chart(figures: Sequence[Figure]) -> Chart | None:
        mine = [(re.fullmatch(pattern, each.what), each) for each in figures if each.experiment == experiment]
        points = sorted((float(found[1].replace(",", "")), each.times) for found, each in mine if found)
        if not points:
            return None
        names = list(dict.fromkeys(entrant for _, times in points for entrant in times))
        lines = {entrant: [_read(times, entrant, per_second=per_second) for _, times in points] for entrant in names}
        return Chart(name, title, x, "rows a second" if per_second else y, [at for at, _ in points], lines)

    return chart


def _read(times: Mapping[str, Timing], entrant: str, *, per_second: bool) -> float | None:
    if entrant not in times:
        return None
    return 1e9 / times[entrant].median if per_second else times[entrant].median


def stored(name: str) -> ChartMaker:
    """Return what finds a chart that was saved with a figure."""
    return lambda figures: next((each.chart for each in figures if each.chart and each.chart.name == name), None)


def from_note(begin: str, pattern: str, entrants: Sequence[str], name: str, title: str, x: str) -> ChartMaker:
    """Return what makes a chart of the lines of a note: a pattern of x, and then of the time of each entrant."""

    def chart(figures: Sequence[Figure]) -> Chart:
        points = [[float(each) for each in line] for line in re.findall(pattern, named(figures, begin).note)]
        lines = {entrant: [point[i + 1] for point in points] for i, entrant in enumerate(entrants)}
        return Chart(name, title, x, "ns a row", [point[0] for point in points], lines)

    return chart


ChartMaker = Callable[[Sequence[Figure]], Chart | None]


class Topic(NamedTuple):
    """A section of the page: a chart, and a short table of all figures of some experiments."""

    title: str
    text: str
    experiments: tuple[str, ...]
    chart: ChartMaker | None = None
    notes: tuple[str, ...] = ()
    """Figures whose note is a table of its own, by how their names begin."""


TOPICS = (
    Topic(
        "Arrays",
        "`muntin.slide` over 10 million rows, one thread, beside other libraries, each in its fastest documented way. "
        "What a row costs does not grow with the window. The means of bottleneck and numbagg are faster and "
        "lose digits; see [Numerics](numerics.md).",
        ("slide_extremes", "slide_moments", "slide_by_time", "median", "over", "own_aggregation", "fused", "threads"),
        over("slide_extremes", r"max, range (\d+), .*", "arrays_max", "Maximum over an array", "rows in a window"),
    ),
    Topic(
        "Structures",
        "Row by row: insert, evict, query. The constant ones are flat; trees pay a logarithm for what else they can.",
        ("structures", "flat_fat", "boundary", "latency"),
        from_note(
            "flat_fat: FlatFat over BaseIntervals",
            r"n = +(\d+): FlatFat +([\d.]+) ns, BaseIntervals +([\d.]+) ns",
            ("FlatFat", "BaseIntervals"),
            "flat_fat",
            "Maximum, a slide of one row, by window",
            "rows in a window",
        ),
        ("flat_fat: aggregations for which", "latency: most combines"),
    ),
    Topic(
        "Streams",
        "Rows of a sensor, many windows at once, a sum. Slices are shared by all windows, so that a thousand of them "
        "cost little more than one. The tuple buffer was measured with an earlier release, which had it.",
        ("slicing_rows", "slicing_rivals", "slicing_latency"),
        stored("figure_09_throughput"),
    ),
    Topic(
        "Windows by rows, and medians",
        "A row out of order changes the numbers of all later ones; a median needs values. Against a tuple buffer, over "
        "which each window takes a pass. Windows by rows were measured with an earlier release, whose streams had "
        "slices of row numbers, and such a buffer; today all of them come from rows in order.",
        ("count_windows", "holistic"),
        over(
            "count_windows",
            r"sum, (\d+) tumbling .*",
            "count_windows",
            "Sum, windows by rows, 20 % out of order",
            "windows at once",
            per_second=True,
        ),
    ),
    Topic(
        "Keys and memory",
        "What a stream keeps for late rows, and what a row costs where there are many keys. The tuple buffer was "
        "measured with an earlier release, which had it.",
        (
            "slicing_keys",
            "keys",
            "slicing_memory",
            "table_run",
            "small_pushes",
            "incremental",
            "tiles_push",
            "holistic_frames",
            "ask",
        ),
        stored("figure_10b_memory"),
    ),
    Topic(
        "Rows out of order, in bulk",
        "`Fiba` inserts a bulk in one walk, and drops one without touching its rows.",
        ("fiba", "citi_bike"),
        over(
            "fiba",
            r"bulk_insert, n = 4194304, m = 1024, d = (\d+), .*",
            "fiba_bulk_insert",
            "Inserting 1,024 rows into 4 M, by distance",
            "rows that are passed",
        ),
    ),
    Topic(
        "Evicting many rows, and stores",
        "Monoid trees drop any number of rows in logarithmic time, and keep their body in LMDB or Redis.",
        ("monoid_trees",),
        over(
            "monoid_trees",
            r"bulk eviction of (\d+) from .*",
            "bulk_eviction",
            "Evicting many of 8 M rows at once, and a query",
            "rows evicted",
            y="ns",
        ),
    ),
    Topic(
        "Spark",
        "Streams on a local Spark with two cores, beside Spark's own operators: `F.window`, and *two levels*, tumbling "
        "windows and then sliding ones over these, the best plan that Spark has. *dropped* is Python that throws its "
        "rows away: what Arrow and the way to Python cost alone.",
        ("spark_streaming", "spark_batch", "spark_over", "spark_state"),
        over(
            "spark_batch",
            r"trailing max of ([\d,]+) rows, over rowsBetween",
            "spark_trailing",
            "Maximum of the last rows, a finite table on Spark",
            "rows in a window",
        ),
    ),
    Topic("The first call", "Until its kernels are compiled a query runs as plain Python.", ("cold_start",)),
)


MORE = "More in the [table of all figures](#all-figures-and-their-targets)."
DETAIL = re.compile(
    r"range (16|32768|262144)\b|^min,|n = 1024$|^max, \d+ tumbling|full_max|(sum|max), (10|20|100) tumbling"
)
"""Figures between others of the same kind, which only the table of all figures has."""


def section(topic: Topic, figures: Sequence[Figure]) -> str:
    """Return a topic as Markdown."""
    mine = [each for each in figures if each.experiment in topic.experiments and not DETAIL.search(each.what)]
    lines = [f"## {topic.title}", "", topic.text, ""]
    chart = topic.chart(figures) if topic.chart is not None else None
    if chart is not None:
        lines += [f"![{chart.title}](figures/{chart.name}.svg)", ""]
    lines += ["| | muntin | fastest other | |", "|---|---|---|---|", *map(table_row, mine), ""]
    for begin in topic.notes:
        figure = named(figures, begin)
        lines += [f"{figure.what[0].upper()}{figure.what[1:]}:", "", "```text", _dedented(figure.note), "```", ""]
    names = " ".join(f"`{name}`" for name in topic.experiments if any(each.experiment == name for each in mine))
    return "\n".join([*lines, f"{MORE} To run them: `muntin bench` with {names}."])


def _dedented(note: str) -> str:
    return "\n".join(line.removeprefix("  ") if i else line for i, line in enumerate(note.splitlines()))


def table_row(figure: Figure) -> str:
    """Return a figure as a row of a short table."""
    entrants = list(figure.times.items())
    first = f"{_entrant(entrants[0][0])}{brief(entrants[0][1].median)}" if entrants else ""
    others = [each for each in entrants[1:] if each[1].rival] or entrants[1:]
    other = min(others, key=lambda each: each[1].median, default=None)
    second = f"{other[0]} {brief(other[1].median)}" if other else ""
    return f"| {figure.what} | {first} | {second} | {value_of(figure)} |"


def _entrant(name: str) -> str:
    return "" if name == OURS else f"{name} "


def value_of(figure: Figure) -> str:
    """Return the value of a figure with its unit; a ratio as times."""
    if figure.value is None:
        return "no rival"
    digits = f"{figure.value:.3g}" if figure.value < 1000 else f"{figure.value:,.0f}"
    return f"{digits} times" if figure.unit == "x" else f"{digits}{figure.unit}"


# ---------------------------------------------------------------- where others are faster

LIBRARIES = ("bottleneck", "polars", "pandas", "numbagg", "duckdb", "two levels", "F.window", "dictionary_encode")
NATIVE = ("rowsBetween", "rangeBetween", "range join")


def slower(figures: Iterable[Figure]) -> str:
    """Return a table of all that another library does in less time than muntin."""
    lines = ["| | muntin | faster | by |", "|---|---|---|---|"]
    for figure in figures:
        ours = figure.times.get(OURS)
        theirs = [(name, each) for name, each in figure.times.items() if name.startswith((*LIBRARIES, *NATIVE))]
        faster = [(name, each.median) for name, each in theirs if ours is not None and each.median < ours.median]
        if ours is not None and faster:
            shown = ", ".join(f"{name} {brief(median)}" for name, median in faster)
            by = f"{ours.median / min(median for _, median in faster):.3g} times"
            lines.append(f"| {figure.what} | {brief(ours.median)} | {shown} | {by} |")
    return "\n".join(lines)


# ---------------------------------------------------------------- the papers

OF_PAPERS = """## The experiments of the papers

Every experiment of the five papers behind muntin, with what they found and what we found. Machines, languages and data
differ, so that ratios compare and times do not. "Not measured" is what we have no benchmark of."""
DAGGER = " †"
OF_ALL = r"""## All figures, and their targets

Times are medians a row. \* is shown, and not counted as a rival. The targets are our own. Tuple buffers of
`count_windows` and `slicing_rivals` are those of an earlier release, which had them."""
STAR = " \\*"
TOKEN = re.compile(r"\{(value|time|note|column): ([^{}|]+?)(?: \| ([^{}]+?))?\}")


def filled(text: str, figures: Sequence[Figure]) -> str:
    """Return a text of papers.toml with the figures in their places."""

    def figure(found: re.Match[str]) -> str:
        kind, begin, entrant = found.groups()
        measured = named(figures, begin)
        mark = DAGGER if measured.by_processor else ""
        if kind == "value":
            return value_of(measured) + mark
        if kind == "time":
            return brief(measured.times[entrant].median) + mark
        return _in_note(measured, entrant) if kind == "note" else _column(measured, entrant)

    try:
        return TOKEN.sub(figure, text)
    except LookupError:
        return "not measured yet"


def _in_note(figure: Figure, pattern: str) -> str:
    """Return the number behind a pattern in the note of a figure."""
    found = re.search(rf"{pattern}\s+([\d.,]+)", figure.note)
    if found is None:
        raise SystemExit(f"the note of {name_of(figure)!r} has nothing like {pattern!r}")
    return found[1]


def _column(figure: Figure, title: str) -> str:
    """Return the least and the greatest number of a column of the table in the note of a figure."""
    head, *lines = figure.note.splitlines()
    place = len(head.split()) - head.split().index(title)
    found = [line.split()[-place] for line in lines]
    numbers = [int(each) for each in found if each.isdecimal()]
    never = f", never for {len(found) - len(numbers)} of {len(found)}" if len(numbers) < len(found) else ""
    return f"{min(numbers)} to {max(numbers)}{never}"


def paper_table(experiments: Iterable[Mapping[str, str]], figures: Sequence[Figure]) -> str:
    """Return the experiments of a paper as a table."""
    lines = ["| | what | the paper | here | run |", "|---|---|---|---|---|"]
    for each in experiments:
        run = f"`muntin bench {each['run']}`" if "run" in each else ""
        lines.append(
            f"| {each['where']} | {each['asks']} | {each['paper']} | {filled(each['ours'], figures)} | {run} |"
        )
    return "\n".join(lines)


def papers(figures: Sequence[Figure]) -> str:
    """Return the experiments of all papers."""
    found = tomllib.loads((ROOT / "tools" / "papers.toml").read_text())["papers"]
    tables = [f"### {each['title']}\n\n{paper_table(each['experiments'], figures)}" for each in found]
    return "\n\n".join([OF_PAPERS, *tables])


# ---------------------------------------------------------------- all figures


def everything(figures: Iterable[Figure]) -> str:
    """Return all figures with all times, and the targets that were set before they were measured."""
    lines = ["| what | muntin | the others | result | target | reached |", "|---|---|---|---|---|---|"]
    for figure in figures:
        ours, *others = [*figure.times.items()] or [(OURS, None)]
        rest = ", ".join(f"{name} {duration(t.median)}{'' if t.rival else STAR}" for name, t in others)
        value = "no rival" if figure.value is None else f"{figure.value:.2f}{figure.unit}"
        bound = f"{'≥' if figure.at_least else '≤'} {figure.target:g}{figure.unit}"
        answer = {True: "yes", False: "no", None: "-"}[figure.reached]
        first = (
            f"{duration(ours[1].median)}{'' if ours[0] == OURS else f' ({ours[0]})'}" if ours[1] is not None else "-"
        )
        mark = DAGGER if figure.by_processor else ""
        lines.append(f"| {name_of(figure)}{mark} | {first} | {rest} | {value} | {bound} | {answer} |")
    return "\n".join(lines)


def page(figures: Sequence[Figure], facts: Mapping[str, str]) -> str:
    """Return all that stands on the page but for its head."""
    versions = [f"{name} {fact}" for name, fact in facts.items() if name not in ("processor", "date", "load")]
    where = f"{facts['processor']}; {facts['date']}; {', '.join(versions)}."
    return "\n\n".join(
        [
            where,
            "## Where muntin is slower\n\nAll that another library did in less time, on this machine:",
            slower(figures),
            *(section(topic, figures) for topic in TOPICS),
            papers(figures),
            OF_ALL,
            everything(figures),
        ]
    )


def contents() -> dict[Path, str]:
    """Return all files with what should be in them."""
    figures, facts = remembered(EXPERIMENTS)
    parts = {PAGE: page(figures, facts), README: four_numbers(figures, facts)}
    made = [topic.chart(figures) for topic in TOPICS if topic.chart is not None]
    charts = {FIGURES / f"{chart.name}.svg": draw(chart).svg() for chart in made if chart is not None}
    return {path: rewritten(path, BEGIN, END, part) for path, part in parts.items()} | charts


def main(arguments: Sequence[str]) -> int:
    """Write all, or say what is not as it should be."""
    wanted = contents()
    if "--check" in arguments:
        stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not what python tools/measurements.py writes", file=sys.stderr)
        return 1 if stale else 0
    for path, text in wanted.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
