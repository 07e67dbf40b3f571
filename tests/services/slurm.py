"""A real Slurm on loopback for tests and trials by hand: munged, slurmctld, and one slurmd a node, as the current user.

    python -m tests.services.slurm 3            # prints SLURM_CONF; ends everything on Ctrl-C

With $GPUTOP_SLURM_TREE naming a root file system (debootstrap) that holds another version of Slurm, and as root, it is
that one. The cluster has its own key, ports and folders; nothing of a Slurm that is installed on the machine is
touched. A node reboots when Slurm says so: its slurmd ends and comes back with a new boot time.
"""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
START_SECONDS = 30.0
TREES = ("", *filter(None, [os.environ.get("GPUTOP_SLURM_TREE", "")]))
"""Root file systems whose Slurm is tested; empty: the installed one."""
MARKER = "GPUTOP_TEST_SLURM"
"""Variable by which every process of a cluster is found again."""

CONF = """ClusterName=gputop
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout=30
KillWait=1
MessageTimeout=5
InactiveLimit=0
RebootProgram={folder}/reboot
ResumeTimeout=60
PropagateResourceLimits=NONE
GresTypes=gpu
"""

REBOOT = """#!/bin/sh
# slurmd runs this with its own environment: ending that slurmd makes the supervisor boot the node anew
[ ! -x "$GPUTOP_TEST_SLURM/on-reboot.$GPUTOP_NODE" ] || "$GPUTOP_TEST_SLURM/on-reboot.$GPUTOP_NODE"
kill -TERM "$(cat "$GPUTOP_TEST_SLURM/run/slurmd.$GPUTOP_NODE.pid")"
"""

NODE = """#!/bin/sh
# one node: its slurmd, started again after it went away, as after a reboot (-b)
trap 'kill -TERM $child 2>/dev/null; wait $child; exit 0' TERM
booted=
while :; do
    slurmd -D -f "$SLURM_CONF" -N "$GPUTOP_NODE" $booted & child=$!
    wait $child
    booted=-b
    sleep 1
done
"""


IN_TREE = """#!/bin/sh
# {program} of the tree, which sees this cluster's folder at the same place
inside=/usr/sbin:/usr/bin:/sbin:/bin
exec unshare --mount --propagation private sh -c '
    mkdir -p "{tree}{folder}" && mount --bind "{folder}" "{tree}{folder}" && mount --rbind /dev "{tree}/dev" &&
    touch "{tree}/etc/hosts" && mount --bind "{folder}/etc/hosts" "{tree}/etc/hosts" &&
    mount -t proc proc "{tree}/proc" && exec chroot {account} {tree} "$@"' sh env PATH=$inside {program} "$@"
"""
PROGRAMS = ("munged", "slurmctld", "slurmd", "scontrol", "sinfo", "squeue", "scancel", "sbatch")


