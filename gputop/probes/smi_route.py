"""Servers without a usable Python: nvidia-smi and /proc, read by a small shell script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from gputop.domain.problem import Problem
from gputop.probes.decode import BadLine, Line, line_of
from gputop.remote import hostinfo, nvidia_smi, owners, problem
from gputop.remote.agent import table
from gputop.remote.metrics import Sample, columns
from gputop.remote.processes import FIRST_PID_NAMESPACE, describe
from gputop.remote.smi_picture import Picture
from gputop.remote.wire import HEARTBEAT_SECONDS, PROTOCOL_VERSION, SILENCE_LIMIT_SECONDS

_RESTART_SECONDS = 10.0
_PATIENCE_SECONDS = 5.0
_PATIENCE_INTERVALS = 3
# Each line it prints carries the token and a word that says what the rest is. It obeys one line at a time. At the end
# of its input, and after 30 s without any line, it kills its process group, if that is its own: where commands are
# started within the group of a daemon, that one must live on.
_SCRIPT = r"""
t=$2 watch= smi=
LC_ALL=C; export LC_ALL
say() { while IFS= read -r line; do printf '%s %s %s\n' "$t" "$1" "$line"; done; }
die() {
  [ "$(cut -d ' ' -f 5 /proc/$$/stat 2>/dev/null)" = $$ ] && kill -9 -$$
  kill -9 $$
}
arm() {
  [ -n "$watch" ] && kill $watch
  ( trap 'kill $nap; exit' TERM; sleep @SILENCE@ & nap=$!; wait $nap; die ) >/dev/null 2>&1 </dev/null & watch=$!
}
file() { [ -r "$2" ] && { tr '\000' '\037' <"$2"; echo; } 2>/dev/null | say "$1"; }
run() {
  word=$1; shift
  { "$@" 2>&1 </dev/null & echo "pid $!"; wait $!; echo "exit $?"; } | say "$word"
}
printf '%s\n' "$t"
arm
for p in @PROGRAMS@; do found=$(command -v "$p" 2>/dev/null) && smi=$found && break; done
buffering=; command -v stdbuf >/dev/null 2>&1 && buffering='stdbuf -oL'
file hostname /proc/sys/kernel/hostname
file kernel_version /proc/sys/kernel/osrelease
file boot_id /proc/sys/kernel/random/boot_id
file machine_id /etc/machine-id
readlink /proc/self/ns/pid 2>/dev/null | say pid_namespace
file os_release /etc/os-release
grep -E '^(cpu|btime)' /proc/stat | say stat
if [ -n "$smi" ]; then run help "$smi" --help-query-gpu; else echo | say missing; fi
while read -r verb rest; do
  arm
  case $verb in
    sample)
      date +%s | say time
      file loadavg /proc/loadavg; file uptime /proc/uptime
      grep -E '^(Mem|Buffers|Cached)' /proc/meminfo | say meminfo
      head -n 1 /proc/stat | say cpu
      echo | say done ;;
    stream) set -- $rest; word=$1; shift; run "$word" $buffering "$smi" "$@" & ;;
    kill) kill $rest ;;
    ask) set -- $rest; word=$1; shift; run "$word" "$smi" "$@" & ;;
    who)
      for pid in $rest; do
        echo $pid | say pid; file pid_stat /proc/$pid/stat; file pid_cmdline /proc/$pid/cmdline
        stat -c %U /proc/$pid 2>/dev/null | say pid_user; file pid_cgroup /proc/$pid/cgroup
        ls -l /proc/$pid/fd 2>/dev/null | grep -m 1 -E '/dev/(nvidia|dxg)' | say pid_device
      done ;;
  esac
