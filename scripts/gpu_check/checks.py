"""The checks, one after the other. Each adds to what was found; what is wrong goes to `failures`."""

import getpass
import os
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional

import compare
import load
import streams
import timing

from gputop.remote import nvidia_smi
from gputop.remote.lane import Lane
from gputop.remote.machine import Child, Machine
from gputop.remote.nvidia import NvmlRoute
from gputop.remote.options import Options
from gputop.remote.processes import ProcessTable
from gputop.remote.smi import SmiRoute

ROUNDS = 6
OUTPUTS = (
    # name of the fixture; arguments of nvidia-smi
    ("table.txt", []),
    ("L.txt", ["-L"]),
    ("q.txt", ["-q"]),
    ("q-x.xml", ["-q", "-x"]),
    ("query-compute-apps.csv", ["--query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory", "--format=csv"]),
    ("nvlink-s.txt", ["nvlink", "-s"]),
    ("nvlink-e.txt", ["nvlink", "-e"]),
    ("topo-m.txt", ["topo", "-m"]),
    ("dmon.txt", ["dmon", "-c", "2"]),
    ("pmon.txt", ["pmon", "-c", "1"]),
    ("version.txt", ["--version"]),
    ("help-query-gpu.txt", ["--help-query-gpu"]),
)

COMPARE_SECONDS = 20.0
FIELDS_SECONDS = 30.0

Found = Dict[str, Any]


class ThisMachine(Machine):
    """Knows what it started, so that it can be ended before the agent's own end."""

    def __init__(self) -> None:
        Machine.__init__(self)
        self._started: List[Child] = []

    def start(self, command: List[str]) -> Child:
        child = Machine.start(self, command)
        self._started.append(child)
        return child

    def end_all(self) -> None:
        for child in self._started:
            child.kill()


def run(found: Found, library: Optional[str], load_seconds: float, interval: float) -> None:
    """Fills `found` step by step: what there is when the time is over counts."""
    machine = ThisMachine()
    options = Options({"nvml_library": library, "interval": interval, "medium": 5.0, "slow": 5.0})
    program = machine.find_program(nvidia_smi.PROGRAMS)
    found["program"] = program
    before = children()

    _say("reading through NVML")
    with timing.timed_calls() as calls:
        nvml = NvmlRoute(machine, options, ProcessTable(machine))
        samples = _samples(machine, nvml, ROUNDS, interval)
    found["calls"] = calls.figures()
    found["devices"], found["facts"] = nvml.devices, nvml.facts
    found["nvml"] = samples[-1].values
    if nvml.tried is not None or not nvml.devices:
        found["failures"].append("NVML cannot be used: %s" % (nvml.tried or samples[-1].problems))
        return
    for position, problems in samples[-1].device_problems.items():
        found["notes"] += ["GPU %d: %s" % (position, problem["summary"]) for problem in problems]
    fields: Lane[Any] = Lane(machine)
    fields.ask(lambda: timing.fields(len(nvml.devices)))
    found["fields"] = fields.answer(machine.monotonic() + FIELDS_SECONDS) or []
    if not found["fields"]:
        found["failures"].append("asking for single fields has not returned for %d s" % FIELDS_SECONDS)

    _say("running the agent")
    found["agent"] = _run_agent(library)
    if found["agent"]["problem"]:
        found["failures"].append(found["agent"]["problem"])

    if program is None:
        found["notes"].append("there is no nvidia-smi: nothing was compared")
    else:
        _compare(machine, options, nvml, program, load_seconds, found)

    machine.end_all()
    left = children() - before
    deadline = time.monotonic() + 3
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        left = children() - before
    if left:
        found["failures"].append("processes were left behind: %s" % sorted(left))


def _compare(
    machine: Machine, options: Options, nvml: NvmlRoute, program: str, load_seconds: float, found: Found
) -> None:
    _say("reading through nvidia-smi")
    smi = SmiRoute(machine, options, ProcessTable(machine), program)
    pairs = []
    deadline = machine.monotonic() + COMPARE_SECONDS
    found["comparison"] = []
    while machine.monotonic() < deadline:
        pairs.append((_sample(machine, nvml), _sample(machine, smi)))
        found["comparison"] = compare.devices(nvml.devices, smi.devices, pairs)
        if len(pairs) >= ROUNDS and compare.is_complete(found["comparison"]):
            break
        time.sleep(options.interval)
    found["failures"] += ["%s differs: %s" % (row["key"], row["words"]) for row in compare.wrong(found["comparison"])]
    for key in ("driver_version", "cuda_version"):
        if smi.facts.get(key) != nvml.facts.get(key):
            found["failures"].append(
                "%s: %s by NVML, %s by nvidia-smi" % (key, nvml.facts.get(key), smi.facts.get(key))
            )

    if load_seconds > 0:
        _say("loading GPU 0")
        _under_load(machine, nvml, smi, load_seconds, found)

    _say("looking at the lines of nvidia-smi -lms")
    found["streams"] = streams.look(machine, program, options.interval / 4)
    _say("saving the outputs of nvidia-smi")
    found["outputs"], found["programs"] = _outputs(machine, program)


