"""A real machine with a real BMC: drained, stopped, started and rebooted by the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acts.conftest import Gputop
from tests.acts.machines import DEFAULTS, Machine, Machines
from tests.acts.steps import DO, REASON, wait_for
from tests.needs import need
from tests.services.bmc import IpmiBmc

CABLE = """\
case $1 in
    off) touch {folder}/off; pkill -TERM -f -- "-f {folder}/sshd_config" ;;
    on) rm -f {folder}/off ;;
esac
"""


@pytest.fixture(scope="module")
def machine(machines: Machines) -> Machine:
    return machines.add("gpu-bmc")


@pytest.fixture(scope="module")
def bmc(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IpmiBmc]:
    for program in ("ipmi_sim", "ipmitool", "pkill"):
        need(program)
    simulator = IpmiBmc(tmp_path_factory.mktemp("bmc") / "bmc", "gpu-bmc", 9)
    simulator.wire_to(CABLE.format(folder=machine.folder))
    yield simulator
    simulator.stop()


@pytest.fixture(scope="module")
def inventory(machines: Machines, machine: Machine, bmc: IpmiBmc) -> Path:
    password = bmc.folder / "password"
    password.touch(mode=0o600)
    password.write_text("secret")
    power = f"{{kind: ipmi, address: 127.0.0.1, port: {bmc.port}, username: ops, password: 'file:{password}'}}"
    return machines.inventory(defaults=DEFAULTS.replace("power: ssh", f"power: {power}"), names=("gpu-bmc",))


def test_a_machine_is_stopped_started_and_rebooted_by_its_bmc_and_each_is_proven(
    machine: Machine, bmc: IpmiBmc, inventory: Path, gputop: Gputop
) -> None:
    refused = gputop("stop", "-f", inventory, "gpu-bmc", *DO, *REASON)
    assert refused.returncode == 4, "only drained hosts are stopped"
    assert (machine.is_up, bmc.power) == (True, "on")

    assert gputop("drain", "-f", inventory, "gpu-bmc", *DO, *REASON).returncode == 0
    stopped = gputop("stop", "-f", inventory, "gpu-bmc", *DO, *REASON)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert "verified    stopped" in stopped.stdout
    assert bmc.power == "off"
    wait_for(lambda: machine.downs == 1, "the machine did not go down")  # the BMC switches first

    started = gputop("start", "-f", inventory, "gpu-bmc", *DO)
    assert started.returncode == 0, started.stdout + started.stderr
    assert (machine.is_up, bmc.power) == (True, "on")

    before = machine.boot_id
    assert gputop("drain", "-f", inventory, "gpu-bmc", *DO, *REASON).returncode == 0
    rebooted = gputop("reboot", "-f", inventory, "gpu-bmc", *DO, *REASON)
    assert rebooted.returncode == 0, rebooted.stdout + rebooted.stderr
    assert (machine.downs, bmc.power) == (2, "on")  # it has answered since: it must have been down
    assert machine.boot_id != before

    records = [json.loads(line) for line in gputop("audit", "--format", "json").stdout.splitlines()]
    commands = [
        record["command"] for record in records if record["event"] == "step" and "ipmitool" in record["command"]
    ]
    assert [command.split()[-1] for command in commands] == ["soft", "on", "soft", "on"]
    assert "secret" not in json.dumps(records)


def test_a_power_off_over_ssh_that_may_delete_an_ec2_instance_is_a_loss_that_must_be_agreed_to(
    machines: Machines, gputop: Gputop
) -> None:
    machine = machines.add("gpu-ec2")
    machine.run(
        "mount -t tmpfs tmpfs /sys && mkdir -p /sys/class/dmi/id && echo Amazon EC2 >/sys/class/dmi/id/sys_vendor"
    )
    inventory = machines.inventory(names=("gpu-ec2",))
    assert gputop("drain", "-f", inventory, "gpu-ec2", *DO, *REASON).returncode == 0
    refused = gputop("stop", "-f", inventory, "gpu-ec2", *DO, *REASON)
    assert refused.returncode == 4
    assert "refused (may-terminate)" in refused.stderr
    assert "power: {kind: ec2}" in refused.stderr
    agreed = gputop("stop", "-f", inventory, "gpu-ec2", *REASON, "--consent", "may-terminate").stdout
    machine.stop()
    assert 'loses  the instance itself, where its shutdown behavior is "terminate"' in agreed
    assert "loses  all data on instance store, where it has any" in agreed
    assert "will   power off over SSH" in agreed
    assert machine.downs == 0
