"""One clear line on bad input, and the exit code 2."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from muntin.errors import MuntinError

BAD_INPUT = 2
INTERRUPTED = 130


@contextmanager
def one_clear_line() -> Iterator[None]:
    """Turn errors that say what to do into a line on stderr."""
    try:
        yield
    except (MuntinError, OSError) as error:
        print(f"muntin: {' '.join(str(error).split())}", file=sys.stderr)  # noqa: T201  # the line is the point
        sys.exit(BAD_INPUT)
    except KeyboardInterrupt:
        print("muntin: interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(INTERRUPTED)
