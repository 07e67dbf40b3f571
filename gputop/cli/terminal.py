"""Repairs a terminal after a full-screen program was killed."""

from __future__ import annotations

import sys
import termios

from gputop.tui.terminal import RESET


def reset() -> None:
    """Write the reset sequence to standard output, and let the terminal echo and edit lines again."""
    sys.stdout.write(RESET.decode("ascii"))
    sys.stdout.flush()
    if sys.stdin.isatty():
        descriptor = sys.stdin.fileno()
        modes = termios.tcgetattr(descriptor)
        modes[0] |= termios.ICRNL | termios.IXON
        modes[1] |= termios.OPOST | termios.ONLCR
        modes[3] |= termios.ECHO | termios.ECHOE | termios.ECHOK | termios.ICANON | termios.ISIG | termios.IEXTEN
        termios.tcsetattr(descriptor, termios.TCSADRAIN, modes)
