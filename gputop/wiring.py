"""The composition root: the only place that picks implementations.

Importing this module is cheap; asyncssh is loaded when a collector with SSH hosts is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputop.domain.clock import SystemClock
from gputop.domain.host import HostSpec
from gputop.fleet.collector import Collector
from gputop.ports import Clock, Source

if TYPE_CHECKING:
    from gputop.health.xid import Catalog
    from gputop.readers.load import Recording

FILES_PER_HOST = 4
"""A socket; with a ProxyCommand a pair of them, a pipe and the program."""
FILES_BESIDE = 256
"""For ssh -G, names, keys, the agent, the terminal."""


def make_collector(
    specs: Sequence[HostSpec],
    *,
    known: Sequence[HostSpec] = (),
    handshakes_per_hop: int = 8,
    handshakes_total: int = 32,
    source: str = "ssh",
    clock: Clock | None = None,
) -> Collector:
    """A Collector over `specs`: local ones through a subprocess, all others over SSH.

    `known`: further hosts that jump hosts may be named after. `source` is what the JSON output calls it (`ssh` or
    `demo`)."""
    from gputop.sources.agent import AgentSource

    clock = clock or SystemClock()
    sources: list[Source] = []
    remote = [spec for spec in specs if not spec.local]
    local = [spec for spec in specs if spec.local]
    if remote:
        from gputop.transport.limits import allow_open_files
        from gputop.transport.ssh import SshTransport

        allow_open_files(FILES_PER_HOST * len(remote) + FILES_BESIDE)
        transport = SshTransport(
            [*known, *remote], clock=clock, handshakes_per_hop=handshakes_per_hop, handshakes_total=handshakes_total
        )
        sources.append(AgentSource(source, transport, remote, clock))
    if local:
        from gputop.transport.process import ProcessTransport

        sources.append(AgentSource("local", ProcessTransport(), local, clock))
    return Collector(sources, clock, catalog=xid_catalog())


def make_file_collector(recordings: Sequence[Recording], *, clock: Clock | None = None) -> Collector:
    """A Collector over recordings of tools."""
    from gputop.sources.file import FileSource

    clock = clock or SystemClock()
    return Collector([FileSource(recordings, clock)], clock, catalog=xid_catalog())


def xid_catalog() -> Catalog:
    """gputop's catalog of Xids with what the user changes; without that when the user's file has mistakes, which a
    command says before it comes here."""
    from gputop.health.catalog import default_catalog, load
    from gputop.settings.locations import xid_file

    catalog = load(xid_file())
    return default_catalog() if isinstance(catalog, list) else catalog
