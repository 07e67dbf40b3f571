"""One fleet of real OpenSSH servers for all tests of this folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gputop.domain.clock import SystemClock
from gputop.domain.host import HostSpec
from gputop.transport.ssh import SshTransport
from tests.needs import missing, need, need_that
from tests.ssh.fleet import ONE_STEP, TWO_STEPS, Fleet, Server, can_have_own_users, new_folder

NVML = Path(__file__).parents[1] / "fixtures" / "nvml"

NOISE = """
echo 'Welcome!   *** do not use before 9:00 ***'
echo '0, NVIDIA H100, 41, 97'
printf '\\377\\000 not text\\n'
echo 'this goes to standard error' >&2
sleep 3
"""


@dataclass
class Servers:
    """What stands on loopback."""

    fleet: Fleet
    plain: Server
    second: Server
    inner_1: Server
    inner_2: Server
    gate: Server
    isolated: bool
    """`gate` is the only way to the inner ones."""
    refusing: Server
    password: Server
    changed: Server
    unknown: Server
    other_type: Server
    signed: Server
    limited: Server
    closed_gate: Server
    no_shell: Server
    noisy: Server
    with_gpus: Server
    nvml: Path
    """A library that plays eight GPUs on `with_gpus`."""
    encrypted: Path
    """A key with the passphrase "secret"."""
    takes_encrypted: Server
    takes_encrypted_2: Server
    two_steps: Server
    """It asks for the password of `ops`, then for a code (by PAM); takes no key."""
    password_gate: Server
    """A jump host that asks for the password of `ops`."""
    silent_port: int

    def spec(self, server: Server, **fields: Any) -> HostSpec:
        """How an inventory would have it."""
        own = {
            "name": server.name,
            "address": "127.0.0.1",
            "port": server.port,
            "user": server.user,
            "identity": (str(self.fleet.key),),
            "known_hosts": (str(self.fleet.known_hosts),),
            "ssh_config": (),
        }
        return HostSpec(**{**own, **fields})


def raise_fleet(folder: Path, silent_port: int) -> Servers:
    fleet = Fleet(folder)
    nvml = folder / "libnvidia-ml.so.1"
    argv = ["gcc", "-shared", "-fPIC", "-o", str(nvml), str(folder / "fake_nvml.c"), "-lpthread"]
    for name in ("fake_nvml.c", "h100x8.conf"):
        shutil.copy(NVML / name, folder)
    subprocess.run(argv, check=True)
    encrypted = fleet.make_key("id_encrypted", passphrase="secret")
    authority = fleet.make_key("authority")
    isolated = can_have_own_users()
    plain = fleet.add("plain")
    inner_1 = fleet.add("inner-1", new_network=isolated)
    inner_2 = fleet.add("inner-2", network_of=inner_1 if isolated else None)
    changed = fleet.add("changed", known=False)
    other_type = fleet.add("other-type", known=False)
    stale = fleet.make_key("stale", folder=fleet.folder).with_suffix(".pub").read_text()
    rsa = fleet.make_key("stale_rsa", "rsa").with_suffix(".pub").read_text()
    signed = fleet.add("signed", known=False, start=False)
    certificate = fleet.sign(authority, signed.host_key_files[0].with_suffix(".pub"), host=True, names="127.0.0.1")
    config = signed.folder / "sshd_config"
    config.write_text(f"HostCertificate {certificate}\n{config.read_text()}")
    fleet.start(signed)
    noisy = fleet.add("noisy")
    if fleet.own_users:
        (noisy.home / ".bashrc").write_text(NOISE)
    with fleet.known_hosts.open("a") as file:
        file.write("this line is garbage\n@marker nobody knows\n")
        file.write(f"[127.0.0.1]:{changed.port} {stale}[127.0.0.1]:{other_type.port} {rsa}")
        public = authority.with_suffix(".pub").read_text()
        file.write(f"@cert-authority [127.0.0.1]:{signed.port} {public}")
    return Servers(
        fleet=fleet,
        plain=plain,
        second=fleet.add("second"),
        inner_1=inner_1,
        inner_2=inner_2,
        gate=fleet.add_gateway("gate", inner_1) if isolated else fleet.add("gate"),
        isolated=isolated,
        refusing=fleet.add("refusing", authorized=""),
        password=fleet.add("password", options="PubkeyAuthentication no\nPasswordAuthentication yes"),
        changed=changed,
        unknown=fleet.add("unknown", known=False),
        other_type=other_type,
        signed=signed,
        limited=fleet.add("limited", options="MaxStartups 1:100:1\nLoginGraceTime 10"),
        closed_gate=fleet.add("closed-gate", options="AllowTcpForwarding no"),
        no_shell=fleet.add("no-shell", options="ForceCommand /bin/false\nPermitTTY no\nMaxSessions 0"),
        noisy=noisy,
        with_gpus=fleet.add("with-gpus", environment=f"FAKE_NVML={folder / 'h100x8.conf'}"),
        nvml=nvml,
        encrypted=encrypted,
        takes_encrypted=fleet.add("takes-encrypted", authorized=encrypted.with_suffix(".pub").read_text()),
        takes_encrypted_2=fleet.add("takes-encrypted-2", authorized=encrypted.with_suffix(".pub").read_text()),
        two_steps=fleet.add("two-steps", authorized="", pam=TWO_STEPS),
        password_gate=fleet.add("password-gate", authorized="", pam=ONE_STEP),
        silent_port=silent_port,
    )


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    need("sshd", "needs OpenSSH's server: make services")
    need("gcc")
    need("ssh-keygen", "needs OpenSSH's client: make services")
    folder = new_folder()
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        raised: Servers | None = None
        try:
            raised = raise_fleet(folder / "fleet", silent.getsockname()[1])
            yield raised
        finally:
            if raised is not None:
                raised.fleet.stop()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def isolated(servers: Servers) -> Servers:
    """The fleet, with servers that only the gate reaches."""
    if not servers.isolated:
        need_that(os.geteuid() == 0, "needs root for network namespaces")
        missing("needs mount and network namespaces")
    return servers


@pytest.fixture
def own_users(servers: Servers) -> Servers:
    """The fleet, with servers that have passwords."""
    if not servers.fleet.own_users:
        need_that(os.geteuid() == 0, "needs root for users of its own")
        missing("needs mount namespaces")
    return servers


Connecting = Callable[..., Any]


@pytest.fixture
def transport_for(servers: Servers, tmp_path: Path) -> Connecting:
    """`async with transport_for(*specs) as transport`: closed at the end."""

    @asynccontextmanager
    async def make(*specs: HostSpec, **fields: Any) -> AsyncIterator[SshTransport]:
        fields = {"own_known_hosts": tmp_path / "own_known_hosts", "clock": SystemClock(), **fields}
        transport = SshTransport(specs, **fields)
        try:
            yield transport
        finally:
            await transport.close()

    return make
