"""What a device would measure, from what runs on it: power follows work, heat follows power, clocks yield to heat."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from gputop.sources.demo.hosts import A100, L4, MIB, MOST_HOSTS, DemoHost
from gputop.sources.demo.jobs import Job, job_at, lane_of, memory_share, slice_lane, utilization
from gputop.sources.demo.noise import between, mix, unit, wave

HEAT_DELAYS: tuple[tuple[float, float], ...] = ((0.0, 0.34), (12.0, 0.26), (28.0, 0.22), (55.0, 0.18))
"""Temperature answers to the power of the last minute: delay in seconds and weight."""

THROTTLE_MARGIN_CELSIUS = 4.0
"""The driver slows a device down so far below its slowdown temperature."""

THROTTLE_SWING_CELSIUS = 1.5
"""By how much the temperature of a throttled device goes up and down."""

CONTEXT_FACTOR = 1.5
"""An open CUDA context keeps the clocks up, and so draws more than an idle device even when nothing runs."""

CAPPED_WATTS = 500.0
"""Power limit that somebody gave to a whole host with a default of 700 W."""


@dataclass(frozen=True, slots=True)
class Slice:
    """One MIG instance."""

    profile: str
    gpu_instance: int
    memory_bytes: int
    share: float
    """Of the compute units."""


SLICES: tuple[tuple[Slice, ...], ...] = (
    (
        Slice("3g.40gb", 1, 40192 * MIB, 3 / 7),
        Slice("2g.20gb", 3, 19968 * MIB, 2 / 7),
        Slice("1g.10gb", 9, 9728 * MIB, 1 / 7),
        Slice("1g.10gb", 10, 9728 * MIB, 1 / 7),
    ),
    (Slice("4g.40gb", 1, 40192 * MIB, 4 / 7), Slice("3g.40gb", 2, 40192 * MIB, 3 / 7)),
    tuple(Slice("1g.10gb", 7 + n, 9728 * MIB, 1 / 7) for n in range(7)),
    (
        Slice("2g.20gb", 3, 19968 * MIB, 2 / 7),
        Slice("2g.20gb", 4, 19968 * MIB, 2 / 7),
        Slice("2g.20gb", 5, 19968 * MIB, 2 / 7),
    ),
)
"""Ways in which the MIG hosts are split."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Values of one device at one instant, in the units of `DeviceReading`."""

    utilization_percent: float
    memory_utilization_percent: float
    memory_used_bytes: int
    power_watts: float
    power_average_watts: float
    power_limit_watts: float
    temperature_celsius: float
    memory_temperature_celsius: float | None
    sm_clock_mhz: int
    memory_clock_mhz: int
    performance_state: str
    throttle_reasons: tuple[str, ...]
    transfer: float
    """How busy its links are, 0 to 1."""
    decoder_percent: float


