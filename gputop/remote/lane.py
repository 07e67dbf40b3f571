"""Calls that may hang, each in a thread of its own."""

import threading
from typing import Callable, Generic, Optional, TypeVar

from gputop.remote.machine import Machine

Result = TypeVar("Result")


class Lane(Generic[Result]):
    """A worker with at most one call outstanding. A call that never returns costs this lane and nothing else."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._condition = threading.Condition()
        self._job: Optional[Callable[[], Result]] = None
        self._result: Optional[Result] = None
        self._error: Optional[BaseException] = None
        self._answered = True
        self._started = False
        self.since: Optional[float] = None
        """When the outstanding call was asked for, monotonic; `None` while there is none."""

    @property
    def idle(self) -> bool:
        """No call is outstanding, and no answer waits to be taken."""
        with self._condition:
            return self._answered

    def ask(self, job: Callable[[], Result]) -> None:
        """Start a call; nothing when the lane is not idle: a late answer is taken before the next call."""
        with self._condition:
            if not self._answered:
                return
            if not self._started:
                self._started = True
                self._machine.thread(self._work)
            self._job = job
            self._answered = False
            self.since = self._machine.monotonic()
            self._condition.notify_all()

    def answer(self, until: float) -> Optional[Result]:
        """What the call returned, once; `None` when it has not by `until` (monotonic). Raises what the call raised."""
        with self._condition:
            while self.since is not None:
                left = until - self._machine.monotonic()
                if left <= 0:
                    return None
                self._condition.wait(left)
            result, error = self._result, self._error
            self._result = self._error = None
            self._answered = True
        if error is not None:
            raise error
        return result

    def _work(self) -> None:
        while True:
            with self._condition:
                while self._job is None:
                    self._condition.wait()
                job = self._job
            result, error = None, None
            try:
                result = job()
            except BaseException as raised:
                error = raised
            with self._condition:
                self._result, self._error = result, error
                self._job = None
                self.since = None
                self._condition.notify_all()
