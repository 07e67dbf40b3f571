"""The fleet as JSON, and the JSON Schema of it."""

from __future__ import annotations

from typing import Any

import msgspec

from gputop.export.document import Document, document
from gputop.fleet.fleet import Fleet


def to_json(fleet: Fleet) -> str:
    """One document, indented, keys in the order of docs/reference/json.md."""
    return msgspec.json.format(msgspec.json.encode(document(fleet)), indent=2).decode() + "\n"


def schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of the document. Further keys may come, so unknown ones are allowed."""
    made = msgspec.json.schema(Document)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "gputop/1", **made}
