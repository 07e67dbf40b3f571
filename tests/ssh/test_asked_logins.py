"""Passwords and codes that servers ask for: OpenSSH with PAM; a played server where that cannot do it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import asyncssh
import pytest

from gputop.domain.call import RunOn
from gputop.domain.clock import SystemClock
from gputop.domain.host import HostSpec
from gputop.domain.link import LinkFailure, LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.question import Declined, LoginQuestion
from gputop.transport.ssh import SshConnection, SshTransport
from gputop.wiring import make_collector, make_runner, make_ways
from tests.ssh.conftest import Connecting, Servers
from tests.ssh.fleet import CODE, PASSWORD, Server
from tests.ssh.person import Answers, ScriptedPerson
from tests.ssh.test_transport import connected, output, refused, until

pytestmark = pytest.mark.sshd


async def knows_all(question: LoginQuestion) -> Answers:
    """The password, and the code where what is typed may be seen."""
    return [CODE if prompt.is_shown else PASSWORD for prompt in question.prompts]


def answering(*answers: Answers) -> ScriptedPerson:
    left = list(answers)

    async def answer(question: LoginQuestion) -> Answers:
        return left.pop(0)

    return ScriptedPerson(on_login=answer)


def never() -> Callable[[LoginQuestion], Awaitable[Answers]]:
    async def answer(question: LoginQuestion) -> Answers:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    return answer


def keyless(servers: Servers, server: Server, **fields: object) -> HostSpec:
    return servers.spec(server, **{"identity": (), **fields})


# --- OpenSSH ----------------------------------------------------------------------------------------------------------


async def test_a_server_asks_in_several_rounds_and_its_words_come_as_they_are(
    own_users: Servers, transport_for: Connecting
) -> None:
    spec = keyless(own_users, own_users.two_steps)
    person = ScriptedPerson(on_login=knows_all)
    async with transport_for(spec, person=person) as transport:
        connection = await connected(transport, spec)
        assert await output(connection, "echo x") == (b"x\n", 0)
        await connection.close()
    first, second = person.logins
    assert [prompt.words for prompt in first.prompts] == ["Password: "]
    assert not first.prompts[0].is_shown
    assert second.prompts[0].is_shown
    assert second.prompts[0].words.endswith("Verification code: ")
    assert "[bold]of gputop[/bold]" in second.prompts[0].words
    assert (first.host, first.target) == ("two-steps", f"ops@127.0.0.1:{own_users.two_steps.port}")
    assert (first.is_kbdint, first.was_refused, second.was_refused) == (True, False, False)


async def test_a_plain_password_is_asked_for_where_the_server_takes_nothing_else(
    own_users: Servers, transport_for: Connecting
) -> None:
    spec, person = keyless(own_users, own_users.password), ScriptedPerson(on_login=knows_all)
    async with transport_for(spec, person=person) as transport:
        await (await connected(transport, spec)).close()
    (question,) = person.logins
    assert not question.is_kbdint
    assert [prompt.is_shown for prompt in question.prompts] == [False]


async def test_a_wrong_answer_is_said_to_be_wrong_and_three_are_enough(
    own_users: Servers, transport_for: Connecting
) -> None:
    spec = keyless(own_users, own_users.password)
    person = answering(["a"], ["b"], ["c"], [PASSWORD])
    async with transport_for(spec, person=person) as transport:
        failure = await refused(transport, spec)
        assert (failure.state, failure.problem.kind) == (LinkState.AUTH_FAILED, ProblemKind.PASSWORD_REQUIRED)
        assert "did not take what you answered" in failure.problem.summary
        assert [question.was_refused for question in person.logins] == [False, True, True]
        transport.forget(by_person=False)
        await refused(transport, spec)
        assert len(person.logins) == 3
        transport.forget()
        await (await connected(transport, spec)).close()


async def test_what_the_server_says_before_it_asks_is_shown_with_the_question(
    own_users: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    banner = tmp_path / "banner"
    banner.write_text("Use your hardware token.\nAll sessions are recorded.\n")
    server = own_users.fleet.add("banner", authorized="", options=f"PasswordAuthentication yes\nBanner {banner}")
    spec, person = keyless(own_users, server), answering(["a"], [PASSWORD])
    async with transport_for(spec, person=person) as transport:
        await (await connected(transport, spec)).close()
    assert person.logins[0].text.split("\n")[:2] == ["Use your hardware token.", "All sessions are recorded."]
    assert person.logins[1].text == ""


async def test_a_method_that_asks_nothing_is_tried_once_and_takes_no_try_from_the_other(
    own_users: Servers, transport_for: Connecting
) -> None:
    """sshd without PAM says that it has keyboard-interactive, and then refuses it at once."""
    options = "PasswordAuthentication yes\nKbdInteractiveAuthentication yes"
    server = own_users.fleet.add("two-methods", authorized="", options=options)
    spec, person = keyless(own_users, server), answering(["a"], ["b"], [PASSWORD])
    async with transport_for(spec, person=person) as transport:
        await (await connected(transport, spec)).close()
    assert [question.was_refused for question in person.logins] == [False, True, True]


@pytest.mark.parametrize("name", ["two_steps", "password"])
async def test_a_login_that_is_given_up_is_not_asked_for_again_until_the_person_wants_it(
    own_users: Servers, transport_for: Connecting, name: str
) -> None:
    spec = keyless(own_users, getattr(own_users, name))
    person = answering(Declined.THIS)
    async with transport_for(spec, person=person) as transport:
        for _ in range(2):
            failure = await refused(transport, spec)
            assert (failure.state, failure.problem.kind) == (LinkState.AUTH_FAILED, ProblemKind.PASSWORD_REQUIRED)
            assert "was not answered" in failure.problem.summary
            assert "F5" in (failure.problem.hint or "")
            transport.forget(by_person=False)
        assert len(person.logins) == 1
        transport.forget()
        person.on_login = knows_all
        await (await connected(transport, spec)).close()


async def test_with_nobody_to_ask_the_row_says_what_is_needed(own_users: Servers, transport_for: Connecting) -> None:
    spec = keyless(own_users, own_users.two_steps)
    async with transport_for(spec) as transport:
        failure = await refused(transport, spec)
    assert failure.problem.kind is ProblemKind.PASSWORD_REQUIRED
    assert "screen" in (failure.problem.hint or "")


async def test_logins_ask_one_after_the_other_and_those_in_line_hold_no_connection(
    own_users: Servers, transport_for: Connecting
) -> None:
    specs = [keyless(own_users, own_users.two_steps), keyless(own_users, own_users.password)]
    first_may_answer = asyncio.Event()
    told: list[Problem | None] = []

    async def answer(question: LoginQuestion) -> Answers:
        await first_may_answer.wait()
        return await knows_all(question)

    async def hear(problem: Problem | None) -> None:
        told.append(problem)

    person = ScriptedPerson(on_login=answer)
    async with transport_for(*specs, person=person, handshakes_total=1) as transport:
        asking = asyncio.create_task(transport.connect(specs[0]))
        await until(lambda: person.open == 1)
        before = own_users.password.count("somebody is asked first")
        waiting = asyncio.create_task(transport.connect(specs[1], hear))
        await until(lambda: own_users.password.count("somebody is asked first") == before + 1)
        await until(lambda: person.logins[0].others() == 1)
        assert told[-1] is not None
        assert "waits for its turn" in told[-1].summary
        first_may_answer.set()
        for outcome in await asyncio.gather(asking, waiting):
            assert isinstance(outcome, SshConnection), outcome
            await outcome.close()
    assert person.most == 1
    assert [question.host for question in person.logins] == ["two-steps", "two-steps", "password"]


async def test_all_logins_can_be_skipped_at_once(own_users: Servers, transport_for: Connecting) -> None:
    specs = [keyless(own_users, own_users.two_steps), keyless(own_users, own_users.password)]
    in_line = asyncio.Event()

    async def answer(question: LoginQuestion) -> Answers:
        await in_line.wait()
        return Declined.ALL

    person = ScriptedPerson(on_login=answer)
    async with transport_for(*specs, person=person) as transport:
        connecting = [asyncio.create_task(transport.connect(spec)) for spec in specs]
        await until(lambda: person.logins and person.logins[0].others() == 1)
        in_line.set()
        for outcome in await asyncio.gather(*connecting):
            assert isinstance(outcome, LinkFailure)
            assert (outcome.state, outcome.problem.kind) == (LinkState.AUTH_FAILED, ProblemKind.PASSWORD_REQUIRED)
    assert len(person.logins) == 1


async def test_a_jump_host_is_logged_in_to_once_for_all_hosts_behind_it(
    own_users: Servers, transport_for: Connecting
) -> None:
    gate = keyless(own_users, own_users.password_gate)
    behind = [own_users.spec(server, jump=("password-gate",)) for server in (own_users.plain, own_users.second)]
    person = ScriptedPerson(on_login=knows_all)
    async with transport_for(gate, *behind, person=person) as transport:
        outcomes = await asyncio.gather(*(transport.connect(spec) for spec in [*behind, gate]))
        assert all(isinstance(outcome, SshConnection) for outcome in outcomes), outcomes
        assert len(person.logins) == 1
        assert own_users.password_gate.count("Accepted keyboard-interactive") == 1


async def test_a_login_that_a_person_made_is_kept_and_shared_until_the_end(
    own_users: Servers, transport_for: Connecting
) -> None:
    spec, person = keyless(own_users, own_users.password), ScriptedPerson(on_login=knows_all)
    async with transport_for(spec, person=person) as transport:
        first, second = await asyncio.gather(connected(transport, spec), connected(transport, spec))
        assert first.ssh is second.ssh
        cat = await first.start("cat")
        assert not isinstance(cat, LinkFailure)
        await first.close()
        assert cat.has_ended  # what ran for the one ends with it
        assert await output(second, "echo x") == (b"x\n", 0)
        await second.close()
        third = await connected(transport, spec)
        assert third.alive
        ssh = third.ssh
    assert ssh.is_closed()
    assert len(person.logins) == 1


async def test_what_is_watched_and_acts_share_the_login_that_a_person_made(own_users: Servers) -> None:
    gate = keyless(own_users, own_users.password_gate)
    host = keyless(own_users, own_users.password, name="inner", jump=("password-gate",))
    person = ScriptedPerson(on_login=knows_all)
    before = own_users.password.count("Accepted password"), own_users.password_gate.count("Accepted keyboard")
    ways = make_ways([gate, host], person=person)
    collector = make_collector([host], ways=ways)
    runner, transport = make_runner([gate, host], ways=ways)
    call = RunOn(host="inner", argv=("echo", "x"))
    async with asyncio.timeout(60), aclosing(collector.updates()) as updates:
        running = asyncio.create_task(runner.run(call, deadline_seconds=30))
        async for update in updates:
            if (seen := update.fleet.get("inner")) is not None and seen.frame is not None:
                break
        assert (await running).text == "x\n"
        assert (await runner.run(RunOn(host="password-gate", argv=("echo", "y")), deadline_seconds=30)).text == "y\n"
    await runner.close()
    await transport.close()
    assert [question.host for question in person.logins] == ["password-gate", "inner"]
    after = own_users.password.count("Accepted password"), own_users.password_gate.count("Accepted keyboard")
    assert after == (before[0] + 1, before[1] + 1)


async def test_more_programs_than_sshd_allows_on_one_connection_wait_for_room(
    own_users: Servers, transport_for: Connecting
) -> None:
    spec, person = keyless(own_users, own_users.password), ScriptedPerson(on_login=knows_all)
    async with transport_for(spec, person=person) as transport:
        connection = await connected(transport, spec)
        outputs = await asyncio.gather(*(output(connection, f"echo {number}") for number in range(25)))
    assert [text for text, _ in outputs] == [f"{number}\n".encode() for number in range(25)]


async def test_a_login_that_ends_while_a_person_types_is_withdrawn_and_not_made_again_by_itself(
    own_users: Servers, transport_for: Connecting
) -> None:
    hasty = own_users.fleet.add("hasty", authorized="", options="LoginGraceTime 1\nPasswordAuthentication yes")
    spec, person = keyless(own_users, hasty), ScriptedPerson(on_login=never())
    async with transport_for(spec, person=person) as transport:
        failure = await refused(transport, spec)
        assert (failure.state, failure.problem.kind) == (LinkState.AUTH_FAILED, ProblemKind.PASSWORD_REQUIRED)
        assert "while it waited for your answer" in failure.problem.summary
        assert (person.open, person.withdrawn) == (0, 1)
        transport.forget(by_person=False)
        assert "was not answered" in (await refused(transport, spec)).problem.summary
        assert len(person.logins) == 1


async def test_no_limit_of_ours_runs_while_a_person_types(own_users: Servers, transport_for: Connecting) -> None:
    """The person answers when another login has run into a limit that is longer than the one for logins."""
    silent = HostSpec(name="silent", address="127.0.0.1", port=own_users.silent_port, ssh_config=())
    spec = keyless(own_users, own_users.password)
    async with transport_for(spec, silent, login_seconds=2, connect_seconds=3) as other:

        async def answer(question: LoginQuestion) -> Answers:
            assert (await refused(other, silent)).problem.kind is ProblemKind.TIMED_OUT
            return [PASSWORD]

        async with transport_for(spec, person=ScriptedPerson(on_login=answer), login_seconds=2) as transport:
            await (await connected(transport, spec)).close()


async def test_a_login_given_up_from_outside_withdraws_its_question(
    own_users: Servers, transport_for: Connecting
) -> None:
    specs = [keyless(own_users, own_users.password), keyless(own_users, own_users.two_steps)]
    person = ScriptedPerson(on_login=never())
    before = asyncio.all_tasks()
    async with transport_for(*specs, person=person) as transport:
        tasks = [asyncio.create_task(transport.connect(spec)) for spec in specs]
        await until(lambda: person.logins and person.logins[0].others() == 1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: person.open == 0)
        assert person.withdrawn == 1
    await until(lambda: asyncio.all_tasks() == before)


async def test_a_jump_host_that_is_lost_may_ask_before_the_host_whose_turn_it_is(
    own_users: Servers, transport_for: Connecting
) -> None:
    """Else the host would wait for its jump host, and the jump host for the host's turn."""
    gate = keyless(own_users, own_users.password_gate)
    inner = keyless(own_users, own_users.password, name="inner", jump=("password-gate",))
    direct = keyless(own_users, own_users.two_steps)
    person = ScriptedPerson(on_login=knows_all)
    async with transport_for(gate, inner, direct, person=person) as transport:
        await (await connected(transport, gate)).close()
        may_answer = asyncio.Event()

        async def answer(question: LoginQuestion) -> Answers:
            await may_answer.wait()
            return await knows_all(question)

        person.on_login = answer
        asking = asyncio.create_task(transport.connect(direct))
        await until(lambda: person.open == 1)
        in_line = asyncio.create_task(transport.connect(inner))
        await until(lambda: person.logins[-1].others() == 1)
        (jump,) = transport._jump_connections.values()
        jump.ssh.abort()  # as when the network is cut
        await until(lambda: not jump.alive)
        may_answer.set()
        async with asyncio.timeout(30):
            for outcome in await asyncio.gather(asking, in_line):
                assert isinstance(outcome, SshConnection), outcome
    asked = [question.host for question in person.logins]
    assert asked == ["password-gate", "two-steps", "two-steps", "password-gate", "inner"]


