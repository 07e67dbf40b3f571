"""`nvidia-bug-report.log`: the outputs of many tools, one below the other."""

from __future__ import annotations

import re

_BEGIN = "Start of NVIDIA bug report log file"
_BORDER = re.compile(r"^_{20,}\s*$", re.MULTILINE)


def looks_like(text: str) -> bool:
    return _BEGIN in text[:4000] or (text.count("\n*** ") > 3 and len(_BORDER.findall(text)) > 3)


def sections(text: str) -> list[str]:
    """The single outputs. A section begins with its command or, after `***`, its file."""
    return [part.strip("\n") + "\n" for part in _BORDER.split(text) if part.strip()]
