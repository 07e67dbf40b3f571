"""Fixed-length histories for sparklines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from statistics import fmean

from gputop.domain.reading import Frame

SERIES_METRICS: tuple[str, ...] = ("utilization_percent", "memory_percent")
"""What is kept for each device and, as the mean over its devices, for each host. All 0 to 100."""

WINDOW_SECONDS = 300.0
"""How far back the screen looks."""

BUCKETS = 60
"""Buckets in the window; each holds the mean of the values that fell into it."""

BUCKET_SECONDS = WINDOW_SECONDS / BUCKETS

HELD_INTERVALS = 1.5
"""A value counts until the next one is due, and a little longer, since that one may be late."""

HOST = ""
"""Device key under which a host's own series is kept."""

Key = tuple[str, str, str]
"""Host name, device key, metric."""


class _Ring:
    """Means of the last `BUCKETS` buckets of time."""

    __slots__ = ("counts", "held_until", "last", "newest", "sums")

    def __init__(self) -> None:
        self.sums = [0.0] * BUCKETS
        self.counts = [0] * BUCKETS
        self.newest = -1
        self.last = 0.0
        self.held_until = -1
        """The last bucket for which the newest value still counts when no other comes."""

    def push(self, bucket: int, value: float, held_until: int) -> None:
        if bucket <= self.newest - BUCKETS:
            return
        for passed in range(max(self.newest, bucket - BUCKETS) + 1, bucket + 1):
            is_held = passed <= self.held_until and passed < bucket
            self.sums[passed % BUCKETS] = self.last if is_held else 0.0
            self.counts[passed % BUCKETS] = int(is_held)
        self.sums[bucket % BUCKETS] += value
        self.counts[bucket % BUCKETS] += 1
        if bucket >= self.newest:
            self.newest, self.last, self.held_until = bucket, value, held_until

    def values(self, newest: int) -> list[float | None]:
        found: list[float | None] = []
        for bucket in range(newest - BUCKETS + 1, newest + 1):
            if bucket > self.newest:
                found.append(self.last if bucket <= self.held_until else None)
                continue
            count = self.counts[bucket % BUCKETS] if bucket > self.newest - BUCKETS else 0
            found.append(self.sums[bucket % BUCKETS] / count if count else None)
        return found


class SeriesStore:
    """Histories of all devices and hosts. Fed by the Collector; drawing only reads."""

    def __init__(self) -> None:
        self._rings: dict[Key, _Ring] = {}

    def push(self, host: str, frame: Frame) -> None:
        """Take in one frame, at the time it was received."""
        bucket = _bucket(frame.received_at)
        held_until = _bucket(frame.received_at + timedelta(seconds=HELD_INTERVALS * frame.interval_seconds))
        memory = percent_column(frame.column("memory_used_bytes"), frame.column("memory_total_bytes"))
        for metric, column in (
            ("utilization_percent", frame.column("utilization_percent")),
            ("memory_percent", memory),
        ):
            if column is None:
                continue
            seen = []
            for device, value in zip(frame.devices, column, strict=False):
                if value is not None:
                    self._ring(host, device.key, metric).push(bucket, value, held_until)
                    seen.append(value)
            if seen:
                self._ring(host, HOST, metric).push(bucket, fmean(seen), held_until)

    def trend(self, host: str, device: str, metric: str, as_of: datetime) -> list[float | None]:
        """The last `BUCKETS` buckets up to `as_of`, oldest first; `None` where nothing was seen. `device` is
        `Device.key`, or `HOST` for the mean of a host."""
        ring = self._rings.get((host, device, metric))
        return [None] * BUCKETS if ring is None else ring.values(_bucket(as_of))

    def forget(self, hosts: set[str]) -> None:
        """Drop the histories of hosts that left the inventory."""
        self._rings = {key: ring for key, ring in self._rings.items() if key[0] not in hosts}

    def _ring(self, host: str, device: str, metric: str) -> _Ring:
        key = (host, device, metric)
        ring = self._rings.get(key)
        if ring is None:
            ring = self._rings[key] = _Ring()
        return ring


def percent_column(used: Sequence[int | None] | None, total: Sequence[int | None] | None) -> list[float | None] | None:
    """`used` as a share of `total`, device by device; `None` where either is not known."""
    if used is None or total is None:
        return None
    return [
        100.0 * part / whole if part is not None and whole else None for part, whole in zip(used, total, strict=False)
    ]


def _bucket(at: datetime) -> int:
    return int(at.timestamp() // BUCKET_SECONDS)
