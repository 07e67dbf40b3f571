"""All that is known of one host without asking anybody, in groups. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo

from gputop.catalog import format as show
from gputop.catalog.format import ABSENT
from gputop.catalog.text import clean, counted, short_model
from gputop.domain.host import Host
from gputop.domain.link import LinkState
from gputop.domain.reading import Frame
from gputop.export.groups import (
    WIDE,
    Group,
    Item,
    Tone,
    age_words,
    item,
    memory,
    moment,
    not_known,
    percent,
    span,
    watts,
)
from gputop.fleet.occupancy import has_values
from gputop.fleet.totals import known

SKEW_SECONDS = 2.0
"""From here on a clock is said to be off."""

SETTLED_SECONDS = 5.0
"""A session shorter than this says nothing of what it costs."""

HISTORY_SHOWN = 12

LINK_TONES: dict[LinkState, Tone] = {
    LinkState.OK: "",
    LinkState.PENDING: "dim",
    LinkState.CONNECTING: "dim",
    LinkState.DEGRADED: "warn",
    LinkState.STALE: "warn",
    LinkState.THROTTLED: "warn",
}
"""All others are bad."""


def where(host: Host) -> str:
    """`ops@10.3.0.7:2222`, or `this machine`."""
    spec, endpoint = host.spec, host.endpoint
    if spec.local:
        return "this machine"
    address = endpoint.address if endpoint else spec.address or spec.name
    port = endpoint.port if endpoint else spec.port
    user = endpoint.user if endpoint else spec.user
    return f"{user + '@' if user else ''}{address}{f':{port}' if port not in (None, 22) else ''}"


def hops(host: Host) -> str:
    """The jump hosts, first hop first; empty without any."""
    return " > ".join(host.endpoint.jump if host.endpoint else host.spec.jump or ())


def _no_hops(host: Host) -> str | None:
    """`None`: not known, since ssh_config has not been asked yet."""
    is_known = host.spec.local or host.endpoint is not None or host.spec.jump is not None
    return "none: a direct connection" if is_known else None


def host_identity(host: Host, as_of: datetime, zone: tzinfo | None) -> Group:
    spec, frame = host.spec, host.frame
    facts = frame.facts if frame else None
    items = [
        item("name", spec.name),
        item("address", where(host)),
        item("via", hops(host) or _no_hops(host)),
        item("groups", " ".join(spec.groups)),
        *(item(clean(name), value, note="label") for name, value in spec.labels.items()),
        item("protected", "yes" if spec.protected else "no", note="acts are refused" if spec.protected else ""),
    ]
    if facts is not None and frame is not None:
        booted = frame.host.uptime_seconds
        items += [
            item("devices", _devices(host, frame)),
            item("host name", facts.hostname),
            item("system", facts.os_name),
            item("kernel", facts.kernel_version),
            item("driver", facts.driver_version),
            item("CUDA", facts.cuda_version, note="the newest that the driver supports"),
            item("python", facts.python_version),
            item("read by", frame.route),
            item("kernel log", facts.kernel_log or "not followed"),
            item("up", booted, lambda seconds: show.duration(seconds, width=WIDE)),
            item("boot id", facts.boot_id),
            item("machine id", facts.machine_id),
        ]
    return Group("Identity", tuple(items))


def _devices(host: Host, frame: Frame) -> str:
    models = dict.fromkeys(short_model(device.model) for device in frame.devices)
    expected = host.spec.expect_devices
    wanted = f", {expected} expected" if expected is not None else ""
    return f"{len(frame.devices)} {', '.join(filter(None, models))}".rstrip() + wanted


def host_load(host: Host, as_of: datetime) -> Group:
    """Load and memory of the server, and of its devices together."""
    frame = host.frame if has_values(host) else None
    items = (*_load(frame), _agent(host, frame, as_of))
    return Group("Load and memory", items, age_words(host, as_of) if frame else "", not_known(host))


def _load(frame: Frame | None) -> Iterator[Item]:
    values = frame.host if frame else None
    cores = frame.facts.cores if frame else None
    busy, load = (values.cpu_utilization_percent, values.load_1m) if values else (None, None)
    yield item("CPU", busy, percent, f"of {cores} cores" if cores else "")
    yield item("load", load, lambda number: f"{number:.1f}", "mean of one minute")
    used, total = (values.memory_used_bytes, values.memory_total_bytes) if values else (None, None)
    share = f"{show.percent(100 * used / total)} full" if used is not None and total else ""
    has_some = used is not None or total is not None
    yield item("memory", show.memory_pair(used, total, width=WIDE) if has_some else None, note=share)
    yield from _device_sums(frame)


def _agent(host: Host, frame: Frame | None, as_of: datetime) -> Item:
    """What gputop itself costs the server."""
    if frame is None or frame.host.agent_memory_bytes is None:
        return Item("agent", ABSENT)
    parts = [memory(frame.host.agent_memory_bytes)]
    seconds = (as_of - host.reported.since).total_seconds()
    if frame.host.agent_cpu_seconds is not None and host.reported.state is LinkState.OK and seconds > SETTLED_SECONDS:
        parts.insert(0, f"{100 * frame.host.agent_cpu_seconds / seconds:.1f} % CPU")
    return Item("agent", ", ".join(parts), "what gputop costs")


def _device_sums(frame: Frame | None) -> Iterator[Item]:
    states = (frame.column("state") or ["ok"] * len(frame.devices)) if frame else []
    alive = [state == "ok" for state in states]
    every = f"of {counted(len(alive), 'GPU')}"

    def column(metric: str) -> list[float]:
        return list(known(frame.column(metric), alive)) if frame else []

    def told(values: list[float]) -> str:
        return every if len(values) == len(alive) else f"of {len(values)} of {counted(len(alive), 'GPU')}"

    use, power, heat = (column(name) for name in ("utilization_percent", "power_watts", "temperature_celsius"))
    yield item("GPUs", sum(use) / len(use) if use else None, percent, f"mean {told(use)}")
    held, size = column("memory_used_bytes"), column("memory_total_bytes")
    pair = show.memory_pair(int(sum(held)) if held else None, int(sum(size)) if size else None, width=WIDE)
    yield item("GPU memory", pair if held or size else None, note=told(held))
    yield item("GPU power", sum(power) if power else None, watts, told(power))
    yield item("hottest GPU", max(heat, default=None), lambda value: show.celsius(value, width=WIDE))


def link_group(host: Host, as_of: datetime, zone: tzinfo | None) -> Group:
    """The connection now and before, newest first."""
    state = host.link.state
    items = [
        Item("now", state.value.replace("-", " "), f"since {moment(host.link.since, as_of, zone)}", _tone(state)),
    ]
    if host.link.retry_at is not None:
        items.append(Item("next try", moment(host.link.retry_at, as_of, zone) or ABSENT))
    for change in reversed(host.link_history[-HISTORY_SHOWN:]):
        at = show.clock_time(change.at, as_of, zone)
        items.append(Item(at, change.state.value.replace("-", " "), clean(change.summary or ""), _tone(change.state)))
    return Group("Link", tuple(items))


def _tone(state: LinkState) -> Tone:
    return LINK_TONES.get(state, "bad")


def ages(host: Host, as_of: datetime, zone: tzinfo | None) -> Group:
    """How old what is how old, and when it is read again."""
    frame = host.frame
    if frame is None:
        return Group("Ages", (), absence="no reading yet")
    age = host.age_seconds(as_of) or 0.0
    skew = host.clock_skew_seconds
    items = [
        item("reading", f"{span(age)} old"),
        item("taken", show.clock_time(frame.sampled_at, as_of, zone), note="by the server's clock"),
        item("every", f"{frame.interval_seconds:g} s" if frame.interval_seconds else "read once"),
    ]
    for label, metrics in (
        ("limits, modes", ("power_limit_watts", "compute_mode", "recovery_action")),
        ("counters, maxima", ("ecc_corrected_volatile", "nvlink_links_active", "sm_clock_max_mhz")),
    ):
        if words := age_words(host, as_of, metrics):
            items.append(Item(label, words))
    off = skew is not None and abs(skew) >= SKEW_SECONDS
    against = None if skew is None else f"{skew:+.1f} s against ours" if off else "as ours"
    items.append(item("clock", against, tone="warn" if off else ""))
    return Group("Ages", tuple(items))
