"""Scripts of a plan, which are told once and not with each host that they run on."""

from __future__ import annotations

from msgspec import structs

from gputop.domain.action import Plan, Step
from gputop.domain.call import RunHere, RunOn, command_of

LONG = 200
"""Characters of a script that is read with a host, beside others."""

_SHELL = ("sh", "-c")


def scripts_of(plan: Plan) -> tuple[str, ...]:
    """Scripts too long to stand with each host, in the order of the steps, each once."""
    found = (script_of(step) for host in plan.hosts for step in host.steps)
    return tuple(dict.fromkeys(script for script in found if script is not None))


def script_of(step: Step) -> str | None:
    """The long script that a shell runs in `step`; `None`: there is none."""
    call = step.call
    if not isinstance(call, RunHere | RunOn) or call.argv[:2] != _SHELL or len(call.argv) < 3:
        return None
    return call.argv[2] if len(call.argv[2]) > LONG else None


def command_in(scripts: tuple[str, ...], step: Step) -> str:
    """What `step` runs, as one line; in place of a script stands the name under which it is told."""
    script, call = script_of(step), step.call
    if script is None or not isinstance(call, RunHere | RunOn):
        return step.command
    argv = (*_SHELL, f"{name_of(scripts, script)} below", *call.argv[3:])
    return command_of(structs.replace(call, argv=argv))


def name_of(scripts: tuple[str, ...], script: str) -> str:
    return f"script {scripts.index(script) + 1}" if len(scripts) > 1 else "the script"
