"""Charts of what was measured, in the manner of a paper's figures: lines over a number that grows, or bars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "figures"
MARKS = "osD^vP*X"


@dataclass(frozen=True)
class Chart:
    """Lines by name, each a value for every x; None where there is none. Both axes are logarithmic by default."""

    name: str
    """What the file is called."""
    title: str
    x: str
    y: str
    at: Sequence[float]
    lines: Mapping[str, Sequence[float | None]]
    log_x: bool = True
    log_y: bool = True


def draw(charts: Iterable[Chart], folder: Path = FOLDER) -> list[Path]:
    """Write each chart as a PNG; return the files."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for chart in charts:
        figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
        for mark, (name, values) in zip(MARKS, chart.lines.items(), strict=False):
            points = [(x, y) for x, y in zip(chart.at, values, strict=True) if y is not None]
            axes.plot(*zip(*points, strict=True), marker=mark, markersize=4, linewidth=1, label=name)
        axes.set(title=chart.title, xlabel=chart.x, ylabel=chart.y)
        axes.title.set_size(10)
        if chart.log_x:
            axes.set_xscale("log")
        if chart.log_y:
            axes.set_yscale("log")
        axes.grid(visible=True, which="major", linewidth=0.3)
        axes.legend(fontsize=8)
        written.append(folder / f"{chart.name}.png")
        figure.savefig(written[-1], dpi=90, metadata={"Software": None})
        pyplot.close(figure)
    return written
