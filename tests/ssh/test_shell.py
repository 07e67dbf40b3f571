"""The command of `s`, run for real: OpenSSH's client comes to the very machine that gputop watches."""

from __future__ import annotations

import asyncio
import shlex
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

import pytest

from gputop.domain.host import HostKeyPolicy, HostSpec
from gputop.transport.ssh import SshConnection, SshTransport
from tests.ssh.conftest import Connecting, Servers

pytestmark = pytest.mark.sshd

WHERE = "echo $GPUTOP_TEST_SERVER; echo $SSH_CONNECTION"
PROXY = """\
import os, select, socket, sys
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
while True:
    for ready in select.select([0, sock], [], [])[0]:
        data = os.read(0, 65536) if ready == 0 else sock.recv(65536)
        if not data:
            sys.exit()
        sock.sendall(data) if ready == 0 else os.write(1, data)
"""


async def arrived_at(transport: SshTransport, spec: HostSpec) -> tuple[str, str]:
    """The folder of the server that the command logs in to, and what ssh said."""
    argv = await transport.shell(spec)
    assert isinstance(argv, tuple), argv
    process = await asyncio.create_subprocess_exec(
        *argv[:-2], "-o", "BatchMode=yes", "-T", *argv[-2:], WHERE, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
    )
    out, said = await asyncio.wait_for(process.communicate(), 30)
    return out.decode().partition("\n")[0], said.decode()


async def test_it_logs_in_where_gputop_does(servers: Servers, transport_for: Connecting) -> None:
    specs = [servers.spec(server) for server in (servers.plain, servers.second)]
    async with transport_for(*specs) as transport:
        for spec, server in zip(specs, (servers.plain, servers.second), strict=True):
            assert (await arrived_at(transport, spec))[0] == str(server.folder)


async def test_it_goes_through_two_jump_hosts_of_the_inventory_with_their_own_keys(
    isolated: Servers, transport_for: Connecting
) -> None:
    servers = isolated
    specs = [
        servers.spec(servers.gate),
        servers.spec(servers.inner_1, jump=("gate",)),
        servers.spec(servers.inner_2, jump=("inner-1",)),
    ]
    async with transport_for(*specs) as transport:
        where, said = await arrived_at(transport, specs[2])
        assert where == str(servers.inner_2.folder), said


async def test_a_jump_that_ssh_config_names_is_the_host_of_the_inventory_with_that_name(
    isolated: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    """ssh alone would look for a machine called gate."""
    servers = isolated
    config = tmp_path / "ssh config"
    config.write_text(f"Host inner\n  HostName 127.0.0.1\n  Port {servers.inner_1.port}\n  ProxyJump gate\n")
    spec = servers.spec(servers.inner_1, name="inner", address=None, port=None, ssh_config=(str(config),))
    async with transport_for(servers.spec(servers.gate), spec) as transport:
        where, said = await arrived_at(transport, spec)
        assert where == str(servers.inner_1.folder), said


@pytest.mark.parametrize("count", [1, 2])
async def test_what_ssh_config_files_of_the_inventory_say_counts(
    servers: Servers, transport_for: Connecting, tmp_path: Path, count: int
) -> None:
    paths = [tmp_path / "first", tmp_path / "second"][:count]
    (tmp_path / "100% proxy.py").write_text(PROXY)
    proxy = f"{sys.executable} '{tmp_path}/100%% proxy.py' %h %p"
    paths[0].write_text(f"Host *\n  User {servers.plain.user}\n")
    paths[-1].write_text(
        f"{paths[-1].read_text() if count == 1 else ''}Host box\n  HostName 127.0.0.1\n  Port {servers.plain.port}\n"
        f"  IdentityFile {servers.fleet.key}\n  HostKeyAlias [127.0.0.1]:{servers.plain.port}\n  ProxyCommand {proxy}\n"
    )
    files = tuple(map(str, paths))
    spec = servers.spec(servers.plain, name="box", address=None, port=None, user=None, identity=(), ssh_config=files)
    async with transport_for(spec) as transport:
        where, said = await arrived_at(transport, spec)
        assert where == str(servers.plain.folder), said


async def test_a_key_that_gputop_accepted_is_known_to_ssh_too(
    servers: Servers, transport_for: Connecting, tmp_path: Path
) -> None:
    empty = tmp_path / "known hosts"
    empty.touch()
    spec = servers.spec(servers.plain, known_hosts=(str(empty),), host_keys=HostKeyPolicy.ACCEPT_NEW)
    async with transport_for(spec) as transport:
        assert "Host key verification failed" in (await arrived_at(transport, spec))[1]
        connection = await transport.connect(spec)
        assert isinstance(connection, SshConnection)
        await connection.close()
        where, said = await arrived_at(transport, spec)
        assert where == str(servers.plain.folder), said
    assert empty.read_bytes() == b""


async def test_hops_with_odd_names_reach_no_shell(servers: Servers, transport_for: Connecting, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for address in (f"$(touch {mark})", "-oProxyCommand=true", "a;b", "a b", "`id`"):
        spec = servers.spec(servers.plain, address=address, jump=())
        async with transport_for(spec) as transport:
            refused = await transport.shell(spec)
            assert not isinstance(refused, tuple), refused
    odd = tmp_path / f"key '$(touch {mark.name})' \"%h #1"
    odd.write_bytes(servers.fleet.key.read_bytes())
    odd.chmod(0o600)
    gate = servers.spec(servers.plain, name="gate", identity=(str(odd),))
    spec = servers.spec(servers.second, jump=("gate",))
    async with transport_for(gate, spec) as transport:
        where, said = await arrived_at(transport, spec)
        assert where == str(servers.second.folder), said
    assert not mark.exists()
    assert not Path(mark.name).exists()


async def test_without_ssh_on_this_machine_one_line_says_so(servers: Servers, transport_for: Connecting) -> None:
    spec = servers.spec(servers.plain, ssh_config=())
    async with transport_for(spec, ssh_program="no-such-ssh") as transport:
        failure = await transport.shell(spec)
        assert not isinstance(failure, tuple)
        assert failure.problem.summary == "there is no no-such-ssh on this machine"


async def test_three_hops_can_be_read_by_a_shell_and_by_ssh(servers: Servers, transport_for: Connecting) -> None:
    """The innermost address is quoted twice; none of its marks is lost or taken for a token."""
    specs = [
        servers.spec(servers.plain, name="one"),
        servers.spec(servers.second, name="two", jump=("one",)),
        servers.spec(servers.plain, name="three", address="fe80::1%eth0", jump=("two",)),
    ]
    async with transport_for(*specs) as transport:
        argv = await transport.shell(specs[2])
    assert isinstance(argv, tuple)
    (outer,) = [word.removeprefix("ProxyCommand=") for word in argv if word.startswith("ProxyCommand=")]
    words = shlex.split(outer.replace("%%", "%"))
    assert words[words.index("-W") + 1] == f"[fe80::1%eth0]:{servers.plain.port}"
    (inner,) = [word.removeprefix("ProxyCommand=") for word in words if word.startswith("ProxyCommand=")]
    innermost = shlex.split(inner.replace("%%", "%"))
    assert innermost[innermost.index("-W") + 1] == f"[127.0.0.1]:{servers.second.port}"
    assert innermost[-1] == "127.0.0.1"