@lru_cache(maxsize=8 * MOST_HOSTS)
def slices(host: DemoHost, position: int) -> tuple[Slice, ...]:
    """How a device is split; `()` when it is not."""
    return SLICES[mix(host.key, 91, position // 2) % len(SLICES)] if host.is_mig else ()


def slice_memory(host: DemoHost, position: int, index: int, t: float) -> tuple[Job | None, int]:
    """What runs in a MIG instance, and how many bytes it holds."""
    job = job_at(host, slice_lane(host, position, index), t)
    total = slices(host, position)[index].memory_bytes
    own = 25 * MIB
    return job, own if job is None else own + round_mib(memory_share(job, 0, t) * (total - own))


def measure(host: DemoHost, position: int, t: float) -> Measured:
    """Values of the device at `position` at Unix time `t`."""
    model = host.model
    limit = power_limit(host)
    power = power_at(host, position, t)
    history = [power] + [power_at(host, position, t - delay) for delay, _ in HEAT_DELAYS[1:]]
    felt = sum(watts * weight for watts, (_, weight) in zip(history, HEAT_DELAYS, strict=True))
    temperature = inlet(host) + resistance(host, position) * felt
    work = work_at(host, position, t)
    full = full_watts(host, position, t)
    is_hot = power < full - 1.0
    is_capped = not is_hot and power >= 0.985 * limit
    busy = work >= 0.01
    clock = _clock(host, position, t, work, power / full if is_hot else 1.0, limit)
    reasons = ["sw_thermal"] if is_hot else ["sw_power_cap"] if is_capped else [] if busy else ["idle"]
    if is_hot and temperature >= model.slowdown_celsius - THROTTLE_MARGIN_CELSIUS - 0.5:
        reasons.append("hw_thermal")
    job = None if host.is_mig else job_at(host, lane_of(host, position), t)
    moving = busy or model is not L4 or job is not None
    return Measured(
        utilization_percent=float(round(100.0 * work)),
        memory_utilization_percent=float(round(100.0 * work * between(0.35, 0.62, host.key, position, 92))),
        memory_used_bytes=memory_used(host, position, t),
        power_watts=round(power, 2),
        power_average_watts=round(0.7 * power + 0.3 * history[1], 2),
        power_limit_watts=limit,
        temperature_celsius=float(round(temperature)),
        memory_temperature_celsius=float(round(temperature + 7.0 + 6.0 * work))
        if model.has_memory_temperature
        else None,
        sm_clock_mhz=clock,
        memory_clock_mhz=model.memory_clock_max_mhz if moving else model.memory_clock_idle_mhz,
        performance_state="P0" if moving else model.idle_state,
        throttle_reasons=tuple(reasons),
        transfer=work * wave(t, 3.0, host.key, position, 93),
        decoder_percent=float(round(100.0 * work)) if job is not None and job.kind.uses_decoder else 0.0,
    )


def work_at(host: DemoHost, position: int, t: float) -> float:
    """Share of the device's units at work, 0 to 1."""
    if host.is_mig:
        total = 0.0
        for index, part in enumerate(slices(host, position)):
            job = job_at(host, slice_lane(host, position, index), t)
            total += part.share * utilization(job, 0, t) if job is not None else 0.0
        return total
    lane = lane_of(host, position)
    job = job_at(host, lane, t)
    return 0.0 if job is None else utilization(job, rank(host, lane.first, position), t)


def rank(host: DemoHost, first: int, position: int) -> int:
    """Which of the devices of a job this is; jobs over several hosts count on."""
    return host.number * 8 + position - first


def memory_used(host: DemoHost, position: int, t: float) -> int:
    """Bytes, without the driver's reserved part."""
    if host.is_mig:
        return sum(slice_memory(host, position, index, t)[1] for index in range(len(slices(host, position))))
    lane = lane_of(host, position)
    job = job_at(host, lane, t)
    return 0 if job is None else job_memory(host, job, rank(host, lane.first, position), t)


def job_memory(host: DemoHost, job: Job, number: int, t: float) -> int:
    available = host.model.memory_bytes - host.model.reserved_bytes
    return round_mib(memory_share(job, number, t) * available)


def round_mib(value: float) -> int:
    return int(value) // MIB * MIB


def power_limit(host: DemoHost) -> float:
    """Watts; one training host in six was capped."""
    return CAPPED_WATTS if host.pool == "train" and host.number % 6 == 4 else host.model.limit_watts


@lru_cache(maxsize=MOST_HOSTS)
def inlet(host: DemoHost) -> float:
    """Temperature of the air at the server's front, °C."""
    return between(23.0, 29.0, host.key, 94)


@lru_cache(maxsize=8 * MOST_HOSTS)
def resistance(host: DemoHost, position: int) -> float:
    """Degrees a watt. One device in about sixteen is cooled badly."""
    usual = host.model.celsius_per_watt * between(0.94, 1.07, host.key, position, 95)
    return usual * between(1.45, 1.95, host.key, position, 96) if _is_hot_seat(host, position) else usual


def _is_hot_seat(host: DemoHost, position: int) -> bool:
    return unit(host.key, 97) < 0.5 and mix(host.key, 98) % host.devices == position


@lru_cache(maxsize=8 * MOST_HOSTS)
def idle_watts(host: DemoHost, position: int) -> float:
    """Watts of a device without any program."""
    return host.model.idle_watts * between(0.95, 1.08, host.key, position, 99)


def full_watts(host: DemoHost, position: int, t: float) -> float:
    """Power that the work would draw if heat did not matter, within the limit."""
    model = host.model
    limit = power_limit(host)
    idle = idle_watts(host, position)
    if host.is_mig:
        awake, intensity = idle, 0.75
    else:
        job = job_at(host, lane_of(host, position), t)
        if job is None:
            return idle
        awake, intensity = CONTEXT_FACTOR * idle, job.intensity
    wanted = awake + (intensity * model.limit_watts - awake) * work_at(host, position, t) ** 0.8
    jitter = 1.0 - 0.025 * unit(host.key, position, int(t * 2), 100)
    return (
        min(limit, wanted) * jitter if wanted < limit else limit * (1.0 - 0.012 * unit(host.key, position, int(t * 2)))
    )


def power_at(host: DemoHost, position: int, t: float) -> float:
    """Watts. Held back so that the temperature stays below the slowdown threshold."""
    full = full_watts(host, position, t)
    room = host.model.slowdown_celsius - THROTTLE_MARGIN_CELSIUS - inlet(host)
    if full * resistance(host, position) < room - THROTTLE_SWING_CELSIUS:
        return full
    swing = THROTTLE_SWING_CELSIUS * wave(t, 20.0, host.key, position, 101)
    return min(full, (room - swing) / resistance(host, position))


def _clock(host: DemoHost, position: int, t: float, work: float, kept: float, limit: float) -> int:
    """MHz in the driver's steps of 15."""
    model = host.model
    if work < 0.01 and (host.is_mig or job_at(host, lane_of(host, position), t) is None):
        return model.sm_clock_idle_mhz
    share = 1.0 - 0.1 * wave(t, 6.0, host.key, position, 102) * work if model is not A100 else 1.0
    if limit < model.limit_watts:
        share *= (limit / model.limit_watts) ** 0.6
    return max(model.sm_clock_idle_mhz, int(model.sm_clock_max_mhz * share * kept**0.75) // 15 * 15)
