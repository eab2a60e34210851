"""The command `muntin`: queries from TOML files over files, on Spark or in this process."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


def main() -> None:
    """Run the command line. Needs the extra `cli`."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # in the background of some shells it is ignored, and must stay so
        signal.signal(signal.SIGINT, _end)
    try:
        from muntin.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("typer", "rich", "click"):
            raise
        sys.exit(f"muntin: the package {error.name} is missing: pip install 'muntin[cli]'")
    signal.signal(signal.SIGINT, before)
    app()


def _end(*_: Any) -> None:
    """End at once: an exception in the middle of imports would show their lines, or be taken for a missing package."""
    os.write(2, b"muntin: interrupted\n")
    os._exit(INTERRUPTED)
