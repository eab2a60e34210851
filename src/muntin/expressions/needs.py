"""What expressions need besides this library."""

from __future__ import annotations

from muntin.errors import UnsupportedOperationError


def require_sqlglot(what: str) -> None:
    """Reject where the parser is not installed, or cannot be extended, and say what to do."""
    try:
        from sqlglot import parser
    except ModuleNotFoundError as error:
        raise UnsupportedOperationError(f"{what} by sqlglot: pip install 'muntin[sql]'") from error
    if not str(parser.__file__).endswith(".py"):
        raise UnsupportedOperationError(
            f"{what} by a parser that extends sqlglot's, and the compiled one, of the package sqlglotc, cannot be "
            "extended: pip uninstall sqlglotc"
        )
