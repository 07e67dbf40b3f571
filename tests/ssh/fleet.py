"""Real OpenSSH servers on loopback, for tests, benchmarks and trials by hand.

    python tests/ssh/fleet.py 20 /tmp/fleet      # prints where the inventory is; ends all servers on Ctrl-C

Each server is an sshd of its own: host key, port, log. As root each also has its own users file with an account `ops`
whose home is the server's; else everyone logs in as the current user. Nothing outside its folder is touched.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import json
import os
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
START_SECONDS = 10.0
OPS_ID = 2000
CLONE_NEWNET = 0x40000000
PASSWORD = "open sesame"
"""Of the account `ops`, where servers have their own users."""
PASSWORD_HASH = "$6$gputop$fN2S.zWjTVLuWwC0l277Sw9m8ebB0kjiDRSPm2nbNoEdXZfmTHCqzjz/eCm36WGwzhQf6xlX8IpoG67FgqdLD0"
CODE = "246810"
"""What the second step of `TWO_STEPS` wants."""
PAM_CODE = Path(__file__).parent / "pam_code.c"
TWO_STEPS = """auth required pam_unix.so nodelay
auth required {folder}/pam_code.so
account required pam_permit.so
session required pam_permit.so
"""
"""A PAM stack that asks for the password, then for a code."""
ONE_STEP = TWO_STEPS.replace("auth required {folder}/pam_code.so\n", "")


def find_program(name: str) -> str | None:
    """Path of a program that an ordinary user may not have on the PATH."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SBIN}")


def new_folder() -> Path:
    """A folder that the account `ops` can read too."""
    folder = Path(tempfile.mkdtemp(prefix="gputop-fleet-"))
    folder.chmod(0o755)
    return folder


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


def penalties_off(sshd: str) -> str:
    """The line that keeps an sshd from banning this machine after some refused logins; empty where it knows no bans
    (before OpenSSH 9.8)."""
    said = subprocess.run([sshd, "-V"], capture_output=True, text=True, check=False)
    version = re.search(r"OpenSSH_(\d+)\.(\d+)", said.stdout + said.stderr)
    knows_them = version is not None and (int(version[1]), int(version[2])) >= (9, 8)
    return "PerSourcePenalties no" if knows_them else ""


def can_have_own_users() -> bool:
    """Whether servers can have their own users file: root with mount namespaces."""
    unshare = find_program("unshare")
    if os.geteuid() != 0 or unshare is None:
        return False
    return subprocess.run([unshare, "--mount", "true"], capture_output=True, check=False).returncode == 0


@dataclass
class Server:
    """One sshd."""

    name: str
    folder: Path
    port: int
    user: str
    process: subprocess.Popen[bytes] | None = None
    host_key_files: list[Path] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return self.folder / "sshd.log"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def public_key(self, position: int = 0) -> str:
        """`type base64` of a host key."""
        return " ".join(self.host_key_files[position].with_suffix(".pub").read_text().split()[:2])

    def known_hosts_line(self, position: int = 0) -> str:
        return f"[127.0.0.1]:{self.port} {self.public_key(position)}\n"

    def count(self, words: str) -> int:
        """How many lines of its log hold `words`."""
        return sum(words in line for line in self.log.read_text(errors="replace").splitlines())

    def stop(self) -> None:
        """End it with all its logins."""
        if self.process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(timeout=3)
            except ProcessLookupError:
                break
            except subprocess.TimeoutExpired:
                continue
        for pid in sessions_of(self.process.pid, self.folder):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
        self.process = None


def sessions_of(leader: int, folder: Path) -> list[int]:
    """Processes that the sshd of `folder` left behind: their environment names it."""
    marker = f"GPUTOP_TEST_SERVER={folder}\0".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return [pid for pid in found if pid != leader]


