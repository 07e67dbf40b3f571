"""Whether lines of `nvidia-smi -lms` come one by one, or are held back."""

import time
from typing import Any, Dict, List

from gputop.remote.machine import Machine

PERIODS = 16
_START_SECONDS = 1.0


def look(machine: Machine, program: str, period: float) -> List[Dict[str, Any]]:
    """With and without `stdbuf`: when the first line came, and in how many pieces all of them. `period` in seconds."""
    milliseconds = "%d" % (1000 * period)
    command = [program, "--query-gpu=index,temperature.gpu", "--format=csv,noheader,nounits", "-lms", milliseconds]
    rows = []
    buffering = machine.find_program(("stdbuf",))
    for name, before in (("plain", []), ("stdbuf -oL", [buffering, "-oL"])):
        if before and buffering is None:
            rows.append({"way": name, "words": "there is no stdbuf"})
            continue
        rows.append(dict(_arrivals(machine, [part for part in before if part] + command, period), way=name))
    return rows


def _arrivals(machine: Machine, command: List[str], period: float) -> Dict[str, Any]:
    began = time.monotonic()
    child = machine.start(command)
    times: List[float] = []

    def read() -> None:
        for _ in child.lines():
            times.append(time.monotonic() - began)

    machine.thread(read)
    time.sleep(_START_SECONDS + PERIODS * period)
    child.kill()
    child.wait()
    ended = time.monotonic() - began
    live = [at for at in times if at < ended - 0.1]  # what was held back comes when the program ends, if at all
    pieces = sum(later - earlier > period / 2 for earlier, later in zip(live, live[1:])) + bool(live)
    return {
        "first_seconds": round(live[0], 2) if live else None,
        "lines": len(live),
        "pieces": pieces,
        "words": "line by line" if pieces >= PERIODS / 3 else "held back",
    }
