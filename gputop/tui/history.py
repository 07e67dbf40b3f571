"""Where the user has been: views and pages of hosts and GPUs, for `-`, `[` and `]`."""

from __future__ import annotations

from dataclasses import dataclass, field

LONGEST = 100


@dataclass
class History:
    """Places visited, the newest last. A place is a view's id, `host:NAME` or `gpu:NAME:KEY`."""

    places: list[str] = field(default_factory=list)
    here: int = -1

    def visit(self, place: str) -> None:
        """Go to a new place; what was ahead is forgotten."""
        if self.places and self.places[self.here] == place:
            return
        self.places = [*self.places[: self.here + 1], place][-LONGEST:]
        self.here = len(self.places) - 1

    def back(self) -> str | None:
        """One step back; `None` at the beginning."""
        if self.here <= 0:
            return None
        self.here -= 1
        return self.places[self.here]

    def forward(self) -> str | None:
        """One step forward; `None` at the end."""
        if self.here + 1 >= len(self.places):
            return None
        self.here += 1
        return self.places[self.here]

    def last(self) -> str | None:
        """The place before this one."""
        return self.places[self.here - 1] if self.here > 0 else None
