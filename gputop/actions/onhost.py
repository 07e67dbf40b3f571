"""Looks at hosts over SSH and makes the calls of steps that belong to no scheduler and no power provider."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping

from gputop.actions.device import look_at_holders, look_at_process, look_at_units, read_holders, read_process
from gputop.actions.faults import LOOK as LOOK_AT_LOG
from gputop.actions.faults import Fault, KernelLog, faults_of, read_log
from gputop.actions.gate import DIAGNOSIS_SECONDS, gate_items, passes
from gputop.actions.verify import emptiness, first_frame, is_one_of, well
from gputop.domain.action import Check, CheckState, GateItem, Goal, HostIdentity, Step
from gputop.domain.call import Performed, RunHere, RunOn
from gputop.domain.host import Host, HostSpec
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.proof import boot_id, rebooted
from gputop.domain.record import Ack
from gputop.health.catalog import default_catalog
from gputop.health.xid import Catalog
from gputop.ports import Observer, Runner
from gputop.transport.runner import perform, trouble

LOOK_SECONDS = 15.0
RELEASE_TRIES = 5
"""How often it is looked, a second between, whether what was ended has let go of a device."""
IDENTITY = "cat /proc/sys/kernel/random/boot_id; cat /etc/machine-id 2>/dev/null || :"


class HostActor:
    """Implements `ports.Actor` for steps of the actor `host`."""

    def __init__(
        self,
        observer: Observer,
        runner: Runner,
        specs: Mapping[str, HostSpec],
        acks: Callable[[str], Ack | None] = lambda _: None,
        catalog: Catalog | None = None,
    ) -> None:
        """`acks`: what of a host was acknowledged last. `catalog`: what Xids ask for; `None`: gputop's own."""
        self._observer = observer
        self._catalog = catalog or default_catalog()
        self._acks = acks
        self._runner = runner
        self._specs = specs
        self._idle: dict[tuple[str, str], tuple[int, object]] = {}
        """Samples in a row without work, and the newest of them, by (host, step)."""

    async def identify(self, host: str) -> HostIdentity | None:
        """Who answers under the name now; `None`: nobody."""
        result = await self._runner.run(RunOn(host=host, argv=("sh", "-c", IDENTITY)), deadline_seconds=LOOK_SECONDS)
        if not result.ok:
            return None
        first, _, second = result.text.partition("\n")
        if boot_id(first) is None:
            return None
        return HostIdentity(boot_id=boot_id(first), machine_id=second.strip() or None, host_key=result.host_key)

    async def check(self, host: str, step: Step) -> Check:
        match step.goal:
            case Goal.DEVICES_EMPTY:
                return await self._check_empty(host, step)
            case Goal.HEALTHY:
                return await self._check_gate(host, step)
            case Goal.REBOOTED:
                identity = await self.identify(host)
                return rebooted(step.before.get("boot_id"), identity.boot_id if identity is not None else None)
            case Goal.FIRST_FRAME:
                names, before = _names(step.wanted.get("devices", "")), int(step.wanted.get("at_least", "0"))
                return first_frame(await self._look(host), names, before)
            case Goal.DEVICES_RESET:
                return _after_reset(await self._look(host), _names(step.wanted["devices"]))
            case Goal.POWER_LIMIT:
                return await self._check_power_limit(host, step)
            case Goal.PROCESS_GONE:
                return await self._check_process(host, step)
            case Goal.HOLDERS_STOPPED | Goal.HOLDERS_RESTORED:
                return await self._check_unit(host, step)
        return Check(state=CheckState.UNKNOWN, summary="cannot be looked at")

    async def perform(self, host: str, step: Step) -> Performed:
        if step.goal is Goal.DEVICES_RESET:
            await self._observer.let_go([host])  # our own agent has the devices open
            if (held := await self._held(host, step)) is not None:
                return Performed(ok=False, problem=held)
        return await perform(self._runner, step)

    async def _held(self, host: str, step: Step) -> Problem | None:
        """Who has the devices of a reset open, who would make it fail."""
        minors = {int(minor) for minor in _names(step.wanted.get("minors", ""))}
        call = look_at_holders(host, RELEASE_TRIES)
        found = read_holders(await self._runner.run(call, deadline_seconds=LOOK_SECONDS))
        held = list(dict.fromkeys(holder.words(holder.minor) for holder in found if holder.minor in minors))
        return Problem(kind=ProblemKind.TOOL_FAILED, summary="; ".join(held)) if held else None

    async def faults(self, host: Host) -> tuple[Fault, ...] | None:
        """Fatal events of `host` since its boot; `None`: its kernel log cannot be read."""
        log = await self._log(host.name)
        return faults_of(host, log, self._catalog) if log is not None else None

    async def _log(self, host: str) -> KernelLog | None:
        call = RunOn(host=host, argv=("sh", "-c", LOOK_AT_LOG))
        return read_log(await self._runner.run(call, deadline_seconds=LOOK_SECONDS))

    async def _look(self, host: str) -> Host | None:
        return (await self._observer.look([host])).get(host)

    async def _check_empty(self, host: str, step: Step) -> Check:
        """Empty in several samples in a row; whatever is not a proof starts the count again."""
        policy = self._specs[host].policy
        seen = await self._look(host)
        check = emptiness(seen, policy, _names(step.wanted.get("devices", "")))
        machine = seen.frame.facts.machine_id if seen is not None and seen.frame is not None else None
        if machine is not None and machine != step.before.get("machine_id", machine):
            check = Check(state=CheckState.BLOCKED, summary="another machine answers under this name now")
        key = (host, step.id)
        if check.state is not CheckState.DONE:
            self._idle.pop(key, None)
            return check
        sample = seen.frame.sampled_at if seen is not None and seen.frame is not None else None
        count, before = self._idle.get(key, (0, None))
        if sample != before:
            count += 1
        self._idle[key] = (count, sample)
        if count < policy.idle_samples:
            return Check(state=CheckState.NOT_DONE, summary=f"empty in {count} of {policy.idle_samples} samples")
        return check

    async def _check_gate(self, host: str, step: Step) -> Check:
        spec = self._specs[host]
        peers = [name for name, other in self._specs.items() if set(other.groups) & set(spec.groups)]
        seen = await self._observer.look([host])
        others = await self._observer.known(peers)
        log = await self._log(host)
        items = gate_items(
            seen.get(host),
            tuple(others.values()),
            log,
            self._catalog,
            await self._diagnosis(host) if spec.policy.dcgm_diag else None,
            self._acks(host),
            int(step.wanted["devices"]) if "devices" in step.wanted else None,
        )
        return passes(items)

    async def _diagnosis(self, host: str) -> GateItem:
        call = RunOn(host=host, argv=("dcgmi", "diag", "-r", "1"))
        result = await self._runner.run(call, deadline_seconds=DIAGNOSIS_SECONDS)
        if result.exit_status in (None, 127) or result.lost is not None:
            return GateItem(name="dcgmi diag", state="not-checked", summary="dcgmi did not run")
        failed = [line.strip(" |") for line in result.text.splitlines() if "Fail" in line]
        problem = trouble(result)
        if failed or problem is not None:
            why = "; ".join(failed)[:300] or (problem.summary if problem is not None else "")
            return GateItem(name="dcgmi diag", state="bad", summary=why)
        return GateItem(name="dcgmi diag", state="ok", summary="level 1 passed")

    async def _check_process(self, host: str, step: Step) -> Check:
        pid = int(step.wanted["pid"])
        result = await self._runner.run(look_at_process(host, pid), deadline_seconds=LOOK_SECONDS)
        if result.exit_status == 3 and result.lost is None:
            return Check(state=CheckState.DONE, summary="it has ended")
        found = read_process(pid, result)
        if found is None:
            problem = trouble(result)
            return Check(state=CheckState.UNKNOWN, summary=problem.summary if problem else "no answer")
        if str(found.target.started_ticks) != step.wanted["ticks"]:
            return Check(state=CheckState.DONE, summary="it has ended; its number belongs to another process now")
        return Check(state=CheckState.NOT_DONE, summary="it still runs")

    async def _check_power_limit(self, host: str, step: Step) -> Check:
        """By the vendor's tool: the agent reads limits rarely."""
        argv = ("nvidia-smi", "-i", step.wanted["device"], "--query-gpu=power.limit", "--format=csv,noheader,nounits")
        result = await self._runner.run(RunOn(host=host, argv=argv), deadline_seconds=LOOK_SECONDS)
        if (problem := trouble(result)) is not None:
            return Check(state=CheckState.UNKNOWN, summary=problem.summary)
        try:
            watts = float(result.text.strip())
        except ValueError:
            return Check(state=CheckState.UNKNOWN, summary="it does not tell its limit")
        done = abs(watts - float(step.wanted["watts"])) < 1.0
        return Check(state=CheckState.DONE if done else CheckState.NOT_DONE, summary=f"{watts:g} W")

    async def _check_unit(self, host: str, step: Step) -> Check:
        result = await self._runner.run(look_at_units(host), deadline_seconds=LOOK_SECONDS)
        if (problem := trouble(result)) is not None:
            return Check(state=CheckState.UNKNOWN, summary=problem.summary)
        unit = step.wanted["unit"]
        runs = unit in result.text.split()
        done = runs is (step.goal is Goal.HOLDERS_RESTORED)
        state = CheckState.DONE if done else CheckState.NOT_DONE
        return Check(state=state, summary=f"{unit} {'runs' if runs else 'does not run'}")


