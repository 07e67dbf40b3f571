"""Real machines, as far as a test needs them: an sshd that is process 1 of its own PID, mount and UTS namespaces.

Each has its own host name, boot id, machine id, /run, users (root and `ops`), sudoers and devices. `reboot` and
`poweroff` really end it, with every process on it; its power switch boots it again after a reboot, and leaves it off
after a power-off. Needs root. Nothing outside its folder is touched.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.needs import need, need_root, need_that

NVML = Path(__file__).parents[1] / "fixtures" / "nvml"
START_SECONDS = 20.0
OPS_ID, EVE_ID = 2000, 2001

SUDOERS = """\
Defaults !syslog, secure_path="/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin"
root ALL=(ALL:ALL) NOPASSWD: ALL
ops ALL=(root) NOPASSWD: /usr/bin/install -D -m 0644 /dev/stdin /run/gputop/drain.json
ops ALL=(root) NOPASSWD: /usr/bin/rm -f /run/gputop/drain.json
ops ALL=(root) NOPASSWD: /usr/local/bin/reboot "", /usr/local/bin/poweroff ""
ops ALL=(root) NOPASSWD: /usr/local/bin/nvidia-smi, /usr/local/bin/systemctl
ops ALL=(root) NOPASSWD: /usr/bin/kill -s *
"""

SMI = """\
#!/usr/bin/python3
import glob, os, re, sys, time
CONF, LOG = {conf!r}, {log!r}
words = sys.argv[1:]
if not any(word.startswith("--query") for word in words):
    open(LOG, "a").write(" ".join(words) + "\\n")
text = open(CONF).read()
def put(key, value):
    global text
    text = re.sub(rf"(?m)^{{re.escape(key)}} = .*\\n", "", text) + f"{{key}} = {{value}}\\n"
    open(CONF, "w").write(text)
modes = {{"DEFAULT": "0", "PROHIBITED": "2", "EXCLUSIVE_PROCESS": "3"}}
only = [words[at + 1][-1] for at, word in enumerate(words) if word == "-i"] or ["0", "1"]
if "-c" in words:
    if "-i" not in words:
        text = re.sub(r"(?m)^gpu.[01].compute_mode = .*\\n", "", text)
    for key in ([f"gpu.{{number}}.compute_mode" for number in only] if "-i" in words else ["gpu.compute_mode"]):
        put(key, modes[words[words.index("-c") + 1]])
elif "-pl" in words:
    put("gpu.power_limit", words[words.index("-pl") + 1])
elif any(word == "--query-gpu=power.limit" for word in words):
    print(re.search(r"(?m)^gpu.power_limit = (.*)$", text)[1])
elif "--query-gpu=compute_mode" in words:
    for number in only:
        found = re.search(rf"(?m)^gpu.{{number}}.compute_mode = (.*)$", text)
        mode = (found or re.search(r"(?m)^gpu.compute_mode = (.*)$", text))[1]
        print({{"0": "Default", "2": "Prohibited", "3": "Exclusive_Process"}}[mode])
elif "--gpu-reset" in words:
    held = set()
    for fd in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            held.add((os.readlink(fd), fd.split("/")[2]))
        except OSError:
            continue
    users = {{pid for number in only for path, pid in held if path == "/dev/nvidia" + number}}
    if users:
        names = " ".join(sorted(open("/proc/" + pid + "/comm").read().strip() for pid in users))
        print("GPU 00000000:3B:00.0 is currently in use by another process.")
        print("1 device is currently being used by one or more other processes (" + names + ").")
        sys.exit(3)
    if "gpu.broken" in text:
        sys.exit("GPU could not be reset")
    while os.path.exists(CONF + ".slow"):
        time.sleep(0.02)
    for number in only:
        text = re.sub(rf"(?m)^gpu.{{number}}.error = .*\\n", "", text)
    open(CONF, "w").write(text)
elif words == ["-q"]:
    print("\\n".join("    Attribute %-20d : value" % number for number in range(9000)))
elif words == ["topo", "-m"]:
    print("\\t\\x1b[4mGPU0\\tGPU1\\x1b[0m\\nGPU0\\t X \\tNV18")
