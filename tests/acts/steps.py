"""Words and waits that tests of acts share."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
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


def cut_after(step: str, event: str, folder: Path) -> str:
    """As if the newest plan had been killed right after it wrote down that `step` began or ended; its id."""
    journal = max((folder / "state" / "gputop" / "plans").glob("*.jsonl"))
    lines = journal.read_text().splitlines(keepends=True)
    [last] = [number for number, line in enumerate(lines) if f'"{event}"' in line[:20] and f'"{step}"' in line]
    journal.write_text("".join(lines[: last + 1]))
    return journal.stem