async def test_nothing_that_a_person_typed_is_logged(
    own_users: Servers, transport_for: Connecting, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    specs = [
        keyless(own_users, own_users.two_steps),
        keyless(own_users, own_users.password),
        own_users.spec(own_users.takes_encrypted, identity=(str(own_users.encrypted),)),
    ]
    person = ScriptedPerson(on_login=knows_all)
    typed = ["not the secret word", "secret"]

    async def passphrase(question: object) -> str:
        return typed.pop(0)

    person.on_passphrase = passphrase
    async with transport_for(*specs, person=person) as transport:
        for spec in specs:
            await (await connected(transport, spec)).close()
    assert caplog.text
    for secret in (PASSWORD, CODE, "not the secret word"):
        assert secret not in caplog.text


# --- what OpenSSH's server does not do, by a played one ---------------------------------------------------------------


class PlayedServer(asyncssh.SSHServer):
    """Asks two things at once; then says that a button is to be pressed on a telephone, and asks nothing."""

    def begin_auth(self, username: str) -> bool:
        return True

    def kbdint_auth_supported(self) -> bool:
        return True

    def get_kbdint_challenge(self, username: str, lang: str, submethods: str) -> asyncssh.KbdIntChallenge:
        return "Login", "Two questions\nof the house", "", [("Password: ", False), ("Code: ", True)]

    def validate_kbdint_response(self, username: str, responses: Sequence[str]) -> asyncssh.KbdIntChallenge:
        if list(responses) == ["secret", "123456"]:
            return "", "Pushed a login request to your phone", "", []
        return not responses


@asynccontextmanager
async def played(tmp_path: Path) -> AsyncIterator[HostSpec]:
    key = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.create_server(PlayedServer, "127.0.0.1", 0, server_host_keys=[key])
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{server.get_port()} {key.export_public_key().decode()}")
    try:
        yield HostSpec(
            name="played", address="127.0.0.1", port=server.get_port(), known_hosts=(str(known),), ssh_config=()
        )
    finally:
        server.close()
        await server.wait_closed()


async def test_a_server_that_wants_to_know_too_much_is_not_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = "Login", "", "", [(f"Question {number}: ", True) for number in range(21)]
    monkeypatch.setattr(PlayedServer, "get_kbdint_challenge", lambda *_: many)
    person = answering()
    async with played(tmp_path) as spec:
        transport = SshTransport([spec], clock=SystemClock(), own_known_hosts=tmp_path / "own", person=person)
        failure = await refused(transport, spec)
        await transport.close()
    assert failure.problem.kind is ProblemKind.PASSWORD_REQUIRED
    assert person.logins == []


async def test_several_things_can_be_asked_at_once_and_words_without_a_question_are_told(tmp_path: Path) -> None:
    told: list[Problem | None] = []

    async def hear(problem: Problem | None) -> None:
        told.append(problem)

    person = answering(["secret", "123456"])
    async with played(tmp_path) as spec:
        transport = SshTransport([spec], clock=SystemClock(), own_known_hosts=tmp_path / "own", person=person)
        outcome = await transport.connect(spec, hear)
        assert isinstance(outcome, SshConnection), outcome
        await transport.close()
    (question,) = person.logins
    assert question.text == "Login\nTwo questions\nof the house"
    assert [(prompt.words, prompt.is_shown) for prompt in question.prompts] == [("Password: ", False), ("Code: ", True)]
    said = [problem.summary for problem in told if problem is not None]
    assert said[-1].endswith("says: Pushed a login request to your phone")
    assert told[-1] is None