elif words == ["nvlink", "-s"]:
    print("half an answer", flush=True)
    sys.exit("GPU is lost")
"""

SYSTEMCTL = """\
#!/bin/bash
# Stands for systemd's program: a unit is a script below {folder}/units, and runs as a real process.
verb=$1; shift
[ "$1" = --quiet ] && {{ exec >/dev/null; shift; }}
unit=$1
[ -e {folder}/no-bus ] && {{ echo "Failed to connect to bus: No such file or directory" >&2; exit 1; }}
running() {{ [ -e "/run/units/$unit" ] && [ -d "/proc/$(cat "/run/units/$unit")" ]; }}
case $verb in
is-active)
    [ -e "/run/units/$unit.restarts" ] && {{ echo activating; exit 3; }}
    running && {{ echo active; exit 0; }}
    echo inactive; exit 3 ;;
reboot|poweroff) echo "$verb" >>{folder}/systemctl.log; exec "$verb" ;;
esac
echo "$verb $unit" >>{folder}/systemctl.log
[ -x "{folder}/units/$unit" ] || {{ echo "Unit $unit.service not found." >&2; exit 5; }}
case $verb in
start) running || {{ setsid "{folder}/units/$unit" </dev/null >/dev/null 2>&1 & echo $! >"/run/units/$unit"; }} ;;
stop)
    rm -f "/run/units/$unit.restarts"
    running && {{ kill "$(cat "/run/units/$unit")"; while running; do sleep 0.02; done; }}
    exit 0 ;;
*) echo "not played: $verb" >&2; exit 1 ;;
esac
"""

DMESG = """\
#!/bin/sh
# Stands for the kernel's own: the log of this machine is a file.
[ "$1" = --follow ] && exec tail -n +1 -f {folder}/dmesg
exec cat {folder}/dmesg
"""

SYSTEMD_RUN = """\
#!/bin/bash
# Stands for systemd's program: runs a command later, detached from whoever asked for it.
[ "$1" = --on-active=2 ] || {{ echo "not played: $*" >&2; exit 1; }}
echo "systemd-run $*" >>{folder}/systemctl.log
program=$(basename "$2"); shift 2
setsid sh -c 'sleep 2; exec "$0" "$@"' "$program" "$@" </dev/null >/dev/null 2>&1 &
echo "Running timer as unit: run-r1.timer" >&2
"""

TERMINAL = """\
import os, pty, pwd, struct, sys, time
user, log = sys.argv[1:]
master, slave = pty.openpty()
name = os.ttyname(slave)
os.chown(name, pwd.getpwnam(user).pw_uid, 5)
os.chmod(name, 0o620)
line = name[5:].encode()
entry = (7, os.getpid(), line, line[-4:], user.encode(), b"192.0.2.1", 0, 0, 0, int(time.time()), 0, 0, 0, 0, 0)
open("/run/utmp", "ab").write(struct.pack("hi32s4s32s256shhiii4i20x", *entry))
open(log + ".fresh", "w").write(name)
os.rename(log + ".fresh", log + ".name")
while True:
    open(log, "ab").write(os.read(master, 4096))
"""

INIT = """\
#!/bin/bash
set -e
hostname {name}
mount --make-rprivate /
mount -t tmpfs tmpfs /run
touch /run/utmp
mkdir -p /run/sshd /run/units /run/lock /run/devices/pts /run/devices/shm
chmod 1777 /run/lock /run/devices/shm
for node in null zero full random urandom tty; do
    touch /run/devices/$node
    mount --bind /dev/$node /run/devices/$node