class Fleet:
    """Starts servers and ends them all."""

    def __init__(self, folder: Path) -> None:
        sshd, keygen = find_program("sshd"), find_program("ssh-keygen")
        if sshd is None or keygen is None:
            raise RuntimeError("needs openssh-server and openssh-client")
        self.folder = folder
        self.own_users = can_have_own_users()
        self.user = "ops" if self.own_users else pwd.getpwuid(os.getuid()).pw_name
        self.servers: list[Server] = []
        self._sshd, self._keygen = sshd, keygen
        self._penalties_off = penalties_off(sshd)
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        self.key = self.make_key("id_client")
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.touch()

    def make_key(self, name: str, kind: str = "ed25519", passphrase: str = "", folder: Path | None = None) -> Path:
        path = (folder or self.folder) / name
        if not path.exists():
            size = ["-b", "2048"] if kind == "rsa" else []
            argv = [self._keygen, "-q", "-t", kind, *size, "-N", passphrase, "-C", name, "-f", str(path)]
            subprocess.run(argv, check=True)
        return path

    def sign(self, authority: Path, public: Path, *, host: bool, names: str) -> Path:
        """Make a certificate for a public key; its path."""
        argv = [self._keygen, "-q", "-s", str(authority), "-I", names, "-n", names, *(["-h"] if host else [])]
        subprocess.run([*argv, str(public)], check=True)
        return public.with_name(public.name.removesuffix(".pub") + "-cert.pub")

    def add(
        self,
        name: str,
        *,
        key_types: tuple[str, ...] = ("ed25519",),
        authorized: str | None = None,
        known: bool = True,
        options: str = "",
        environment: str = "",
        pam: str = "",
        start: bool = True,
        network_of: Server | None = None,
        new_network: bool = False,
    ) -> Server:
        """A server that lets `authorized` (public keys; the fleet's own by default) in.

        `options` are further lines of sshd_config, `environment` is `NAME=VALUE …` for its logins. `pam`: what it asks
        of everybody else, where servers have their own users.
        `new_network`: in a network namespace of its own; `network_of`: in that of another server."""
        folder = self.folder / name
        (folder / "home").mkdir(parents=True)
        server = Server(name=name, folder=folder, port=free_port(), user=self.user)
        for kind in key_types:
            server.host_key_files.append(self.make_key(f"hostkey_{kind}", kind, folder=folder))
        keys = self.key.with_suffix(".pub").read_text() if authorized is None else authorized
        (folder / "authorized_keys").write_text(keys)
        if pam and self.own_users:
            self._make_pam_module()
            (folder / "pam").write_text(pam.format(folder=self.folder))
            options = f"{options}\nUsePAM yes\nKbdInteractiveAuthentication yes"
        self._write_config(server, options, environment)
        self.servers.append(server)
        if known:
            with self.known_hosts.open("a") as file:
                file.write(server.known_hosts_line())
        if start:
            self.start(server, network_of=network_of, new_network=new_network)
        return server

    def _make_pam_module(self) -> None:
        module = self.folder / "pam_code.so"
        if not module.exists():
            subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(module), str(PAM_CODE)], check=True)

    def start(self, server: Server, *, network_of: Server | None = None, new_network: bool = False) -> None:
        argv = [self._sshd, "-D", "-f", str(server.folder / "sshd_config"), "-E", str(server.log)]
        network = ""
        if network_of is not None:
            assert network_of.process is not None
            network = str(network_of.process.pid)
        elif new_network:
            network = "new"
        before = server.count("Server listening") if server.log.exists() else 0
        server.process = self._spawn(server, argv, network)
        deadline = time.monotonic() + START_SECONDS
        while not server.log.exists() or server.count("Server listening") <= before:
            if server.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"{server.name} did not start: {server.log.read_text() if server.log.exists() else ''}"
                )
            time.sleep(0.01)

    def add_gateway(self, name: str, inner: Server, options: str = "") -> Server:
        """A server at an outer port whose logins live in the network of `inner`: the only way in there."""
        server = self.add(name, options=options, start=False)
        listener = socket.create_server(("127.0.0.1", server.port), backlog=128)
        assert inner.process is not None
        argv = [self._sshd, "-i", "-f", str(server.folder / "sshd_config"), "-E", str(server.log)]
        server.log.touch()
        server.process = self._spawn(server, argv, str(inner.process.pid), listener)
        listener.close()
        return server

    def stop(self) -> None:
        for server in reversed(self.servers):
            server.stop()

    def _spawn(
        self, server: Server, argv: list[str], network: str, listener: socket.socket | None = None
    ) -> subprocess.Popen[bytes]:
        """sshd in the namespaces it needs; this file is their init."""
        files = {"passwd": "/etc/passwd", "pam": "/etc/pam.d/sshd"} if self.own_users else {}
        own = [[str(server.folder / name), path] for name, path in files.items() if (server.folder / name).exists()]
        descriptor = str(listener.fileno()) if listener is not None else ""
        return subprocess.Popen(
            [sys.executable, "-I", __file__, "--init", json.dumps(own), network, descriptor, *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(server.folder / "init.log").open("ab"),
            start_new_session=True,
            pass_fds=[listener.fileno()] if listener is not None else [],
        )

    def _write_config(self, server: Server, options: str, environment: str) -> None:
        folder = server.folder
        if self.own_users:
            shutil.chown(server.home, OPS_ID, OPS_ID)
            host_users = Path("/etc/passwd").read_text().splitlines()
            kept = [line for line in host_users if line.startswith(("root:", "sshd:"))]
            ops = f"ops:{PASSWORD_HASH}:{OPS_ID}:{OPS_ID}:ops:{server.home}:/bin/bash"
            (folder / "passwd").write_text("\n".join([*kept, ops]) + "\n")
        host_keys = "".join(f"HostKey {path}\n" for path in server.host_key_files)
        # The first value of a keyword counts (of MaxStartups the last): options of the test come first.
        startups = "" if "MaxStartups" in options else "MaxStartups 10:30:100"
        (folder / "sshd_config").write_text(
            f"""{options}
ListenAddress 127.0.0.1
Port {server.port}
{host_keys}PidFile none
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
StrictModes no
AuthorizedKeysFile {folder}/authorized_keys
AllowTcpForwarding yes
{startups}
{self._penalties_off}
SetEnv PATH={folder}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin GPUTOP_TEST_SERVER={folder} {environment}
LogLevel VERBOSE
"""
        )


OVERLAY = 'while [ "$1" != -- ]; do mount --bind "$1" "$2" || exit 1; shift 2; done; shift; exec "$@"'


def init(own: list[list[str]], network: str, listener: str, argv: list[str]) -> None:
    """Enter the namespaces, with files of its `own` over those of the machine; then become sshd, or serve a listener
    with one sshd per connection."""
    libc = ctypes.CDLL(None, use_errno=True)
    if network == "new":
        if libc.unshare(CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        with socket.socket() as sock:  # ip link set lo up
            request = struct.pack("16sh14x", b"lo", 0x1 | 0x40)
            fcntl.ioctl(sock, 0x8914, request)
    elif network:
        with open(f"/proc/{network}/ns/net") as file:
            if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
    if own:
        over = [path for pair in own for path in pair]
        argv = [str(find_program("unshare")), "--mount", "sh", "-c", OVERLAY, "sh", *over, "--", *argv]
    if not listener:
        os.execv(argv[0], argv)
    with socket.socket(fileno=int(listener)) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                subprocess.Popen(
                    argv, stdin=connection.fileno(), stdout=connection.fileno(), stderr=connection.fileno()
                )


def inventory(fleet: Fleet) -> str:
    """An inventory file of the whole fleet."""
    hosts = "".join(
        f"  - {{name: {server.name}, address: 127.0.0.1, port: {server.port}}}\n" for server in fleet.servers
    )
    return (
        f"defaults:\n  user: {fleet.user}\n  identity: {fleet.key}\n  known_hosts: {fleet.known_hosts}\n"
        f"  ssh_config: null\nhosts:\n{hosts}"
    )


def main() -> None:
    if sys.argv[1:2] == ["--init"]:
        init(json.loads(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:])
        return
    parser = argparse.ArgumentParser(description="Real sshd on loopback, until Ctrl-C.")
    parser.add_argument("count", type=int)
    parser.add_argument("folder", type=Path, nargs="?", help="default: a new one, removed at the end")
    arguments = parser.parse_args()
    folder = arguments.folder or new_folder()
    fleet = Fleet(folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        for number in range(1, arguments.count + 1):
            fleet.add(f"gpu{number:03d}")
        (folder / "inventory.yaml").write_text(inventory(fleet))
        print(f"{arguments.count} servers run; gputop --inventory {folder}/inventory.yaml", flush=True)
        print(f"end them with Ctrl-C, or: kill {os.getpid()}", flush=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # who reads us through a pipe sees its end
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        fleet.stop()
        if arguments.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
