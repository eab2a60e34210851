"""Long work in a notebook: a bar below the cell says how far it has come. Elsewhere nothing is shown."""

from __future__ import annotations

import html
import sys
import threading
import time
from types import TracebackType
from typing import Any, Self

_AFTER = 1.0
"""Seconds that work may take before it is shown."""
_EVERY = 0.5


def shell() -> Any:
    """Return the shell of IPython that this runs in; None elsewhere. IPython is not imported. O(1)."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


class Progress:
    """Shows what is done in a notebook, once it takes longer than a second, and takes it away at the end.

    Made for a `with` statement; `step` says that one of the `steps` is done. O(1), but for a thread in notebooks.

    >>> with Progress("10 rows", steps=2) as progress:
    ...     progress.step()
    >>> progress.done
    1
    """

    def __init__(self, what: str, steps: int = 0, *, after: float = _AFTER) -> None:
        self.what = what
        self.steps = steps
        self.done = 0
        self._after = after
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Begin to watch, in a notebook."""
        if hasattr(shell(), "kernel"):
            self._thread = threading.Thread(target=self._watch, name="muntin-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Take away what is shown."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def step(self) -> None:
        """Say that one more step is done."""
        self.done += 1

    def _watch(self) -> None:
        begun = time.monotonic()
        if self._over.wait(self._after):
            return
        from IPython.display import HTML, display

        shown = display(HTML(self.as_html(time.monotonic() - begun)), display_id=True)
        while not self._over.wait(_EVERY):
            shown.update(HTML(self.as_html(time.monotonic() - begun)))
        shown.update(HTML(""))

    def as_html(self, seconds: float) -> str:
        """Return a bar and a line; without steps, a bar that only says that it goes on.

        >>> Progress("10 rows", steps=4).as_html(2.0)
        '<progress value="0" max="4"></progress> muntin: 10 rows, 2 s'
        """
        part = f' value="{self.done}" max="{self.steps}"' if self.steps else ""
        return f"<progress{part}></progress> muntin: {html.escape(self.what)}, {seconds:.0f} s"