done
ln -s /proc/self/fd /run/devices/fd
ln -s fd/0 /run/devices/stdin
ln -s fd/1 /run/devices/stdout
ln -s fd/2 /run/devices/stderr
ln -s pts/ptmx /run/devices/ptmx
touch /run/devices/nvidia0 /run/devices/nvidia1
chmod 666 /run/devices/nvidia*
mount --rbind /dev/pts /run/devices/pts
mount --rbind /run/devices /dev
[ -e {folder}/systemd ] && mkdir -p /run/systemd/system
[ -e {folder}/no-network ] && exec sleep infinity
cp -r {folder}/bin /run/bin
mount --bind /run/bin /usr/local/bin
for file in passwd shadow sudoers; do cp {folder}/$file /run/.$file; chown 0:0 /run/.$file; done
chmod 440 /run/.sudoers; chmod 644 /run/.passwd; chmod 600 /run/.shadow
mount --bind /run/.passwd /etc/passwd
mount --bind /run/.shadow /etc/shadow
mount --bind /run/.sudoers /etc/sudoers
[ -e /etc/machine-id ] || touch /etc/machine-id
mount --bind {folder}/machine-id /etc/machine-id
cat /proc/sys/kernel/random/uuid > {folder}/boot_id
mount --bind {folder}/boot_id /proc/sys/kernel/random/boot_id
exec {sshd} -D -f {folder}/sshd_config -E {folder}/sshd.log
"""

POWER = """\
#!/bin/bash
trap 'kill -KILL $machine 2>/dev/null; exit 0' TERM
while :; do
  [ -e {folder}/off ] && {{ sleep 0.1; continue; }}
  unshare --uts --mount --pid --fork --kill-child --mount-proc {folder}/init & machine=$!
  wait $machine
  echo down >> {folder}/downs
  sleep {boot_seconds} & wait $!
