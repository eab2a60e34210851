"""Pictures of a tree, as text and as SVG: each node's times, the kind of its aggregate, and the aggregate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from muntin.aggregators.fiba.check import KINDS, children
from muntin.aggregators.fiba.nodes import COUNT, ROOT, SPINE, Arena

ARROWS = {"up": "↑", "inner": "↕", "left": "↙", "right": "↘"}
_COLOURS = {"up": "#dbe7f3", "inner": "#f3e3c3", "left": "#d9ecd4", "right": "#f3d6d6"}
_LETTER, _LINE, _GAP, _PAD, _RISE = 7.2, 17, 14, 8, 34
_TALL = 2 * _LINE + 2 * _PAD


@dataclass(frozen=True)
class Node:
    """A node to draw: its times in one line, below it the kind of its aggregate, and the aggregate."""

    times: tuple[str, ...]
    kind: str
    aggregate: str
    children: tuple[Node, ...]

    @property
    def lines(self) -> tuple[str, str]:
        """The two lines of the picture."""
        return "  ".join(self.times), f"{ARROWS[self.kind]} {self.aggregate}"

    @property
    def width(self) -> int:
        """The length of the longer line."""
        return max(map(len, self.lines))


def picture(window: Arena, arity: int, time: Callable[[int], str], state: Callable[[int], str]) -> Node:
    """Read a non-empty tree; `time` formats a time, `state` the state in a column."""
    times, links, marks = window.times, window.links, window.marks
    columns = 2 * arity

    def read(node: int) -> Node:
        first = node * columns
        shown = tuple(time(int(t)) for t in times[first : first + int(links[4 * node + COUNT])])
        kids = tuple(read(kid) for kid in children(window, node, arity))
        return Node(shown, KINDS[int(links[4 * node + SPINE])], state(first + columns - 1), kids)

    return read(int(marks[ROOT]))


# ---------------------------------------------------------------- text


def as_text(root: Node) -> str:
    """Draw the tree from the root down, a box per node."""
    return "\n".join(line.rstrip() for line in _block(root)[0])


def _box(node: Node) -> list[str]:
    bar = "─" * (node.width + 2)
    return [f"┌{bar}┐", *(f"│ {line:^{node.width}} │" for line in node.lines), f"└{bar}┘"]


def _block(node: Node) -> tuple[list[str], int]:
    """Return the lines of a node's subtree, all of one length, and the place of the node's middle in them."""
    box = _box(node)
    if not node.children:
        return box, len(box[0]) // 2
    blocks = [_block(child) for child in node.children]
    height = max(len(lines) for lines, _ in blocks)
    starts, at = [], 0
    for lines, _ in blocks:
        starts.append(at)
        at += len(lines[0]) + 1
    width = max(at - 1, len(box[0]))
    below = [
        " ".join(lines[row] if row < len(lines) else " " * len(lines[0]) for lines, _ in blocks).ljust(width)
        for row in range(height)
    ]
    middles = [start + middle for start, (_, middle) in zip(starts, blocks, strict=True)]
    middle = (middles[0] + middles[-1]) // 2
    left = min(max(0, middle - len(box[0]) // 2), width - len(box[0]))
    above = [" " * left + line + " " * (width - left - len(line)) for line in box]
    return [*above, _branches(middle, middles, width), *below], middle


def _branches(middle: int, middles: list[int], width: int) -> str:
    """Return the line that joins a node to its children."""
    line = [" "] * width
    line[middles[0] : middles[-1] + 1] = "─" * (middles[-1] - middles[0] + 1)
    for at in middles:
        line[at] = "┬"
    line[middles[0]], line[middles[-1]] = "┌", "┐"
    line[middle] = "┼" if middle in middles else "┴"
    return "".join(line)


# ---------------------------------------------------------------- SVG


def as_svg(root: Node) -> str:
    """Draw the tree as an SVG image, with kinds of aggregate in colours."""
    shapes: list[str] = []
    _place(root, 0, 1, shapes)
    width, height = _extent(root), _depth(root) * (_TALL + _RISE) - _RISE + 2
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'font-family="monospace" font-size="12" text-anchor="middle">'
    )
    return "\n".join([head, *shapes, "</svg>"])


def _depth(node: Node) -> int:
    return 1 + max(map(_depth, node.children), default=0)


def _wide(node: Node) -> float:
    return node.width * _LETTER + 2 * _PAD


def _extent(node: Node) -> float:
    """Return the width of a node's subtree."""
    return max(_wide(node) + _GAP, sum(map(_extent, node.children)))


def _place(node: Node, left: float, top: float, shapes: list[str]) -> float:
    """Draw a node's subtree from `left` on; return the middle of the node."""
    middle = left + _extent(node) / 2
    at = middle - sum(map(_extent, node.children)) / 2
    for child in node.children:
        x = _place(child, at, top + _TALL + _RISE, shapes)
        at += _extent(child)
        shapes.append(
            f'<line x1="{middle:.0f}" y1="{top + _TALL:.0f}" x2="{x:.0f}" y2="{top + _TALL + _RISE:.0f}" '
            f'stroke="#888"/>'
        )
    shapes.append(
        f'<rect x="{middle - _wide(node) / 2:.0f}" y="{top:.0f}" width="{_wide(node):.0f}" height="{_TALL}" rx="4" '
        f'fill="{_COLOURS[node.kind]}" stroke="#555"/>'
    )
    shapes.extend(
        f'<text x="{middle:.0f}" y="{top + _PAD + _LINE * (i + 0.75):.0f}">{escape(line)}</text>'
        for i, line in enumerate(node.lines)
    )
    return middle
