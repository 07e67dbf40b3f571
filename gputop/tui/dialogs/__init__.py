"""Textual dialogs of gputop."""
