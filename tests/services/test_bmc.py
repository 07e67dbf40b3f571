"""Power by management controllers: real ipmitool against ipmi_sim, and Redfish over TLS against sushy-tools."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputop.domain.action import ActionKind, Block, CheckState, Goal, Step
from gputop.domain.backend import Ipmi, Redfish
from gputop.domain.call import Api, RunHere
from gputop.domain.clock import SystemClock
from gputop.domain.host import Host
from gputop.domain.instance import Instance, PowerState
from gputop.ports import CanHibernate, CanReboot, CanStart, CanStop
from gputop.power.ipmi import IpmiPowerProvider
from gputop.power.redfish import RedfishPowerProvider
from tests.needs import need, need_that
from tests.services.acting import PLAIN, a_host, a_request, take
from tests.services.bmc import IpmiBmc, RedfishBmc
from tests.services.moto import program

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the password is: a file of mode 0600. A variable of the environment has it too."""
    monkeypatch.setenv("BMC_PASSWORD", "secret")
    path = tmp_path / "password"
    path.touch(mode=0o600)
    path.write_text("secret\n")
    return f"file:{path}"


def steps_of(found: tuple[Step, ...] | Block) -> tuple[Step, ...]:
    assert not isinstance(found, Block), found
    return found


# --- IPMI ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running_ipmi() -> Iterator[IpmiBmc]:
    need("ipmi_sim")
    need("ipmitool")
    folder = Path(tempfile.mkdtemp(prefix="gputop-bmc-"))
    bmc = IpmiBmc(folder / "bmc", "gpu01", 1)
    try:
        yield bmc
    finally:
        bmc.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def ipmi(running_ipmi: IpmiBmc) -> IpmiBmc:
    running_ipmi.power = "on"
    (running_ipmi.folder / "deaf").unlink(missing_ok=True)
    running_ipmi.asked()
    return running_ipmi


def ipmi_provider(host: Host) -> IpmiPowerProvider:
    return IpmiPowerProvider({host.name: host.spec}, PLAIN, SystemClock())


def ipmi_host(bmc: IpmiBmc, password: str, /, **fields: Any) -> Host:
    settings = {"address": "127.0.0.1", "port": bmc.port, "username": "ops", "password": password, **fields}
    return a_host("gpu01", power=Ipmi(**settings))


async def ipmi_instance(host: Host) -> Instance:
    return (await ipmi_provider(host).observe([host]))[host.name]


async def test_ipmi_stops_by_the_button_and_starts_again(ipmi: IpmiBmc, password: str) -> None:
    host = ipmi_host(ipmi, password)
    power = ipmi_provider(host)
    instance = await ipmi_instance(host)
    assert (instance.power, instance.block) == (PowerState.RUNNING, None)

    (stop,) = steps_of(power.stop_steps(instance, a_request(ActionKind.STOP, "gpu01")))
    performed, check = await take(power, "gpu01", stop)
    assert performed is not None
    assert (performed.ok, check.state, ipmi.power) == (True, CheckState.DONE, "off")
    assert [line.split()[0] for line in ipmi.asked()] == ["shutdown"]
    assert (await ipmi_instance(host)).power is PowerState.STOPPED

    (start,) = steps_of(power.start_steps(instance, a_request(ActionKind.START, "gpu01")))
    performed, check = await take(power, "gpu01", start)
    assert performed is not None
    assert (performed.ok, check.state, ipmi.power) == (True, CheckState.DONE, "on")
    performed, check = await take(power, "gpu01", start)
    assert (performed, check.state) == (None, CheckState.DONE), "what runs is not switched on again"


async def test_an_operating_system_deaf_to_the_button_is_not_taken_for_off(ipmi: IpmiBmc, password: str) -> None:
    host = ipmi_host(ipmi, password)
    power = ipmi_provider(host)
    instance = await ipmi_instance(host)
    (ipmi.folder / "deaf").touch()
    (stop,) = steps_of(power.stop_steps(instance, a_request(ActionKind.STOP, "gpu01")))
    performed, check = await take(power, "gpu01", stop, 0.5)
    assert performed is not None
    assert (performed.ok, check.state, ipmi.power) == (True, CheckState.NOT_DONE, "on")

    cut = a_request(ActionKind.STOP, "gpu01", consents=frozenset({"power-cut"}))
    (off,) = steps_of(power.stop_steps(instance, cut))
    _, check = await take(power, "gpu01", off)
    assert (off.command.split()[-1], check.state, ipmi.power) == ("off", CheckState.DONE, "off")


