"""Filter, sort and group: pure functions from text to predicates and orders."""
