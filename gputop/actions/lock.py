"""Read-only is where gputop starts, and where it falls back to when nobody touches it."""

from __future__ import annotations

from gputop.ports import Clock

RELOCK_SECONDS = 600.0


class ActionLock:
    """Whether acts are allowed now."""

    def __init__(self, clock: Clock, *, allowed: bool, relock_seconds: float | None = RELOCK_SECONDS) -> None:
        """`relock_seconds`: idle time after which acts are refused again; `None`: never, for a single command."""
        self._clock = clock
        self._allowed = allowed
        self._relock_seconds = relock_seconds
        self._touched = clock.monotonic()

    @property
    def allowed(self) -> bool:
        if self._allowed and self._relock_seconds is not None:
            self._allowed = self._clock.monotonic() - self._touched < self._relock_seconds
        return self._allowed

    def touch(self) -> None:
        """A person is there. This does not unlock."""
        if self.allowed:
            self._touched = self._clock.monotonic()

    def unlock(self) -> None:
        """A person asked for it, in so many words."""
        self._allowed = True
        self._touched = self._clock.monotonic()

    def relock(self) -> None:
        self._allowed = False
