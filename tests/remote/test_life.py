"""How an agent ends: quickly, whatever happens, with everything it started, and leaving nothing behind."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
import termios
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputop.domain.problem import ProblemKind
from gputop.probes.bundle import bundle, command
from gputop.probes.reader import WireReader
from tests.remote.agents import NvmlFixture, alive, descendants, kill, talking, wait_until
from tests.remote.conftest import SmiFixture

GONE_SECONDS = 2.0


class Agent:
    """An agent spoken to by hand: its bootstrap command run by a shell, as sshd would."""

    def __init__(self, **options: Any) -> None:
        self.token = secrets.token_hex(16)
        payload = bundle().payload
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", command(len(payload), self.token, sys.executable)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._reader = WireReader(self.token)
        self._bodies: list[bytes] = []
        self.say(payload + b"options " + json.dumps({"interval": 0.1, **options}).encode() + b"\n")

    def say(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def message(self, kind: str) -> dict[str, Any]:
        """The next line of that kind."""
        assert self.process.stdout is not None
        while True:
            while self._bodies:
                body = self._bodies.pop(0)
                if body and json.loads(body)["k"] == kind:
                    found: dict[str, Any] = json.loads(body)
                    return found
            data = os.read(self.process.stdout.fileno(), 65536)
            assert data, f"the agent ended without a line of kind {kind}"
            self._bodies += self._reader.feed(data)

    def pids(self) -> set[int]:
        """The agent and all that it started."""
        return {self.process.pid, *descendants(self.process.pid)}

    def unread_bytes(self) -> int:
        """What it has written and nobody has read."""
        assert self.process.stdout is not None
        held = array("i", [0])
        fcntl.ioctl(self.process.stdout.fileno(), termios.FIONREAD, held)
        return held[0]

    def end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        kill(self.pids())
        self.process.wait()
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # what was not read by an agent that is gone


@pytest.fixture
def agents() -> Iterator[list[Agent]]:
    started: list[Agent] = []
    yield started
    for agent in started:
        agent.end()


@pytest.fixture
def with_nvml(nvml: NvmlFixture, library: str, agents: list[Agent]) -> Agent:
    agents.append(Agent(nvml_library=library))
    agents[0].message("frame")
    return agents[0]


@pytest.fixture
def with_smi(smi: SmiFixture, agents: list[Agent]) -> Agent:
    agents.append(Agent())
    agents[0].message("frame")
    assert len(agents[0].pids()) > 1, "no nvidia-smi beside the agent: the tests would prove nothing"
    return agents[0]


def gone(agent: Agent, pids: set[int], seconds: float = GONE_SECONDS) -> bool:
    def ended() -> bool:
        agent.process.poll()
        return not any(alive(pid) for pid in pids)

    return wait_until(ended, seconds)


@pytest.mark.parametrize("kind", ["with_nvml", "with_smi"])
def test_the_end_of_its_input_ends_it_and_all_that_it_started(kind: str, request: pytest.FixtureRequest) -> None:
    agent: Agent = request.getfixturevalue(kind)
    pids = agent.pids()
    assert agent.process.stdin is not None
    agent.process.stdin.close()
    assert gone(agent, pids)


@pytest.mark.parametrize("kind", ["with_nvml", "with_smi"])
def test_stop_ends_it_with_a_last_line(kind: str, request: pytest.FixtureRequest) -> None:
    agent: Agent = request.getfixturevalue(kind)
    pids = agent.pids()
    agent.say(b"stop\n")
    assert agent.message("bye")["reason"] == "stop"
    assert gone(agent, pids)


@pytest.mark.parametrize("ending", ["eof", "stop"])
def test_it_ends_also_when_it_is_blocked_in_a_write(with_smi: Agent, ending: str) -> None:
    sizes = [0]

    def stuck() -> bool:
        """Nobody reads: at last the pipe holds no more, and however often it is asked, nothing is added."""
        with_smi.say(b"sample\n")
        sizes.append(with_smi.unread_bytes())
        return sizes[-1] > 60_000 and len(set(sizes[-10:])) == 1

    pids = with_smi.pids()
    assert wait_until(stuck)
    if ending == "eof":
        assert with_smi.process.stdin is not None
        with_smi.process.stdin.close()
    else:
        with_smi.say(b"stop\n")
    assert gone(with_smi, pids)


def test_silence_of_the_controller_ends_it(smi: SmiFixture, agents: list[Agent]) -> None:
    agents.append(Agent(silence=3))
    agents[0].message("frame")
    pids = agents[0].pids()
    assert len(pids) > 1
    assert gone(agents[0], pids, seconds=10)
    assert agents[0].process.wait() == -signal.SIGALRM


def test_a_heartbeat_keeps_it_alive(nvml: NvmlFixture, library: str, agents: list[Agent]) -> None:
    agents.append(Agent(silence=2, nvml_library=library, interval=0.5))
    for _ in range(8):
        agents[0].message("frame")
        agents[0].say(b"\n")
    assert alive(agents[0].process.pid)


def test_killing_it_kills_what_it_started(with_smi: Agent) -> None:
    pids = with_smi.pids()
    with_smi.process.kill()
    assert gone(with_smi, pids)


def test_the_controller_killed_with_9_ends_it(nvml: NvmlFixture, library: str, tmp_path: Path) -> None:
    program = tmp_path / "controller.py"
    program.write_text(
        "import asyncio, sys\n"
        "from gputop.domain.clock import SystemClock\n"
        "from gputop.domain.host import HostSpec\n"
        "from gputop.probes.session import Session\n"
        "from gputop.transport.process import ProcessTransport\n"
        "async def main():\n"
        "    spec = HostSpec(name='x', nvml_library=sys.argv[1], local=True)\n"
        "    connection = await ProcessTransport().connect(spec)\n"
        "    session = Session(connection, spec, SystemClock(), interval_seconds=0.1)\n"
        "    async for frame in session.frames():\n"
        "        print(frame.sequence, flush=True)\n"
        "asyncio.run(main())\n"
    )
    controller = subprocess.Popen([sys.executable, program, library], stdout=subprocess.PIPE)
    try:
        assert controller.stdout is not None
        assert controller.stdout.readline() == b"1\n"
        pids = descendants(controller.pid)
        assert pids
        controller.kill()
        assert wait_until(lambda: not any(alive(pid) for pid in pids), GONE_SECONDS)
    finally:
        controller.kill()
        controller.communicate()


def test_nothing_is_written_to_disk(
    nvml: NvmlFixture,
    library: str,
    tmp_path: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    agents: list[Agent],
) -> None:
    def files() -> list[Path]:
        return sorted(path for folder in (home, tmp_path) for path in folder.rglob("*"))

    for variable in ("TMPDIR", "PYTHONPYCACHEPREFIX"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    before = files()
    agents.append(Agent(nvml_library=library))
    agents[0].message("frame")
    agents[0].message("frame")
    counters = Path(f"/proc/{agents[0].process.pid}/io").read_text().splitlines()
    assert "write_bytes: 0" in counters
    assert files() == before


def test_it_runs_at_a_lower_priority_and_says_what_it_costs(with_nvml: Agent) -> None:
    stat = Path(f"/proc/{with_nvml.process.pid}/stat").read_text().rpartition(")")[2].split()
    assert int(stat[16]) >= 5
    host = with_nvml.message("frame")["host"]
    assert host["agent_cpu_seconds"] > 0
    assert host["agent_memory_bytes"] > 1_000_000


def test_a_changed_interval_and_a_wish_for_a_sample_are_obeyed(
    nvml: NvmlFixture, library: str, agents: list[Agent]
) -> None:
    agents.append(Agent(nvml_library=library, interval=3600))
    assert agents[0].message("frame")["interval"] == 3600
    agents[0].say(b"sample\n")
    assert agents[0].message("frame")["n"] == 2
    agents[0].say(b"interval 0.1\n")
    assert agents[0].message("frame")["interval"] == 0.1
    assert agents[0].message("frame")["n"] == 4


def test_a_sample_that_somebody_wishes_for_has_limits_of_now(
    nvml: NvmlFixture, library: str, agents: list[Agent]
) -> None:
    agents.append(Agent(nvml_library=library, interval=3600))
    assert agents[0].message("frame")["columns"]["power_limit_watts"] == [700.0] * 8
    nvml.set(gpu__power_limit=450)
    agents[0].say(b"sample\n")
    assert agents[0].message("frame")["columns"]["power_limit_watts"] == [450.0] * 8


def test_an_interval_out_of_range_is_brought_within(nvml: NvmlFixture, library: str, agents: list[Agent]) -> None:
    agents.append(Agent(nvml_library=library, interval=0.000001))
    assert agents[0].message("frame")["interval"] == 0.1


def test_options_that_make_no_sense_end_it(agents: list[Agent]) -> None:
    agents.append(Agent(interval="soon"))
    assert agents[0].process.wait(10) == 95


def test_a_payload_that_is_cut_short_ends_it() -> None:
    line = command(1000, "token", sys.executable)
    ended = subprocess.run(["/bin/sh", "-c", line], input=b"too short", capture_output=True, timeout=20, check=False)
    assert ended.returncode == 97


async def test_an_agent_that_hangs_is_told_as_silent_and_killed(
    nvml: NvmlFixture, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputop.probes.session.SILENT_SECONDS", 1.0)
    before = descendants(os.getpid())
    async with talking(nvml_library=library, interval=0.1) as talk:
        await talk.next()
        (pid,) = descendants(os.getpid(), but=before)
        os.kill(pid, signal.SIGSTOP)
        failure = await talk.end()
        assert failure.problem.kind is ProblemKind.AGENT_SILENT
        assert not alive(pid)
