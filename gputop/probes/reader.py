"""Finds the lines of our own program in whatever a server prints."""

from __future__ import annotations

from gputop.remote.wire import LINE_LIMIT

_KEPT_NOISE_BYTES = 2_000


class WireReader:
    """Cuts a byte stream into the bodies of the lines that carry `token`. The same bytes give the same bodies however
    they are cut into pieces; everything else is counted and dropped."""

    def __init__(self, token: str, line_limit: int = LINE_LIMIT) -> None:
        self._token = token.encode("ascii")
        self._limit = line_limit
        self._rest = b""
        self._skipping = False
        self.noise_lines = 0
        """Lines without the token, empty ones left out."""
        self.long_lines = 0
        """Lines longer than the limit, dropped."""
        self.noise = b""
        """The first 2,000 bytes of lines without the token: what the server said."""

    def feed(self, data: bytes) -> list[bytes]:
        """Bodies of the lines that `data` completes: without token, separating blank and line end."""
        *lines, rest = (self._rest + data).split(b"\n")
        if self._skipping and lines:
            del lines[0]
            self._skipping = False
        elif self._skipping:
            rest = b""
        if len(rest) > self._limit:
            self.long_lines += 1
            self._skipping = True
            rest = b""
        self._rest = rest
        return [body for line in lines if (body := self._body(line)) is not None]

    def close(self) -> None:
        """The stream has ended: an unfinished line is noise."""
        self._body(self._rest)
        self._rest = b""

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
