"""Power by a server's BMC over Redfish: ComputerSystem.Reset, with the values that this BMC allows.

A stop is a GracefulShutdown; ForceOff and ForceRestart do not ask the operating system and need the consent
`power-cut`. What a BMC says is not trusted: paths stay on it, answers are bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from gputop.domain.action import ActionRequest, Block, Check, CheckState, Consent, Goal, Step
from gputop.domain.backend import Redfish
from gputop.domain.call import Api, Performed
from gputop.domain.host import Host, HostSpec
from gputop.domain.instance import Instance, PowerState
from gputop.domain.problem import Problem, ProblemKind
from gputop.ports import Clock, Runner
from gputop.power.http import Site, request
from gputop.power.proof import another_boot, in_state
from gputop.transport.runner import shown
from gputop.transport.secret import read_secret
from gputop.transport.thread import in_thread

AT_ONCE = 16
STOP_SECONDS = 600.0
START_SECONDS = 120.0
POLL_SECONDS = 3.0

SYSTEMS = "/redfish/v1/Systems"
RESET = "#ComputerSystem.Reset"

POWER = {
    "On": PowerState.RUNNING,
    "Off": PowerState.STOPPED,
    "PoweringOn": PowerState.STARTING,
    "PoweringOff": PowerState.STOPPING,
}

STOP = ("GracefulShutdown",)
REBOOT = ("GracefulRestart",)
START = ("On", "ForceOn")
CUT = ("ForceOff",)
CUT_AND_REBOOT = ("PowerCycle", "ForceRestart")


class RedfishPowerProvider:
    """Implements `ports.PowerProvider`, `CanStop`, `CanStart` and `CanReboot`."""

    name = "redfish"

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
        blank = Instance(host=host.name, provider=self.name, observed_at=self._clock.now())
        if not isinstance(power, Redfish):
            block = Block(kind="no-power", summary="the inventory names no BMC for it")
            return structs.replace(blank, block=block)
        url = url_of(power, host.name)
        blank = structs.replace(blank, id=url, console_hint=f"BMC {url}")
        path = await self._system_path(host.spec, power)
        if isinstance(path, Block):
            return structs.replace(blank, block=path)
        system = await self._ask(host.spec, "GET", path)
        if isinstance(system, Problem):
            return structs.replace(blank, block=_no_answer(system))
        said = _power_word(system)
        target, types = await self._reset_of(host.spec, system)
        state = POWER.get(said, PowerState.UNKNOWN)
        unknown = Block(kind="unknown-state", summary=f"its BMC calls its power state {said!r}")
        return structs.replace(
            blank,
            power=state,
            raw=said,
            kind=shown(" ".join(str(system[key]) for key in ("Manufacturer", "Model") if system.get(key))) or None,
            billing="a server of one's own: nothing is known of a bill",
            values={"url": url, "system": path, "target": target, "types": " ".join(types)},
            block=unknown if state is PowerState.UNKNOWN else None,
        )

    async def _system_path(self, spec: HostSpec, power: Redfish) -> str | Block:
        if power.system is not None:
            return f"{SYSTEMS}/{power.system}"
        listed = await self._ask(spec, "GET", SYSTEMS)
        if isinstance(listed, Problem):
            return _no_answer(listed)
        members = listed.get("Members")
        paths = [str(member.get("@odata.id")) for member in members if isinstance(member, dict)] if members else []
        if len(paths) != 1 or not paths[0].startswith("/redfish/"):
            names = ", ".join(path.rpartition("/")[2] for path in paths[:8])
            summary = f"its BMC has {len(paths)} systems{': ' if names else ''}{names}"
            return Block(kind="system-not-found", summary=summary, hint="name one as `system` in the inventory")
        return paths[0]

    async def _reset_of(self, spec: HostSpec, system: dict[str, Any]) -> tuple[str, list[str]]:
        """Where a reset is asked for, and the kinds this BMC knows; both empty where it does not say."""
        actions = system.get("Actions")
        action = actions.get(RESET) if isinstance(actions, dict) else None
        target = action.get("target") if isinstance(action, dict) else None
        if not isinstance(action, dict) or not isinstance(target, str) or not target.startswith("/redfish/"):
            return "", []
        values = action.get("ResetType@Redfish.AllowableValues")
        info = action.get("@Redfish.ActionInfo")
        if values is None and isinstance(info, str) and info.startswith("/redfish/"):
            more = await self._ask(spec, "GET", info)
            parameters = more.get("Parameters") if isinstance(more, dict) else None
            for parameter in parameters if isinstance(parameters, list) else []:
                if isinstance(parameter, dict) and parameter.get("Name") == "ResetType":
                    values = parameter.get("AllowableValues")
        return target, [value for value in values if isinstance(value, str)] if isinstance(values, list) else []

    def stop_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        cut = Consent.POWER_CUT in request.consents
        return self._steps(
            instance, CUT if cut else STOP, Goal.STOPPED, "power off", STOP_SECONDS, None if cut else CUT
        )

    def start_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        return self._steps(instance, START, Goal.RUNNING, "power on", START_SECONDS, None)

    def reboot_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        cut = Consent.POWER_CUT in request.consents
        wanted = CUT_AND_REBOOT if cut else REBOOT
        return self._steps(instance, wanted, Goal.REBOOTED, "reboot", STOP_SECONDS, None if cut else CUT_AND_REBOOT)

    def _steps(
        self,
        instance: Instance,
        wanted: Sequence[str],
        goal: Goal,
        title: str,
        seconds: float,
        harder: Sequence[str] | None,
    ) -> tuple[Step, ...] | Block:
        values = instance.values
        types = values.get("types", "").split()
        kind = next((kind for kind in wanted if kind in types), None)
        if kind is None:
            offers = f"its BMC offers {', '.join(types)}" if types else "its BMC does not say which resets it knows"
            can_cut = harder is not None and any(kind in types for kind in harder)
            return Block(
                kind="reset-type",
                summary=f"{offers}; needed is {' or '.join(wanted)}",
                hint=f"cut its power instead: --consent {Consent.POWER_CUT}" if can_cut else None,
                consent=Consent.POWER_CUT if can_cut else None,
            )
        return (
            Step(
                id=f"redfish.{kind}",
                actor="power",
                title=f"{title} by its BMC",
                call=Api(
                    service=f"redfish {values['url']}",
                    operation=f"POST {values['target']}",
                    parameters={"ResetType": kind},
                ),
                goal=goal,
                wanted={"system": values["system"]},
                deadline_seconds=seconds,
                poll_seconds=POLL_SECONDS,
                repeatable=goal is not Goal.REBOOTED,
                why_no_undo="only another act can bring it back",
            ),
        )

    async def check(self, host: str, step: Step) -> Check:
        if step.goal is Goal.REBOOTED:
            return await another_boot(self._runner, host, step)
        spec = self._spec_for(host, step)
        system = spec if isinstance(spec, Problem) else await self._ask(spec, "GET", step.wanted.get("system", ""))
        if isinstance(system, Problem):
            return Check(state=CheckState.UNKNOWN, summary=system.summary)
        said = _power_word(system)
        return in_state(step.goal, POWER.get(said, PowerState.UNKNOWN), said)

    async def perform(self, host: str, step: Step) -> Performed:
        spec = self._spec_for(host, step)
        if isinstance(spec, Problem):
            return Performed(ok=False, problem=spec)
        assert isinstance(step.call, Api)
        method, _, path = step.call.operation.partition(" ")
        answer = await self._ask(spec, method, path, dict(step.call.parameters))
        if isinstance(answer, Problem):
            may_have_worked = answer.kind in (ProblemKind.TIMED_OUT, ProblemKind.CONNECTION_LOST)
            return Performed(ok=False, pending=may_have_worked, problem=answer, output=answer.detail or "")
        return Performed(ok=True)

    def _spec_for(self, host: str, step: Step) -> HostSpec | Problem:
        """Whose credentials to use: only where the inventory still names the BMC that the step was written for."""
        spec = self._specs.get(host)
        power = spec.power if spec is not None else None
        call = step.call
        if (
            spec is None
            or not isinstance(power, Redfish)
            or not isinstance(call, Api)
            or call.service != f"redfish {url_of(power, host)}"
        ):
            return Problem(kind=ProblemKind.INTERNAL, summary="the inventory names another BMC now than the plan")
        return spec

    async def _ask(
        self, spec: HostSpec, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any] | Problem:
        power = spec.power
        assert isinstance(power, Redfish)
        password = read_secret(power.password) if power.password is not None else None
        if isinstance(password, Problem):
            return password
        site = Site(
            url=url_of(power, spec.name),
            username=power.username,
            password=password,
            ca_file=power.ca_file,
            insecure=power.insecure,
        )
        async with self._places:
            return await in_thread(lambda: request(site, method, path, body), "gputop-redfish")


def url_of(power: Redfish, host: str) -> str:
    return power.url.replace("{host}", host).rstrip("/")


def _power_word(system: dict[str, Any]) -> str:
    return shown(str(system.get("PowerState")))[:40]


def _no_answer(problem: Problem) -> Block:
    return Block(kind="no-answer", summary=f"its BMC: {problem.summary}", hint=problem.hint)
