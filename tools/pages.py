"""Parts of pages that programs write: what stands between two marks."""

from __future__ import annotations

from pathlib import Path


def rewritten(page: Path, begin: str, end: str, part: str) -> str:
    """Return a page with another part between its two marks. O(length of the page)."""
    before, begun, rest = page.read_text().partition(begin)
    _, ended, after = rest.partition(end)
    if not begun or not ended:
        raise SystemExit(f"{page} has no line {begin} followed by {end}")
    return f"{before}{begin}\n{part}\n{end}{after}"
