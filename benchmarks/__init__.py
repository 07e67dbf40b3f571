"""How much gputop itself costs: `make bench`."""
