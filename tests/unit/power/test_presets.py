"""The presets of docs/reference/power.md, read by the inventory's own reader and run against stand-ins.

The stand-ins are no clouds: programs of the same names that print what these clouds document, with the state put in.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gputop.domain.action import ActionKind, Block, CheckState
from gputop.domain.backend import CommandPower, Ec2, Ipmi, Redfish
from gputop.domain.clock import SystemClock
from gputop.domain.host import Host, HostSpec
from gputop.domain.instance import PowerState
from gputop.inventory.load import Inventory, load
from gputop.power.command import CommandPowerProvider
from tests.fakes.builders import a_link
from tests.services.acting import InEnvironment, a_request, take

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "power.md"
PRESETS = dict(re.findall(r"<!-- preset: (\S+) -->\n```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL))

ALIYUN = """{{
  "InstanceStatuses": {{"InstanceStatus": [{{"InstanceId": "the-id", "Status": "{state}"}}]}},
  "PageNumber": 1, "PageSize": 10, "RequestId": "473469C7-AA6F-4DC5-B3DB-A3DC0DE3C83E", "TotalCount": 1
}}"""
TENCENT = """{{
    "TotalCount": 1,
    "InstanceStatusSet": [{{"InstanceId": "the-id", "InstanceState": "{state}"}}],
    "RequestId": "e5cdf0b7-8b6c-4b0b-9c6e-0f0f5d8c2a11"
}}"""
PRINTED = {
    "aliyun": (ALIYUN, "Running", "Stopped", "Stopping"),
    "tccli": (TENCENT, "RUNNING", "STOPPED", "STOPPING"),
    "hcloud-huawei": ('"{state}"', "ACTIVE", "SHUTOFF", None),
    "gcloud": ("{state}", "RUNNING", "TERMINATED", "STOPPING"),
    "az": ("{state}", "VM running", "VM deallocated", "VM stopped"),
    "hcloud-hetzner": ("{state}", "running", "off", "stopping"),
}
"""What `status` prints, and the words for on, off and on the way there."""

STOPS = {
    "aliyun": "StopInstance --region cn-hangzhou --InstanceId the-id --StoppedMode StopCharging",
    "tccli": '--InstanceIds ["the-id"] --StopType SOFT --StoppedMode STOP_CHARGING',
    "hcloud-huawei": "--os-stop.servers.1.id=the-id --os-stop.type=SOFT",
    "gcloud": "stop the-id --project=ml --zone=us-central1-a --discard-local-ssd=false",
    "az": "vm deallocate --ids the-id",
    "hcloud-hetzner": "server shutdown the-id",
}
"""What must be in the call that stops."""

STAND_IN = """#!/bin/sh
# A stand-in for a cloud's program: prints a file for the status, keeps every other call.
cd "$(dirname "$0")"
case "$*" in
    *Describe*|*describe*|*ShowServer*|*get-instance-view*) cat printed ;;
    *) echo "$*" >>asked; [ ! -e next ] || mv next printed ;;
esac
"""


class Cloud:
    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        file = folder / "inventory.yaml"
        hosts = "hosts:\n- name: gpu01\n  labels: {instance_id: the-id}\n"
        indented = PRESETS[name].replace("\n", "\n  ")
        file.write_text(f"defaults:\n  {indented}\n{hosts}")
        loaded = load([file])
        assert isinstance(loaded, Inventory), loaded
        self.spec: HostSpec = loaded.specs[0]
        power = self.spec.power
        assert isinstance(power, CommandPower)
        self.power = power
        text, self.on, self.off, self.between = PRINTED[name]
        self.text = text
        program = folder / power.status[0]
        program.write_text(STAND_IN)
        program.chmod(0o755)
        self.prints(self.on)

    def prints(self, state: str, file: str = "printed") -> None:
        (self.folder / file).write_text(f"{self.text.format(state=state)}\n")

    @property
    def host(self) -> Host:
        return Host(spec=self.spec, link=a_link(), reported=a_link())

    def provider(self) -> CommandPowerProvider:
        runner = InEnvironment({"PATH": f"{self.folder}:/usr/bin:/bin"})
        return CommandPowerProvider({"gpu01": self.spec}, runner, SystemClock())


@pytest.fixture(params=sorted(PRINTED))
def name(request: Any) -> str:
    return str(request.param)


@pytest.fixture
def cloud(name: str, tmp_path: Path) -> Cloud:
    return Cloud(tmp_path, name)


def test_every_preset_of_the_page_is_tested() -> None:
    assert set(PRESETS) == set(PRINTED) == set(STOPS)


async def test_a_preset_stops_in_the_way_it_says_and_proves_it(name: str, cloud: Cloud) -> None:
    power = cloud.provider()
    instance = (await power.observe([cloud.host]))["gpu01"]
    assert (instance.power, instance.block, instance.id) == (PowerState.RUNNING, None, "the-id")
    steps = power.stop_steps(instance, a_request(ActionKind.STOP, "gpu01"))
    assert not isinstance(steps, Block)
    cloud.prints(cloud.off, "next")
    performed, check = await take(power, "gpu01", steps[0])
    assert performed is not None
    assert (performed.ok, check.state) == (True, CheckState.DONE)
    (asked,) = (cloud.folder / "asked").read_text().splitlines()
    assert STOPS[name] in asked
    starts = power.start_steps(instance, a_request(ActionKind.START, "gpu01"))
    assert not isinstance(starts, Block)
    cloud.prints(cloud.on, "next")
    _, check = await take(power, "gpu01", starts[0])
    assert check.state is CheckState.DONE


async def test_on_the_way_is_not_there_yet(cloud: Cloud) -> None:
    if cloud.between is None:
        assert cloud.power.stopping == ()
        return
    cloud.prints(cloud.between)
    power = cloud.provider()
    instance = (await power.observe([cloud.host]))["gpu01"]
    assert (instance.power, instance.block) == (PowerState.STOPPING, None)
    steps = power.stop_steps(instance, a_request(ActionKind.STOP, "gpu01"))
    assert not isinstance(steps, Block)
    assert (await power.check("gpu01", steps[0])).state is CheckState.NOT_DONE


@pytest.mark.parametrize("preset", ["aliyun", "tccli"])
async def test_an_answer_about_several_machines_is_no_state(preset: str, tmp_path: Path) -> None:
    cloud = Cloud(tmp_path, preset)
    text = (tmp_path / "printed").read_text().replace('"TotalCount": 1', '"TotalCount": 12')
    (tmp_path / "printed").write_text(text)
    assert (await cloud.provider().observe([cloud.host]))["gpu01"].power is PowerState.UNKNOWN


def test_a_preset_says_what_it_does_to_the_bill(cloud: Cloud) -> None:
    assert cloud.power.stops_billing is not None
    assert cloud.power.billing


@pytest.mark.parametrize("kind", [Ec2, Redfish, Ipmi, CommandPower], ids=lambda kind: str(kind.__struct_config__.tag))
def test_every_key_of_power_is_on_the_page(kind: Any) -> None:
    text = PAGE.read_text("utf-8")
    section = text.partition(f"\n## {kind.__struct_config__.tag}\n")[2].partition("\n## ")[0]
    missing = [name for name in kind.__struct_fields__ if f"`{name}`" not in section]
    assert missing == []