done
"""


@dataclass
class Terminal:
    """What one person sees."""

    name: str
    log: Path

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace").replace("\r", "")


@dataclass
class Machine:
    """One of them."""

    name: str
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def boot_id(self) -> str:
        return (self.folder / "boot_id").read_text().strip()

    @property
    def downs(self) -> int:
        """How often it went down."""
        path = self.folder / "downs"
        return len(path.read_text().splitlines()) if path.exists() else 0

    @property
    def is_up(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as sock:
                return sock.recv(4) == b"SSH-"
        except OSError:
            return False

    def devices(self, **values: str) -> None:
        """Set keys of the fake library, `__` for a dot: `gpu__0__compute="123:4000"`; an empty value removes it."""
        path = self.folder / "nvml.conf"
        lines = dict(line.split(" = ", 1) for line in path.read_text().splitlines() if " = " in line)
        lines |= {key.replace("__", "."): value for key, value in values.items()}
        fresh = path.with_suffix(".new")
        fresh.write_text("".join(f"{key} = {value}\n" for key, value in lines.items() if value))
        path.write_text(fresh.read_text())  # the library looks at this very file, which is bound nowhere else

    def smi_calls(self) -> list[str]:
        path = self.folder / "smi.log"
        return path.read_text().splitlines() if path.exists() else []

    def kernel_log(self, *lines: str) -> None:
        """What its kernel has logged since boot."""
        text = "".join(f"{line}\n" for line in ("[    0.000000] Linux version 6.1.0-13-amd64", *lines))
        (self.folder / "dmesg").write_text(text)

    def systemctl_calls(self) -> list[str]:
        return (self.folder / "systemctl.log").read_text().splitlines()

    def add_unit(self, name: str, program: str) -> None:
        """A service of systemd: a real process named `program`, which has both devices open. It is not started."""
        path = self.folder / "units" / name
        own = self.folder / program
        shutil.copy(need("sleep"), own)  # so that the kernel has its name
        path.write_text(f"#!/bin/sh\nexec {own} 100000 3</dev/nvidia0 4</dev/nvidia1\n")
        path.chmod(0o755)

    def runs(self, unit: str) -> bool:
        return self.run(f"systemctl is-active {unit} || :").strip() == "active"

    def terminal(self, user: str) -> Terminal:
        """Somebody logs in: a terminal of their own and an entry of who is logged in."""
        log, name = self.folder / f"terminal-{user}", self.folder / f"terminal-{user}.name"
        log.touch()
        script = self.folder / "terminal.py"
        script.write_text(TERMINAL)
        self.run(f"python3 {script} {user} {log} </dev/null >/dev/null 2>&1 &")
        deadline = time.monotonic() + START_SECONDS
        while not name.exists():
            assert time.monotonic() < deadline, f"{user} could not log in"
            time.sleep(0.02)
        return Terminal(name=name.read_text(), log=log)

    def run(self, script: str) -> str:
        """As root, on the machine."""
        return self._enter(["sh", "-c", script])

    def spawn(self, user: str = "ops", program: str = "sleep", **environment: str) -> int:
        """A process of `user` that has a device open and runs until it is ended; its number there."""
        path = self.folder / program
        if not path.exists():
            shutil.copy(need("sleep"), path)  # the kernel takes a program's name from its file
        who = ["setpriv", "--reuid", str(OPS_ID), "--regid", str(OPS_ID), "--clear-groups"] if user == "ops" else []
        who = ["env", *(f"{name}={value}" for name, value in environment.items()), *who]
        script = f"{path} 10000 >/dev/null 2>&1 </dev/null 3</dev/nvidia0 & echo $!"
        return int(self._enter([*who, "sh", "-c", script]))

    def _enter(self, argv: list[str]) -> str:
        enter = ["nsenter", "-t", str(self.init_pid()), "--mount", "--pid", "--uts", "--"]
        return subprocess.run([*enter, *argv], capture_output=True, text=True, check=True, timeout=20).stdout

    def init_pid(self) -> int:
        """The machine's process 1, as this machine numbers it."""
        wanted = f"sshd: {self._sshd()} -D -f {self.folder}/sshd_config"
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    levels = (entry / "status").read_text().partition("NSpid:")[2].splitlines()[0].split()
                except (OSError, IndexError):
                    continue
                if f"{self.folder}/sshd_config" in line and levels[-1] == "1":
                    return int(entry.name)
        raise AssertionError(f"{self.name} is not up ({wanted})")

    @staticmethod
    def _sshd() -> str:
        return need("sshd")

    def wait_until_up(self, seconds: float = START_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not self.is_up:
            assert time.monotonic() < deadline, f"{self.name} did not come up"
            time.sleep(0.02)

    def crash(self) -> None:
        """End it at once, and wait until it is down; its power switch boots it again."""
        downs = self.downs
        os.kill(self.init_pid(), signal.SIGKILL)
        deadline = time.monotonic() + START_SECONDS
        while self.downs == downs:
            assert time.monotonic() < deadline, f"{self.name} did not go down"
            time.sleep(0.02)

    def stop(self) -> None:
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait(timeout=5)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process = None


class Machines:
    """Starts machines and ends them all."""

    def __init__(self, folder: Path) -> None:
        need_root("needs root, for machines in their own namespaces")
        for program in ("unshare", "nsenter", "setpriv", "sudo", "ssh-keygen"):
            need(program)
        need("gcc")
        unshare = subprocess.run(["unshare", "--uts", "--mount", "--pid", "--fork", "true"], check=False)
        need_that(unshare.returncode == 0, "needs mount and PID namespaces")
        self.folder = folder
        self.sshd = need("sshd", "needs OpenSSH's server: make services")
        self.machines: dict[str, Machine] = {}
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        self.key = self._make_key(folder / "id_client")
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.touch()
        self.library = folder / "libnvidia-ml.so.1"
        source = folder / "fake_nvml.c"
        shutil.copy(NVML / "fake_nvml.c", source)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", self.library, source, "-lpthread"], check=True)

    def add(self, name: str, *, sudoers: str = SUDOERS, boot_seconds: float = 0.3, systemd: bool = False) -> Machine:
        """`systemd`: it looks like a machine that systemd booted; its programs are played all the same."""
        folder = self.folder / name
        for below in ("bin", "units", "home/ops", "home/root"):
            (folder / below).mkdir(parents=True)
        if systemd:
            (folder / "systemd").touch()
        os.chown(folder / "home/ops", OPS_ID, OPS_ID)
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            port = sock.getsockname()[1]
        machine = Machine(name=name, folder=folder, port=port)
        host_key = self._make_key(folder / "host_key")
        public = " ".join(host_key.with_suffix(".pub").read_text().split()[:2])
        with self.known_hosts.open("a") as file:
            file.write(f"[127.0.0.1]:{port} {public}\n")
        shutil.copy(self.key.with_suffix(".pub"), folder / "authorized_keys")
        sshd = [line for line in Path("/etc/passwd").read_text().splitlines() if line.startswith("sshd:")]
        users = [f"root:x:0:0:root:{folder}/home/root:/bin/bash", *sshd]
        users.append(f"ops:x:{OPS_ID}:{OPS_ID}:ops:{folder}/home/ops:/bin/bash")
        users.append(f"eve:x:{EVE_ID}:{EVE_ID}:eve:{folder}/home/ops:/bin/bash")
        (folder / "passwd").write_text("\n".join(users) + "\n")
        (folder / "shadow").write_text("".join(f"{line.split(':')[0]}:*:19000:0:99999:7:::\n" for line in users))
        (folder / "sudoers").write_text(sudoers)
        (folder / "machine-id").write_text(os.urandom(16).hex() + "\n")
        lines = [line for line in (NVML / "h100x8.conf").read_text().splitlines() if not line.startswith("gpu.1.mig")]
        conf = "\n".join(
            line
            for line in lines
            if line.startswith(("driver", "nvml", "cuda", "gpu.name"))
            or (line.startswith("gpu.") and not line[4].isdigit())
        )
        (folder / "nvml.conf").write_text(
            f"count = 2\ndevice = /dev/nvidia\n{conf}\ngpu.0.uuid = GPU-{name}-0\ngpu.1.uuid = GPU-{name}-1\n"
        )
        self._scripts(machine, boot_seconds)
        (folder / "sshd_config").write_text(
            f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {host_key}\nPidFile none\nUsePAM no\n"
            f"PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
            f"AuthorizedKeysFile {folder}/authorized_keys\nStrictModes no\nMaxSessions 50\n"
            f"SetEnv PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin FAKE_NVML={folder}/nvml.conf\n"
        )
        self.machines[name] = machine
        machine.process = subprocess.Popen([str(folder / "power")], start_new_session=True)
        machine.wait_until_up()
        return machine

    def _scripts(self, machine: Machine, boot_seconds: float) -> None:
        folder = machine.folder
        scripts = {
            "init": INIT.format(name=machine.name, folder=folder, sshd=self.sshd),
            "power": POWER.format(folder=folder, boot_seconds=boot_seconds),
            "bin/reboot": "#!/bin/sh\nkill -TERM 1\n",
            "bin/poweroff": f"#!/bin/sh\ntouch {folder}/off\nkill -TERM 1\n",
            "bin/dmesg": DMESG.format(folder=folder),
            "bin/systemctl": SYSTEMCTL.format(folder=folder),
            "bin/systemd-run": SYSTEMD_RUN.format(folder=folder),
            "bin/nvidia-smi": SMI.format(conf=str(folder / "nvml.conf"), log=str(folder / "smi.log")),
        }
        for name, text in scripts.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        machine.kernel_log()
        for name in ("smi.log", "systemctl.log"):
            (folder / name).touch()
            (folder / name).chmod(0o666)

    def inventory(self, *, user: str = "ops", defaults: str = "", names: tuple[str, ...] = ()) -> Path:
        """An inventory file of `names`, or all machines, with small waits."""
        chosen = [self.machines[name] for name in names or self.machines]
        hosts = "".join(f"  - {{name: {it.name}, address: 127.0.0.1, port: {it.port}}}\n" for it in chosen)
        path = self.folder / f"inventory-{os.urandom(4).hex()}.yaml"
        path.write_text(
            f"defaults:\n  user: {user}\n  identity: {self.key}\n  known_hosts: {self.known_hosts}\n"
            f"  ssh_config: null\n  nvml_library: {self.library}\n  interval: 500ms\n"
            f"{defaults or DEFAULTS}hosts:\n{hosts}"
        )
        return path

    def stop(self) -> None:
        for machine in self.machines.values():
            machine.stop()

    @staticmethod
    def _make_key(path: Path) -> Path:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", path], check=True)
        return path


DEFAULTS = """\
  power: ssh
  policy: {idle_samples: 3, idle_interval: 200ms, drain_deadline: 20s, reboot_deadline: 60s, max_percent: 100}
"""
