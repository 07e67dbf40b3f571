"""`python -m gputop`, and the `gputop` program."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; the exit code."""
    from gputop.cli.main import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