async def test_a_reboot_by_ipmi_is_off_and_on_or_with_consent_a_cycle(ipmi: IpmiBmc, password: str) -> None:
    host = ipmi_host(ipmi, password)
    power = ipmi_provider(host)
    instance = await ipmi_instance(host)
    soft = steps_of(power.reboot_steps(instance, a_request(ActionKind.REBOOT, "gpu01")))
    assert [(step.id, step.goal) for step in soft] == [("ipmi.soft", Goal.STOPPED), ("ipmi.on", Goal.RUNNING)]
    for step in soft:
        _, check = await take(power, "gpu01", step)
        assert check.state is CheckState.DONE
    assert [line.split()[0] for line in ipmi.asked()] == ["shutdown", "power"]
    cut = a_request(ActionKind.REBOOT, "gpu01", consents=frozenset({"power-cut"}))
    (cycle,) = steps_of(power.reboot_steps(instance, cut))
    assert (cycle.id, cycle.goal, cycle.repeatable) == ("ipmi.cycle", Goal.REBOOTED, False)


async def test_a_password_is_neither_in_the_plan_nor_an_argument(ipmi: IpmiBmc, password: str) -> None:
    for place in (password, "env:BMC_PASSWORD"):
        host = ipmi_host(ipmi, place)
        instance = await ipmi_instance(host)
        assert instance.power is PowerState.RUNNING
        (stop,) = steps_of(ipmi_provider(host).stop_steps(instance, a_request(ActionKind.STOP, "gpu01")))
        assert isinstance(stop.call, RunHere)
        assert stop.call.secrets == {"IPMI_PASSWORD": place}
        assert "secret" not in f"{stop.call.argv} {stop.command}"
        assert stop.call.argv[:5] == ("ipmitool", "-I", "lanplus", "-C", "3")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"password": "env:NO_SUCH_VARIABLE"}, "NO_SUCH_VARIABLE is not set"),
        ({"username": "nobody"}, "Unable to establish"),
        ({"password": "hunter2"}, "never written down"),
    ],
)
async def test_a_bmc_that_cannot_be_asked_blocks_and_is_never_off(
    ipmi: IpmiBmc, password: str, fields: dict[str, str], words: str
) -> None:
    ipmi.power = "off"
    instance = await ipmi_instance(ipmi_host(ipmi, password, **fields))
    assert instance.power is PowerState.UNKNOWN
    assert instance.block is not None
    assert words in instance.block.summary
    if words == "Unable to establish":
        assert "wrong user name or password" in (instance.block.hint or "")


async def test_a_password_file_that_others_may_read_is_refused(ipmi: IpmiBmc, password: str) -> None:
    Path(password.removeprefix("file:")).chmod(0o644)
    block = (await ipmi_instance(ipmi_host(ipmi, password))).block
    assert block is not None
    assert "others may read it" in block.summary
    assert block.hint is not None
    assert block.hint.startswith("chmod 600 ")


# --- Redfish -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def redfish() -> Iterator[RedfishBmc]:
    emulator = program("sushy-emulator")
    need_that(emulator, "needs sushy-tools: make services")
    need("openssl")
    assert emulator is not None
    folder = Path(tempfile.mkdtemp(prefix="gputop-redfish-"))
    bmc = RedfishBmc(folder, emulator, 3)
    try:
        yield bmc
    finally:
        bmc.stop()
        shutil.rmtree(folder, ignore_errors=True)


def redfish_host(bmc: RedfishBmc, password: str | None, system: int | None = 0, /, **fields: Any) -> Host:
    settings = {
        "url": bmc.url,
        "system": bmc.systems[system] if system is not None else None,
        "username": "ops",
        "password": password,
        "ca_file": str(bmc.certificate),
        **fields,
    }
    return a_host("gpu01", power=Redfish(**settings))


def redfish_provider(host: Host) -> RedfishPowerProvider:
    return RedfishPowerProvider({host.name: host.spec}, PLAIN, SystemClock())


async def redfish_instance(host: Host) -> Instance:
    return (await redfish_provider(host).observe([host]))[host.name]


def test_both_can_stop_start_and_reboot_and_neither_hibernates(redfish: RedfishBmc, ipmi: IpmiBmc) -> None:
    for provider in (redfish_provider(redfish_host(redfish, None)), ipmi_provider(ipmi_host(ipmi, "env:X"))):
        for capability in (CanStop, CanStart, CanReboot):
            assert isinstance(provider, capability)
        assert not isinstance(provider, CanHibernate)