done
die
""".replace("@PROGRAMS@", " ".join(nvidia_smi.PROGRAMS)).replace("@SILENCE@", str(SILENCE_LIMIT_SECONDS))

_FACTS = ("hostname", "kernel_version", "boot_id", "machine_id")


class SmiDialect:
    """Understands the script, and tells it what to run."""

    def __init__(self, token: str, interval_seconds: float, why: tuple[Problem, ...] = ()) -> None:
        """`why` is told in every frame: what stood against the agent."""
        script = _SCRIPT.encode("ascii")
        # Read byte by byte from standard input: login shells differ in which characters of a command they pass on.
        self.command = (
            """exec /bin/sh -c 'eval "$(dd bs=1 count="$1" 2>/dev/null)"' """ + f"gputop-smi {len(script)} {token}"
        )
        self.opening = script
        self._interval = interval_seconds
        self._picture = Picture()
        self._host = _Host()
        self._people = _People()
        self._problems: list[Any] = to_builtins(list(why))
        self._route = "nvidia-smi"
        self._greeted: tuple[str, int] | None = None
        self._frames = 0
        self._output: dict[str, list[str]] = {}
        self._answers: list[bytes] = []
        self._stream_number = 0
        self._stream_pid: str | None = None
        self._asking = False
        self._sampling = False
        self._sample_at = 0.0
        self._started_at = 0.0
        self._restart_at: float | None = None

    def answers(self) -> list[bytes]:
        answers, self._answers = self._answers, []
        return answers

    def interval(self, seconds: float) -> bytes:
        self._interval = seconds
        if self._stream_pid is None:
            return b""
        kill = f"kill {self._stream_pid}\n".encode()
        return kill + self._start_stream()

    def beat_seconds(self, interval_seconds: float) -> float:
        return min(HEARTBEAT_SECONDS, interval_seconds)

    def beat(self, interval_seconds: float, now: float) -> bytes:
        lines = b"\n"
        if not self._sampling and self._picture.has_devices and now >= self._started_at + _PATIENCE_SECONDS:
            self._sampling = True  # the list of processes hangs: the devices are shown without
        if not self._sampling:
            return lines
        if self._restart_at is not None and now >= self._restart_at:
            lines += self._start_stream()
        if now >= self._sample_at:
            self._sample_at = now + 0.9 * interval_seconds
            lines += b"sample\n"
        return lines + self._next_ask(now)

    def take(self, body: bytes, now: float) -> Sequence[Line | BadLine]:
        word, _, text = body.decode("utf-8", "replace").partition(" ")
        if word == "done":
            return self._frame(now)
        if word == "missing":
            self._route = "none"
            tried = ["python3 (3.6 or newer)", *nvidia_smi.PROGRAMS]
            self._problems.append(problem.tool_missing(tried))
            self._begin()
        elif word.startswith("stream"):
            self._take_stream(word, text, now)
        elif word == "help" or word.startswith("ask_"):
            self._take_output(word, text, now)
        elif word.startswith("pid"):
            self._people.take(word, text)
        else:
            self._host.take(word, text)
        return ()

    def _take_stream(self, word: str, text: str, now: float) -> None:
        if word != f"stream{self._stream_number}":
            return  # one that was replaced
        verb, _, rest = text.partition(" ")
        if verb == "pid":
            self._stream_pid = rest
        elif verb == "exit":
            self._picture.end(int(rest))
            self._stream_pid = None
            self._restart_at = now + _RESTART_SECONDS
        else:
            self._picture.take_line(text, now)
        self._begin_once_complete()

    def _take_output(self, word: str, text: str, now: float) -> None:
        """Lines of a program that ends by itself, until it has ended."""
        verb, _, rest = text.partition(" ")
        if verb == "pid" and rest.isdigit():
            self._output[word] = []
        elif verb != "exit" or not rest.isdigit():
            self._output.setdefault(word, []).append(text)
        else:
            self._ended(word, int(rest), "\n".join(self._output.pop(word, [])), now)

    def _ended(self, word: str, status: int, output: str, now: float) -> None:
        if word == "help":
            self._picture.take_help(output)
            self._started_at = now
            self._answers += [self._start_stream(), self._next_ask(now)]
            return
        self._picture.take(word.removeprefix("ask_"), status, output)
        if word == "ask_apps":
            self._answers.append(self._people.question(nvidia_smi.apps(output)))
        self._begin_once_complete()
        self._asking = False
        self._answers.append(self._next_ask(now))

    def _start_stream(self) -> bytes:
        self._stream_number += 1
        self._stream_pid = None
        self._restart_at = None
        milliseconds = max(100, round(self._interval * 1000))
        query = f"{self._picture.fast.argument} {nvidia_smi.CSV} -lms {milliseconds}"
        return f"stream stream{self._stream_number} {query}\n".encode()

    def _next_ask(self, now: float) -> bytes:
        due = None if self._asking or self._route != "nvidia-smi" else self._picture.question(now, self._interval)
        if due is None:
            return b""
        word, arguments = due
        if word == "medium":
            self._people.forget()
        self._asking = True
        return f"ask ask_{word} {' '.join(arguments)}\n".encode()

    def _begin_once_complete(self) -> None:
        if self._picture.complete:
            self._begin()

    def _begin(self) -> None:
        """From now on there is something to show."""
        if not self._sampling:
            self._sampling = True
            self._answers.append(b"sample\n")

    def _frame(self, now: float) -> Sequence[Line | BadLine]:
        lines: list[Line | BadLine] = []
        greeting = (self._route, self._picture.revision)
        if greeting != self._greeted:
            self._greeted = greeting
            hello = {
                "k": "hello",
                "v": PROTOCOL_VERSION,
                "route": self._route,
                "interval": self._interval,
                "facts": {**self._host.facts, **self._picture.facts},
                "devices": {"index": [], **columns(self._picture.devices)},
            }
            lines.append(line_of(hello))
        patience = max(_PATIENCE_INTERVALS * self._interval, self._interval + _PATIENCE_SECONDS)
        sample = self._picture.sample(now, patience, self._people.look_up)
        self._frames += 1
        return [*lines, line_of(self._message(sample))]

    def _message(self, sample: Sample) -> dict[str, Any]:
        """The frame in full: nothing is left out."""
        return {
            "k": "frame",
            "n": self._frames,
            "t": self._host.time,
            "interval": self._interval,
            "host": self._host.reading(),
            "columns": columns(sample.values),
            "partitions": table(sample.partitions),
            "processes": table(sample.processes),
            "problems": self._problems + sample.problems,
            "device_problems": sample.device_problems,
        }


class _Host:
    """Values of the server itself."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.time = 0.0
        """The server's clock, seconds since the epoch."""
        self._texts: dict[str, list[str]] = {}
        self._meter: hostinfo.CpuMeter | None = None

    def take(self, word: str, text: str) -> None:
        if word == "time" and text.isdigit():
            self.time = float(text)
            self._texts.clear()
        elif word in _FACTS:
            self.facts.setdefault(word, text)
        elif word == "stat":
            self._take_stat(text)
        elif word == "os_release":
            name = hostinfo.os_name(text)
            self.facts.update({} if name is None else {"os_name": name})
        else:
            self._texts.setdefault(word, []).append(text)

    def reading(self) -> dict[str, Any]:
        used, total = hostinfo.memory(self._text("meminfo"))
        return {
            "uptime_seconds": hostinfo.first_number(self._text("uptime")),
            "cpu_utilization_percent": self._meter.percent(self._text("cpu")) if self._meter else None,
            "load_1m": hostinfo.first_number(self._text("loadavg")),
            "memory_used_bytes": used,
            "memory_total_bytes": total,
        }

    def _take_stat(self, line: str) -> None:
        if line.startswith("cpu "):
            self._meter = hostinfo.CpuMeter(line)
        elif line.startswith("cpu"):
            self.facts["cores"] = self.facts.get("cores", 0) + 1

    def _text(self, word: str) -> str:
        return "\n".join(self._texts.get(word, []))


