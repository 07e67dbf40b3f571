"""The demo fleet: a pure function of (seed, time) that speaks the wire protocol. No GPU, no server, no clock."""

from gputop.sources.demo.hosts import (
    DEFAULT_HOSTS,
    DEFAULT_SEED,
    FEWEST_HOSTS,
    INTERVAL_SECONDS,
    MOST_HOSTS,
    DemoHost,
    plan,
)
from gputop.sources.demo.messages import frame, hello
from gputop.sources.demo.trouble import Condition, condition

__all__ = [
    "DEFAULT_HOSTS",
    "DEFAULT_SEED",
    "FEWEST_HOSTS",
    "INTERVAL_SECONDS",
    "MOST_HOSTS",
    "Condition",
    "DemoHost",
    "condition",
    "frame",
    "hello",
    "plan",
]
