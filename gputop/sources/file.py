"""Recordings of tools as a source: each file is a host that was read once and does not age."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from datetime import datetime

from msgspec import structs

from gputop.domain.event import FrameReceived, HostsChanged, LinkChanged, SourceEvent
from gputop.domain.host import HostSpec
from gputop.domain.link import Link, LinkState
from gputop.domain.problem import ProblemKind
from gputop.domain.reading import Frame
from gputop.ports import Clock
from gputop.probes.decode import Assembler, BadLine, FrameLine, HelloLine, line_of
from gputop.readers.load import Recording
from gputop.remote.sample import Sample, frame_of, hello_of, new_sample, problem

SOURCE = "file"
INTERVAL_SECONDS = 0.0
"""No newer reading is ever due, so a file is never stale."""
_WIRE_INTERVAL_SECONDS = 1.0
"""A server that said so of itself would never be stale, so the wire has no such interval."""


class FileSource:
    """A `Source` of recordings."""

    name = SOURCE

    def __init__(self, recordings: Sequence[Recording], clock: Clock) -> None:
        self._recordings = tuple(recordings)
        self._clock = clock

    async def events(self) -> AsyncIterator[SourceEvent]:
        for event in events_of(self._recordings, self._clock.now()):
            yield event

    def retry(self, hosts: Collection[str], *, by_person: bool = True) -> None:
        """A file says the same again."""

    async def let_go(self, hosts: Collection[str]) -> None:
        """Nothing runs anywhere."""

    def set_interval(self, seconds: float) -> None:
        """A file has none."""


def events_of(recordings: Sequence[Recording], at: datetime) -> list[SourceEvent]:
    """What a source tells that reads `recordings` at `at`."""
    specs = tuple(HostSpec(name=recording.name) for recording in recordings)
    events: list[SourceEvent] = [HostsChanged(source=SOURCE, hosts=specs)]
    for recording in recordings:
        link = Link(state=LinkState.OK, since=at)
        events.append(LinkChanged(host=recording.name, link=link))
        events.append(FrameReceived(host=recording.name, frame=frame(recording.sample, at)))
    return events


def frame(sample: Sample, at: datetime) -> Frame:
    """`sample` as if taken at `at`. A sample that a reader made wrongly is one that could not be read."""
    made = _assembled(sample, at)
    if isinstance(made, Frame):
        return made
    empty = new_sample(str(sample["route"]))
    empty["problems"].append(
        problem(
            ProblemKind.UNREADABLE_FILE.value,
            "gputop read this file wrongly",
            made.reason[:2000],
            "please report it, with the file",
        )
    )
    second = _assembled(empty, at)
    assert isinstance(second, Frame)
    return second


def _assembled(sample: Sample, at: datetime) -> Frame | BadLine:
    hello = line_of(hello_of(sample, _WIRE_INTERVAL_SECONDS))
    line = line_of(frame_of(sample, 1, at.timestamp(), _WIRE_INTERVAL_SECONDS))
    if not isinstance(hello, HelloLine):
        return hello if isinstance(hello, BadLine) else BadLine("no hello")
    if not isinstance(line, FrameLine):
        return line if isinstance(line, BadLine) else BadLine("no frame")
    assembler = Assembler()
    bad = assembler.hello(hello)
    made = assembler.frame(line, at) if bad is None else bad
    return structs.replace(made, interval_seconds=INTERVAL_SECONDS) if isinstance(made, Frame) else made
