"""Incident bundles: all that can be read of hosts now, in one file."""