class HookActor:
    """Runs a site's own programs on this machine. Implements `ports.Actor` for steps of the actor `hook`."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def check(self, host: str, step: Step) -> Check:
        """Only `is_drained` is a check: exit 0 is yes, 1 is not yet, anything else is not known."""
        argv = tuple(shlex.split(step.wanted.get("argv", "")))
        if not argv:
            return Check(state=CheckState.UNKNOWN, summary="cannot be looked at")
        result = await self._runner.run(RunHere(argv=argv), deadline_seconds=float(step.wanted["seconds"]))
        said = result.text.strip()[:200]
        if result.ok:
            return Check(state=CheckState.DONE, summary=said or "the site's hook says it is drained")
        if result.exit_status == 1 and result.lost is None:
            return Check(state=CheckState.NOT_DONE, summary=said or "the site's hook says not yet", left=(said,))
        problem = trouble(result)
        return Check(state=CheckState.UNKNOWN, summary=problem.summary if problem else "no answer")

    async def perform(self, host: str, step: Step) -> Performed:
        return await perform(self._runner, step)


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def _after_reset(host: Host | None, keys: tuple[str, ...]) -> Check:
    """All of `keys` answer, and none asks for another reset. How the others are is no matter of this reset."""
    check = well(host, keys)
    if check.state is not CheckState.DONE or host is None or host.frame is None:
        return check
    frame = host.frame
    asking = [
        f"GPU {device.index}: {action}"
        for position, device in enumerate(frame.devices)
        if is_one_of(device, keys) and (action := frame.value("recovery_action", position)) not in (None, "none")
    ]
    if asking:
        return Check(state=CheckState.NOT_DONE, summary=f"still asks for {', '.join(asking)}")
    return check
