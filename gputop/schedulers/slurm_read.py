"""Reads what Slurm's programs print, as text and as JSON, from 22.05 on. Never raises but `Unreadable`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from gputop.domain.job import Job
from gputop.schedulers.slurm_state import (
    FINISHED,
    Gres,
    SlurmState,
    expand_nodes,
    gpus_of,
    parse_gres,
    parse_state,
    parse_time,
    state_of,
)

JOB_FORMAT = "%A|%i|%T|%u|%P|%N|%S|%e|%b|%j"
"""For `squeue -o`: the name comes last, for its owner may write anything into it."""

_REASON = re.compile(
    r"(?P<why>.*?)\s*\[(?P<by>[^@\]\s]*)@(?P<at>\d{4}-\d\d-\d\dT[\d:]+)\](?=\s*$|\s{2,}|\s+(?:Comment|Extra|ResvName|ReservationName)=)"
)
"""What stands at `Reason=`. Who and when follow its first line; further lines stand behind them, indented."""

_PART = re.compile(r"\d+[_+]\d+")


class Unreadable(Exception):
    """The output is not what the program prints; it says nothing."""


class SlurmNode(Struct, frozen=True, kw_only=True):
    """A node as Slurm has it."""

    name: str
    address: str = ""
    hostname: str = ""
    state: SlurmState
    reason: str | None = None
    reason_by: str | None = None
    reason_at: datetime | None = None
    booted_at: datetime | None = None
    gres: Gres = Gres()


class SlurmJob(Struct, frozen=True, kw_only=True):
    job: Job
    gpus: Mapping[str, int] = {}
    """On each node, where Slurm says so."""


def parse_nodes(text: str) -> list[SlurmNode]:
    """`scontrol -d show node -o`, one node a line."""
    return [_node(line) for line in text.splitlines() if line.strip()]


def parse_nodes_json(text: bytes) -> list[SlurmNode]:
    """`scontrol show node --json` (23.02 and later), or `sinfo --json` of 22.05."""
    return [_node_json(node) for node in _records(text, "nodes")]


def parse_jobs(text: str) -> list[SlurmJob]:
    """`squeue -h -o JOB_FORMAT`."""
    return [_job(line) for line in text.splitlines() if line.strip()]


def parse_jobs_json(text: bytes) -> list[SlurmJob]:
    """`squeue --json` of 22.05 and later. 22.05 ignores the choice of nodes and lists finished jobs too."""
    return [_job_json(job) for job in _records(text, "jobs")]


def parse_controllers(text: str) -> tuple[str, ...]:
    """Names and addresses of the machines that run slurmctld, from `scontrol show config`."""
    found = re.findall(r"^SlurmctldHost\[\d+\]\s*=\s*([^\s(]+)(?:\(([^)\s]*)\))?", text, re.MULTILINE)
    return tuple(name for pair in found for name in pair if name)


# --- text ----------------------------------------------------------------------------------------------------------


def _fields(line: str) -> dict[str, str]:
    """`Key=value Key=value …`; values may hold blanks."""
    parts = re.split(r"(?:^|\s+)([A-Z][A-Za-z_]*)=", line)
    fields: dict[str, str] = {}
    for key, value in zip(parts[1::2], parts[2::2], strict=True):
        fields.setdefault(key, value.strip())
    return fields


def _node(line: str) -> SlurmNode:
    own, _, written = line.partition(
        " Reason="
    )  # Reason, Comment and Extra stand last: people may write "State=" there
    fields = _fields(own)
    if not fields.get("NodeName") or not fields.get("State"):
        raise Unreadable("a line of scontrol show node names no node or no state")
    reason = _REASON.match(written)
    return SlurmNode(
        name=fields["NodeName"],
        address=fields.get("NodeAddr", ""),
        hostname=fields.get("NodeHostName", ""),
        state=parse_state(fields["State"]),
        reason=(reason["why"] if reason else written.strip()) or None,
        reason_by=reason["by"] if reason else None,
        reason_at=parse_time(reason["at"]) if reason else None,
        booted_at=parse_time(fields.get("BootTime")),
        gres=parse_gres(fields.get("Gres"), fields.get("GresUsed")),
    )


def _job(line: str) -> SlurmJob:
    parts = line.split("|", 9)
    if len(parts) != 10 or not parts[0].strip().isdigit():
        raise Unreadable("a line of squeue is no job")
    number, handle, state, user, partition, nodes, start, end, gres, name = (part.strip() for part in parts)
    names = expand_nodes(nodes)
    gpus = gpus_of(gres)
    job = Job(
        id=number,
        part=handle if _PART.fullmatch(handle) else None,
        name=name or None,
        user=user or None,
        state=state,
        partition=partition or None,
        nodes=names,
        started_at=parse_time(start),
        ends_at=parse_time(end),
    )
    return SlurmJob(job=job, gpus=dict.fromkeys(names, gpus) if gpus is not None else {})


# --- JSON ----------------------------------------------------------------------------------------------------------


def _records(text: bytes, key: str) -> list[dict[str, Any]]:
    try:
        document = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Unreadable(f"no JSON: {error}") from None
    records = document.get(key) if isinstance(document, dict) else None
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise Unreadable(f"the JSON holds no {key}")
    if document.get("errors"):
        raise Unreadable(f"Slurm reports errors beside the {key}")
    return records


def _node_json(node: Mapping[str, Any]) -> SlurmNode:
    words = [*_words(node.get("state")), *_words(node.get("state_flags"))]
    reason = _text(node.get("reason")) or None
    if not node.get("name") or not words:
        raise Unreadable("a node without a name or a state")
    return SlurmNode(
        name=str(node["name"]),
        address=_text(node.get("address")),
        hostname=_text(node.get("hostname")),
        state=state_of(words[0], words[1:]),
        reason=reason,
        reason_by=_text(node.get("reason_set_by_user")) or None if reason else None,
        reason_at=_time(node.get("reason_changed_at")) if reason else None,
        booted_at=_time(node.get("boot_time")),
        gres=parse_gres(_text(node.get("gres")), _text(node.get("gres_used"))),
    )


def _job_json(job: Mapping[str, Any]) -> SlurmJob:
    states = _words(job.get("job_state"))
    number = _number(job.get("job_id"))
    if number is None or not states:
        raise Unreadable("a job without a number or a state")
    names = expand_nodes(_text(job.get("nodes")))
    details = job.get("gres_detail")
    listed = details if isinstance(details, list) and len(details) == len(names) else []
    gpus = {name: count for name, text in zip(names, listed, strict=False) if (count := gpus_of(_text(text)))}
    limited = _number(job.get("time_limit")) is not None
    requeue = job.get("requeue")
    value = Job(
        id=str(number),
        part=_part(job),
        name=_text(job.get("name")) or None,
        user=_text(job.get("user_name")) or None,
        state="COMPLETING" if "COMPLETING" in states else states[0],
        partition=_text(job.get("partition")) or None,
        nodes=names,
        started_at=_time(job.get("start_time")),
        ends_at=_time(job.get("end_time")) if limited else None,
        requeueable=requeue if isinstance(requeue, bool) else None,
    )
    return SlurmJob(job=value, gpus=gpus)


def _part(job: Mapping[str, Any]) -> str | None:
    """Which task of an array, or part of a heterogeneous job, it is."""
    array, task = _number(job.get("array_job_id")), _number(job.get("array_task_id"))
    if array and task is not None:
        return f"{array}_{task}"
    whole, offset = _number(job.get("het_job_id")), _number(job.get("het_job_offset"))
    return f"{whole}+{offset}" if whole and offset is not None else None


def holds_nodes(job: Job) -> bool:
    """Whether a job still has its nodes: finished ones are listed for a while."""
    return job.state not in FINISHED and bool(job.nodes)


def _words(value: Any) -> list[str]:
    """22.05 writes a state as a word, later versions as a list of words."""
    words = value if isinstance(value, list) else [value]
    return [word.upper() for word in words if isinstance(word, str) and word]


def _number(value: Any) -> int | None:
    """22.05 writes plain numbers, later versions `{"set", "infinite", "number"}`."""
    if isinstance(value, dict):
        return _number(value.get("number")) if value.get("set") and not value.get("infinite") else None
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _time(value: Any) -> datetime | None:
    seconds = _number(value)
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds else None
    except (OverflowError, ValueError, OSError):
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