def _under_load(machine: Machine, nvml: NvmlRoute, smi: SmiRoute, seconds: float, found: Found) -> None:
    idle = _sample(machine, nvml).values[0]
    with load.running(seconds) as worker:
        found["load"] = worker.words
        if worker.pid is None:
            found["notes"].append("GPU 0 was not loaded: %s" % worker.words)
            return
        end = machine.monotonic() + seconds
        peak: Dict[str, Any] = {}
        seen: Dict[str, List[Dict[str, Any]]] = {"NVML": [], "nvidia-smi": []}
        while machine.monotonic() < end and worker.is_running:
            for name, route in (("NVML", nvml), ("nvidia-smi", smi)):
                sample = _sample(machine, route)
                rows = [row for row in sample.processes or () if row["pid"] == worker.pid]
                seen[name] = rows or seen[name]
                if name == "NVML":
                    for key in ("utilization_percent", "power_watts", "memory_used_bytes", "sm_clock_mhz"):
                        value = sample.values[0].get(key)
                        if value is not None:
                            peak[key] = max(value, peak.get(key, value))
            time.sleep(0.5)
    found["idle"] = {key: idle.get(key) for key in peak}
    found["peak"] = peak
    if not any(peak.get(key, 0) > (idle.get(key) or 0) for key in ("utilization_percent", "power_watts")):
        found["failures"].append("no value moved under load: %s, then %s" % (found["idle"], peak))
    for name, rows in seen.items():
        if not rows:
            found["notes"].append("the load (pid %d) was not listed by %s" % (worker.pid, name))
        elif rows[0].get("user") not in (None, getpass.getuser()):
            found["failures"].append("the load is of %s, said %s" % (getpass.getuser(), rows[0].get("user")))


def _samples(machine: Machine, route: Any, count: int, interval: float) -> List[Any]:
    samples = []
    for _ in range(count):
        samples.append(_sample(machine, route))
        time.sleep(interval / 2)
    return samples


def _sample(machine: Machine, route: Any) -> Any:
    return route.sample(machine.monotonic() + 10.0)


def _run_agent(library: Optional[str]) -> Dict[str, Any]:
    """The agent as a program of its own: how soon it speaks, what it costs, and whether it ends."""
    command = "import sys; sys.path[:0] = %r; from gputop.remote.agent import main; main('t')" % (sys.path,)
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    figures: Dict[str, Any] = {"problem": None}
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        wanted = '{"interval": 0.5, "nvml_library": %s}' % ("null" if library is None else '"%s"' % library)
        process.stdin.write(b"options " + wanted.encode() + b"\n")
        process.stdin.flush()
        frames = 0
        while frames < 10:
            line = process.stdout.readline()
            if not line:
                figures["problem"] = "the agent ended after %d frames" % frames
                break
            frames += b'"k":"frame"' in line
            if frames == 1:
                figures.setdefault("first_frame_seconds", round(time.monotonic() - began, 2))
        with open("/proc/%d/stat" % process.pid) as file:
            words = file.read().rpartition(")")[2].split()
        seconds = time.monotonic() - began
        ticks = int(words[11]) + int(words[12])
        figures["cpu_percent"] = round(100.0 * ticks / os.sysconf("SC_CLK_TCK") / seconds, 1)
        figures["memory_mib"] = round(int(words[21]) * os.sysconf("SC_PAGE_SIZE") / 1048576.0, 1)
        process.stdin.write(b"stop\n")
        process.stdin.close()
        began = time.monotonic()
        process.stdout.read()
        process.wait(timeout=5)
        figures["end_seconds"] = round(time.monotonic() - began, 2)
    except (OSError, subprocess.TimeoutExpired) as error:
        figures["problem"] = "the agent: %s" % error
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
    return figures


def _outputs(machine: Machine, program: str) -> Any:
    """Texts by name of fixture, and seconds that each took."""
    texts: Dict[str, str] = {}
    figures: List[Dict[str, Any]] = []
    names = sorted(nvidia_smi.offered(machine.run([program, "--help-query-gpu"], 20.0)[1]))
    every = ("query-gpu.csv", ["--query-gpu=" + ",".join(names), "--format=csv"])
    for name, arguments in (*OUTPUTS, every):
        began = time.monotonic()
        status, output = machine.run([program, *arguments], 20.0)
        figures.append({"name": name, "status": status, "seconds": round(time.monotonic() - began, 2)})
        texts[name] = output
    return texts, figures


def children() -> "set[int]":
    """Process ids of our children, and of theirs."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open("/proc/%s/stat" % entry) as file:
                    words = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if words[0] != "Z":
                parents[int(entry)] = int(words[1])
    found = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return found - {os.getpid()}
        found |= more


def _say(words: str) -> None:
    sys.stderr.write("gpu-check: %s\n" % words)
