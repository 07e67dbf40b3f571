"""The agent on a machine that was recorded: `python recorded_machine.py FOLDER SIZE TOKEN`.

FOLDER holds `files/` (what is read from /proc, /sys, /dev; what is not there is taken from `common`) and `commands/`
(what programs print). A recording in `commands/` is named after its command line, blanks written as `_`:
`amd-smi_metric_--json.txt`. A command takes the longest name that it begins with. Beside NAME.txt may stand NAME.status
(its exit status), NAME.hang (it prints and does not end) or NAME.stream (its last line is printed again and again).
`files/dev/kmsg` is followed as it grows.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from gputop.remote.agent import Agent
from gputop.remote.machine import Child, Machine

COMMON = Path(__file__).parents[1] / "fixtures" / "machines" / "common" / "files"
REPLAY = Path(__file__).parent / "replay.sh"


class RecordedMachine(Machine):
    """Files and programs out of a folder; time, threads and the conversation are real."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder / "files"))
        self._commands = folder / "commands"

    def text(self, path: str) -> str | None:
        return super().text(path) or Machine(str(COMMON)).text(path)

    def find_program(self, names: tuple[str, ...]) -> str | None:
        recorded = {path.name.partition(".")[0].partition("_")[0] for path in self._commands.glob("*")}
        return next((name for name in names if "/" not in name and name in recorded), None)

    def start(self, command: list[str]) -> Child:
        popen = subprocess.Popen(
            ["/bin/sh", str(REPLAY), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "REPLAY": str(self._commands)},
            start_new_session=True,
            preexec_fn=self._die_with_parent,
        )
        child = Child(popen)
        self._children.append(child)
        return child

    def records(self, path: str) -> Iterator[str]:
        with open(self.root + path, encoding="utf-8", errors="replace") as file:
            while True:
                line = file.readline()
                if line:
                    yield line
                else:
                    time.sleep(0.02)

    def load_library(self, path: str) -> object:
        raise OSError(f"{path}: cannot open shared object file: No such file or directory")


def main() -> None:
    folder, size, token = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    sys.stdout.write(token + "\n")
    sys.stdout.flush()
    sys.stdin.buffer.read(size)
    threading.excepthook = lambda args: os._exit(1)
    Agent(RecordedMachine(folder), token).run()


if __name__ == "__main__":
    main()
