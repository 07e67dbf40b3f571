"""Which acts may go on beside another on the same host. Pure."""

from __future__ import annotations

from gputop.domain.action import ActionKind

SHARING = frozenset({ActionKind.SIGNAL, ActionKind.MESSAGE, ActionKind.CANCEL, ActionKind.REQUEUE, ActionKind.ACK})
"""Acts that do not need a host to themselves: a drain that waits for a job must not keep anybody from canceling it."""

OVERTURNING = frozenset({ActionKind.STOP, ActionKind.HIBERNATE, ActionKind.START, ActionKind.REBOOT, ActionKind.RESET})
"""Acts that end or change a host while they are under way: what was looked at before is not so any more."""

OF_JOBS = frozenset({ActionKind.CANCEL, ActionKind.REQUEUE})
"""They ask the scheduler, not the host, and are what a reboot by the scheduler waits for."""


def may_go_beside(act: ActionKind, holder: ActionKind | None) -> bool:
    """Whether `act` may begin on a host that `holder` is at work on; `None`: which act that is cannot be told."""
    if act not in SHARING or holder is None:
        return False
    return holder not in OVERTURNING or (act in OF_JOBS and holder is ActionKind.REBOOT)