class SlurmCluster:
    """`nodes` nodes gpu01, gpu02, … with eight GPUs each, at 127.0.1.1, 127.0.1.2, …"""

    def __init__(self, folder: Path, nodes: int, tree: str = "") -> None:
        """`tree`: a root file system whose Slurm it is; empty: the installed one."""
        self.folder = folder
        self.tree = tree
        self.names = [f"gpu{number:02d}" for number in range(1, nodes + 1)]
        self.conf = folder / "etc" / "slurm.conf"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SQUEUE_"))},
            "PATH": f"{folder}/bin/tree:{os.environ.get('PATH', '/usr/bin:/bin')}:{SBIN}",
            "SLURM_CONF": str(self.conf),
            "TZ": "UTC",
            MARKER: str(folder),
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        for name in ("etc", "state", "log", "spool", "run", "munge", "dev", "bin"):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o755)
        (self.folder / "munge").chmod(0o755)
        self._configure()
        munge = self.folder / "munge"
        argv = ["munged", "--foreground", "--force", f"--key-file={munge}/key", f"--socket={munge}/socket"]
        argv += [f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed", "--num-threads=2"]
        self._spawn("munged", argv)
        self.until((munge / "socket").exists, "munged")
        self.start_controller()
        for name in self.names:
            self._spawn(name, [str(self.folder / "node")], GPUTOP_NODE=name)
        self.until(lambda: self.run("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * len(self.names), "nodes")

    def start_controller(self) -> None:
        self._spawn("slurmctld", ["slurmctld", "-D", "-f", str(self.conf)])
        self.until(lambda: "UP" in self.run("scontrol", "ping", check=False), "slurmctld")

    def stop_controller(self) -> None:
        """As a failing service: it saves its state, which a killed one would forget in part."""
        process = self.processes.pop("slurmctld")
        process.terminate()
        process.wait(timeout=10)

    def run(self, *argv: str, check: bool = True, seconds: float = 30.0) -> str:
        """What one of Slurm's programs prints."""
        done = subprocess.run(
            argv,
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(argv)}: exit status {done.returncode}: {done.stderr}")
        return done.stdout

    def submit(self, *options: str, command: str = "srun sleep 600") -> str:
        """A batch job's id, once it runs."""
        number = self.run("sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", command).strip()
        self.until(lambda: self.state_of_job(number) == "RUNNING", f"job {number}")
        return number

    def state_of_job(self, number: str) -> str:
        return self.run("squeue", "-h", "-j", number, "-o", "%T", check=False).strip()

    def node(self, name: str) -> str:
        return self.run("scontrol", "show", "node", "-o", name)

    def reset(self) -> None:
        """No job left and every node idle again."""
        self.run("scancel", "--user", getpass.getuser())
        self.until(lambda: not self.run("squeue", "-h").strip(), "end of the jobs")
        for name in self.names:
            self.run("scontrol", "cancel_reboot", name, check=False)
            self.run("scontrol", "update", f"nodename={name}", "state=resume", check=False)
        self.until(lambda: self.run("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * len(self.names), "nodes")

    def on_reboot(self, node: str, script: str) -> None:
        """What else goes down when `node` reboots."""
        path = self.folder / f"on-reboot.{node}"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def as_user(self, user: str) -> Path:
        """A folder with Slurm's programs, run by another account. Needs root."""
        folder = self.folder / "bin" / user
        folder.mkdir(exist_ok=True)
        for program in ("scontrol", "squeue", "scancel"):
            path = folder / program
            installed = f'#!/bin/sh\nexec runuser -u {user} -- {shutil.which(program)} "$@"\n'
            path.write_text(self._in_tree(program, f"--userspec={user}") if self.tree else installed)
            path.chmod(0o755)
        return folder

    def stop(self) -> None:
        """End all of it. Jobs first: a slurmd that is told to stop while a step ends, hangs."""
        if "slurmctld" in self.processes:
            self.run("scancel", "--user", getpass.getuser(), check=False)
            end = time.monotonic() + 8
            while self.run("squeue", "-h", check=False).strip() and time.monotonic() < end:
                time.sleep(0.1)
        for process in reversed(self.processes.values()):
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=4)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()
        for pid in self._left():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

        if self.tree:
            with suppress(OSError):
                Path(f"{self.tree}{self.folder}").rmdir()  # where its folder was mounted

    def _configure(self) -> None:
        ports = free_ports(len(self.names) + 1)
        (self.folder / "munge" / "key").write_bytes(secrets.token_bytes(1024))
        (self.folder / "munge" / "key").chmod(0o400)
        devices = [self.folder / "dev" / f"nvidia{number}" for number in range(8)]
        for device in devices:
            device.touch()
        lines = [CONF.format(port=ports[0], folder=self.folder, user=getpass.getuser())]
        for number, (name, port) in enumerate(zip(self.names, ports[1:], strict=True), start=1):
            lines.append(
                f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.1.{number} Port={port} CPUs=32 Sockets=2 "
                "CoresPerSocket=16 ThreadsPerCore=1 RealMemory=64000 Gres=gpu:h100:8 State=UNKNOWN\n"
            )
        lines.append(f"PartitionName=train Nodes={','.join(self.names)} Default=YES MaxTime=INFINITE State=UP\n")
        self.conf.write_text("".join(lines))
        gres = f"Name=gpu Type=h100 File={self.folder}/dev/nvidia[0-7]"
        (self.folder / "etc" / "gres.conf").write_text(f"AutoDetect=off\nNodeName={','.join(self.names)} {gres}\n")
        if self.tree:
            (self.folder / "etc" / "cgroup.conf").write_text("CgroupPlugin=disabled\n")  # 22.05 would die of it
            (self.folder / "bin" / "tree").mkdir()
            (self.folder / "etc" / "hosts").write_text(f"127.0.0.1 localhost {socket.gethostname()}\n")
        scripts = {"reboot": REBOOT, "node": NODE}
        for program in PROGRAMS if self.tree else ():
            scripts[f"bin/tree/{program}"] = self._in_tree(program)
        for name, text in scripts.items():
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)

    def _in_tree(self, program: str, account: str = "") -> str:
        return IN_TREE.format(program=program, tree=self.tree, folder=self.folder, account=account)

    def _spawn(self, name: str, argv: list[str], **environment: str) -> None:
        log = (self.folder / "log" / f"{name}.out").open("ab")
        self.processes[name] = subprocess.Popen(
            argv,
            env={**self.environment, **environment},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()

    def until(self, condition: object, what: str) -> None:
        assert callable(condition)
        end = time.monotonic() + START_SECONDS
        while not condition():
            if time.monotonic() > end:
                raise RuntimeError(f"Slurm: waited for {what}: {self.logs()}")
            time.sleep(0.05)

    def logs(self) -> str:
        return "".join(
            f"\n--- {path.name}\n{path.read_text(errors='replace')[-1500:]}"
            for path in sorted((self.folder / "log").iterdir())
        )

    def _left(self) -> list[int]:
        """Processes of this cluster that outlived it: their environment names its folder."""
        marker = f"{MARKER}={self.folder}\0".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if marker in (entry / "environ").read_bytes():
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="gputop-slurm-"))
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    cluster = SlurmCluster(folder, nodes, TREES[-1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        cluster.start()
        print(f"export SLURM_CONF={cluster.conf}   # end it with Ctrl-C, or: kill {os.getpid()}", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
