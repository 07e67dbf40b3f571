"""What Sources tell the Collector. Recordings will store these."""

from __future__ import annotations

from msgspec import Struct

from gputop.domain.host import Endpoint, HostSpec
from gputop.domain.link import Link
from gputop.domain.problem import Problem
from gputop.domain.reading import Frame


class HostsChanged(Struct, frozen=True, kw_only=True, tag="hosts"):
    """The full list of hosts of this source."""

    source: str
    hosts: tuple[HostSpec, ...]


class EndpointResolved(Struct, frozen=True, kw_only=True, tag="endpoint"):
    host: str
    endpoint: Endpoint


class LinkChanged(Struct, frozen=True, kw_only=True, tag="link"):
    """The connection changed. Sources say `connecting`, failures, and `ok` when a session runs; whether a connected
    host is ok, degraded or stale is judged by `fleet.reduce`."""

    host: str
    link: Link


class FrameReceived(Struct, frozen=True, kw_only=True, tag="frame"):
    host: str
    frame: Frame


class SourceFailed(Struct, frozen=True, kw_only=True, tag="source-failed"):
    """A source itself broke (a bug or a missing program); its hosts keep their last state."""

    source: str
    problem: Problem


SourceEvent = HostsChanged | EndpointResolved | LinkChanged | FrameReceived | SourceFailed
