"""Textual screens of gputop."""
