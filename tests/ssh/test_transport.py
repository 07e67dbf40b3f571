"""The transport against real OpenSSH servers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gputop.domain.host import Endpoint, HostKeyPolicy, HostSpec
from gputop.domain.link import LinkFailure, LinkState
from gputop.domain.problem import ProblemKind
from gputop.transport.program import SshProgram
from gputop.transport.ssh import SshConnection, SshTransport
from tests.needs import need
from tests.ssh.conftest import Connecting, Servers
from tests.ssh.person import ScriptedPerson

pytestmark = pytest.mark.sshd


async def connected(transport: SshTransport, spec: HostSpec) -> SshConnection:
    outcome = await transport.connect(spec)
    assert isinstance(outcome, SshConnection), outcome
    return outcome


async def refused(transport: SshTransport, spec: HostSpec) -> LinkFailure:
    outcome = await transport.connect(spec)
    assert isinstance(outcome, LinkFailure), outcome
    assert "\n" not in outcome.problem.summary
    assert outcome.problem.hint
    return outcome


async def started(connection: SshConnection, command: str) -> SshProgram:
    program = await connection.start(command)
    assert isinstance(program, SshProgram), program
    return program


async def output(connection: SshConnection, command: str) -> tuple[bytes, int | None]:
    program = await started(connection, command)
    pieces = []
    while piece := await program.read():
        pieces.append(piece)
    return b"".join(pieces), await program.close()


def run(program: str, *arguments: object) -> str:
    """Standard output of an OpenSSH tool."""
    argv = [need(program), *(str(argument) for argument in arguments)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


# --- what works -------------------------------------------------------------------------------------------------------


async def test_bytes_go_in_and_out_and_the_exit_status_comes_back(servers: Servers, transport_for: Connecting) -> None:
    spec = servers.spec(servers.plain)
    async with transport_for(spec) as transport:
        connection = await connected(transport, spec)
        way = await transport.locate(spec)
        assert isinstance(way, Endpoint)
        assert (way.address, way.user) == ("127.0.0.1", servers.plain.user)
        program = await started(connection, "printf '\\377\\000\\303('; cat; echo oops >&2; exit 7")
        await program.write(b"\xfe in")
        received = b""
        while b"in" not in received:
            received += await program.read()
        assert received == b"\xff\x00\xc3(\xfe in"
        assert await program.close() == 7
        assert await program.close() == 7
        assert program.stderr_tail == b"oops\n"
        assert program.lost is None
        assert connection.alive


async def test_large_output_comes_in_pieces_and_whole(servers: Servers, transport_for: Connecting) -> None:
    spec = servers.spec(servers.plain)
    async with transport_for(spec) as transport:
        connection = await connected(transport, spec)
        program = await started(connection, "head -c 5000000 /dev/zero")
        await asyncio.sleep(0)
        total = 0
        while piece := await program.read():
            assert len(piece) <= 64 * 1024
            total += len(piece)
        assert total == 5_000_000
        assert await program.close() == 0


async def test_a_program_that_ignores_the_end_of_its_input_is_killed(
    servers: Servers, transport_for: Connecting
) -> None:
    spec = servers.spec(servers.plain)
    pid_file = servers.plain.home / "stubborn.pid"
    async with transport_for(spec) as transport:
        connection = await connected(transport, spec)
        program = await started(connection, f"echo $$ > {pid_file}; echo ready; exec sleep 1000")
        assert await program.read() == b"ready\n"
        assert await program.close() is None
        pid = int(pid_file.read_text())
        await until(lambda: not Path(f"/proc/{pid}").exists())
        for _ in range(12):  # more than MaxSessions 10: no channel was left behind
            assert await output(connection, "echo x") == (b"x\n", 0)


async def test_a_program_blocked_in_a_write_ends_when_closed(servers: Servers, transport_for: Connecting) -> None:
    spec = servers.spec(servers.plain)
    async with transport_for(spec) as transport:
        connection = await connected(transport, spec)
        program = await started(connection, "exec cat /dev/zero")
        assert await program.read()
        assert await program.close() is None


async def test_no_terminal_no_environment_and_no_command_of_the_user_goes_along(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n  RequestTTY force\n  RemoteCommand false\n  SetEnv LC_GPUTOP=1\n  ForwardAgent yes\n")
    spec = servers.spec(servers.plain, ssh_config=(str(config),))
    async with transport_for(spec) as transport:
        connection = await connected(transport, spec)
        command = "test -t 0 || echo none; echo ${LC_GPUTOP-unset} ${SSH_AUTH_SOCK-unset}"
        assert await output(connection, command) == (b"none\nunset unset\n", 0)


async def connected_in_the_end(transport: SshTransport, spec: HostSpec) -> SshConnection:
    """As `AgentSource` does: a server that drops a connection is asked again. sshd counts a login as waiting until its
    own parent has heard of it, so a busy machine drops one now and then, however few we have under way."""
    for _ in range(5):
        outcome = await transport.connect(spec)
        if not isinstance(outcome, LinkFailure) or outcome.state is not LinkState.THROTTLED:
            break
    assert isinstance(outcome, SshConnection), outcome
    return outcome


async def test_twenty_hosts_at_once_all_come_up(servers: Servers, transport_for: Connecting) -> None:
    specs = [servers.spec(servers.plain if n % 2 else servers.second) for n in range(24)]
    async with transport_for(*specs) as transport:
        connections = await asyncio.gather(*(connected_in_the_end(transport, spec) for spec in specs))
        assert all([await output(connection, "echo x") == (b"x\n", 0) for connection in connections])
        for connection in connections:
            await connection.close()


# --- jump hosts -------------------------------------------------------------------------------------------------------


def inner_specs(servers: Servers, *, jump: tuple[str, ...] = ("gate",)) -> list[HostSpec]:
    return [servers.spec(server, jump=jump) for server in (servers.inner_1, servers.inner_2)]


async def test_the_inner_servers_cannot_be_reached_without_the_jump_host(
    isolated: Servers, transport_for: Connecting
) -> None:
    spec = isolated.spec(isolated.inner_1)
    async with transport_for(spec) as transport:
        assert (await refused(transport, spec)).problem.kind is ProblemKind.CONNECTION_REFUSED


async def test_one_jump_connection_is_shared_by_all_hosts_behind_it(
    servers: Servers, transport_for: Connecting
) -> None:
    gate, inner = servers.spec(servers.gate), inner_specs(servers)
    before = servers.gate.count("Connection from")
    async with transport_for(gate, *inner) as transport:
        connections = await asyncio.gather(*(connected_in_the_end(transport, spec) for spec in inner * 10))
        assert await output(connections[7], "echo through") == (b"through\n", 0)
        way = await transport.locate(inner[0])
        assert isinstance(way, Endpoint)
        assert way.jump == (f"{servers.gate.user}@127.0.0.1:{servers.gate.port}",)
        for connection in connections:
            await connection.close()
        assert servers.gate.count("Connection from") - before == 1


async def test_a_chain_is_one_connection_per_hop(servers: Servers, transport_for: Connecting) -> None:
    gate, middle = servers.spec(servers.gate), servers.spec(servers.inner_1, jump=("gate",))
    last = servers.spec(servers.inner_2, jump=("inner-1",))
    counts = [server.count("Connection from") for server in (servers.gate, servers.inner_1)]
    async with transport_for(gate, middle, last) as transport:
        connections = await asyncio.gather(*(connected(transport, last) for _ in range(6)))
        way = await transport.locate(last)
        assert isinstance(way, Endpoint)
        assert len(way.jump) == 2
        assert await output(connections[5], "echo far") == (b"far\n", 0)
        for connection in connections:
            await connection.close()
    after = [server.count("Connection from") for server in (servers.gate, servers.inner_1)]
    assert [new - old for new, old in zip(after, counts, strict=True)] == [1, 1]


async def test_proxy_jump_of_ssh_config_is_followed_and_shared(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    gate = servers.gate
    lines = f"Host way-in\n  HostName 127.0.0.1\n  Port {gate.port}\n  User {gate.user}\n"
    for server in (servers.inner_1, servers.inner_2):
        lines += f"Host {server.name}\n  HostName 127.0.0.1\n  Port {server.port}\n  ProxyJump way-in\n"
    lines += f"Host *\n  User {gate.user}\n  IdentityFile {servers.fleet.key}\n"
    config.write_text(f"{lines}  UserKnownHostsFile {servers.fleet.known_hosts}\n")
    before = gate.count("Connection from")
    specs = [HostSpec(name=server.name, ssh_config=(str(config),)) for server in (servers.inner_1, servers.inner_2)]
    async with transport_for(*specs) as transport:
        connections = await asyncio.gather(*(connected(transport, spec) for spec in specs))
        assert await output(connections[1], "echo hi") == (b"hi\n", 0)
        for connection in connections:
            await connection.close()
    assert gate.count("Connection from") - before == 1


async def test_a_lost_jump_host_is_named_and_reconnected_once_for_all(
    servers: Servers, transport_for: Connecting
) -> None:
    gate, inner = servers.spec(servers.gate), inner_specs(servers)
    async with transport_for(gate, *inner) as transport:
        connections = await asyncio.gather(*(connected(transport, spec) for spec in inner * 3))
        program = await started(connections[0], "cat")
        before = servers.gate.count("Connection from")
        (jump,) = transport._jump_connections.values()
        jump.ssh.abort()  # as when the network is cut
        assert await program.read() == b""
        lost = program.lost
        assert lost is not None
        assert lost.problem.summary.startswith("jump host gate: ")
        assert await program.close() is None
        again = await asyncio.gather(*(connected(transport, spec) for spec in inner * 3))
        assert servers.gate.count("Connection from") - before == 1
        for connection in connections + again:
            await connection.close()


async def test_a_jump_host_that_refuses_us_is_asked_once_and_named_on_every_row(
    servers: Servers, transport_for: Connecting
) -> None:
    gate = servers.spec(servers.refusing)
    inner = [servers.spec(server, jump=("refusing",)) for server in (servers.inner_1, servers.inner_2)]
    before = servers.refusing.count("Connection from")
    async with transport_for(gate, *inner) as transport:
        failures = [await refused(transport, spec) for spec in inner * 3]
        assert {failure.state for failure in failures} == {LinkState.AUTH_FAILED}
        assert all(failure.problem.summary.startswith("jump host refusing: ") for failure in failures)
        assert servers.refusing.count("Connection from") - before == 1
        transport.forget()
        await refused(transport, inner[0])
        assert servers.refusing.count("Connection from") - before == 2


async def test_a_jump_host_that_forbids_forwarding_is_said_so(servers: Servers, transport_for: Connecting) -> None:
    gate, spec = servers.spec(servers.closed_gate), servers.spec(servers.plain, jump=("closed-gate",))
    async with transport_for(gate, spec) as transport:
        failure = await refused(transport, spec)
        assert failure.problem.kind is ProblemKind.FORWARDING_REFUSED
        assert "closed-gate" in failure.problem.summary


async def test_a_dead_target_behind_a_jump_host_is_its_own_trouble(servers: Servers, transport_for: Connecting) -> None:
    gate = servers.spec(servers.gate)
    dead = HostSpec(name="dead", address="127.0.0.1", port=1, jump=("gate",), ssh_config=())
    async with transport_for(gate, dead) as transport:
        failure = await refused(transport, dead)
        assert failure.problem.kind is ProblemKind.CONNECTION_REFUSED
        assert "gate" in failure.problem.summary
        connection = await connected(transport, inner_specs(servers)[0])
        await connection.close()


# --- ProxyCommand -----------------------------------------------------------------------------------------------------


async def test_a_proxy_command_runs_as_given_through_a_shell_and_ends_with_the_connection(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    config, pid_file = tmp_path / "config", tmp_path / "pid"
    relay = "sh -c 'echo $$ > PID; exec python3 RELAY %h %p' 2>/dev/null".replace("PID", str(pid_file))
    (tmp_path / "relay.py").write_text(RELAY)
    command = relay.replace("RELAY", str(tmp_path / "relay.py"))
    config.write_text(f"Host proxied\n  HostName 127.0.0.1\n  ProxyCommand {command}\n")
    spec = servers.spec(servers.plain, address="proxied", ssh_config=(str(config),))
    async with transport_for(spec) as transport:
        connection = await connected(transport, spec)
        assert await output(connection, "echo proxied") == (b"proxied\n", 0)
        pid = int(pid_file.read_text())
        assert Path(f"/proc/{pid}").exists()
        await connection.close()
        await until(lambda: not Path(f"/proc/{pid}").exists())


RELAY = """
import os, socket, sys, threading
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def back():
    while data := sock.recv(65536):
        os.write(1, data)
    os._exit(0)
