"""From files, folders and archives to one sample a host."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from gputop.domain.problem import ProblemKind
from gputop.readers import archive, recognize
from gputop.readers.join import join, renumber
from gputop.readers.own_bundle import TABLE, BundledHost, taken_apart
from gputop.readers.text import plain
from gputop.remote.sample import Sample, new_sample, problem


class Recording(NamedTuple):
    """What one file says."""

    name: str
    """The file's name, unique among those read together."""
    sample: Sample


def load(path: Path, tool: str | None) -> tuple[list[Recording], int]:
    """What `path` holds, and how many files of a folder or an archive were left out as of no known tool."""
    return _read(path.name or str(path), list(archive.find(path)), tool, searched=path.is_dir())


def load_bytes(name: str, data: bytes, tool: str | None) -> tuple[list[Recording], int]:
    """The same for bytes that were read from standard input."""
    return _read(name, list(archive.unpack(name, data)), tool, searched=False)


def joined(recordings: list[Recording]) -> list[Recording]:
    """Recordings of one machine as one, named after the first."""
    if len(recordings) < 2:
        return recordings
    return [Recording(recordings[0].name, join([recording.sample for recording in recordings]))]


def unique(recordings: Iterable[Recording]) -> list[Recording]:
    """Recordings with names of their own: the second `a.xml` is `a.xml (2)`."""
    taken: dict[str, int] = {}
    named = []
    for recording in recordings:
        count = taken[recording.name] = taken.get(recording.name, 0) + 1
        named.append(recording if count == 1 else recording._replace(name=f"{recording.name} ({count})"))
    return named


def _read(name: str, files: list[archive.Found], tool: str | None, *, searched: bool) -> tuple[list[Recording], int]:
    searched = searched or len(files) != 1 or files[0].name != name.removesuffix(".gz")
    hosts, files = taken_apart(files)
    recordings = [Recording(host.name, _bundled(host, tool)) for host in hosts]
    for found in files:
        sample = _sample(found, tool, searched=searched)
        if sample is not None:
            recordings.append(Recording(found.name, sample))
    if not recordings:
        sample = new_sample("file")
        sample["problems"].append(
            problem(ProblemKind.UNREADABLE_FILE.value, "no output of a known tool in it", recognize.looked_for(), None)
        )
        recordings.append(Recording(name, sample))
        return recordings, 0
    return recordings, len(files) - (len(recordings) - len(hosts))


def _bundled(host: BundledHost, tool: str | None) -> Sample:
    """All that the tools say of one host of a bundle."""
    asked = [(found, _sample(found, tool, searched=True)) for found in host.files]
    read = [(found, sample) for found, sample in asked if sample is not None]
    samples = [sample for _, sample in read]
    tables = [sample for found, sample in read if found.name.endswith("/" + TABLE)]
    telling = [sample for sample in samples if not _has_only_failed(sample)]
    if tables:
        renumber(telling, tables[0])
    sample = join(telling or samples) if samples else new_sample("file")
    for key, value in host.facts.items():
        sample["facts"].setdefault(key, value)
    if host.silence is not None:
        summary = f"it did not answer when the bundle was made: {host.silence}"
        sample["problems"].append(problem(ProblemKind.UNREADABLE_FILE.value, summary, None, None))
    elif not samples:
        summary = "the bundle has no output of a known tool of it"
        sample["problems"].append(problem(ProblemKind.UNREADABLE_FILE.value, summary, recognize.looked_for(), None))
    return sample


def _has_only_failed(sample: Sample) -> bool:
    """A side question that a tool of that version does not know says nothing of the host."""
    kinds = {found["kind"] for found in sample["problems"]}
    return kinds == {ProblemKind.TOOL_FAILED.value} and not sample["devices"] and not sample["events"]


def _sample(found: archive.Found, tool: str | None, *, searched: bool) -> Sample | None:
    """`None` for a file of no known tool that nobody named."""
    text = plain(found.data)
    if searched and found.flaw is None and not recognize.is_known(text, tool):
        return None
    sample = recognize.read_text(text, tool) if text.strip() or found.flaw is None else new_sample("file")
    if found.flaw is not None:
        sample["problems"].append(
            problem(ProblemKind.UNREADABLE_FILE.value, "the file could not be read to its end", found.flaw, None)
        )
    return sample
