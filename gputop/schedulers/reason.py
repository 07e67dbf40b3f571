"""The words gputop leaves at a node that it takes out of service, so that everybody sees who did it and why."""

from __future__ import annotations

import re

from msgspec import Struct

from gputop.domain.action import ActionRequest, Block, Consent
from gputop.domain.job import NodeState

LIMIT = 200
"""Characters of a reason that are kept."""

_TICKET = re.compile(r"\b[A-Z][A-Z0-9]+-\d+\b|#\d+\b|(?<=\bticket )\d+\b")
_OURS = re.compile(r"gputop:(?P<by>[^:\s]*):(?P<ticket>[^:\s]*): ?(?P<why>.*)", re.DOTALL)


class Reason(Struct, frozen=True, kw_only=True):
    """`gputop:USER:TICKET: WHY`. No ticket: `-`."""

    by: str
    ticket: str
    why: str


def reason_of(request: ActionRequest) -> str:
    """`gputop:alice:OPS-12: replace NIC, OPS-12`: one line without quotes and controls, whatever was typed."""
    why = _line(request.reason) or request.kind.value
    ticket = _TICKET.search(why)
    user = re.sub(r"[:\s]", "_", _line(request.by)) or "unknown"
    return f"gputop:{user}:{ticket.group() if ticket else '-'}: {why}"[:LIMIT].rstrip()


def parse_reason(text: str | None) -> Reason | None:
    """What gputop wrote; `None`: these are not its words."""
    match = _OURS.fullmatch(text or "")
    return Reason(**match.groupdict()) if match else None


def not_ours(node: NodeState, request: ActionRequest) -> Block | None:
    """A block when the node was taken out of service by anybody but the asking user through gputop: that person may
    still be at it. A consent or an override sets it aside."""
    ours = parse_reason(node.reason)
    if ours is not None and ours.by == request.by:
        return None
    if request.override or Consent.DRAINED_BY_OTHER in request.consents:
        return None
    by = ours.by if ours is not None else node.by
    when = f" at {node.since:%Y-%m-%d %H:%M} UTC" if node.since is not None else ""
    why = (ours.why if ours is not None else node.reason) or "no reason given"
    return Block(
        kind=Consent.DRAINED_BY_OTHER,
        summary=f"taken out of service by {by or 'somebody unknown'}{when}: {why}",
        hint=f"{f'ask {by}' if by else 'find out who'} first; then --consent {Consent.DRAINED_BY_OTHER}, or "
        "--override REASON, which sets the gate aside too",
        consent=Consent.DRAINED_BY_OTHER,
    )


def _line(text: str) -> str:
    printable = "".join(c if c.isprintable() else " " for c in text).replace('"', "'")
    return " ".join(printable.split())
