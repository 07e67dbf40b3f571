"""Redfish as BMCs differ in it: a scripted server on loopback stands in for them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from gputop.domain.action import ActionKind, Block, CheckState
from gputop.domain.backend import Redfish
from gputop.domain.clock import SystemClock
from gputop.domain.host import Host
from gputop.domain.instance import Instance, PowerState
from gputop.power.redfish import RedfishPowerProvider
from tests.services.acting import PLAIN, a_host, a_request

SYSTEM = "/redfish/v1/Systems/1"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"


class ScriptedBmc:
    """Answers each path with what a test puts there; keeps what it was asked to do."""

    def __init__(self) -> None:
        bmc = self
        self.answers: dict[str, Any] = {"/redfish/v1/Systems": {"Members": [{"@odata.id": SYSTEM}]}}
        self.posted: list[tuple[str, Any]] = []
        self.status = 204

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = bmc.answers.get(self.path)
                self.reply(404 if found is None else 200, found)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                bmc.posted.append((self.path, json.loads(body)))
                if bmc.status == 0:
                    return  # hangs up without an answer
                error = {"error": {"@Message.ExtendedInfo": [{"Message": "not while\x1b[31m updating"}]}}
                self.reply(bmc.status, error if bmc.status >= 400 else None)

            def reply(self, status: int, answer: Any) -> None:
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode() if answer else b""
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def system(self, power: str = "On", reset: dict[str, Any] | None = None, **fields: Any) -> None:
        action = {"target": RESET, **(reset or {})}
        self.answers[SYSTEM] = {"PowerState": power, "Actions": {"#ComputerSystem.Reset": action}, **fields}

    def host(self, **fields: Any) -> Host:
        url = f"http://127.0.0.1:{self.server.server_address[1]}"
        return a_host("gpu01", power=Redfish(**{"url": url, "insecure": True, **fields}))

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def bmc() -> Iterator[ScriptedBmc]:
    scripted = ScriptedBmc()
    yield scripted
    scripted.close()


def provider(host: Host) -> RedfishPowerProvider:
    return RedfishPowerProvider({host.name: host.spec}, PLAIN, SystemClock())


async def look(host: Host) -> Instance:
    return (await provider(host).observe([host]))[host.name]


def allows(*kinds: str) -> dict[str, Any]:
    return {"ResetType@Redfish.AllowableValues": list(kinds)}


async def test_a_bmc_that_knows_no_graceful_stop_is_cut_only_with_consent(bmc: ScriptedBmc) -> None:
    bmc.system(reset=allows("On", "ForceOff", "PowerCycle"), Manufacturer="Acme", Model="8-GPU")
    host = bmc.host()
    instance = await look(host)
    assert (instance.power, instance.kind) == (PowerState.RUNNING, "Acme 8-GPU")
    power = provider(host)
    refused = power.stop_steps(instance, a_request(ActionKind.STOP, "gpu01"))
    assert isinstance(refused, Block)
    assert (refused.kind, refused.consent) == ("reset-type", "power-cut")
    consents = frozenset({"power-cut"})
    stop = power.stop_steps(instance, a_request(ActionKind.STOP, "gpu01", consents=consents))
    reboot = power.reboot_steps(instance, a_request(ActionKind.REBOOT, "gpu01", consents=consents))
    assert not isinstance(stop, Block)
    assert not isinstance(reboot, Block)
    assert [step.id for step in (*stop, *reboot)] == ["redfish.ForceOff", "redfish.PowerCycle"]
    assert (await power.perform("gpu01", stop[0])).ok
    assert bmc.posted == [(RESET, {"ResetType": "ForceOff"})]


async def test_the_allowed_values_may_stand_in_an_action_info(bmc: ScriptedBmc) -> None:
    bmc.system(reset={"@Redfish.ActionInfo": f"{SYSTEM}/ResetActionInfo"})
    bmc.answers[f"{SYSTEM}/ResetActionInfo"] = {
        "Parameters": [{"Name": "ResetType", "AllowableValues": ["GracefulShutdown"]}]
    }
    host = bmc.host()
    steps = provider(host).stop_steps(await look(host), a_request(ActionKind.STOP, "gpu01"))
    assert not isinstance(steps, Block)


@pytest.mark.parametrize(
    "reset",
    [{}, {"target": "https://evil.example/redfish/v1/x", **allows("GracefulShutdown")}],
    ids=["no values", "another server"],
)
async def test_a_bmc_that_does_not_say_what_it_allows_is_asked_for_nothing(
    bmc: ScriptedBmc, reset: dict[str, Any]
) -> None:
    bmc.system(reset=reset)
    host = bmc.host()
    refused = provider(host).stop_steps(await look(host), a_request(ActionKind.STOP, "gpu01"))
    assert isinstance(refused, Block)
    assert refused.consent is None


@pytest.mark.parametrize("said", ["Paused", "null", "\x1b[31mOff"])
async def test_another_power_state_is_not_known(bmc: ScriptedBmc, said: str) -> None:
    bmc.system(power=said)
    instance = await look(bmc.host())
    assert instance.power is PowerState.UNKNOWN
    assert instance.block is not None
    assert instance.block.kind == "unknown-state"
    assert instance.raw.isprintable()


@pytest.mark.parametrize(
    "answer", [b"<html>login</html>", b"[1]", b"x" * (1024 * 1024 + 1)], ids=["html", "list", "long"]
)
async def test_an_answer_that_is_no_system_is_no_state(bmc: ScriptedBmc, answer: bytes) -> None:
    bmc.answers[SYSTEM] = answer
    instance = await look(bmc.host(system="1"))
    assert (instance.power, instance.block is not None) == (PowerState.UNKNOWN, True)


async def test_a_refused_reset_is_a_failure_and_a_broken_connection_may_have_worked(bmc: ScriptedBmc) -> None:
    bmc.system(reset=allows("GracefulShutdown"))
    host = bmc.host()
    power = provider(host)
    steps = power.stop_steps(await look(host), a_request(ActionKind.STOP, "gpu01"))
    assert not isinstance(steps, Block)
    bmc.status = 409
    refused = await power.perform("gpu01", steps[0])
    assert (refused.ok, refused.pending) == (False, False)
    assert refused.problem is not None
    assert refused.problem.summary == "HTTP 409: not while [31m updating", "controls of a BMC do not reach a terminal"
    bmc.status = 0
    broken = await power.perform("gpu01", steps[0])
    assert (broken.ok, broken.pending) == (False, True)
    assert len(bmc.posted) == 2
    assert (await power.check("gpu01", steps[0])).state is CheckState.NOT_DONE
