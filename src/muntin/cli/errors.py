"""One clear line on bad input, and the exit code 2; silence if the reader of a pipe has gone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from muntin.cli import INTERRUPTED
from muntin.errors import MuntinError

BAD_INPUT = 2
NO_READER = 141
"""The exit code of a program ended by a broken pipe: `muntin run ... | head` prints nothing."""


class InputError(MuntinError):
    """Rows cannot be read from there. The message names the path."""


class OutputError(MuntinError):
    """Windows cannot be written there. The message names the path."""


@contextmanager
def one_clear_line() -> Iterator[None]:
    """Turn muntin's errors into a line on stderr."""
    try:
        yield
        sys.stdout.flush()  # here, to distinguish a lost reader from bad input
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for output still buffered at exit
        sys.exit(NO_READER)
    except (MuntinError, OSError) as error:
        print(f"muntin: {' '.join(str(error).split())}", file=sys.stderr)  # noqa: T201  # the line is the point
        sys.exit(BAD_INPUT)
    except KeyboardInterrupt:
        print("muntin: interrupted", file=sys.stderr)  # noqa: T201
        sys.exit(INTERRUPTED)
