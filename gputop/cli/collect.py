"""Reads a fleet once: until every host has answered, or for a time."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable
from contextlib import aclosing

from gputop.catalog.text import clean, cut
from gputop.cli import diagnostics
from gputop.cli.diagnostics import Exit
from gputop.domain.clock import SystemClock
from gputop.domain.host import Host
from gputop.domain.link import TROUBLE, LinkState
from gputop.domain.plural import counted
from gputop.fleet.collector import Collector
from gputop.fleet.fleet import Fleet
from gputop.fleet.occupancy import FRESH
from gputop.fleet.series import SeriesStore
from gputop.ports import Clock
from gputop.sources.demo import plan
from gputop.sources.demo.direct import SOURCE
from gputop.sources.demo.trouble import condition
from gputop.sources.demo_server import DemoFailed, start_demo
from gputop.wiring import make_collector

PROGRESS_AFTER_SECONDS = 1.0
"""A wait that is over sooner needs no words."""

NAMES_SHOWN = 3


def read_demo_server(hosts: int, seed: int, wait_seconds: float) -> tuple[Fleet, SeriesStore] | Exit:
    """The demo fleet now, over SSH."""
    try:
        demo = start_demo(hosts, seed)
    except DemoFailed as failure:
        return diagnostics.fail(f"the demo server did not start: {failure}", code=Exit.NOTHING)
    fleet, clock = {host.name: host for host in plan(seed, hosts)}, SystemClock()

    def is_told(host: Host) -> bool:
        """A host that fell silent is not told from others before it is stale."""
        is_silent = condition(fleet[host.name], clock.now().timestamp()).is_silent
        return has_answered(host) and not (is_silent and host.link.state in FRESH)

    with demo:
        return read(make_collector(demo.specs, source=SOURCE), wait_seconds, is_told)


def read(
    collector: Collector, wait_seconds: float, is_told: Callable[[Host], bool] | None = None
) -> tuple[Fleet, SeriesStore]:
    """What `collector` sees once every host has answered or the time is over."""
    progress = sys.stderr is not None and sys.stderr.isatty()
    once = fleet_once(collector, SystemClock(), wait_seconds=wait_seconds, progress=progress, is_told=is_told)
    return asyncio.run(once), collector.series


async def fleet_once(
    collector: Collector,
    clock: Clock,
    *,
    wait_seconds: float,
    progress: bool,
    is_told: Callable[[Host], bool] | None = None,
) -> Fleet:
    """The fleet as soon as `is_told` holds for every host (`None`: it has answered), at the latest after
    `wait_seconds`. `progress`: tell on standard error how far it is when that takes long."""
    is_told = is_told or has_answered
    is_progress_shown = False
    async with aclosing(collector.updates()) as updates:
        fleet = (await anext(updates)).fleet  # comes at once: which hosts there are
        started = clock.monotonic()
        try:
            async with asyncio.timeout(wait_seconds):
                while not fleet.hosts or (missing := [host.name for host in fleet if not is_told(host)]):
                    passed = clock.monotonic() - started
                    if progress and fleet.hosts and passed >= PROGRESS_AFTER_SECONDS:
                        _show_progress(fleet, missing, wait_seconds - passed)
                        is_progress_shown = True
                    fleet = (await anext(updates)).fleet
        except TimeoutError:
            pass
        finally:
            if is_progress_shown:
                sys.stderr.write("\r\x1b[K")
                sys.stderr.flush()
    return fleet


def has_answered(host: Host) -> bool:
    """Whether a reading came, or it is known why none will come soon. To be put off by a busy server is no answer."""
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


def _show_progress(fleet: Fleet, missing: list[str], seconds: float) -> None:
    names = ", ".join(missing[:NAMES_SHOWN]) + (", …" if len(missing) > NAMES_SHOWN else "")
    count = len(fleet.hosts)
    text = f"{count - len(missing)} of {counted(count, 'host')} answered; waiting {max(0.0, seconds):.0f} s for {names}"
    width = shutil.get_terminal_size().columns - 1
    sys.stderr.write(f"\r{cut(clean(text), width)}\x1b[K")
    sys.stderr.flush()
