"""What the controller asks of the agent, in its first control line."""

from typing import Any, Dict, Optional

from gputop.remote.wire import SILENCE_LIMIT_SECONDS

INTERVAL_MIN = 0.1
INTERVAL_MAX = 3600.0


class Options:
    """All times in seconds."""

    def __init__(self, given: Dict[str, Any]) -> None:
        """Keys that are not known are left alone; a value of the wrong kind raises `ValueError` or `TypeError`."""
        self.interval = within_limits(float(given.get("interval", 2.0)))
        self.nvml_library: Optional[str] = given.get("nvml_library")
        self.deadline = float(given.get("deadline", 5.0))
        """A call that takes longer hangs, and its device with it."""
        self.medium = float(given.get("medium", 30.0))
        """Between two readings of what changes seldom."""
        self.slow = float(given.get("slow", 300.0))
        """Between two readings of what is dear to read."""
        self.retry = float(given.get("retry", 10.0))
        """Between two tries to reach a driver that is not there."""
        self.kernel_log = bool(given.get("kernel_log", True))
        """Whether the kernel log is followed."""
        self.silence = int(given.get("silence", SILENCE_LIMIT_SECONDS))
        """Without a control line for so long the agent ends itself."""


def within_limits(interval: float) -> float:
    return min(max(interval, INTERVAL_MIN), INTERVAL_MAX)
