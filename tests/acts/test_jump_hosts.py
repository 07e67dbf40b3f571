"""A machine that others are reached through is left alone, however ssh_config says so and whoever else is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acts.conftest import Gputop
from tests.acts.machines import Machine, Machines
from tests.acts.steps import DO, REASON

BY_SSH_CONFIG = ("ProxyJump {it}", "ProxyJump ops@{it}", "ProxyCommand ssh -q -W %h:%p {it}",
                 "ProxyCommand ssh -o 'ProxyJump=other,{it}' -W %h:%p x")  # fmt: skip


@pytest.fixture(scope="module")
def machine(machines: Machines) -> Iterator[Machine]:
    machine = machines.add("gpu-door")
    yield machine
    machine.stop()


def an_inventory(machines: Machines, machine: Machine, ssh_config: str) -> Path:
    """The machine, and one that is never reached in these tests: ssh_config alone knows where they are."""
    path = machines.inventory(names=(machine.name,))
    config = path.with_suffix(".ssh")
    where = f"Host {machine.name}\n  HostName 127.0.0.1\n  Port {machine.port}\n"
    config.write_text(f"{where}Host gpu-behind\n  HostName 127.0.0.1\n  Port 9\n  {ssh_config}\n")
    head = path.read_text().partition("hosts:\n")[0].replace("ssh_config: null", f"ssh_config: {config}")
    path.write_text(f"{head}hosts:\n  - {{name: {machine.name}}}\n  - {{name: gpu-behind}}\n")
    return path


@pytest.mark.parametrize("said", BY_SSH_CONFIG)
def test_a_machine_that_ssh_config_leads_through_is_not_rebooted(
    said: str, machine: Machine, machines: Machines, gputop: Gputop
) -> None:
    inventory = an_inventory(machines, machine, said.format(it=machine.name))
    downs = machine.downs
    ran = gputop("reboot", "-f", inventory, machine.name, *DO, *REASON, "--override", "now")
    assert ran.returncode == 4, ran.stdout
    assert "(jump-host): gpu-door: others are reached through it" in ran.stderr
    assert machine.downs == downs


def test_a_machine_is_not_taken_for_a_jump_host_because_of_its_address(
    machine: Machine, machines: Machines, gputop: Gputop
) -> None:
    """All of them have the address 127.0.0.1."""
    inventory = an_inventory(machines, machine, "ProxyJump other")
    ran = gputop("drain", "-f", inventory, machine.name, *DO, *REASON)
    assert ran.returncode == 0, ran.stderr
    assert gputop("resume", "-f", inventory, machine.name, *DO).returncode == 0


def test_where_a_way_is_not_known_nothing_is_taken_away_without_a_reason(
    machine: Machine, machines: Machines, gputop: Gputop
) -> None:
    inventory = an_inventory(machines, machine, "ProxyJump gpu-behind")
    ran = gputop("drain", "-f", inventory, machine.name, *DO, *REASON)
    assert ran.returncode == 4, ran.stdout
    assert "whether gpu-behind is reached through one of these is not known: jump hosts go round" in ran.stderr
    ran = gputop("drain", "-f", inventory, machine.name, *DO, *REASON, "--override", "gpu-behind is not built yet")
    assert ran.returncode == 0, ran.stderr
