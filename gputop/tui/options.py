"""How the screen is to look and behave."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import tzinfo

from textual.theme import Theme


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenOptions:
    """How the screen is to look and behave."""

    theme: Theme
    ascii_only: bool = False
    mouse: bool = False
    keymap: dict[str, str] = field(default_factory=dict)
    title: str = ""
    """Shown in the header: the inventory's name."""
    zone: tzinfo | None = None
    """Times are shown in it; `None`: this machine's."""
    view: str = "hosts"
    """`hosts`, `gpus`, `processes` or `host:NAME`."""
    interval_seconds: float = 2.0
    """Where `+` and `_` start from."""
