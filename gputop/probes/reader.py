"""Finds the lines of our own program in whatever a server prints."""

from __future__ import annotations

from gputop.remote.wire import LINE_LIMIT

_KEPT_NOISE_BYTES = 2_000
_LINE_COST_BYTES = 512
"""What a line costs beside its length: short ones are work too."""
BURST_BYTES = 4 * LINE_LIMIT
RATE_BYTES_PER_SECOND = 2_000_000


class Allowance:
    """How much one server may say: a large burst, then still far more than any number of devices needs. It keeps login
    files that print without end, and worse, from taking the processor away from all other hosts."""

    def __init__(self, now: float) -> None:
        self._left = float(BURST_BYTES)
        self._at = now

    def spend(self, data: bytes, now: float) -> bool:
        """Whether `data`, which came at `now` (monotonic), is still within it."""
        self._left = min(BURST_BYTES, self._left + (now - self._at) * RATE_BYTES_PER_SECOND)
        self._at = now
        self._left -= len(data) + data.count(b"\n") * _LINE_COST_BYTES
        return self._left >= 0


class WireReader:
    """Cuts a byte stream into the bodies of the lines that carry `token`. The same bytes give the same bodies however
    they are cut into pieces; everything else is counted and dropped."""

    def __init__(self, token: str, line_limit: int = LINE_LIMIT) -> None:
        self._token = token.encode("ascii")
        self._limit = line_limit
        self._rest = bytearray()
        self._skipping = False
        self.noise_lines = 0
        """Lines without the token, empty ones left out."""
        self.long_lines = 0
        """Lines longer than the limit, dropped."""
        self.noise = b""
        """The first 2,000 bytes of lines without the token: what the server said."""

    def feed(self, data: bytes) -> list[bytes]:
        """Bodies of the lines that `data` completes: without token, separating blank and line end."""
        first, *others = data.split(b"\n")
        self._keep(first)
        if not others:
            return []
        lines = [] if self._skipping else [bytes(self._rest)]
        *whole, rest = others
        self._rest.clear()
        self._skipping = False
        self._keep(rest)
        return [body for line in (*lines, *whole) if (body := self._body(line)) is not None]

    def close(self) -> None:
        """The stream has ended: an unfinished line is noise."""
        self._body(bytes(self._rest))
        self._rest.clear()

    def _keep(self, part: bytes) -> None:
        """Add to the line that is not complete yet; too much of it is dropped, and what follows up to its end."""
        if self._skipping:
            return
        self._rest += part
        if len(self._rest) > self._limit:
            self.long_lines += 1
            self._skipping = True
            self._rest.clear()

    def _body(self, line: bytes) -> bytes | None:
        if len(line) > self._limit:
            self.long_lines += 1
            return None
        # Not only at the start: a login file may end its greeting without a line end.
        _, found, body = line.partition(self._token)
        if found:
            return body.strip()
        if stripped := line.strip():
            self.noise_lines += 1
            self.noise = (self.noise + stripped + b"\n")[:_KEPT_NOISE_BYTES]
        return None
