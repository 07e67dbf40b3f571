"""Repairs a terminal after a full-screen program was killed."""

from __future__ import annotations

import sys
import termios

RESET = (
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l"  # mouse reports off
    "\x1b[?1004l"  # focus reports off
    "\x1b[?2004l"  # bracketed paste off
    "\x1b[?2026l"  # synchronized output off
    "\x1b[<u"  # kitty keyboard protocol off
    "\x1b[?1049l"  # back from the alternate screen
    "\x1b[?7h\x1b[?25h\x1b[0m"  # wrap lines, show the cursor, plain text
)


def reset() -> None:
    """Write the reset sequence to standard output, and let the terminal echo and edit lines again."""
    sys.stdout.write(RESET)
    sys.stdout.flush()
    if sys.stdin.isatty():
        descriptor = sys.stdin.fileno()
        modes = termios.tcgetattr(descriptor)
        modes[0] |= termios.ICRNL | termios.IXON
        modes[1] |= termios.OPOST | termios.ONLCR
        modes[3] |= termios.ECHO | termios.ECHOE | termios.ECHOK | termios.ICANON | termios.ISIG | termios.IEXTEN
        termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)
