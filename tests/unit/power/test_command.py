"""Power by a site's own programs, run for real."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gputop.domain.action import ActionKind, Block, CheckState, Goal, Step
from gputop.domain.backend import CommandPower
from gputop.domain.clock import SystemClock
from gputop.domain.host import Host
from gputop.domain.instance import Instance, PowerState
from gputop.ports import CanHibernate, CanReboot, CanStart, CanStop
from gputop.power.command import CommandPowerProvider, states_of
from tests.services.acting import PLAIN, a_host, a_request, take

MACHINE = """#!/bin/sh
# A site's program: its machine's state is a file.
cd "$(dirname "$0")"
echo "$*" >>asked
case $1 in
    status) cat state ;;
    stop) echo stopped >state ;;
    start) echo running >state ;;
    fail) echo "quota exceeded" >&2; exit 3 ;;
esac
"""


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = str(folder / "machine")
        Path(self.program).write_text(MACHINE)
        Path(self.program).chmod(0o755)
        self.state = "running"

    @property
    def state(self) -> str:
        return (self.folder / "state").read_text().strip()

    @state.setter
    def state(self, text: str) -> None:
        (self.folder / "state").write_text(f"{text}\n")

    def asked(self) -> list[str]:
        lines = (self.folder / "asked").read_text().splitlines()
        (self.folder / "asked").unlink()
        return lines

    def host(self, **fields: Any) -> Host:
        settings = {
            "status": (self.program, "status", "{id}"),
            "stop": (self.program, "stop", "--name={host}", "{address}"),
            "start": (self.program, "start", "{id}"),
            "id": "m-1",
            **fields,
        }
        return a_host("gpu01", address="192.0.2.7", power=CommandPower(**settings))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def provider(host: Host) -> CommandPowerProvider:
    return CommandPowerProvider({host.name: host.spec}, PLAIN, SystemClock())


async def look(host: Host) -> Instance:
    return (await provider(host).observe([host]))[host.name]


def steps_of(found: tuple[Step, ...] | Block) -> tuple[Step, ...]:
    assert not isinstance(found, Block), found
    return found


async def test_a_site_program_stops_and_starts_and_its_status_is_the_proof(site: Site) -> None:
    host = site.host()
    power = provider(host)
    instance = await look(host)
    assert (instance.power, instance.id, instance.raw) == (PowerState.RUNNING, "m-1", "running")
    (stop,) = steps_of(power.stop_steps(instance, a_request(ActionKind.STOP, "gpu01")))
    performed, check = await take(power, "gpu01", stop)
    assert performed is not None
    assert (performed.ok, check.state, check.summary) == (True, CheckState.DONE, "stopped")
    assert [line for line in site.asked() if line.startswith("stop")] == ["stop --name=gpu01 192.0.2.7"]
    (start,) = steps_of(power.start_steps(instance, a_request(ActionKind.START, "gpu01")))
    _, check = await take(power, "gpu01", start)
    assert (check.state, site.state) == (CheckState.DONE, "running")


async def test_placeholders_are_filled_in_within_their_word_and_no_shell_sees_them(site: Site) -> None:
    host = site.host(id="m-1; touch oops $(id)")
    await look(host)
    assert site.asked() == ["status m-1; touch oops $(id)"]
    assert sorted(path.name for path in site.folder.iterdir()) == ["machine", "state"]


async def test_an_id_may_be_a_label(site: Site) -> None:
    shared = site.host(id=None).spec.power
    labeled = a_host("gpu01", power=shared, labels={"instance_id": "m-7"})
    assert (await look(labeled)).id == "m-7"
    assert site.asked() == ["status m-7"]
    block = (await look(a_host("gpu01", power=shared))).block
    assert block is not None
    assert block.kind == "no-id"


@pytest.mark.parametrize("said", ["", "stopped?", "not running", "running\nstopped", "unknown"])
async def test_a_status_that_fits_no_pattern_is_no_state(site: Site, said: str) -> None:
    host = site.host()
    power = provider(host)
    (stop,) = steps_of(power.stop_steps(await look(host), a_request(ActionKind.STOP, "gpu01")))
    site.state = said
    instance = await look(host)
    assert instance.power is PowerState.UNKNOWN
    assert instance.block is not None
    assert instance.block.kind == "unknown-state"
    assert (await power.check("gpu01", stop)).state is CheckState.UNKNOWN


async def test_a_status_that_fits_two_states_is_no_state(site: Site) -> None:
    block = (await look(site.host(stopped=("run.*",)))).block
    assert block is not None
    assert "running and stopped" in block.summary


async def test_a_pattern_that_is_none_blocks(site: Site) -> None:
    block = (await look(site.host(running=("(",)))).block
    assert block is not None
    assert block.kind == "bad-pattern"


@pytest.mark.parametrize(
    ("status", "words"), [(("/no/such/program",), "No such file"), (("sh", "-c", "echo off; exit 1"), "exit status 1")]
)
async def test_a_status_program_that_fails_has_said_nothing(site: Site, status: tuple[str, ...], words: str) -> None:
    """Not even where it printed a state before."""
    instance = await look(site.host(status=status))
    assert instance.power is PowerState.UNKNOWN
    assert instance.block is not None
    assert instance.block.kind == "no-answer"
    assert words in instance.block.summary


async def test_a_status_program_that_hangs_is_ended_at_its_deadline(site: Site) -> None:
    instance = await look(site.host(status=("sleep", "600"), timeout_seconds=0.2))
    assert instance.power is PowerState.UNKNOWN
    assert instance.block is not None
    assert "no end within 0.2 s" in instance.block.summary


async def test_a_program_that_fails_is_a_failure_with_its_words(site: Site) -> None:
    host = site.host(stop=(site.program, "fail"))
    power = provider(host)
    (stop,) = steps_of(power.stop_steps(await look(host), a_request(ActionKind.STOP, "gpu01")))
    performed, check = await take(power, "gpu01", stop, 0.2)
    assert performed is not None
    assert (performed.ok, performed.exit_status, performed.output) == (False, 3, "quota exceeded")
    assert check.state is CheckState.NOT_DONE
    assert not stop.repeatable, "whether a site's program may be called twice is not known"


async def test_acts_without_a_program_are_refused(site: Site) -> None:
    host = site.host(stop=(), start=())
    power = provider(host)
    instance = await look(host)
    for found in (
        power.stop_steps(instance, a_request(ActionKind.STOP, "gpu01")),
        power.start_steps(instance, a_request(ActionKind.START, "gpu01")),
        power.reboot_steps(instance, a_request(ActionKind.REBOOT, "gpu01")),
    ):
        assert isinstance(found, Block)
        assert found.kind == "no-command"
    for capability in (CanStop, CanStart, CanReboot):
        assert isinstance(power, capability)
    assert not isinstance(power, CanHibernate)


async def test_a_machine_that_is_gone_is_neither_stopped_nor_started(site: Site) -> None:
    host = site.host(gone=("deleted",))
    power = provider(host)
    (stop,) = steps_of(power.stop_steps(await look(host), a_request(ActionKind.STOP, "gpu01")))
    site.state = "deleted"
    assert (await power.check("gpu01", stop)).state is CheckState.BLOCKED
    assert isinstance(power.start_steps(await look(host), a_request(ActionKind.START, "gpu01")), Block)


async def test_bill_and_losses_are_the_words_of_the_site(site: Site) -> None:
    instance = await look(site.host(billing="disks stay billed", stops_billing=True, loses=("the local SSDs",)))
    assert (instance.billing, instance.stops_billing) == ("disks stay billed", True)
    assert [(loss.summary, loss.certain) for loss in instance.stop_losses] == [("the local SSDs", True)]


async def test_a_step_carries_the_status_it_is_verified_by(site: Site) -> None:
    """Another process goes on from the journal: it must not verify another machine because the id has changed since."""
    host = site.host()
    (stop,) = steps_of(provider(host).stop_steps(await look(host), a_request(ActionKind.STOP, "gpu01")))
    site.asked()
    await provider(site.host(id="m-2")).check("gpu01", stop)
    assert site.asked() == ["status m-1"]
    assert stop.goal is Goal.STOPPED


def test_the_default_patterns_tell_on_from_off() -> None:
    power = CommandPower(status=("x",))
    words = ("running", " RUNNING\n", "on", "stopped", "TERMINATED", "off", "VM stopped", "running off")
    assert [states_of(power, said) for said in words] == [
        *[[PowerState.RUNNING]] * 3,
        *[[PowerState.STOPPED]] * 3,
        [],
        [],
    ]
