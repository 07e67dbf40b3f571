"""gputop's own cost while it watches 20 and 100 hosts of 8 GPUs at 1 Hz.   usage: python -m benchmarks [--help]

The hosts are SSH servers in one other process on loopback (`benchmarks.hosts`), gputop runs in a pseudo-terminal
(`benchmarks.terminal`). Figures are medians over runs; the load of the hosts, of this program and of whatever else runs
is measured beside them, since it shares the machine with gputop: 100 % is one core.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.terminal import Terminal, cpu_seconds, machine_cpu_seconds, memory_bytes

SIZES = (20, 100)
COLUMNS, LINES = 120, 36
SETTLE_SECONDS = 5.0
WINDOW_SECONDS = 20.0
KEYS = 60
DEFAULT_OUTPUT = Path("build/bench.json")


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured quantity."""

    key: str
    title: str
    target: float | None
    """At 100 hosts, at most; `None`: stated, not judged."""


FIGURES = (
    Figure("cpu_percent", "CPU, % of one core", 10.0),
    Figure("memory_mib", "memory, MiB", None),
    Figure("key_p50_ms", "key press to paint, median, ms", None),
    Figure("key_p95_ms", "key press to paint, 95th percentile, ms", 50.0),
    Figure("first_paint_seconds", "start to first paint, s", 0.6),
    Figure("all_shown_seconds", "start to all hosts shown, s", 5.0),
    Figure("terminal_kb_per_second", "to the terminal, kB/s", 25.0),
    Figure("hosts_cpu_percent", "(the hosts' process, CPU %)", None),
    Figure("harness_cpu_percent", "(this program, CPU %)", None),
    Figure("others_cpu_percent", "(the rest of the machine, CPU %)", None),
)


@contextmanager
def streaming_hosts(count: int, folder: Path) -> Iterator[int]:
    """Hosts that answer; yields the pid of their process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.hosts", str(count), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline() != b"listening\n":
            raise RuntimeError("the hosts did not start; their words are above")
        yield process.pid
    finally:
        process.stdin.close()
        process.wait(timeout=20)
        process.stdout.close()


def environment(home: Path) -> dict[str, str]:
    """A clean one: no settings, no ssh files, no agent of the person who measures."""
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
    }


def one_run(count: int, rng: random.Random) -> dict[str, float]:
    """All figures of one start of gputop with `count` hosts."""
    with TemporaryDirectory(prefix="gputop-bench-") as name, streaming_hosts(count, Path(name)) as hosts_pid:
        gputop = str(Path(sys.executable).parent / "gputop")
        argv = [gputop, "--inventory", f"{name}/inventory.yaml"]
        with Terminal(argv, environment(Path(name)), columns=COLUMNS, lines=LINES) as terminal:
            return measured(terminal, count, hosts_pid, rng)


def measured(terminal: Terminal, count: int, hosts_pid: int, rng: random.Random) -> dict[str, float]:
    begun = terminal.started_at
    first_paint = terminal.wait(lambda: "HOST" in terminal.text(), "first paint", step=6.0) - begun
    all_shown = terminal.wait(lambda: f" {count} ok" in terminal.text(), "sight of all hosts", step=3.0) - begun
    time.sleep(SETTLE_SECONDS)

    pids = (terminal.pid, hosts_pid, os.getpid())
    before = [machine_cpu_seconds(), *map(cpu_seconds, pids)]
    bytes_before, window_begun = terminal.bytes_received, time.monotonic()
    time.sleep(WINDOW_SECONDS)
    window = time.monotonic() - window_begun
    after = [machine_cpu_seconds(), *map(cpu_seconds, pids)]
    everything, own, hosts, harness = (100 * (now - was) / window for now, was in zip(after, before, strict=True))
    kilobytes = (terminal.bytes_received - bytes_before) / window / 1000
    memory = memory_bytes(terminal.pid)

    delays = sorted(key_delays(terminal, rng))
    return {
        "cpu_percent": own,
        "memory_mib": memory / 2**20,
        "key_p50_ms": 1000 * median(delays),
        "key_p95_ms": 1000 * delays[math.ceil(0.95 * len(delays)) - 1],
        "first_paint_seconds": first_paint,
        "all_shown_seconds": all_shown,
        "terminal_kb_per_second": kilobytes,
        "hosts_cpu_percent": hosts,
        "harness_cpu_percent": harness,
        "others_cpu_percent": max(0.0, everything - own - hosts - harness),
    }


def key_delays(terminal: Terminal, rng: random.Random) -> Iterator[float]:
    """Seconds from a cursor key to the paint that shows the cursor on its new line, at random moments."""
    for number in range(KEYS):
        time.sleep(rng.uniform(0.1, 0.5))
        terminal.catch_up()
        before = terminal.backgrounds()
        pressed = time.monotonic()
        terminal.press("j" if number % 8 < 4 else "k")
        yield terminal.wait(lambda was=before: terminal.backgrounds() != was, "cursor move", step=0.4) - pressed  # type: ignore[misc]


def report(medians: dict[int, dict[str, float]]) -> str:
    """The table for people."""
    small, large = SIZES
    head = f"{'':44}{small:>8} hosts{large:>8} hosts{'ratio':>8}{'target':>10}"
    lines = [head]
    for figure in FIGURES:
        few, many = medians[small][figure.key], medians[large][figure.key]
        ratio = f"{many / few:.1f}" if few else "–"
        target = "" if figure.target is None else f"<= {figure.target:g}"
        verdict = "" if figure.target is None else ("  met" if many <= figure.target else "  MISSED")
        lines.append(f"{figure.title:44}{few:>14.2f}{many:>14.2f}{ratio:>8}{target:>10}{verdict}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs of each size; figures are their medians")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT, help="where the figures go, as JSON")
    args = parser.parse_args()

    rng = random.Random(1)
    runs: dict[int, list[dict[str, float]]] = {count: [] for count in SIZES}
    for number in range(args.runs):
        for count in SIZES:
            print(f"run {number + 1} of {args.runs}: {count} hosts", file=sys.stderr, flush=True)
            runs[count].append(one_run(count, rng))
    medians = {
        count: {figure.key: round(median(run[figure.key] for run in ran), 3) for figure in FIGURES}
        for count, ran in runs.items()
    }
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "terminal": f"{COLUMNS}x{LINES}"}
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps({"machine": machine, "medians": medians, "runs": runs}, indent=2) + "\n")
    print(f"{machine['cores']} cores, Python {machine['python']}, terminal {machine['terminal']}, {args.runs} runs\n")
    print(report(medians))
    print(f"\nwritten to {args.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