class _People:
    """Who the processes on the devices are."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, Any]] = {}
        self._asked: set[int] = set()
        self._owners: dict[int, list[str]] = {}
        self._meant: set[int] = set()
        """Those that have a device open."""
        self._has_driver_pids = True
        self._pid = 0
        self._stat = ""

    def forget(self) -> None:
        """Ask again: pids are used again, command lines change."""
        self._asked.clear()

    def question(self, apps: list[nvidia_smi.App]) -> bytes:
        """Asks the script for those that were not asked for yet."""
        pids = {pid for _, pid, _, _ in apps if pid is not None}
        self._known = {pid: who for pid, who in self._known.items() if pid in pids}
        new, self._asked = pids - self._asked, pids
        return f"who {' '.join(str(pid) for pid in sorted(new))}\n".encode() if new else b""

    def take(self, word: str, text: str) -> None:
        if word == "pid" and text.isdigit():
            self._pid, self._stat = int(text), ""
            self._known.pop(self._pid, None)
            self._owners[self._pid] = []
            self._meant.discard(self._pid)
        elif word == "pid_stat" and text:
            self._stat = text
            self._known[self._pid] = describe(text, "")
        elif word == "pid_cmdline" and text and self._stat:
            self._known[self._pid] = describe(self._stat, text.replace("\x1f", "\0"))
        elif word == "pid_user" and self._pid in self._known:
            self._known[self._pid]["user"] = text.strip()
        elif word == "pid_cgroup" and self._pid in self._known:
            self._owners[self._pid].append(text)
            owner = owners.parse_cgroup("\n".join(self._owners[self._pid]))
            pod = None if owner.pod_uid is None else f"pod {owner.pod_uid}"
            self._known[self._pid].update(container=pod or owners.short_id(owner.container_id), job=owner.job)
        elif word == "pid_device":
            self._meant.add(self._pid)
        elif word == "pid_namespace":
            self._has_driver_pids = text == FIRST_PID_NAMESPACE

    def look_up(self, pid: int) -> dict[str, Any] | None:
        """As `ProcessTable.look_up`."""
        if not self._has_driver_pids and pid not in self._meant:
            return {}
        return self._known.get(pid)
