"""Sources of events about hosts."""
