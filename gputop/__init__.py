"""gputop: a terminal dashboard for a fleet of GPU servers. Importing this package imports nothing else."""

__version__ = "0.1.0"
