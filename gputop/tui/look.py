"""What drawing depends on besides the Fleet, and the signs and words of states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo

from gputop.actions.marks import Mark
from gputop.catalog.words import THROTTLE_REASONS
from gputop.domain.link import LinkState
from gputop.fleet.series import BUCKET_SECONDS, SeriesStore
from gputop.tui.draw import Span, Spans, to_ascii


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How to draw: the same Fleet and the same Look give the same screen."""

    as_of: datetime
    series: SeriesStore = field(default_factory=SeriesStore)
    ascii_only: bool = False
    zone: tzinfo | None = None
    """Times are shown in it; `None`: this machine's."""
    acts: Mapping[str, Mark] = field(default_factory=dict)
    """What acts have made of hosts."""

    @property
    def phase(self) -> int:
        """Number of the newest bucket of trends, in absolute time."""
        return int(self.as_of.timestamp() // BUCKET_SECONDS)

    def plain(self, spans: Spans) -> Spans:
        """`spans` in ASCII where only that can be drawn."""
        return tuple((to_ascii(text), name) for text, name in spans) if self.ascii_only else spans


ABSENT: Span = ("–", "faint")

SIGNS: dict[LinkState, Span] = {
    LinkState.OK: ("●", "ok"),
    LinkState.DEGRADED: ("▲", "warn"),
    LinkState.STALE: ("◌", "warn"),
    LinkState.THROTTLED: ("◌", "warn"),
    LinkState.UNREACHABLE: ("✕", "bad"),
    LinkState.AUTH_FAILED: ("✕", "bad"),
    LinkState.HOST_KEY_REJECTED: ("✕", "bad"),
    LinkState.UNSUPPORTED: ("✕", "bad"),
    LinkState.PENDING: ("○", "dim"),
    LinkState.CONNECTING: ("○", "dim"),
}

WORDS: dict[LinkState, str] = {state: state.value.replace("-", " ") for state in LinkState}
"""Their names, as in the JSON output and in the docs."""

SHORT_WORDS: dict[LinkState, str] = WORDS | {LinkState.HOST_KEY_REJECTED: "host key"}
"""At most 11 cells, for columns that are no wider."""

LOST: Span = ("✕", "bad")
TROUBLED: Span = ("▲", "warn")


def why_slow(reasons: list[str] | None) -> Span:
    """The worst reason in words; blank when there is none, `–` when it is not known."""
    if reasons is None:
        return ABSENT
    for name, reason in THROTTLE_REASONS.items():
        if name in reasons and reason.short:
            return (reason.short, "dim" if reason.is_calm else "warn")
    return ("", "text")