async def test_redfish_stops_gracefully_and_starts_again(redfish: RedfishBmc, password: str) -> None:
    host = redfish_host(redfish, password)
    power = redfish_provider(host)
    instance = await redfish_instance(host)
    assert (instance.power, instance.raw, instance.block) == (PowerState.RUNNING, "On", None)

    (stop,) = steps_of(power.stop_steps(instance, a_request(ActionKind.STOP, "gpu01")))
    assert stop.command == (
        f"redfish {redfish.url} POST /redfish/v1/Systems/{redfish.systems[0]}/Actions/ComputerSystem.Reset"
        "(ResetType='GracefulShutdown')"
    )
    performed, check = await take(power, "gpu01", stop)
    assert performed is not None
    assert (performed.ok, check.state, check.summary) == (True, CheckState.DONE, "Off")
    (start,) = steps_of(power.start_steps(instance, a_request(ActionKind.START, "gpu01")))
    performed, check = await take(power, "gpu01", start)
    assert performed is not None
    assert (performed.ok, check.state) == (True, CheckState.DONE)


async def test_redfish_asks_before_it_is_done_and_says_so(redfish: RedfishBmc, password: str) -> None:
    host = redfish_host(redfish, password, 1)
    power = redfish_provider(host)
    instance = await redfish_instance(host)
    cut = a_request(ActionKind.STOP, "gpu01", consents=frozenset({"power-cut"}))
    (off,) = steps_of(power.stop_steps(instance, cut))
    assert (off.id, off.goal) == ("redfish.ForceOff", Goal.STOPPED)
    assert (await power.check("gpu01", off)).state is CheckState.NOT_DONE
    assert (await power.perform("gpu01", off)).ok
    assert (await power.check("gpu01", off)).state in (CheckState.NOT_DONE, CheckState.DONE)
    (reboot,) = steps_of(power.reboot_steps(instance, a_request(ActionKind.REBOOT, "gpu01")))
    assert (reboot.id, reboot.goal, reboot.repeatable) == ("redfish.GracefulRestart", Goal.REBOOTED, False)


async def test_the_certificate_is_checked_unless_the_inventory_says_otherwise(
    redfish: RedfishBmc, password: str
) -> None:
    stranger = await redfish_instance(redfish_host(redfish, password, 2, ca_file=None))
    assert stranger.power is PowerState.UNKNOWN
    assert stranger.block is not None
    assert "certificate" in stranger.block.summary
    assert stranger.block.hint is not None
    assert "ca_file" in stranger.block.hint
    careless = await redfish_instance(redfish_host(redfish, password, 2, ca_file=None, insecure=True))
    assert careless.power is PowerState.RUNNING


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"password": "env:NO_SUCH_VARIABLE"}, "NO_SUCH_VARIABLE is not set"),
        ({"username": "nobody"}, "refuses the user name or password"),
        ({"system": "no-such-system"}, "HTTP 404"),
        ({"url": "http://127.0.0.1:1"}, "http:// would show the password"),
        ({"url": "https://127.0.0.1:1"}, "connection refused"),
    ],
)
async def test_a_redfish_that_cannot_be_asked_blocks_and_is_never_off(
    redfish: RedfishBmc, password: str, fields: dict[str, str], words: str
) -> None:
    instance = await redfish_instance(redfish_host(redfish, password, 2, **fields))
    assert instance.power is PowerState.UNKNOWN
    assert instance.block is not None
    assert words in instance.block.summary


async def test_one_of_several_systems_is_not_guessed(redfish: RedfishBmc, password: str) -> None:
    block = (await redfish_instance(redfish_host(redfish, password, None))).block
    assert block is not None
    assert block.kind == "system-not-found"
    assert all(system in block.summary for system in redfish.systems)


async def test_a_step_for_another_bmc_than_the_inventory_names_is_refused(redfish: RedfishBmc, password: str) -> None:
    """The journal carries steps on; the password must not go to whatever address stands in it."""
    host = redfish_host(redfish, password, 2)
    power = redfish_provider(host)
    (stop,) = steps_of(power.stop_steps(await redfish_instance(host), a_request(ActionKind.STOP, "gpu01")))
    moved = RedfishPowerProvider(
        {"gpu01": redfish_host(redfish, password, 2, url="https://[::1]:1").spec}, PLAIN, SystemClock()
    )
    assert isinstance(stop.call, Api)
    assert not (await moved.perform("gpu01", stop)).ok
    assert (await moved.check("gpu01", stop)).state is CheckState.UNKNOWN
    assert (await redfish_instance(host)).power is PowerState.RUNNING
