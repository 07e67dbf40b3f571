"""Who a process is, out of /proc."""

from typing import Any, Dict, List, Optional, Tuple

from gputop.remote import hostinfo
from gputop.remote.lane import Lane
from gputop.remote.machine import Machine

_COMM_LENGTH = 15
"""The kernel cuts its names of programs there."""

_COMMAND_CHARACTERS = 4096
_NAME_SERVICE_SECONDS = 0.2


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
        self._users = Users(machine)
        try:
            self.pid_max = int(machine.text("/proc/sys/kernel/pid_max") or "")
        except ValueError:
            self.pid_max = 1 << 22  # the most that Linux allows

    def look_up(self, pid: int) -> Optional[Dict[str, Any]]:
        """`name`, `command`, `user`, `started_at` of a process; `None` when there is none of that pid here (it has
        ended, or its pid is of another namespace)."""
        stat = self._machine.text("/proc/%d/stat" % pid)
        parsed = parse_stat(stat) if stat else None
        if stat is None or parsed is None:
            self._known.pop(pid, None)
            return None
        known = self._known.get(pid)
        if known is None or known[0] != parsed[1]:
            found = describe(stat, self._machine.text("/proc/%d/cmdline" % pid) or "")
            found["uid"] = parse_uid(self._machine.text("/proc/%d/status" % pid) or "")
            if self._boot_time is not None:
                found["started_at"] = round(self._boot_time + parsed[1] / self._machine.clock_ticks, 2)
            known = self._known[pid] = (parsed[1], found)
        description = dict(known[1])
        uid = description.pop("uid")
        description["user"] = None if uid is None else self._users.name(uid)
        return description

    def forget(self) -> None:
        """Read everything again: programs change their command lines."""
        self._known = {}


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
