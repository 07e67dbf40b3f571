"""Declarations of metrics and columns, and number formatting."""
