"""The command `muntin`: queries from TOML files over files, on Spark or in this process."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. Needs the extra `cli`."""
    try:
        from muntin.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("typer", "rich", "click"):
            raise
        sys.exit(f"muntin: the package {error.name} is missing: pip install 'muntin[cli]'")
    app()
