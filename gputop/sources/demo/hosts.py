"""The servers of the demo fleet: what does not change with time, drawn from the seed alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from gputop.domain.host import HostSpec
from gputop.sources.demo.noise import key, mix, pick, unit

DEFAULT_HOSTS = 24
DEFAULT_SEED = 7
FEWEST_HOSTS = 6
"""One for each kind of trouble, and one that is well."""
MOST_HOSTS = 1000
"""Each host listens on a port of its own on the loopback interface."""

INTERVAL_SECONDS = 2.0
MIB = 1024 * 1024
GIB = 1024 * MIB
SIMULATED = "simulated by the demo of gputop"


class Role(IntEnum):
    """Which trouble a host takes turns in. Every host has exactly one, so that troubles never hide each other."""

    UNREACHABLE = 0
    STALE = 1
    LOST = 2
    FAULTY = 3
    HELD = 4


@dataclass(frozen=True, slots=True)
class Model:
    """One product, as NVML reports it."""

    name: str
    memory_bytes: int
    reserved_bytes: int
    idle_watts: float
    limit_watts: float
    celsius_per_watt: float
    slowdown_celsius: float
    shutdown_celsius: float
    has_memory_temperature: bool
    sm_clock_max_mhz: int
    sm_clock_idle_mhz: int
    memory_clock_max_mhz: int
    memory_clock_idle_mhz: int
    idle_state: str
    pcie_generation: int
    nvlinks: int | None
    has_encoder: bool
    bar1_bytes: int


H100 = Model(
    name="NVIDIA H100 80GB HBM3",
    memory_bytes=81559 * MIB,
    reserved_bytes=479 * MIB,
    idle_watts=71.0,
    limit_watts=700.0,
    celsius_per_watt=0.066,
    slowdown_celsius=89.0,
    shutdown_celsius=95.0,
    has_memory_temperature=True,
    sm_clock_max_mhz=1980,
    sm_clock_idle_mhz=345,
    memory_clock_max_mhz=2619,
    memory_clock_idle_mhz=2619,
    idle_state="P0",
    pcie_generation=5,
    nvlinks=18,
    has_encoder=False,
    bar1_bytes=128 * GIB,
)
A100 = Model(
    name="NVIDIA A100-SXM4-80GB",
    memory_bytes=81920 * MIB,
    reserved_bytes=571 * MIB,
    idle_watts=62.0,
    limit_watts=400.0,
    celsius_per_watt=0.104,
    slowdown_celsius=89.0,
    shutdown_celsius=92.0,
    has_memory_temperature=True,
    sm_clock_max_mhz=1410,
    sm_clock_idle_mhz=210,
    memory_clock_max_mhz=1593,
    memory_clock_idle_mhz=1593,
    idle_state="P0",
    pcie_generation=4,
    nvlinks=12,
    has_encoder=False,
    bar1_bytes=128 * GIB,
)
L4 = Model(
    name="NVIDIA L4",
    memory_bytes=23034 * MIB,
    reserved_bytes=479 * MIB,
    idle_watts=16.5,
    limit_watts=72.0,
    celsius_per_watt=0.55,
    slowdown_celsius=88.0,
    shutdown_celsius=93.0,
    has_memory_temperature=False,
    sm_clock_max_mhz=2040,
    sm_clock_idle_mhz=210,
    memory_clock_max_mhz=6251,
    memory_clock_idle_mhz=405,
    idle_state="P8",
    pcie_generation=4,
    nvlinks=None,
    has_encoder=True,
    bar1_bytes=32 * GIB,
)

DRIVERS: tuple[tuple[str, str], ...] = (
    ("550.90.07", "12.4"),
    ("570.124.06", "12.8"),
    ("535.183.01", "12.2"),
    ("580.65.06", "13.0"),
)
"""Driver and the highest CUDA it supports. Each pool has one of its own: a host whose driver is not that of its group
does not pass the gate before it works again."""
POOLS = ("train", "research", "inference")

KERNELS: tuple[tuple[str, str, str], ...] = (
    ("5.15.0-113-generic", "Ubuntu 22.04.5 LTS", "3.10.12"),
    ("6.8.0-49-generic", "Ubuntu 24.04.1 LTS", "3.12.3"),
)


@dataclass(frozen=True, slots=True, eq=False)
class DemoHost:
    """One server of the demo fleet. Compared by identity: it is a key of caches."""

    seed: int
    name: str
    key: int
    """Hash of seed and name; first part of every draw about this host."""
    number: int
    """Position in its pool, from 0."""
    model: Model
    devices: int
    pool: str
    rack: str
    address: str
    """What it would have in a real network; the demo server answers on the loopback interface."""
    is_mig: bool
    driver: str
    cuda: str
    kernel: str
    os_name: str
    python: str
    cores: int
    memory_bytes: int
    role: Role
    turn: int
    turns: int
    """This host is in trouble in turn `turn` of `turns`."""

    @property
    def spec(self) -> HostSpec:
        return HostSpec(
            name=self.name,
            address=self.address,
            user="ops",
            interval_seconds=INTERVAL_SECONDS,
            groups=(self.pool,),
            labels={"pool": self.pool, "rack": self.rack},
            jump=(),
            ssh_config=(),
        )


def bus_of(host: DemoHost, position: int) -> str:
    """The PCI address of a device, as nvidia-smi prints it."""
    buses = (0x19, 0x3B, 0x4C, 0x5D, 0x9B, 0xBB, 0xCB, 0xDB) if host.devices == 8 else (0x17, 0x65, 0xCA, 0xE3)
    return f"00000000:{buses[position]:02X}:00.0"


@lru_cache(maxsize=8)
def plan(seed: int = DEFAULT_SEED, hosts: int = DEFAULT_HOSTS) -> tuple[DemoHost, ...]:
    """The servers: half of them with 8 H100, a quarter with 8 A100 (some split by MIG), a quarter with 4 or 8 L4."""
    if not FEWEST_HOSTS <= hosts <= MOST_HOSTS:
        raise ValueError(f"the demo fleet has {FEWEST_HOSTS} to {MOST_HOSTS} hosts, not {hosts}")
    ampere = inference = hosts // 4
    hopper = hosts - ampere - inference
    digits = max(3, len(str(hopper)))
    servers = [(f"gpu-{n + 1:0{digits}}", n, H100, 8, "train") for n in range(hopper)]
    servers += [(f"a100-{n + 1:02}", n, A100, 8, "research") for n in range(ampere)]
    servers += [(f"inf-{n + 1:02}", n, L4, 8 if n % 3 else 4, "inference") for n in range(inference)]
    split = ampere - max(1, ampere // 3)
    is_mig = [model is A100 and number >= split for _, number, model, _, _ in servers]
    roles = _dealt_roles(seed, is_mig)
    turn: Counter[Role] = Counter()
    found = []
    for position, (name, number, model, devices, pool) in enumerate(servers):
        role = roles[position]
        found.append(
            _host(
                seed,
                name=name,
                number=number,
                model=model,
                devices=devices,
                pool=pool,
                position=position,
                role=role,
                turn=turn[role],
                turns=roles.count(role),
                is_mig=is_mig[position],
            )
        )
        turn[role] += 1
    return tuple(found)


def _dealt_roles(seed: int, is_mig: list[bool]) -> list[Role]:
    """One role a host, each about equally often. Devices split by MIG tell no utilization, so no one could see that
    their memory is held idle."""
    roles: list[Role] = [Role.HELD] * len(is_mig)
    for split, choices in ((False, tuple(Role)), (True, tuple(role for role in Role if role is not Role.HELD))):
        hosts = [position for position, its in enumerate(is_mig) if its is split]
        for order, position in enumerate(sorted(hosts, key=lambda position: mix(seed, position))):
            roles[position] = choices[order % len(choices)]
    return roles


def _host(
    seed: int,
    *,
    name: str,
    number: int,
    model: Model,
    devices: int,
    pool: str,
    position: int,
    role: Role,
    turn: int,
    turns: int,
    is_mig: bool,
) -> DemoHost:
    own = mix(seed, key(name))
    driver, cuda = DRIVERS[(mix(seed, 4) + POOLS.index(pool)) % len(DRIVERS)]
    kernel, os_name, python = pick(KERNELS, own, 2)
    cores, memory = {"train": (192, 2048 * GIB), "research": (128, 1024 * GIB), "inference": (64, 256 * GIB)}[pool]
    rack = {"train": 11, "research": 21, "inference": 31}[pool] + number // 4
    return DemoHost(
        seed=seed,
        name=name,
        key=own,
        number=number,
        model=model,
        devices=devices,
        pool=pool,
        rack=f"r{rack}",
        address=f"10.20.{position // 250}.{position % 250 + 1}",
        is_mig=is_mig,
        driver=driver,
        cuda=cuda,
        kernel=kernel,
        os_name=os_name,
        python=python,
        cores=cores,
        memory_bytes=memory - int(unit(own, 3) * 9 * GIB) // MIB * MIB - 11 * GIB,
        role=role,
        turn=turn,
        turns=turns,
    )
