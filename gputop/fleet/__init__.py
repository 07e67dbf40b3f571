"""The Fleet: the immutable picture of all hosts, and what folds events into it."""
