"""Reads a fleet once: until every host has answered, or for a time."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing

from gputop.cli.diagnostics import Exit
from gputop.domain.host import Host
from gputop.domain.link import TROUBLE, LinkState
from gputop.fleet.collector import Collector
from gputop.fleet.fleet import Fleet
from gputop.fleet.occupancy import FRESH
from gputop.ports import Clock

PROGRESS_AFTER_SECONDS = 1.0
"""A wait that is over sooner needs no words."""

NAMES_SHOWN = 3


async def fleet_once(collector: Collector, clock: Clock, *, wait_seconds: float, progress: bool) -> Fleet:
    """The fleet as soon as every host has answered, at the latest after `wait_seconds`. `progress`: tell on standard
    error how far it is when that takes long."""
    started = clock.monotonic()
    fleet = Fleet(as_of=clock.now(), source=collector.source)
    told = False
    try:
        async with asyncio.timeout(wait_seconds), aclosing(collector.updates()) as updates:  # type: ignore[type-var]
            async for update in updates:
                fleet = update.fleet
                missing = [host.name for host in fleet if not has_answered(host)]
                if fleet.hosts and not missing:
                    break
                passed = clock.monotonic() - started
                if progress and passed >= PROGRESS_AFTER_SECONDS:
                    _tell(fleet, missing, wait_seconds - passed)
                    told = True
    except TimeoutError:
        pass
    finally:
        if told:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
    return fleet


def has_answered(host: Host) -> bool:
    """Whether a reading came, or it is known why none will come soon. Who is put off by a busy server is not told no."""
    return host.frame is not None or (host.link.state in TROUBLE and host.link.state is not LinkState.THROTTLED)


def exit_code(fleet: Fleet) -> Exit:
    """0: every host is ok and every device readable; 3: nothing could be read; 1: something could not."""
    if not any(host.link.state in FRESH for host in fleet):
        return Exit.NOTHING
    is_whole = all(host.link.state is LinkState.OK and _is_readable(host) for host in fleet)
    return Exit.DONE if is_whole else Exit.PARTIAL


def _is_readable(host: Host) -> bool:
    states = host.frame.column("state") if host.frame else None
    return all(state in ("ok", "excluded") for state in states or ())


def _tell(fleet: Fleet, missing: list[str], seconds: float) -> None:
    names = ", ".join(missing[:NAMES_SHOWN]) + (", …" if len(missing) > NAMES_SHOWN else "")
    count = len(fleet.hosts)
    text = f"{count - len(missing)} of {count} hosts answered; waiting {max(0.0, seconds):.0f} s for {names}"
    sys.stderr.write(f"\r{text}\x1b[K")
    sys.stderr.flush()
