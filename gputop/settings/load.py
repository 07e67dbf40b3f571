"""The settings file to `Settings`, or every problem with its place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from gputop.configfile import ConfigProblem, Keys, read
from gputop.domain.host import INTERVAL_SECONDS
from gputop.settings.schema import Settings


def load(path: Path) -> Settings | list[ConfigProblem]:
    """The settings at `path`, or what is wrong with them. No file means no wishes."""
    if not os.path.exists(path):
        return Settings()
    document = read(path, Settings, title=_title, empty=Settings())
    if isinstance(document, list):
        return document
    interval = document.value.interval
    shortest, longest = INTERVAL_SECONDS
    if interval is not None and not shortest <= interval.total_seconds() <= longest:
        return [document.problem(("interval",), '"interval" must be between 100ms and 1h')]
    return document.value


def _title(keys: Keys, values: Mapping[str, str]) -> str:
    return str(keys[-1]) if keys else "the settings"
