"""Saved output of management tools, as samples: pure functions from text to rows."""
