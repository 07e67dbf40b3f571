"""Words and waits that tests of acts share."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from tests.acts.conftest import Gputop

REASON = ("--reason", "replace NIC, ticket 4711")
DO = ("--allow-actions", "--yes")


def audit_of(gputop: Gputop, *filters: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gputop("audit", "--format", "json", *filters).stdout.splitlines()]


def wait_for(holds: Callable[[], bool], what: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