threading.Thread(target=back, daemon=True).start()
while data := os.read(0, 65536):
    sock.sendall(data)
"""


async def test_a_proxy_command_that_fails_says_what_it_printed(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n  ProxyCommand echo no way through >&2; exit 1\n")
    spec = servers.spec(servers.plain, ssh_config=(str(config),))
    async with transport_for(spec) as transport:
        failure = await refused(transport, spec)
        assert failure.problem.kind is ProblemKind.PROXY_FAILED
        assert "no way through" in (failure.problem.detail or "")


# --- host keys --------------------------------------------------------------------------------------------------------


async def test_an_unknown_host_key_is_refused_with_its_fingerprint(servers: Servers, transport_for: Connecting) -> None:
    spec = servers.spec(servers.unknown)
    async with transport_for(spec) as transport:
        failure = await refused(transport, spec)
        assert (failure.state, failure.problem.kind) == (LinkState.HOST_KEY_REJECTED, ProblemKind.HOST_KEY_UNKNOWN)
        assert run("ssh-keygen", "-lf", servers.unknown.host_key_files[0]).split()[1] in failure.problem.summary


async def test_a_changed_host_key_is_refused_under_every_policy_and_names_the_line(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    for policy in HostKeyPolicy:
        spec = servers.spec(servers.changed, host_keys=policy)
        async with transport_for(spec) as transport:
            failure = await refused(transport, spec)
            assert (failure.state, failure.problem.kind) == (LinkState.HOST_KEY_REJECTED, ProblemKind.HOST_KEY_CHANGED)
            assert f"{servers.fleet.known_hosts}:" in failure.problem.summary
            assert not (tmp_path / "own_known_hosts").exists()


async def test_a_host_known_by_another_type_of_key_is_refused_as_such(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    for policy in HostKeyPolicy:
        spec = servers.spec(servers.other_type, host_keys=policy)
        async with transport_for(spec) as transport:
            failure = await refused(transport, spec)
            assert failure.state is LinkState.HOST_KEY_REJECTED
            assert failure.problem.kind is ProblemKind.HOST_KEY_OTHER_TYPE
            assert not (tmp_path / "own_known_hosts").exists()


async def test_accept_new_writes_the_key_to_gputops_own_file_and_knows_it_from_then_on(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    new = servers.spec(servers.unknown, host_keys=HostKeyPolicy.ACCEPT_NEW)
    strict = servers.spec(servers.unknown)
    async with transport_for(new) as transport:
        await (await connected(transport, new)).close()
        assert (tmp_path / "own_known_hosts").read_text() == servers.unknown.known_hosts_line()
        await (await connected(transport, strict)).close()


async def test_a_new_key_that_cannot_be_written_down_is_not_accepted(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    spec = servers.spec(servers.unknown, host_keys=HostKeyPolicy.ACCEPT_NEW)
    async with transport_for(spec, own_known_hosts=tmp_path / "file" / "known_hosts") as transport:
        failure = await refused(transport, spec)
        assert failure.state is LinkState.HOST_KEY_REJECTED
        assert f"cannot be written to {tmp_path / 'file' / 'known_hosts'}: " in failure.problem.summary


async def test_a_login_that_fails_after_the_handshake_still_remembers_the_new_key_and_a_broken_one_does_not(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    spec = servers.spec(servers.refusing, known_hosts=(), host_keys=HostKeyPolicy.ACCEPT_NEW)
    async with transport_for(spec) as transport:
        assert (await refused(transport, spec)).state is LinkState.AUTH_FAILED
        assert (tmp_path / "own_known_hosts").read_text() == servers.refusing.known_hosts_line()


async def test_a_host_certificate_of_a_known_authority_is_enough(servers: Servers, transport_for: Connecting) -> None:
    spec = servers.spec(servers.signed)
    async with transport_for(spec) as transport:
        await (await connected(transport, spec)).close()


async def test_a_host_key_alias_is_looked_up_instead_of_the_address(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    known, config = tmp_path / "known", tmp_path / "config"
    known.write_text(f"cluster-key {servers.unknown.public_key()}\n")
    config.write_text("Host *\n  HostKeyAlias cluster-key\n")
    spec = servers.spec(servers.unknown, known_hosts=(str(known),), ssh_config=(str(config),))
    async with transport_for(spec) as transport:
        await (await connected(transport, spec)).close()


async def test_a_hashed_known_hosts_file_works(servers: Servers, transport_for: Connecting, tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text(servers.plain.known_hosts_line())
    run("ssh-keygen", "-q", "-H", "-f", known)
    assert known.read_text().startswith("|1|")
    spec = servers.spec(servers.plain, known_hosts=(str(known),))
    async with transport_for(spec) as transport:
        await (await connected(transport, spec)).close()


async def test_a_revoked_key_is_refused_even_when_it_is_known(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    known = tmp_path / "known"
    known.write_text(f"{servers.plain.known_hosts_line()}@revoked * {servers.plain.public_key()}\n")
    spec = servers.spec(servers.plain, known_hosts=(str(known),))
    async with transport_for(spec) as transport:
        failure = await refused(transport, spec)
        assert (failure.state, failure.problem.kind) == (LinkState.HOST_KEY_REJECTED, ProblemKind.HOST_KEY_REVOKED)


# --- logging in -------------------------------------------------------------------------------------------------------


async def test_a_refused_key_is_auth_failed_with_a_next_step(servers: Servers, transport_for: Connecting) -> None:
    spec = servers.spec(servers.refusing)
    async with transport_for(spec) as transport:
        failure = await refused(transport, spec)
        assert (failure.state, failure.problem.kind) == (LinkState.AUTH_FAILED, ProblemKind.AUTH_REFUSED)
        assert "ssh-copy-id" in (failure.problem.hint or "")


async def test_a_server_that_wants_a_password_is_auth_failed_and_says_so(
    servers: Servers, transport_for: Connecting
) -> None:
    spec = servers.spec(servers.password)
    async with transport_for(spec) as transport:
        failure = await refused(transport, spec)
        assert (failure.state, failure.problem.kind) == (LinkState.AUTH_FAILED, ProblemKind.PASSWORD_REQUIRED)


async def test_an_encrypted_key_without_an_agent_names_ssh_add(servers: Servers, transport_for: Connecting) -> None:
    for keys in ((servers.encrypted,), (servers.encrypted, servers.fleet.key)):  # the second is not taken there
        spec = servers.spec(servers.takes_encrypted, identity=tuple(map(str, keys)))
        async with transport_for(spec) as transport:
            failure = await refused(transport, spec)
            assert (failure.state, failure.problem.kind) == (LinkState.AUTH_FAILED, ProblemKind.KEY_ENCRYPTED)
            assert failure.problem.summary == f"the key {servers.encrypted} needs a passphrase"
            assert f"ssh-add {servers.encrypted}" in (failure.problem.hint or "")


async def test_an_encrypted_key_that_the_server_does_not_take_is_a_refused_one_with_and_without_a_person(
    servers: Servers, transport_for: Connecting
) -> None:
    spec = servers.spec(servers.plain, identity=(str(servers.encrypted),))
    said = set()
    for person in (None, ScriptedPerson()):
        async with transport_for(spec, person=person) as transport:
            failure = await refused(transport, spec)
            said.add((failure.problem.kind, failure.problem.summary, failure.problem.hint))
    ((kind, summary, hint),) = said
    assert kind is ProblemKind.AUTH_REFUSED
    assert summary.endswith("refused 1 key")
    assert "ssh-copy-id" in hint


async def test_where_another_key_works_too_an_encrypted_one_that_the_server_takes_is_no_trouble(
    servers: Servers, transport_for: Connecting
) -> None:
    authorized = servers.takes_encrypted_2.folder / "authorized_keys"
    before = authorized.read_text()
    authorized.write_text(before + servers.fleet.key.with_suffix(".pub").read_text())
    spec = servers.spec(servers.takes_encrypted_2, identity=(str(servers.encrypted), str(servers.fleet.key)))
    try:
        async with transport_for(spec) as transport:
            await (await connected(transport, spec)).close()
    finally:
        authorized.write_text(before)


async def test_an_encrypted_key_beside_one_that_works_is_no_trouble(
    servers: Servers, transport_for: Connecting
) -> None:
    spec = servers.spec(servers.plain, identity=(str(servers.encrypted), str(servers.fleet.key)))
    async with transport_for(spec) as transport:
        await (await connected(transport, spec)).close()


async def test_a_stale_agent_socket_is_named_when_the_login_fails(
    servers: Servers, transport_for: Connecting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = str(tmp_path / "ssh-XXXX" / "agent.1")
    monkeypatch.setenv("SSH_AUTH_SOCK", stale)
    spec = servers.spec(servers.refusing)
    async with transport_for(spec) as transport:
        assert stale in ((await refused(transport, spec)).problem.hint or "")


async def test_a_key_in_the_agent_is_enough(
    servers: Servers, transport_for: Connecting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sock = str(tmp_path / "agent")
    agent = await asyncio.create_subprocess_exec(need("ssh-agent"), "-D", "-a", sock, stdout=asyncio.subprocess.DEVNULL)
    try:
        await until(lambda: Path(sock).exists())
        monkeypatch.setenv("SSH_AUTH_SOCK", sock)
        run("ssh-add", "-q", servers.fleet.key)
        spec = servers.spec(servers.plain, identity=())
        async with transport_for(spec) as transport:
            await (await connected(transport, spec)).close()
    finally:
        agent.terminate()
        await agent.wait()


# --- trouble ----------------------------------------------------------------------------------------------------------


async def test_a_server_that_accepts_and_stays_silent_runs_into_the_limit(
    servers: Servers, transport_for: Connecting
) -> None:
    spec = HostSpec(name="silent", address="127.0.0.1", port=servers.silent_port, ssh_config=())
    async with transport_for(spec, connect_seconds=0.2) as transport:
        failure = await refused(transport, spec)
        assert (failure.state, failure.problem.kind) == (LinkState.UNREACHABLE, ProblemKind.TIMED_OUT)
        assert "silent" in failure.problem.summary


async def test_silent_hosts_do_not_keep_living_ones_waiting(servers: Servers, transport_for: Connecting) -> None:
    dead = [HostSpec(name=f"s{n}", address="127.0.0.1", port=servers.silent_port, ssh_config=()) for n in range(12)]
    spec = servers.spec(servers.plain)
    async with transport_for(spec, connect_seconds=600, handshakes_total=2) as transport:
        waiting = [asyncio.create_task(transport.connect(other)) for other in dead]
        async with asyncio.timeout(20):
            await (await connected(transport, spec)).close()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_port_where_nobody_listens_is_refused(servers: Servers, transport_for: Connecting) -> None:
    spec = HostSpec(name="nobody", address="127.0.0.1", port=1, ssh_config=())
    async with transport_for(spec) as transport:
        assert (await refused(transport, spec)).problem.kind is ProblemKind.CONNECTION_REFUSED


async def test_a_name_that_does_not_exist_is_said_so(servers: Servers, transport_for: Connecting) -> None:
    spec = HostSpec(name="no-such-host.invalid", ssh_config=())
    async with transport_for(spec) as transport:
        assert (await refused(transport, spec)).problem.kind is ProblemKind.NAME_UNKNOWN


async def test_a_server_that_drops_connections_is_throttled(servers: Servers, transport_for: Connecting) -> None:
    spec = servers.spec(servers.limited)
    holder_reader, holder = await asyncio.open_connection("127.0.0.1", servers.limited.port)
    try:
        await holder_reader.readline()  # it holds the one place that MaxStartups leaves
        async with transport_for(spec) as transport:
            failure = await refused(transport, spec)
            assert (failure.state, failure.problem.kind) == (LinkState.THROTTLED, ProblemKind.CONNECTION_DROPPED)
    finally:
        holder.close()
        await holder.wait_closed()


async def test_a_server_that_gives_no_session_is_unsupported(servers: Servers, transport_for: Connecting) -> None:
    spec = servers.spec(servers.no_shell)
    async with transport_for(spec) as transport:
        connection = await connected(transport, spec)
        failure = await connection.start("echo x")
        assert isinstance(failure, LinkFailure)
        assert (failure.state, failure.problem.kind) == (LinkState.UNSUPPORTED, ProblemKind.NO_SHELL)
        await connection.close()


async def test_a_broken_ssh_config_costs_the_hosts_that_use_it(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n  Nonsense yes\n")
    broken, fine = servers.spec(servers.plain, ssh_config=(str(config),)), servers.spec(servers.second)
    async with transport_for(broken, fine) as transport:
        assert (await refused(transport, broken)).problem.kind is ProblemKind.SSH_CONFIG
        await (await connected(transport, fine)).close()


async def test_algorithms_that_only_openssh_has_are_left_out(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(
        "Host *\n  KexAlgorithms sntrup761x25519-sha512@openssh.com,curve25519-sha256\n  Ciphers aes256-ctr\n"
    )
    spec = servers.spec(servers.plain, ssh_config=(str(config),))
    async with transport_for(spec) as transport:
        connection = await connected(transport, spec)
        assert connection.ssh.get_extra_info("send_cipher") == "aes256-ctr"
        await connection.close()


async def test_the_fast_cipher_comes_first(servers: Servers, transport_for: Connecting) -> None:
    spec = servers.spec(servers.plain)
    async with transport_for(spec) as transport:
        connection = await connected(transport, spec)
        assert connection.ssh.get_extra_info("send_cipher") == "aes128-gcm@openssh.com"
        await connection.close()


# --- the end ----------------------------------------------------------------------------------------------------------


async def test_a_connection_cut_by_the_server_is_lost_with_a_reason(
    servers: Servers, transport_for: Connecting
) -> None:
    spec = servers.spec(servers.plain)
    pid_file = servers.plain.home / "parent.pid"
    async with transport_for(spec) as transport:
        connection = await connected(transport, spec)
        assert (await output(connection, f"echo $PPID > {pid_file}"))[1] == 0
        program = await started(connection, "cat")
        os.kill(int(pid_file.read_text()), signal.SIGKILL)
        assert await program.read() == b""
        lost = program.lost
        assert lost is not None
        assert (lost.state, lost.problem.kind) == (LinkState.UNREACHABLE, ProblemKind.CONNECTION_LOST)
        assert await program.close() is None
        with pytest.raises(ConnectionError):
            await program.write(b"x")
        failure = await connection.start("echo x")
        assert isinstance(failure, LinkFailure)
        assert failure.state is LinkState.UNREACHABLE
        await connection.close()


async def test_a_server_that_stops_answering_is_lost_when_keepalives_stay_unanswered(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    config, pid_file = tmp_path / "config", servers.second.home / "parent.pid"
    config.write_text("Host *\n  ServerAliveInterval 1\n  ServerAliveCountMax 1\n")
    spec = servers.spec(servers.second, ssh_config=(str(config),))
    async with transport_for(spec) as transport:
        connection = await connected(transport, spec)
        assert (await output(connection, f"echo $PPID > {pid_file}"))[1] == 0
        program = await started(connection, "cat")
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGSTOP)
        try:
            async with asyncio.timeout(20):
                assert await program.read() == b""
            assert program.lost is not None
            assert program.lost.problem.kind is ProblemKind.CONNECTION_LOST
            await connection.close()
        finally:
            os.kill(pid, signal.SIGKILL)


async def test_a_program_is_closed_soon_also_when_the_server_answers_nothing_any_more(
    servers: Servers, transport_for: Connecting
) -> None:
    pid_file, spec = servers.second.home / "frozen.pid", servers.spec(servers.second)
    async with transport_for(spec) as transport:
        connection = await connected(transport, spec)
        assert (await output(connection, f"echo $PPID > {pid_file}"))[1] == 0
        program = await started(connection, "cat")
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGSTOP)
        try:
            async with asyncio.timeout(10):
                reading = asyncio.create_task(program.read())
                await program.close()
                assert await reading == b""
                await connection.close()
        finally:
            os.kill(pid, signal.SIGKILL)


async def test_cancelling_at_any_moment_leaves_no_task_and_no_socket(
    servers: Servers, transport_for: Connecting
) -> None:
    gate, inner = servers.spec(servers.gate), inner_specs(servers)
    specs = [servers.spec(servers.plain), servers.spec(servers.second), *inner]
    specs.append(HostSpec(name="silent", address="127.0.0.1", port=servers.silent_port, ssh_config=()))
    tasks_before, descriptors_before = asyncio.all_tasks(), open_descriptors()
    for steps in (0, 1, 2, 5, 10, 20, 40, 80, 160, 320, 640):
        async with transport_for(gate, *inner) as transport:
            connecting = [asyncio.create_task(transport.connect(spec)) for spec in specs]
            for _ in range(steps):
                await asyncio.sleep(0)
            for task in connecting:
                task.cancel()
            outcomes = await asyncio.gather(*connecting, return_exceptions=True)
            for outcome in outcomes:
                if isinstance(outcome, SshConnection):
                    await outcome.close()
        await until(lambda: asyncio.all_tasks() == tasks_before)
        await until(lambda: open_descriptors() <= descriptors_before)


async def test_a_target_given_up_while_its_channel_opens_leaves_nothing_on_the_jump_host(
    servers: Servers, transport_for: Connecting
) -> None:
    gate = servers.spec(servers.gate)
    spec = servers.spec(servers.inner_1, jump=("gate",))
    async with transport_for(gate, spec) as transport:
        await (await connected(transport, spec)).close()
        (jump,) = transport._jump_connections.values()
        for steps in range(30):
            task = asyncio.create_task(transport.connect(spec))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            outcome = (await asyncio.gather(task, return_exceptions=True))[0]
            if isinstance(outcome, SshConnection):
                await outcome.close()
        await until(lambda: not transport._orphans and not jump.ssh._channels)
