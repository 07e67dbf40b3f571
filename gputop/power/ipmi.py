"""Power by a server's BMC over IPMI 2.0, through ipmitool.

Cipher suite 3 is named, because suite 17 of newer ipmitools is refused by older BMCs with words that do not tell. The
password goes through the environment; it is never an argument. A stop presses the power button (the operating system
shuts down); cutting the power needs the consent `power-cut`.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence

from gputop.domain.action import ActionRequest, Block, Check, CheckState, Consent, Goal, Step
from gputop.domain.backend import Ipmi
from gputop.domain.call import Performed, RunHere
from gputop.domain.host import Host, HostSpec
from gputop.domain.instance import Instance, PowerState
from gputop.domain.problem import ProblemKind
from gputop.ports import Clock, Runner
from gputop.power.proof import another_boot, in_state
from gputop.transport.runner import perform, shown, trouble

AT_ONCE = 8
LOOK_SECONDS = 30.0
STOP_SECONDS = 600.0
"""An operating system with jobs' file systems to unmount takes its time."""
START_SECONDS = 60.0
POLL_SECONDS = 3.0

STATUS = ("chassis", "power", "status")

NO_SESSION = "ipmitool says the same of a BMC that is silent, and of a wrong user name or password: look at each"


class IpmiPowerProvider:
    """Implements `ports.PowerProvider`, `CanStop`, `CanStart` and `CanReboot`."""

    name = "ipmi"

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
        if not isinstance(power, Ipmi):
            block = Block(kind="no-power", summary="the inventory names no BMC for it")
            return Instance(host=host.name, provider=self.name, block=block, observed_at=self._clock.now())
        call = ipmitool(power, host.name, STATUS)
        state, said, hint = await self._look(call)
        unknown = Block(kind="no-answer", summary=f"its BMC: {said}", hint=hint)
        return Instance(
            host=host.name,
            provider=self.name,
            id=address_of(power, host.name),
            power=state,
            raw=said,
            block=unknown if state is PowerState.UNKNOWN else None,
            billing="a server of one's own: nothing is known of a bill",
            values={"ipmitool": shlex.join(call.argv[: -len(STATUS)]), **call.secrets},
            console_hint=f"BMC {address_of(power, host.name)}: ipmitool sol activate",
            observed_at=self._clock.now(),
        )

    async def _look(self, call: RunHere) -> tuple[PowerState, str, str | None]:
        """The state, its words or why it is not known, and what to do then."""
        async with self._places:
            result = await self._runner.run(call, deadline_seconds=LOOK_SECONDS)
        if (problem := trouble(result)) is not None:
            hint = problem.hint or (NO_SESSION if problem.kind is ProblemKind.TOOL_FAILED else None)
            return PowerState.UNKNOWN, problem.summary, hint
        said = shown(result.text)
        match said.lower().split()[-2:]:
            case ["is", "on"]:
                return PowerState.RUNNING, said, None
            case ["is", "off"]:
                return PowerState.STOPPED, said, None
        return PowerState.UNKNOWN, f"not understood: {said[:80]!r}", None

    def stop_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        if Consent.POWER_CUT in request.consents:
            return (self._step(instance, "off", "cut the power by IPMI", Goal.STOPPED, START_SECONDS),)
        return (self._step(instance, "soft", "shut down by IPMI", Goal.STOPPED, STOP_SECONDS),)

    def start_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        return (self._step(instance, "on", "switch on by IPMI", Goal.RUNNING, START_SECONDS),)

    def reboot_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        """Off and on again; IPMI has no word for a reboot that asks the operating system."""
        if Consent.POWER_CUT in request.consents:
            return (self._step(instance, "cycle", "cycle the power by IPMI", Goal.REBOOTED, STOP_SECONDS),)
        return (
            self._step(instance, "soft", "shut down by IPMI", Goal.STOPPED, STOP_SECONDS),
            self._step(instance, "on", "switch on by IPMI", Goal.RUNNING, START_SECONDS),
        )

    def _step(self, instance: Instance, word: str, title: str, goal: Goal, seconds: float) -> Step:
        argv = (*shlex.split(instance.values["ipmitool"]), "chassis", "power", word)
        secrets = {name: place for name, place in instance.values.items() if name == "IPMI_PASSWORD"}
        return Step(
            id=f"ipmi.{word}",
            actor="power",
            title=title,
            call=RunHere(argv=argv, secrets=secrets),
            goal=goal,
            deadline_seconds=seconds,
            poll_seconds=POLL_SECONDS,
            repeatable=word in ("on", "off"),  # a button pressed twice may count as another press
            why_no_undo="only another act can bring it back",
        )

    async def check(self, host: str, step: Step) -> Check:
        if step.goal is Goal.REBOOTED:
            return await another_boot(self._runner, host, step)
        if not isinstance(step.call, RunHere):
            return Check(state=CheckState.UNKNOWN, summary="no step of ipmitool")
        call = RunHere(argv=(*step.call.argv[: -len(STATUS)], *STATUS), secrets=step.call.secrets)
        state, said, _ = await self._look(call)
        return in_state(step.goal, state, said)

    async def perform(self, host: str, step: Step) -> Performed:
        return await perform(self._runner, step, deadline_seconds=LOOK_SECONDS)


def address_of(power: Ipmi, host: str) -> str:
    return power.address.replace("{host}", host)


def ipmitool(power: Ipmi, host: str, words: Sequence[str]) -> RunHere:
    """The whole call; the password by its place alone."""
    argv = ["ipmitool", "-I", "lanplus", "-C", "3", "-N", "2", "-R", "3"]
    argv += ["-H", address_of(power, host), "-p", str(power.port)]
    if power.username is not None:
        argv += ["-U", power.username]
    secrets = {}
    if power.password is not None:
        argv += ["-E"]
        secrets = {"IPMI_PASSWORD": power.password}
    return RunHere(argv=(*argv, *words), secrets=secrets)
