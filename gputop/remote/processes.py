"""Who a process is, out of /proc."""

import re
from typing import Any, Dict, List, Optional, Tuple

from gputop.remote import hostinfo, owners
from gputop.remote.lane import Lane
from gputop.remote.machine import Machine

_COMM_LENGTH = 15
"""The kernel cuts its names of programs there."""

_COMMAND_CHARACTERS = 4096
_NAME_SERVICE_SECONDS = 0.2
FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""What /proc/self/ns/pid says outside of all containers: the number is a constant of the kernel."""
_DEVICE_NODE = re.compile(
    r"/dev/(?:nvidia(?:\d|ctl$|-)|dxg$|kfd$|dri/|davinci|devmm_svm|hisi_hdc|accel|hl\d|neuron|mtgpu|cambricon|mxcd|iluvatar|vfio/)"
)
"""Device files of accelerators, wherever a container has its /dev."""
_SIGHTING_SECONDS = 10.0
"""A pid that was not asked for so long counts as new."""
_START_TOLERANCE_SECONDS = 1.0
_CONTAINER_LOGS, _POD_LOGS = "/var/log/containers", "/var/log/pods"
_DOCKER_CONFIG = "/var/lib/docker/containers/%s/config.v2.json"


def parse_stat(stat: str) -> Optional[Tuple[str, int]]:
    """Name and start time (clock ticks after boot) out of /proc/PID/stat. The name may hold blanks and brackets."""
    before, _, after = stat.rpartition(")")
    words = after.split()
    if len(words) < 20 or not words[19].isdigit():
        return None
    return before.partition("(")[2], int(words[19])


def parse_cmdline(cmdline: str) -> List[str]:
    """Arguments out of /proc/PID/cmdline; none for a kernel thread or a process that has ended."""
    return cmdline.rstrip("\0").split("\0") if cmdline.strip("\0") else []


def parse_uid(status: str) -> Optional[int]:
    """The user that a process acts as, out of /proc/PID/status."""
    for line in status.splitlines():
        if line.startswith("Uid:"):
            return int(line.split()[2])
    return None


def describe(stat: str, cmdline: str) -> Dict[str, Any]:
    """`name` and `command` out of the two files of a process."""
    found = parse_stat(stat)
    arguments = parse_cmdline(cmdline)
    name = found[0] if found else None
    if name is not None and len(name) == _COMM_LENGTH and arguments:
        program = arguments[0].rpartition("/")[2]
        if program.startswith(name):
            name = program
    return {"name": name, "command": " ".join(arguments)[:_COMMAND_CHARACTERS] or None}


class ProcessTable:
    """Looks processes up and remembers them until their pid means another process."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._boot_time = hostinfo.boot_time(machine.text("/proc/stat") or "")
        self._known: Dict[int, Tuple[int, Dict[str, Any]]] = {}
        self._sightings: Dict[int, Tuple[float, float]] = {}
        self._users = Users(machine)
        self._has_driver_pids = machine.link("/proc/self/ns/pid") in (FIRST_PID_NAMESPACE, None)
        try:
            self.pid_max = int(machine.text("/proc/sys/kernel/pid_max") or "")
        except ValueError:
            self.pid_max = 1 << 22  # the most that Linux allows

    def look_up(self, pid: int) -> Optional[Dict[str, Any]]:
        """`name`, `command`, `user`, `started_at`, `started_ticks`, `container`, `job` of a process that a driver
        names; `None` when there is none of that pid here, `{}` when the one that is here may be another."""
        named_since = self._sight(pid)
        stat = self._machine.text("/proc/%d/stat" % pid)
        parsed = parse_stat(stat) if stat else None
        if stat is None or parsed is None:
            self._known.pop(pid, None)
            return None if self._has_driver_pids else {}
        started = parsed[1] / self._machine.clock_ticks
        if started > named_since + _START_TOLERANCE_SECONDS or not self._is_meant(pid):
            return {}
        known = self._known.get(pid)
        if known is None or known[0] != parsed[1]:
            known = self._known[pid] = (parsed[1], self._describe(pid, stat, parsed[1]))
        description = dict(known[1])
        uid = description.pop("uid")
        description["user"] = None if uid is None else self._users.name(uid)
        return description

    def forget(self) -> None:
        """Read everything again: programs change their command lines."""
        self._known = {}
        now = self._machine.boot_seconds()
        self._sightings = {pid: seen for pid, seen in self._sightings.items() if now - seen[1] < _SIGHTING_SECONDS}

    def _sight(self, pid: int) -> float:
        """Since when the driver has named this pid all the time, in seconds since the server started. A process that is
        younger is another one."""
        now = self._machine.boot_seconds()
        first, last = self._sightings.get(pid, (now, now))
        if now - last >= _SIGHTING_SECONDS:
            first = now
        self._sightings[pid] = (first, now)
        return first

    def _is_meant(self, pid: int) -> bool:
        """Whether the process that has this pid here is the one that the driver means. In a container the driver's pids
        may be those of the server outside: there it has to have a device open."""
        if self._has_driver_pids:
            return True
        folder = "/proc/%d/fd" % pid
        targets = (self._machine.link("%s/%s" % (folder, name)) for name in self._machine.names(folder))
        return any(_DEVICE_NODE.search(target) for target in targets if target)

    def _describe(self, pid: int, stat: str, start_ticks: int) -> Dict[str, Any]:
        machine = self._machine
        found = describe(stat, machine.text("/proc/%d/cmdline" % pid) or "")
        found["uid"] = parse_uid(machine.text("/proc/%d/status" % pid) or "")
        found["started_ticks"] = start_ticks
        if self._boot_time is not None:
            found["started_at"] = round(self._boot_time + start_ticks / machine.clock_ticks, 2)
        owner = owners.parse_cgroup(machine.text("/proc/%d/cgroup" % pid) or "")
        if owner.job is None:
            owner.job = owners.job_of_environment(machine.text("/proc/%d/environ" % pid) or "")
        found.update(container=self._container(owner), job=owner.job)
        return found

    def _container(self, owner: owners.Owner) -> Optional[str]:
        """Its name where that is known for sure, else its id."""
        if owner.container_id is None and owner.pod_uid is None:
            return None
        name = owners.pod_name(owner, self._machine.names(_CONTAINER_LOGS), self._machine.names(_POD_LOGS))
        if name is None:
            name = owners.docker_name(self._machine.text(_DOCKER_CONFIG % owner.container_id) or "")
        return name or owners.short_id(owner.container_id)


class Users:
    """User names. Those that /etc/passwd does not hold come from name services, which may hang."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._names = parse_passwd(machine.text("/etc/passwd") or "")
        self._lane: Lane[Tuple[int, str]] = Lane(machine)

    def name(self, uid: int) -> Optional[str]:
        """The name; the number as text when nobody knows it; `None` while that is not yet clear."""
        if uid not in self._names:
            patience = _NAME_SERVICE_SECONDS if self._lane.idle else 0.0
            self._lane.ask(lambda: (uid, self._machine.user_name(uid) or str(uid)))
            answer = self._lane.answer(self._machine.monotonic() + patience)
            if answer is not None:
                self._names[answer[0]] = answer[1]
        return self._names.get(uid)


def parse_passwd(passwd: str) -> Dict[int, str]:
    names: Dict[int, str] = {}
    for line in passwd.splitlines():
        words = line.split(":")
        if len(words) > 2 and words[2].isdigit():
            names.setdefault(int(words[2]), words[0])
    return names
