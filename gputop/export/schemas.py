"""JSON Schemas of what `gputop` prints about acts, made from the code's own types."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from gputop.domain.action import Outcome, Plan, Seen, Verdict
from gputop.domain.record import AuditRecord, Lease, Standing
from gputop.export.to_json import schema


class Act(Struct, kw_only=True):
    """Of `gputop drain` and the other acts, and of what goes on with their plans."""

    schema: str
    plan: Plan
    verdict: Verdict | None
    outcomes: list[Outcome] | None
    """`None`: nothing was done."""
    closed: str | None = None
    """Of `gputop actions --resume` and the like: how the plan was closed; `None`: it is unfinished."""


class KnownLease(Lease, frozen=True, kw_only=True):
    standing: Standing
    now: Seen | None
    """`None`: nobody looked."""


class Actions(Struct, kw_only=True):
    """Of `gputop actions`."""

    schema: str
    unfinished: list[Plan]
    in_progress: list[Plan]
    leases: list[KnownLease]
    now: dict[str, Seen] | None = None
    """Where hosts stand, by name; `None`: nobody looked."""


DOCUMENTS: dict[str, tuple[str, type[Struct]]] = {
    "act": ("gputop-act/1", Act),
    "actions": ("gputop-actions/1", Actions),
    "audit": ("one record a line", AuditRecord),
}
"""Title and type, by the word that names it."""


def schema_of(document: str) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of `snapshot` or one of `DOCUMENTS`. Further keys may come, so unknown ones are
    allowed."""
    if document == "snapshot":
        return schema()
    title, kind = DOCUMENTS[document]
    made = msgspec.json.schema(kind)
    step = made["$defs"].get("Step") if "$defs" in made else None
    if step is not None:  # what would be run, as one line: derived, not stored
        step["properties"]["command"] = {"type": "string"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **made}
