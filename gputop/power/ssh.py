"""Power off and reboot by the host's own operating system, over SSH.

It can prove a reboot, by another boot id. It cannot prove that a host is off: a host that does not answer may as well
have lost its network. And nothing here can start one again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from gputop.domain.action import ActionRequest, Block, Check, CheckState, Consent, Goal, Loss, LossKind, Step
from gputop.domain.call import Performed, RunOn
from gputop.domain.host import Host
from gputop.domain.instance import Instance, PowerState
from gputop.domain.proof import rebooted
from gputop.ports import Clock, Runner
from gputop.transport.runner import perform, trouble

LOOK_SECONDS = 15.0
OFF_SECONDS = 300.0
"""How long a power-off may take until the host no longer answers."""

LOOK = (
    "if [ -d /run/systemd/system ] && command -v systemd-run >/dev/null; then echo init systemd; "
    "elif command -v reboot >/dev/null; then echo init other; else echo init none; fi; "
    'printf "dmi %s\\n" "$(cat /sys/class/dmi/id/sys_vendor 2>/dev/null)"; '
    "who 2>/dev/null | sed 's/^/session /'; "
    "grep -sq -E 'resync|recovery|reshape' /proc/mdstat && echo note a RAID array is being rebuilt; "
    "for p in apt-get apt dpkg dnf yum zypper dkms; do "
    'pgrep -x "$p" >/dev/null 2>&1 && echo "note $p is running"; done; :'
)
"""What a careful person looks at before a reboot. Reads only, as an ordinary user."""

EC2 = "Amazon EC2"
MAY_TERMINATE = "may_terminate"

BILLING = {
    EC2: (True, "stops the bill of the instance where it does not delete it; volumes stay billed"),
    "Google": (True, "stops the bill of the machine; disks and addresses stay billed"),
    "Microsoft Corporation": (False, "does not stop the bill on Azure: it must be deallocated"),
    "Alibaba Cloud": (False, "does not stop the bill on Alibaba Cloud by itself"),
    "Tencent Cloud": (False, "does not stop the bill on Tencent Cloud by itself"),
    "HUAWEI": (False, "does not stop the bill of GPU servers on Huawei Cloud"),
}
"""DMI vendor -> whether an operating system's power-off stops the bill, and the words for it."""


EC2_LOSSES = (
    Loss(kind=LossKind.INSTANCE, summary='the instance itself, where its shutdown behavior is "terminate"'),
    Loss(kind=LossKind.INSTANCE_STORE, summary="all data on instance store, where it has any"),
)
"""Of a power-off from inside. Whether they are lost, only EC2 can tell."""


class SshPowerProvider:
    """Implements `ports.PowerProvider`, `CanStop` and `CanReboot`."""

    name = "ssh"

    def __init__(self, runner: Runner, clock: Clock) -> None:
        self._runner = runner
        self._clock = clock

    async def observe(self, hosts: Sequence[Host]) -> Mapping[str, Instance]:
        instances = await asyncio.gather(*(self._observe(host) for host in hosts))
        return {instance.host: instance for instance in instances}

    async def _observe(self, host: Host) -> Instance:
        now = self._clock.now()
        result = await self._runner.run(RunOn(host=host.name, argv=("sh", "-c", LOOK)), deadline_seconds=LOOK_SECONDS)
        if (problem := trouble(result)) is not None:
            block = Block(kind="no-answer", summary=f"it does not answer over SSH: {problem.summary}")
            return Instance(host=host.name, provider=self.name, block=block, observed_at=now)
        words: dict[str, list[str]] = {"init": [], "dmi": [], "session": [], "note": []}
        for line in result.text.splitlines():
            kind, _, text = line.partition(" ")
            if kind in words and text.strip():
                words[kind].append(text.strip())
        vendor = next((name for name in BILLING for text in words["dmi"] if text.startswith(name)), None)
        stops, how = BILLING[vendor] if vendor is not None else (None, "whether that stops a bill is not known here")
        init = words["init"][0] if words["init"] else "none"
        nothing = Block(kind="no-reboot-command", summary="neither systemd nor a reboot command was found on it")
        losses = [
            Loss(kind=LossKind.SESSION, summary=f"session of {text}", user=text.split()[0]) for text in words["session"]
        ]
        if vendor == EC2:
            losses += EC2_LOSSES
        return Instance(
            host=host.name,
            provider=self.name,
            power=PowerState.RUNNING,
            raw=init,
            stop_blocks=(nothing,) if init == "none" else (),
            reboot_blocks=(nothing,) if init == "none" else (),
            start_blocks=(Block(kind="cannot-start", summary="nothing can switch it on over SSH once it is off"),),
            stop_losses=tuple(losses),
            values={MAY_TERMINATE: "yes"} if vendor == EC2 else {},
            stops_billing=stops,
            billing=f"a power-off over SSH {how}" if vendor is not None else how,
            notes=tuple(words["note"]),
            observed_at=now,
        )

    def stop_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        if MAY_TERMINATE in instance.values and Consent.MAY_TERMINATE not in request.consents:
            return Block(
                kind=Consent.MAY_TERMINATE,
                summary='where its shutdown behavior is "terminate", which is not known, a power-off deletes it',
                hint=f"power: {{kind: ec2}} reads it and stops it by EC2; or --consent {Consent.MAY_TERMINATE}",
                consent=Consent.MAY_TERMINATE,
            )
        argv = ("systemd-run", "--on-active=2", "/usr/bin/systemctl", "poweroff")
        return (
            Step(
                id="ssh.poweroff",
                actor="power",
                title="power off over SSH",
                call=self._call(instance, argv, ("poweroff",)),
                goal=Goal.STOPPED,
                check_first=False,
                repeatable=False,
                unknown_ends=True,
                deadline_seconds=OFF_SECONDS,
                why_no_undo="nothing can switch it on over SSH",
            ),
        )

    def reboot_steps(self, instance: Instance, request: ActionRequest) -> tuple[Step, ...] | Block:
        argv = ("systemd-run", "--on-active=2", "/usr/bin/systemctl", "reboot")
        return (
            Step(
                id="ssh.reboot",
                actor="power",
                title="reboot over SSH",
                call=self._call(instance, argv, ("reboot",)),
                goal=Goal.REBOOTED,
                repeatable=False,
                poll_seconds=3,
                why_no_undo="a reboot cannot be taken back",
            ),
        )

    def _call(self, instance: Instance, detached: tuple[str, ...], plain: tuple[str, ...]) -> RunOn:
        """systemd goes on by itself after two seconds; anything else may end the channel under the command."""
        argv = detached if instance.raw == "systemd" else plain
        return RunOn(host=instance.host, argv=argv, sudo=True, channel_may_drop=True)

    async def check(self, host: str, step: Step) -> Check:
        call = RunOn(host=host, argv=("cat", "/proc/sys/kernel/random/boot_id"))
        result = await self._runner.run(call, deadline_seconds=LOOK_SECONDS)
        if step.goal is Goal.REBOOTED:
            return rebooted(step.before.get("boot_id"), result.text if result.ok else None)
        if result.ok:
            return Check(state=CheckState.NOT_DONE, summary="it still answers")
        return Check(state=CheckState.UNKNOWN, summary="SSH cannot tell a host that is off from one without network")

    async def perform(self, host: str, step: Step) -> Performed:
        return await perform(self._runner, step)
