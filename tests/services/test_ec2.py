"""Power by EC2, against moto on loopback. The addresses of its instances are invented: nothing here contacts them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from gputop.domain.action import ActionKind, Block, CheckState, Goal, LossKind, Step
from gputop.domain.backend import Ec2
from gputop.domain.call import Api
from gputop.domain.clock import SystemClock
from gputop.domain.host import Host
from gputop.domain.instance import Instance, PowerState
from gputop.domain.problem import ProblemKind
from gputop.ports import CanHibernate, CanReboot, CanStart, CanStop
from gputop.power.aws import Place, place_of
from gputop.power.ec2 import Ec2PowerProvider
from tests.needs import need_that
from tests.services.acting import PLAIN, a_host, a_request, take
from tests.services.moto import Moto, program

pytestmark = pytest.mark.timeout(90)

REGION = "us-east-1"
IMAGE = "ami-12c6146b"


@pytest.fixture(scope="module")
def moto() -> Iterator[Moto]:
    server = program("moto_server")
    need_that(server, "needs moto: make services")
    assert server is not None
    running = Moto(server)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(scope="module")
def api(moto: Moto) -> Any:
    """EC2 as its owner sees it."""
    return client(moto, "ec2")


def client(moto: Moto, service: str) -> Any:
    import boto3

    return boto3.client(
        service,
        region_name=REGION,
        endpoint_url=moto.url,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )


def launch(api: Any, kind: str, **fields: Any) -> dict[str, Any]:
    made = api.run_instances(ImageId=IMAGE, MinCount=1, MaxCount=1, InstanceType=kind, **fields)["Instances"][0]
    found: dict[str, Any] = api.describe_instances(InstanceIds=[made["InstanceId"]])["Reservations"][0]["Instances"][0]
    return found


def host_of(moto: Moto, instance_id: str | None, name: str = "gpu01", **fields: Any) -> Host:
    return a_host(name, power=Ec2(instance_id=instance_id, region=REGION, endpoint=moto.url), **fields)


async def look(*hosts: Host) -> Instance:
    found = await Ec2PowerProvider(PLAIN, SystemClock()).observe(hosts)
    assert sorted(found) == sorted(host.name for host in hosts)
    return found[hosts[0].name]


def steps_of(found: tuple[Step, ...] | Block) -> tuple[Step, ...]:
    assert not isinstance(found, Block), found
    return found


def kinds(those: Sequence[Any]) -> list[str]:
    return [str(it.kind) for it in those]


def test_ec2_can_stop_start_reboot_and_hibernate() -> None:
    power = Ec2PowerProvider(PLAIN, SystemClock())
    for capability in (CanStop, CanStart, CanReboot, CanHibernate):
        assert isinstance(power, capability)


async def test_an_instance_stops_and_starts_by_the_word_of_ec2(moto: Moto, api: Any) -> None:
    instance_id = launch(api, "g6.xlarge")["InstanceId"]
    host = host_of(moto, instance_id)
    power = Ec2PowerProvider(PLAIN, SystemClock())
    instance = await look(host)
    assert (instance.power, instance.id, instance.kind, instance.block, instance.stop_blocks) == (
        PowerState.RUNNING,
        instance_id,
        "g6.xlarge",
        None,
        (),
    )

    (stop,) = steps_of(power.stop_steps(instance, a_request(ActionKind.STOP, "gpu01")))
    assert stop.command == f"ec2 region={REGION} endpoint={moto.url} StopInstances(InstanceIds=['{instance_id}'])"
    assert (await power.check("gpu01", stop)).state is CheckState.NOT_DONE
    performed, check = await take(power, "gpu01", stop)
    assert performed is not None
    assert (performed.ok, check.state, check.values) == (True, CheckState.DONE, {"power": "stopped"})
    performed, check = await take(power, "gpu01", stop)
    assert (performed, check.state) == (None, CheckState.DONE), "what is stopped is not stopped again"

    (start,) = steps_of(power.start_steps(await look(host), a_request(ActionKind.START, "gpu01")))
    performed, check = await take(power, "gpu01", start)
    assert performed is not None
    assert (performed.ok, check.state) == (True, CheckState.DONE)
    (reboot,) = steps_of(power.reboot_steps(instance, a_request(ActionKind.REBOOT, "gpu01")))
    assert (reboot.goal, reboot.repeatable) == (Goal.REBOOTED, False)
    assert (await power.perform("gpu01", reboot)).ok


@pytest.mark.parametrize(
    ("kind", "size"), [("p4d.24xlarge", "8000 GB"), ("p5.48xlarge", "30400 GB"), ("g6.xlarge", "")]
)
async def test_instance_store_that_a_stop_wipes_is_named_with_its_size(
    moto: Moto, api: Any, kind: str, size: str
) -> None:
    instance = await look(host_of(moto, launch(api, kind)["InstanceId"]))
    (store,) = [loss for loss in instance.stop_losses if loss.kind is LossKind.INSTANCE_STORE]
    assert store.certain
    assert size in store.summary
    assert kind in store.summary
    (capacity,) = [loss for loss in instance.stop_losses if loss.kind is LossKind.CAPACITY]
    assert (capacity.certain, kind in capacity.summary) == (False, True)
    assert (instance.stops_billing, "volumes" in instance.billing) == (True, True)


async def test_an_instance_without_instance_store_loses_none(moto: Moto, api: Any) -> None:
    losses = (await look(host_of(moto, launch(api, "t3.micro")["InstanceId"]))).stop_losses
    assert LossKind.INSTANCE_STORE not in [loss.kind for loss in losses]


async def test_stop_protection_blocks_and_ec2_would_refuse_too(moto: Moto, api: Any) -> None:
    instance_id = launch(api, "p5.48xlarge", DisableApiStop=True)["InstanceId"]
    instance = await look(host_of(moto, instance_id))
    assert kinds(instance.stop_blocks) == ["stop-protection"]
    assert instance.stop_blocks[0].hint is not None
    assert instance_id in instance.stop_blocks[0].hint
    power = Ec2PowerProvider(PLAIN, SystemClock())
    (stop,) = steps_of(power.stop_steps(instance, a_request(ActionKind.STOP, "gpu01")))
    performed = await power.perform("gpu01", stop)
    assert (performed.ok, performed.pending) == (False, False)
    assert performed.problem is not None
    assert "OperationNotPermitted" in performed.problem.summary
    assert (await power.check("gpu01", stop)).state is CheckState.NOT_DONE


async def test_termination_protection_is_noted_and_does_not_block(moto: Moto, api: Any) -> None:
    instance_id = launch(api, "g6.xlarge")["InstanceId"]
    api.modify_instance_attribute(InstanceId=instance_id, DisableApiTermination={"Value": True})
    instance = await look(host_of(moto, instance_id))
    assert (instance.stop_blocks, len(instance.notes)) == ((), 1)


async def test_a_shutdown_that_would_terminate_is_said(moto: Moto, api: Any) -> None:
    made = launch(api, "g6.xlarge", InstanceInitiatedShutdownBehavior="terminate")
    (loss,) = [
        loss for loss in (await look(host_of(moto, made["InstanceId"]))).stop_losses if loss.kind is LossKind.INSTANCE
    ]
    assert (loss.certain, "terminates it for good" in loss.summary) == (False, True)


async def test_spot_instances_stop_only_where_their_request_is_known_to_persist(moto: Moto, api: Any) -> None:
    options = {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "persistent"}}
    unknown = await look(host_of(moto, launch(api, "p4d.24xlarge", InstanceMarketOptions=options)["InstanceId"]))
    assert kinds(unknown.stop_blocks) == ["spot-unknown"]
    assert [loss.certain for loss in unknown.stop_losses if loss.kind is LossKind.CAPACITY] == [True]


async def test_a_member_of_an_auto_scaling_group_stops_in_standby_alone(moto: Moto, api: Any) -> None:
    scaling = client(moto, "autoscaling")
    scaling.create_launch_configuration(LaunchConfigurationName="lc", ImageId=IMAGE, InstanceType="g6.xlarge")
    scaling.create_auto_scaling_group(
        AutoScalingGroupName="workers",
        LaunchConfigurationName="lc",
        MinSize=0,
        MaxSize=1,
        DesiredCapacity=1,
        AvailabilityZones=[f"{REGION}a"],
    )
    (member,) = scaling.describe_auto_scaling_groups()["AutoScalingGroups"][0]["Instances"]
    host = host_of(moto, member["InstanceId"])
    instance = await look(host)
    assert kinds(instance.stop_blocks) == ["auto-scaling-group"]
    assert "workers would replace it (InService)" in instance.stop_blocks[0].summary
    scaling.enter_standby(
        AutoScalingGroupName="workers", InstanceIds=[member["InstanceId"]], ShouldDecrementDesiredCapacity=True
    )
    instance = await look(host)
    assert (instance.stop_blocks, instance.notes) == ((), ("in standby in auto-scaling group workers",))


async def test_hibernation_is_offered_where_it_was_set_up_and_a_plain_stop_is_not_taken_for_it(
    moto: Moto, api: Any
) -> None:
    power = Ec2PowerProvider(PLAIN, SystemClock())
    request = a_request(ActionKind.HIBERNATE, "gpu01")
    without = await look(host_of(moto, launch(api, "g6.xlarge")["InstanceId"]))
    refused = power.hibernate_steps(without, request)
    assert isinstance(refused, Block)
    assert refused.kind == "no-hibernation"

    made = launch(api, "g6.xlarge", HibernationOptions={"Configured": True})
    instance = await look(host_of(moto, made["InstanceId"]))
    assert instance.can_hibernate
    (step,) = steps_of(power.hibernate_steps(instance, request))
    assert isinstance(step.call, Api)
    assert (step.call.parameters["Hibernate"], step.goal) == (True, Goal.HIBERNATED)
    performed, check = await take(power, "gpu01", step)
    assert performed is not None
    assert performed.ok
    assert check.state is CheckState.BLOCKED, "moto only stops it, as EC2 does when the memory cannot be written"
    assert "without hibernating" in check.summary


async def test_a_terminated_instance_blocks_and_does_not_count_as_stopped(moto: Moto, api: Any) -> None:
    instance_id = launch(api, "g6.xlarge")["InstanceId"]
    host = host_of(moto, instance_id)
    power = Ec2PowerProvider(PLAIN, SystemClock())
    (stop,) = steps_of(power.stop_steps(await look(host), a_request(ActionKind.STOP, "gpu01")))
    api.terminate_instances(InstanceIds=[instance_id])
    instance = await look(host)
    assert instance.power is PowerState.GONE
    assert instance.block is not None
    assert instance.block.kind == "gone"
    assert (await power.check("gpu01", stop)).state is CheckState.BLOCKED


async def test_instances_are_found_by_private_address_and_name_and_never_guessed(moto: Moto, api: Any) -> None:
    one, other = launch(api, "g6.xlarge"), launch(api, "g6.xlarge")
    hosts = [
        host_of(moto, None, "by-address", address=one["PrivateIpAddress"]),
        host_of(moto, None, "by-name", address=other["PrivateDnsName"]),
        host_of(moto, None, "by-neither", address="192.0.2.7"),
        host_of(moto, "i-0123456789abcdef0", "unknown-id"),
    ]
    found = await Ec2PowerProvider(PLAIN, SystemClock()).observe(hosts)
    assert found["by-address"].id == one["InstanceId"]
    assert found["by-name"].id == other["InstanceId"]
    for name in ("by-neither", "unknown-id"):
        block = found[name].block
        assert block is not None
        assert (block.kind, found[name].power) == ("instance-not-found", PowerState.UNKNOWN)


async def test_an_endpoint_that_is_not_there_blocks_and_proves_nothing(moto: Moto, api: Any) -> None:
    host = a_host("gpu01", power=Ec2(instance_id="i-1", region=REGION, endpoint="http://127.0.0.1:1"))
    instance = await look(host)
    assert instance.block is not None
    assert (instance.power, instance.block.kind) == (PowerState.UNKNOWN, "no-answer")
    power = Ec2PowerProvider(PLAIN, SystemClock())
    call = Api(
        service=Place(region=REGION, endpoint="http://127.0.0.1:1").service(),
        operation="StopInstances",
        parameters={"InstanceIds": ["i-1"]},
    )
    step = Step(id="ec2.StopInstances", actor="power", title="", call=call, goal=Goal.STOPPED)
    assert (await power.check("gpu01", step)).state is CheckState.UNKNOWN


async def test_without_credentials_region_or_profile_one_line_says_so(
    moto: Moto, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = a_host("gpu01", power=Ec2(instance_id="i-1"))
    stranger = a_host("gpu01", power=Ec2(instance_id="i-1", region=REGION, profile="no-such", endpoint=moto.url))
    for host, words in ((nowhere, "no AWS region is set"), (stranger, "no-such")):
        block = (await look(host)).block
        assert block is not None
        assert words in block.summary
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    block = (await look(host_of(moto, "i-1"))).block
    assert block is not None
    assert block.summary == "EC2: no AWS credentials were found"


async def test_without_boto3_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("boto3", "botocore")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.setitem(sys.modules, "botocore", None)
    block = (await look(a_host("gpu01", power=Ec2(instance_id="i-1", region=REGION)))).block
    assert block is not None
    assert (block.summary, block.hint) == (
        "EC2: boto3 is not installed, which EC2 needs",
        "pip install 'gputop-fleet[aws]'",
    )


async def test_a_call_that_changes_something_is_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that hangs up on every request counts them."""
    import asyncio

    requests = 0

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        await reader.readuntil(b"\r\n\r\n")
        requests += 1
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    place = Place(region=REGION, endpoint=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    call = Api(service=place.service(), operation="RebootInstances", parameters={"InstanceIds": ["i-1"]})
    step = Step(id="ec2.RebootInstances", actor="power", title="", call=call, goal=Goal.REBOOTED)
    performed = await Ec2PowerProvider(PLAIN, SystemClock()).perform("gpu01", step)
    server.close()
    assert (requests, performed.ok, performed.pending) == (1, False, True), "it may have worked: the check can tell"
    assert performed.problem is not None
    assert performed.problem.kind is ProblemKind.CONNECTION_LOST


def test_a_place_survives_its_way_through_the_journal() -> None:
    for place in (
        Place(),
        Place(region="eu-central-1", profile="prod team", endpoint="http://127.0.0.1:4566/x=y"),
    ):
        assert place_of(place.service()) == place
