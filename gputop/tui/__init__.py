"""The screen. Only this package knows Textual; the command registry in it does not."""

from gputop.tui import environment as environment
