"""Textual widgets of gputop."""
