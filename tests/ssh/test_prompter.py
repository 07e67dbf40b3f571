"""Servers that ask questions: where a dialog will answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh
import pytest

from gputop.domain.clock import SystemClock
from gputop.domain.host import HostSpec
from gputop.domain.link import LinkFailure
from gputop.domain.problem import ProblemKind
from gputop.transport.ssh import SshConnection, SshTransport


@dataclass
class FakePrompter:
    given: list[str] | None
    asked: list[str] = field(default_factory=list)

    async def answers(
        self, host: str, title: str, text: str, questions: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        self.asked += [f"{host}: {words}" for words, _ in questions]
        return self.given


class AskingServer(asyncssh.SSHServer):
    """Wants a password and then a code."""

    def begin_auth(self, username: str) -> bool:
        return True

    def kbdint_auth_supported(self) -> bool:
        return True

    def get_kbdint_challenge(self, username: str, lang: str, submethods: str) -> asyncssh.KbdIntChallenge:
        return "Login", "Two questions", "", [("Password: ", False), ("Code: ", True)]

    def validate_kbdint_response(self, username: str, responses: asyncssh.KbdIntResponse) -> asyncssh.KbdIntChallenge:
        return list(responses) == ["secret", "123456"]


@pytest.fixture
async def spec(tmp_path: Path) -> AsyncIterator[HostSpec]:
    key = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.create_server(AskingServer, "127.0.0.1", 0, server_host_keys=[key])
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{server.get_port()} {key.export_public_key().decode()}")
    yield HostSpec(name="asking", address="127.0.0.1", port=server.get_port(), known_hosts=(str(known),), ssh_config=())
    server.close()
    await server.wait_closed()


async def log_in(spec: HostSpec, tmp_path: Path, prompter: FakePrompter | None) -> SshConnection | LinkFailure:
    transport = SshTransport([spec], clock=SystemClock(), own_known_hosts=tmp_path / "own", prompter=prompter)
    outcome = await transport.connect(spec)
    if isinstance(outcome, SshConnection):
        await outcome.close()
    await transport.close()
    return outcome


async def test_a_person_answers_what_the_server_asks(spec: HostSpec, tmp_path: Path) -> None:
    prompter = FakePrompter(["secret", "123456"])
    assert isinstance(await log_in(spec, tmp_path, prompter), SshConnection)
    assert prompter.asked == ["asking: Password: ", "asking: Code: "]


@pytest.mark.parametrize("prompter", [None, FakePrompter(None)], ids=["nobody to ask", "gave up"])
async def test_without_an_answer_the_login_ends_in_words(
    spec: HostSpec, tmp_path: Path, prompter: FakePrompter | None
) -> None:
    failure = await log_in(spec, tmp_path, prompter)
    assert isinstance(failure, LinkFailure)
    assert failure.problem.kind is ProblemKind.PASSWORD_REQUIRED
