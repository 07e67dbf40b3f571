"""Host keys and passphrases that a person is asked for, against real OpenSSH servers."""

from __future__ import annotations

import asyncio
import shutil
import stat
from pathlib import Path

import pytest

from gputop.domain.host import HostKeyPolicy, HostSpec
from gputop.domain.link import LinkFailure, LinkState
from gputop.domain.problem import Problem, ProblemKind
from gputop.domain.question import HostKeyQuestion, PassphraseQuestion
from gputop.transport.ssh import SshConnection
from tests.needs import need
from tests.ssh.conftest import Connecting, Servers
from tests.ssh.fleet import Server
from tests.ssh.person import ScriptedPerson
from tests.ssh.test_transport import connected, refused, run, until

pytestmark = pytest.mark.sshd


def asking(servers: Servers, server: Server, **fields: object) -> HostSpec:
    """A host that no known_hosts has, under `ask`."""
    return servers.spec(server, **{"known_hosts": (), "host_keys": HostKeyPolicy.ASK, **fields})


def shown_fingerprint(server: Server) -> str:
    """As ssh-keygen prints it."""
    return run("ssh-keygen", "-lf", server.host_key_files[0]).split()[1]


# --- host keys --------------------------------------------------------------------------------------------------------


async def test_a_key_that_a_person_accepts_is_written_down_and_known_from_then_on(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    person, spec = ScriptedPerson(), asking(servers, servers.unknown)
    own = tmp_path / "own_known_hosts"
    async with transport_for(spec, person=person) as transport:
        await (await connected(transport, spec)).close()
        (question,) = person.keys
        assert question.fingerprint == shown_fingerprint(servers.unknown)
        assert (question.host, question.algorithm, question.jump) == ("unknown", "ssh-ed25519", None)
        assert question.server == f"[127.0.0.1]:{servers.unknown.port}"
        assert own.read_text() == servers.unknown.known_hosts_line()
        assert stat.S_IMODE(own.stat().st_mode) == 0o600
        await (await connected(transport, spec)).close()
    async with transport_for(spec, person=person) as transport:
        await (await connected(transport, spec)).close()
    assert len(person.keys) == 1


async def test_a_key_that_is_not_accepted_is_not_asked_for_again_until_the_person_wants_it(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    is_accepted = [False, True]

    async def answer(question: HostKeyQuestion) -> bool:
        return is_accepted.pop(0)

    person, spec = ScriptedPerson(on_key=answer), asking(servers, servers.unknown)
    async with transport_for(spec, person=person) as transport:
        failure = await refused(transport, spec)
        assert (failure.state, failure.problem.kind) == (LinkState.HOST_KEY_REJECTED, ProblemKind.HOST_KEY_UNKNOWN)
        assert shown_fingerprint(servers.unknown) in failure.problem.summary
        assert "F5" in (failure.problem.hint or "")
        transport.forget(by_person=False)
        assert (await refused(transport, spec)).problem == failure.problem
        assert len(person.keys) == 1
        assert not (tmp_path / "own_known_hosts").exists()
        transport.forget()
        await (await connected(transport, spec)).close()
        assert len(person.keys) == 2


async def test_a_changed_an_other_and_a_revoked_key_are_never_asked_for(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    person, known = ScriptedPerson(), str(servers.fleet.known_hosts)
    revoked = tmp_path / "revoked"
    revoked.write_text(f"@revoked * {servers.plain.public_key()}\n")
    cases = {
        ProblemKind.HOST_KEY_CHANGED: asking(servers, servers.changed, known_hosts=(known,)),
        ProblemKind.HOST_KEY_OTHER_TYPE: asking(servers, servers.other_type, known_hosts=(known,)),
        ProblemKind.HOST_KEY_REVOKED: asking(servers, servers.plain, known_hosts=(str(revoked),)),
    }
    async with transport_for(*cases.values(), person=person) as transport:
        for kind, spec in cases.items():
            failure = await refused(transport, spec)
            assert (failure.state, failure.problem.kind) == (LinkState.HOST_KEY_REJECTED, kind)
    assert person.keys == []
    assert not (tmp_path / "own_known_hosts").exists()


async def test_with_nobody_to_ask_an_unknown_key_is_refused_and_the_screen_is_named(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    spec = asking(servers, servers.unknown)
    async with transport_for(spec) as transport:
        failure = await refused(transport, spec)
    assert failure.problem.kind is ProblemKind.HOST_KEY_UNKNOWN
    assert "screen" in (failure.problem.hint or "")
    assert not (tmp_path / "own_known_hosts").exists()


async def test_what_is_accepted_is_that_key_and_not_the_one_that_the_server_has_by_then(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    server = servers.fleet.add("swaps-its-key", known=False)
    first = server.public_key()

    async def answer(question: HostKeyQuestion) -> bool:
        server.stop()
        other = servers.fleet.make_key("other_hostkey", folder=server.folder)
        for suffix in ("", ".pub"):
            shutil.copy(f"{other}{suffix}", f"{server.host_key_files[0]}{suffix}")
        servers.fleet.start(server)
        return True

    person, spec = ScriptedPerson(on_key=answer), asking(servers, server)
    async with transport_for(spec, person=person) as transport:
        failure = await refused(transport, spec)
    assert failure.problem.kind is ProblemKind.HOST_KEY_CHANGED
    assert (tmp_path / "own_known_hosts").read_text() == f"[127.0.0.1]:{server.port} {first}\n"
    assert len(person.keys) == 1


async def test_a_key_that_cannot_be_written_down_is_not_taken(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    spec = asking(servers, servers.unknown)
    own = tmp_path / "file" / "known_hosts"
    async with transport_for(spec, person=ScriptedPerson(), own_known_hosts=own) as transport:
        failure = await refused(transport, spec)
    assert failure.state is LinkState.HOST_KEY_REJECTED
    assert f"cannot be written to {own}" in failure.problem.summary


async def test_all_hosts_are_asked_for_at_once_and_nobody_waits_for_a_place(
    servers: Servers, transport_for: Connecting
) -> None:
    """With one place for handshakes in all: a host that waits for a person holds none."""
    many = [servers.plain, servers.second, servers.refusing, servers.unknown, servers.changed, servers.other_type]
    specs = [asking(servers, server) for server in many]
    known = servers.spec(servers.with_gpus)
    decided = asyncio.Event()

    async def answer(question: HostKeyQuestion) -> bool:
        await decided.wait()
        return question.host != "second"

    person = ScriptedPerson(on_key=answer)
    async with transport_for(*specs, known, person=person, handshakes_total=1, handshakes_per_hop=1) as transport:
        connecting = [asyncio.create_task(transport.connect(spec)) for spec in specs]
        await until(lambda: person.open == len(specs))
        await (await connected(transport, known)).close()
        decided.set()
        outcomes = await asyncio.gather(*connecting)
        for outcome in outcomes:
            if isinstance(outcome, SshConnection):
                await outcome.close()
    found = dict(zip([spec.name for spec in specs], outcomes, strict=True))
    assert sorted(name for name, outcome in found.items() if isinstance(outcome, LinkFailure)) == ["refusing", "second"]
    assert isinstance(found["refusing"], LinkFailure)
    assert found["refusing"].state is LinkState.AUTH_FAILED


async def test_the_key_of_a_jump_host_is_asked_for_once_for_all_hosts_behind_it(
    servers: Servers, transport_for: Connecting
) -> None:
    gate = asking(servers, servers.gate)
    inner = [servers.spec(server, jump=("gate",)) for server in (servers.inner_1, servers.inner_2)]
    decided = asyncio.Event()
    told: dict[str, list[Problem | None]] = {spec.name: [] for spec in inner}

    async def answer(question: HostKeyQuestion) -> bool:
        await decided.wait()
        return True

    def hear(name: str) -> object:
        async def listen(problem: Problem | None) -> None:
            told[name].append(problem)

        return listen

    person = ScriptedPerson(on_key=answer)
    async with transport_for(gate, *inner, person=person) as transport:
        connecting = [asyncio.create_task(transport.connect(spec, hear(spec.name))) for spec in inner]
        await until(lambda: all(told.values()) and person.keys)
        assert person.keys[0].hosts() == ("inner-1", "inner-2")
        for heard in told.values():
            assert heard[0] is not None
            assert heard[0].kind is ProblemKind.ANSWER_AWAITED
            assert heard[0].summary.startswith("jump host gate waits for your answer")
        decided.set()
        for outcome in await asyncio.gather(*connecting):
            assert isinstance(outcome, SshConnection), outcome
            await outcome.close()
    assert [question.host for question in person.keys] == ["gate"]
    assert [heard[-1] for heard in told.values()] == [None, None]


async def test_a_host_that_is_given_up_while_its_key_is_asked_for_is_asked_for_no_more(
    servers: Servers, transport_for: Connecting
) -> None:
    async def never(question: HostKeyQuestion) -> bool:
        return await asyncio.Event().wait()

    person, spec = ScriptedPerson(on_key=never), asking(servers, servers.unknown)
    async with transport_for(spec, person=person) as transport:
        task = asyncio.create_task(transport.connect(spec))
        await until(lambda: person.open)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (person.open, person.withdrawn) == (0, 1)


# --- passphrases ------------------------------------------------------------------------------------------------------


def locked(servers: Servers, server: Server, *keys: Path, **fields: object) -> HostSpec:
    return servers.spec(server, **{"identity": tuple(str(key) for key in keys or (servers.encrypted,)), **fields})


def giving(*passphrases: str | None) -> ScriptedPerson:
    left = list(passphrases)

    async def answer(question: PassphraseQuestion) -> str | None:
        return left.pop(0)

    return ScriptedPerson(on_passphrase=answer)


async def test_the_passphrase_of_a_key_is_asked_for_once_for_all_hosts_that_take_it(
    servers: Servers, transport_for: Connecting
) -> None:
    given: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def answer(question: PassphraseQuestion) -> str | None:
        return await given

    person = ScriptedPerson(on_passphrase=answer)
    wanting = [locked(servers, server) for server in (servers.takes_encrypted, servers.takes_encrypted_2)]
    other = servers.spec(servers.plain)
    async with transport_for(*wanting, other, person=person) as transport:
        connecting = [asyncio.create_task(transport.connect(spec)) for spec in wanting]
        await until(lambda: person.passphrases and len(person.passphrases[0].hosts()) == 2)
        await (await connected(transport, other)).close()  # who needs none goes on
        given.set_result("secret")
        for outcome in await asyncio.gather(*connecting):
            assert isinstance(outcome, SshConnection), outcome
            await outcome.close()
        await (await connected(transport, wanting[0])).close()
    (question,) = person.passphrases
    assert (question.path, question.wrong, question.said) == (str(servers.encrypted), 0, "")


FORMATS = {
    "OpenSSH": ("ed25519", ()),
    "OpenSSH, another cipher": ("ed25519", ("-Z", "aes256-gcm@openssh.com")),
    "PEM": ("rsa", ("-b", "2048", "-m", "PEM")),
    "PKCS8": ("ecdsa", ("-m", "PKCS8")),
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("has_public_half", [True, False], ids=["with .pub", "without .pub"])
async def test_keys_of_every_format_that_ssh_keygen_makes_are_opened(
    servers: Servers, transport_for: Connecting, tmp_path: Path, form: str, has_public_half: bool
) -> None:
    key, (kind, options) = tmp_path / "id", FORMATS[form]
    run("ssh-keygen", "-q", "-t", kind, *options, "-N", "secret", "-C", "", "-f", key)
    authorized = servers.takes_encrypted_2.folder / "authorized_keys"
    before = authorized.read_text()
    authorized.write_text(before + key.with_suffix(".pub").read_text())
    if not has_public_half:
        key.with_suffix(".pub").unlink()
    person, spec = giving("wrong", "secret"), locked(servers, servers.takes_encrypted_2, key)
    try:
        async with transport_for(spec, person=person) as transport:
            await (await connected(transport, spec)).close()
            await (await connected(transport, spec)).close()
    finally:
        authorized.write_text(before)
    assert [question.wrong for question in person.passphrases] == [0, 1]
    assert person.passphrases[1].said


async def test_a_server_that_takes_another_key_makes_nobody_ask(servers: Servers, transport_for: Connecting) -> None:
    person = ScriptedPerson()
    spec = locked(servers, servers.plain, servers.encrypted, servers.fleet.key)
    async with transport_for(spec, person=person) as transport:
        await (await connected(transport, spec)).close()
    assert person.passphrases == []


async def test_a_locked_key_that_the_agent_holds_open_makes_nobody_ask(
    servers: Servers, transport_for: Connecting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = tmp_path / "opened"
    shutil.copy(servers.encrypted, opened)
    run("ssh-keygen", "-q", "-p", "-P", "secret", "-N", "", "-f", opened)
    sock = str(tmp_path / "agent.sock")
    agent = await asyncio.create_subprocess_exec(need("ssh-agent"), "-D", "-a", sock, stdout=asyncio.subprocess.DEVNULL)
    try:
        await until(Path(sock).exists)
        monkeypatch.setenv("SSH_AUTH_SOCK", sock)
        run("ssh-add", "-q", opened)
        person, spec = ScriptedPerson(), locked(servers, servers.takes_encrypted)
        async with transport_for(spec, person=person) as transport:
            await (await connected(transport, spec)).close()
    finally:
        agent.terminate()
        await agent.wait()
    assert person.passphrases == []


@pytest.mark.parametrize(
    ("passphrases", "words"),
    [((None,), "was not given"), (("a", "b", "c"), "3 passphrases did not open it")],
    ids=["given up", "three wrong ones"],
)
async def test_without_its_passphrase_the_login_goes_on_without_that_key_and_says_so(
    servers: Servers, transport_for: Connecting, passphrases: tuple[str | None, ...], words: str
) -> None:
    person, spec = giving(*passphrases, "secret"), locked(servers, servers.takes_encrypted)
    async with transport_for(spec, person=person) as transport:
        failure = await refused(transport, spec)
        assert (failure.state, failure.problem.kind) == (LinkState.AUTH_FAILED, ProblemKind.KEY_ENCRYPTED)
        assert words in failure.problem.summary
        assert f"ssh-add {servers.encrypted}" in (failure.problem.hint or "")
        transport.forget(by_person=False)
        await refused(transport, spec)
        assert len(person.passphrases) == len(passphrases)
        transport.forget()
        await (await connected(transport, spec)).close()


async def test_a_key_that_is_given_up_leaves_the_way_to_the_next_one(
    servers: Servers, transport_for: Connecting
) -> None:
    second = servers.fleet.make_key("second_encrypted", passphrase="other")
    authorized = servers.takes_encrypted.folder / "authorized_keys"
    before = authorized.read_text()
    authorized.write_text(before + second.with_suffix(".pub").read_text())
    person, spec = giving(None, "other"), locked(servers, servers.takes_encrypted, servers.encrypted, second)
    try:
        async with transport_for(spec, person=person) as transport:
            await (await connected(transport, spec)).close()
    finally:
        authorized.write_text(before)
    assert [question.path for question in person.passphrases] == [str(servers.encrypted), str(second)]


async def test_a_certificate_of_a_locked_key_is_offered_too(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    authority = servers.fleet.make_key("user_authority")
    key = servers.fleet.make_key("id_certified", passphrase="secret", folder=tmp_path)
    servers.fleet.sign(authority, key.with_suffix(".pub"), host=False, names=servers.fleet.user)
    trusted = servers.fleet.add(
        "trusts-authority", authorized="", options=f"TrustedUserCAKeys {authority.with_suffix('.pub')}"
    )
    person, spec = giving("secret"), locked(servers, trusted, key)
    async with transport_for(spec, person=person) as transport:
        await (await connected(transport, spec)).close()
    assert len(person.passphrases) == 1


async def test_waiting_for_a_passphrase_holds_no_connection_and_no_place(
    servers: Servers, transport_for: Connecting
) -> None:
    given: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def answer(question: PassphraseQuestion) -> str | None:
        return await given

    server = servers.takes_encrypted
    person, spec, other = ScriptedPerson(on_passphrase=answer), locked(servers, server), servers.spec(servers.plain)
    async with transport_for(spec, other, person=person, handshakes_total=1) as transport:
        before = server.count("somebody is asked first")
        task = asyncio.create_task(transport.connect(spec))
        await until(lambda: person.open)
        await until(lambda: server.count("somebody is asked first") == before + 1)  # sshd has seen it leave
        await (await connected(transport, other)).close()
        given.set_result("secret")
        outcome = await task
        assert isinstance(outcome, SshConnection)
        await outcome.close()


async def test_a_login_given_up_while_others_wait_for_the_same_passphrase_takes_nothing_from_them(
    servers: Servers, transport_for: Connecting
) -> None:
    given: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def answer(question: PassphraseQuestion) -> str | None:
        return await asyncio.shield(given)

    person = ScriptedPerson(on_passphrase=answer)
    first, second = (locked(servers, server) for server in (servers.takes_encrypted, servers.takes_encrypted_2))
    async with transport_for(first, second, person=person) as transport:
        tasks = [asyncio.create_task(transport.connect(spec)) for spec in (first, second)]
        await until(lambda: person.passphrases and len(person.passphrases[0].hosts()) == 2)
        tasks[0].cancel()
        await asyncio.gather(tasks[0], return_exceptions=True)
        assert person.withdrawn == 0
        tasks[1].cancel()
        await asyncio.gather(tasks[1], return_exceptions=True)
        await until(lambda: person.withdrawn == 1)
        again = asyncio.create_task(transport.connect(first))
        await until(lambda: len(person.passphrases) == 2)
        given.set_result("secret")
        outcome = await again
        assert isinstance(outcome, SshConnection), outcome
        await outcome.close()
