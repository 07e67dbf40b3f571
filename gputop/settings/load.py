"""The settings file to `Settings`, or every problem with its place."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from gputop.configfile import ConfigProblem, Document, Keys, read
from gputop.domain.host import INTERVAL_SECONDS
from gputop.settings.schema import Settings


def load(
    path: Path, check: Callable[[Document[Settings]], list[ConfigProblem]] = lambda document: []
) -> Settings | list[ConfigProblem]:
    """The settings at `path`, or all that is wrong with them. No file means no wishes. `check`: what only layers above
    can judge."""
    if not os.path.exists(path):
        return Settings()
    document = read(path, Settings, title=_title, empty=Settings())
    if isinstance(document, list):
        return document
    problems = []
    interval = document.value.interval
    shortest, longest = INTERVAL_SECONDS
    if interval is not None and not shortest <= interval.total_seconds() <= longest:
        problems.append(document.problem(("interval",), '"interval" must be between 100ms and 1h'))
    return problems + check(document) or document.value


def _title(keys: Keys, values: Mapping[str, str]) -> str:
    return str(keys[-1]) if keys else "the settings"
