"""Steps that run a site's own programs, by its policy. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from gputop.domain.action import ActionRequest, Goal, Step
from gputop.domain.call import RunHere, Watch
from gputop.domain.host import Host

MARGIN_SECONDS = 5.0
"""A hook is ended at its own timeout, and has answered a moment later."""


def hook(name: str, argv: Sequence[str], request: ActionRequest, host: Host) -> tuple[Step, ...]:
    """One of the site's programs; none where the policy names none."""
    if not argv:
        return ()
    step = Step(
        id=f"hook.{name}",
        actor="hook",
        title=f"the site's {name}",
        call=RunHere(argv=_filled(argv, request, host)),
        goal=Goal.HOOK,
        deadline_seconds=host.spec.policy.hook_timeout_seconds,
        check_first=False,
        proven_by_exit=True,
        why_no_undo="the site's own program",
    )
    return (step,)


def drained_hook(request: ActionRequest, host: Host, seconds: float) -> tuple[Step, ...]:
    """Waits at most `seconds` until the site's own program says that the host is drained."""
    policy = host.spec.policy
    if not policy.is_drained:
        return ()
    argv = shlex.join(_filled(policy.is_drained, request, host))
    step = Step(
        id="hook.is_drained",
        actor="hook",
        title="the site's is_drained",
        call=Watch(what=f"wait until exit status 0 of: {argv}"),
        goal=Goal.HOOK,
        wanted={"argv": argv, "seconds": f"{policy.hook_timeout_seconds:g}"},
        deadline_seconds=seconds,
        poll_seconds=policy.idle_sample_seconds,
        check_seconds=policy.hook_timeout_seconds + MARGIN_SECONDS,
        waits=True,
    )
    return (step,)


def _filled(argv: Sequence[str], request: ActionRequest, host: Host) -> tuple[str, ...]:
    """All at once: a reason may hold `{by}` itself."""
    values = {"host": host.name, "reason": request.reason, "by": request.by}
    return tuple(re.sub(r"{(host|reason|by)}", lambda match: values[match[1]], word) for word in argv)
