"""What is known about faults, as data and pure functions."""
