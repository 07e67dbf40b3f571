"""Power by a site's own programs on this machine: the way to every cloud's command line and to whatever a site has.

Each program is an argv from the inventory, run without a shell. What `status` prints is told apart by the site's
regular expressions; output that fits none of them, or two, is no state.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from gputop.domain.action import ActionRequest, Block, Check, CheckState, Goal, Loss, LossKind, Step
from gputop.domain.backend import CommandPower
from gputop.domain.call import Performed, RunHere
from gputop.domain.host import Host, HostSpec
from gputop.domain.instance import Instance, PowerState
from gputop.ports import Clock, Runner
from gputop.power.proof import another_boot, id_of, in_state
from gputop.transport.runner import perform, shown, trouble

AT_ONCE = 8
"""Programs run at the same time, however many hosts there are."""

ACTS = ("stop", "start", "reboot")


class CommandPowerProvider:
    """Implements `ports.PowerProvider`, `CanStop`, `CanStart` and `CanReboot`."""

    name = "command"

    def __init__(self, specs: Mapping[str, HostSpec], runner: Runner, clock: Clock) -> None:
        self._specs = specs
        self._runner = runner
        self._clock = clock
        self._places = asyncio.Semaphore(AT_ONCE)

    async def observe(self, hosts: Sequence[Host]) -> Mapping[str, Instance]:
        instances = await asyncio.gather(*(self._observe(host) for host in hosts))
        return {instance.host: instance for instance in instances}

    async def _observe(self, host: Host) -> Instance:
        power = host.spec.power
        if not isinstance(power, CommandPower):
            nothing = Block(kind="no-power", summary="the inventory names no program that powers it")
            return Instance(host=host.name, provider=self.name, block=nothing, observed_at=self._clock.now())
        block: Block | None = Block(kind="no-status", summary="the inventory names no program for its status")
        argvs = {
            act: argv if isinstance(argv, Block) else shlex.join(argv)
            for act in ("status", *ACTS)
            if (argv := filled_in(getattr(power, act), power, host))
        }
        state, said = PowerState.UNKNOWN, ""
        status = argvs.get("status")
        if isinstance(status, Block):
            block = status
        elif status is not None:
            state, said, block = await self._look(power, tuple(shlex.split(status)))
        return Instance(
            host=host.name,
            provider=self.name,
            id=id_of(power.id, host.spec) or "",
            power=state,
            raw=said,
            stop_losses=tuple(Loss(kind=LossKind.INSTANCE_STORE, summary=text) for text in power.loses),
            stops_billing=power.stops_billing,
            billing=power.billing or "whether a stop ends the bill is not said in the inventory",
            values={
                **{act: argv for act, argv in argvs.items() if isinstance(argv, str)},
                "seconds": str(power.stop_timeout_seconds),
            },
            block=block,
            observed_at=self._clock.now(),
        )

    async def _look(self, power: CommandPower, argv: tuple[str, ...]) -> tuple[PowerState, str, Block | None]:
        """The state, the words of the program, and what is wrong."""
        async with self._places:
            result = await self._runner.run(RunHere(argv=argv), deadline_seconds=power.timeout_seconds)
        if (problem := trouble(result)) is not None:
            summary = f"{argv[0]}: {problem.summary}"
            return PowerState.UNKNOWN, summary, Block(kind="no-answer", summary=summary, hint=problem.hint)
        said = shown(result.text)
        first = " ".join(said.split())[:80]
        try:
            states = states_of(power, result.text)
        except re.error as error:
            block = Block(kind="bad-pattern", summary=f"a pattern of the inventory is none: {error}")
            return PowerState.UNKNOWN, first, block
        if len(states) == 1:
            return states[0], first if len(said) <= 80 else states[0].value, None
        why = f"fits {' and '.join(states)}" if states else "fits no pattern of the inventory"
        return PowerState.UNKNOWN, first, Block(kind="unknown-state", summary=f"its status {why}: {first!r}")

    def stop_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        return self._steps(instance, "stop", Goal.STOPPED)

    def start_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        return self._steps(instance, "start", Goal.RUNNING)

    def reboot_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        return self._steps(instance, "reboot", Goal.REBOOTED)

    def _steps(self, instance: Instance, act: str, goal: Goal) -> tuple[Step, ...] | Block:
        argv = instance.values.get(act)
        if argv is None:
            return Block(
                kind="no-command",
                summary=f"the inventory names no program to {act} it",
                hint="see docs/reference/power.md",
            )
        if instance.power is PowerState.GONE:
            return Block(kind="gone", summary="it is gone and will not come back")
        return (
            Step(
                id=f"command.{act}",
                actor="power",
                title=f"{act} by the site's program",
                call=RunHere(argv=tuple(shlex.split(argv))),
                goal=goal,
                wanted={"status": instance.values["status"]},
                deadline_seconds=float(instance.values["seconds"]),
                poll_seconds=5.0,
                repeatable=False,  # what a site's program does when it is called twice is not known here
                why_no_undo="only another act can bring it back",
            ),
        )

    async def check(self, host: str, step: Step) -> Check:
        if step.goal is Goal.REBOOTED:
            return await another_boot(self._runner, host, step)
        power = self._specs[host].power if host in self._specs else None
        status = step.wanted.get("status")
        if not isinstance(power, CommandPower) or status is None:
            return Check(state=CheckState.UNKNOWN, summary="the inventory names no program for its status any more")
        state, said, block = await self._look(power, tuple(shlex.split(status)))
        if block is not None:
            return Check(state=CheckState.UNKNOWN, summary=block.summary)
        return in_state(step.goal, state, said)

    async def perform(self, host: str, step: Step) -> Performed:
        return await perform(self._runner, step)


def filled_in(argv: Iterable[str], power: CommandPower, host: Host) -> tuple[str, ...] | Block:
    """`argv` with its placeholders replaced, each within its own word."""
    values = {"{host}": host.name, "{address}": host.spec.address or host.name, "{id}": id_of(power.id, host.spec)}
    words = []
    for word in argv:
        for name, value in values.items():
            if name in word:
                if value is None:
                    return Block(
                        kind="no-id", summary=f"{name} is used, and it has neither an `id` nor a label instance_id"
                    )
                word = word.replace(name, value)
        words.append(word)
    return tuple(words)


def states_of(power: CommandPower, output: str) -> list[PowerState]:
    """The states whose patterns match the whole of `output`, trimmed. Raises `re.error` for a bad pattern."""
    text = output.strip()
    patterns = {
        PowerState.RUNNING: power.running,
        PowerState.STOPPED: power.stopped,
        PowerState.STARTING: power.starting,
        PowerState.STOPPING: power.stopping,
        PowerState.GONE: power.gone,
    }
    return [
        state
        for state, those in patterns.items()
        if any(re.fullmatch(pattern, text, re.DOTALL) is not None for pattern in those)
    ]
