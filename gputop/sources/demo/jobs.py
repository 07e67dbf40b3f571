"""What runs on the demo fleet: jobs that start, compute, write checkpoints, idle and end.

The devices of a host are dealt into lanes; a lane runs one job after the other, with pauses. Neighboring training
hosts share a lane: one job over several servers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from gputop.sources.demo.hosts import MOST_HOSTS, DemoHost
from gputop.sources.demo.noise import between, mix, pick, unit, wave
from gputop.sources.demo.trouble import booted_at, condition

Style = Literal["train", "batch", "serve", "notebook", "held"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One sort of job that users start."""

    style: Style
    users: tuple[str, ...]
    name: str
    command: str
    memory: tuple[float, float]
    """Share of the device's memory, at least and below."""
    intensity: tuple[float, float]
    """Share of the power limit when every unit computes."""
    container: str | None = None
    job: str | None = "slurm"
    """Which scheduler started it."""
    uses_decoder: bool = False


KINDS: dict[str, tuple[Kind, ...]] = {
    "gang": (
        Kind(
            "train",
            ("alice", "dmitri"),
            "python",
            "python train.py --config configs/llama-70b.yaml --tensor-parallel 8",
            (0.93, 0.975),
            (0.93, 1.03),
        ),
        Kind(
            "train",
            ("mei", "priya"),
            "python",
            "python -m megatron.pretrain_gpt --num-layers 80 --save /ckpt/mixture-8x22b",
            (0.90, 0.96),
            (0.90, 1.02),
        ),
    ),
    "train": (
        Kind(
            "train",
            ("alice", "bob", "jonas"),
            "python",
            "python train.py --config configs/vit-huge.yaml",
            (0.70, 0.94),
            (0.8, 0.98),
        ),
        Kind(
            "train",
            ("mei", "carol", "tomás"),
            "python",
            "python finetune.py --model mistral-7b --tags [ablation,v2]",
            (0.55, 0.90),
            (0.72, 0.95),
        ),
        Kind(
            "batch",
            ("erin", "priya"),
            "python",
            "python eval.py --suite mmlu,gsm8k,humaneval --shots 5",
            (0.35, 0.8),
            (0.55, 0.8),
        ),
        Kind(
            "train",
            ("dmitri", "美咲"),
            "python",
            "python train_diffusion.py --resolution 1024 --run 桜-04",
            (0.6, 0.92),
            (0.8, 1.0),
        ),
    ),
    "research": (
        Kind("batch", ("carol",), "gmx", "gmx mdrun -deffnm production -nb gpu -pme gpu", (0.04, 0.12), (0.6, 0.85)),
        Kind(
            "notebook",
            ("erin", "bob", "tomás"),
            "python3",
            "python3 -m ipykernel_launcher -f /run/user/1003/jupyter/kernel-5f0c.json",
            (0.08, 0.5),
            (0.4, 0.7),
            job=None,
        ),
        Kind("train", ("jonas", "mei"), "python", "python rl/ppo.py --env ant-v5 --seeds 8", (0.15, 0.5), (0.4, 0.7)),
        Kind(
            "batch",
            ("carol", "priya"),
            "relion_refine",
            "relion_refine --gpu --o Refine3D/job042",
            (0.5, 0.85),
            (0.6, 0.9),
        ),
        Kind(
            "train",
            ("alice", "bob"),
            "python",
            "python train.py --config configs/whisper-large.yaml",
            (0.6, 0.9),
            (0.75, 0.98),
        ),
    ),
    "inference": (
        Kind(
            "serve",
            ("triton",),
            "tritonserver",
            "tritonserver --model-repository=/models --http-port=8000",
            (0.45, 0.8),
            (0.7, 0.95),
            container="triton-embeddings",
            job=None,
        ),
        Kind(
            "serve",
            ("triton",),
            "vllm",
            "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192",
            (0.88, 0.92),
            (0.8, 0.98),
            container="vllm-chat",
            job=None,
        ),
        Kind(
            "batch",
            ("media",),
            "ffmpeg",
            "ffmpeg -hwaccel cuda -i rtsp://10.20.40.7/cam3 -c:v h264_nvenc out.mp4",
            (0.03, 0.06),
            (0.35, 0.5),
            job=None,
            uses_decoder=True,
        ),
    ),
    "slice": (
        Kind("serve", ("bob",), "python", "python serve.py --model phi-3-mini", (0.55, 0.95), (0.3, 0.6), job=None),
        Kind("train", ("tomás", "erin"), "python", "python lab/cifar.py --epochs 90", (0.2, 0.7), (0.3, 0.6)),
        Kind(
            "notebook",
            ("carol", "jonas"),
            "python3",
            "python3 -m ipykernel_launcher -f /run/user/1007/jupyter/kernel-a21b.json",
            (0.05, 0.4),
            (0.2, 0.4),
            job=None,
        ),
    ),
}

HELD = Kind(
    "held",
    ("carol", "jonas", "bob"),
    "python3",
    "python3 -m ipykernel_launcher -f /run/user/1011/jupyter/kernel-e7d4.json",
    (0.91, 0.96),
    (0.3, 0.3),
    job=None,
)
"""A notebook that somebody forgot: memory full, nothing computes."""


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """Devices that run one job at a time. Compared by identity: it is a key of caches."""

    key: int
    kinds: str
    """Which of `KINDS`."""
    first: int
    """Position of its first device on this host."""
    count: int
    slot_seconds: float
    free_share: float
    """Share of slots in which nothing runs."""
    shift: float
    """Start of slot 0, Unix time."""


@dataclass(frozen=True, slots=True)
class Job:
    key: int
    kind: Kind
    user: str
    number: int
    start: float
    end: float
    """Unix times."""
    memory_share: float
    """Of the device's memory."""
    intensity: float
    """Of its power limit, when all units compute."""
    checkpoint_seconds: float
    """From one checkpoint to the next."""


@lru_cache(maxsize=MOST_HOSTS)
def lanes(host: DemoHost) -> tuple[Lane, ...]:
    """How the devices of a host that is not split by MIG are shared out. The same at all times."""
    if host.pool == "train" and host.number % 6 < 4:
        team = mix(host.seed, 41, host.number // 6, host.number % 6 // 2 if host.number >= 6 else 0)
        return (_lane(team, "gang", 0, host.devices, 2700.0, 0.06),)
    if host.pool == "inference":
        return tuple(_lane(mix(host.key, 43, p), "inference", p, 1, 5400.0, 0.15) for p in range(host.devices))
    layout = pick(((8,), (4, 4), (4, 2, 2), (2, 2, 2, 1, 1)), host.key, 44)
    slot = {8: 1800.0, 4: 1320.0, 2: 900.0, 1: 660.0}
    free = {8: 0.1, 4: 0.15, 2: 0.25, 1: 0.3}
    found = []
    first = 0
    for count in layout:
        found.append(_lane(mix(host.key, 45, first), host.pool, first, count, slot[count], free[count]))
        first += count
    return tuple(found)


def _lane(key: int, kinds: str, first: int, count: int, slot_seconds: float, free_share: float) -> Lane:
    return Lane(key, kinds, first, count, slot_seconds, free_share, unit(key, 51) * slot_seconds)


@lru_cache(maxsize=8 * MOST_HOSTS)
def lane_of(host: DemoHost, position: int) -> Lane:
    return next(lane for lane in lanes(host) if lane.first <= position < lane.first + lane.count)


@lru_cache(maxsize=8 * MOST_HOSTS)
def slice_lane(host: DemoHost, position: int, partition: int) -> Lane:
    """The lane of one MIG instance."""
    return _lane(mix(host.key, 47, position, partition), "slice", position, 1, 780.0, 0.3)


@lru_cache(maxsize=16 * MOST_HOSTS)
def job_at(host: DemoHost, lane: Lane, t: float) -> Job | None:
    """What runs on `lane` at Unix time `t`; `None` when it is free."""
    trouble = condition(host, t)
    if trouble.is_held and trouble.since is not None:
        return held_job(host, trouble.turn, trouble.since)
    number = int((t - lane.shift) // lane.slot_seconds)
    job = _job(lane, number)
    if job is not None and t < job.start:
        job = _job(lane, number - 1)
    if job is None or not job.start <= t < job.end or job.start < booted_at(host, t):
        return None
    return job


@lru_cache(maxsize=1024)
def held_job(host: DemoHost, turn: int, since: float) -> Job:
    own = mix(host.key, 53, turn)
    return Job(
        key=own,
        kind=HELD,
        user=pick(HELD.users, own, 1),
        number=0,
        start=since,
        end=math.inf,
        memory_share=between(*HELD.memory, own, 2),
        intensity=0.3,
        checkpoint_seconds=math.inf,
    )


@lru_cache(maxsize=16384)
def _job(lane: Lane, number: int) -> Job | None:
    """The job of slot `number` of a lane; it starts late by up to a third of the slot, and so ends late."""
    if unit(lane.key, number, 55) < lane.free_share:
        return None
    start = _start(lane, number)
    own = mix(lane.key, number, 56)
    kind = pick(KINDS[lane.kinds], own, 1)
    return Job(
        key=own,
        kind=kind,
        user=pick(kind.users, own, 2),
        number=40000 + int(start // 60) % 50000 + mix(lane.key) % 7,
        start=start,
        end=_start(lane, number + 1) - between(20.0, 90.0, own, 3),
        memory_share=between(*kind.memory, own, 4),
        intensity=between(*kind.intensity, own, 5),
        checkpoint_seconds=between(95.0, 260.0, own, 6),
    )


def _start(lane: Lane, number: int) -> float:
    return lane.shift + (number + between(0.0, 0.33, lane.key, number, 57)) * lane.slot_seconds


LOADING_SECONDS = 45.0
CHECKPOINT_SECONDS = 11.0
WIND_DOWN_SECONDS = 14.0


def utilization(job: Job, rank: int, t: float) -> float:
    """Share of time that kernels run on one device of `job` at `t`, 0 to 1. `rank`: which of its devices."""
    age = t - job.start
    if age < 0.0 or t >= job.end:
        return 0.0
    if job.end - t < WIND_DOWN_SECONDS:
        return 0.04 + 0.3 * unit(job.key, rank, int(t))
    match job.kind.style:
        case "held":
            return 0.0
        case "serve":
            return _serving(job, rank, t)
        case "notebook":
            burst = wave(t, 38.0, job.key, 62)
            return 0.0 if burst < 0.62 else min(0.97, 0.25 + 1.9 * (burst - 0.62))
        case "batch":
            if age < LOADING_SECONDS / 3:
                return 0.02
            return min(0.98, 0.52 + 0.38 * wave(t, 17.0, job.key, rank, 63) + 0.08 * unit(job.key, rank, int(t), 64))
        case "train":
            if age < LOADING_SECONDS:
                return 0.09 * wave(t, 4.0, job.key, rank, 65)
            if (age - LOADING_SECONDS) % job.checkpoint_seconds > job.checkpoint_seconds - CHECKPOINT_SECONDS:
                return 0.03 + 0.07 * unit(job.key, rank, int(t), 66)
            steady = 0.955 + 0.035 * wave(t, 9.0, job.key, rank, 67) + 0.01 * unit(job.key, rank, int(t), 68)
            return min(
                1.0, steady - (0.18 * unit(job.key, int(t / 3), 69) if unit(job.key, int(t / 3), 70) < 0.05 else 0)
            )


def _serving(job: Job, rank: int, t: float) -> float:
    """Requests come in waves of a quarter of an hour, and in bursts."""
    demand = 0.5 + 0.5 * math.sin(2.0 * math.pi * (t / 900.0 + unit(job.key, 71)))
    return min(
        0.97, 0.08 + 0.45 * demand + 0.35 * wave(t, 21.0, job.key, rank, 72) + 0.05 * unit(job.key, rank, int(t))
    )


def memory_share(job: Job, rank: int, t: float) -> float:
    """Share of the device's memory that `job` holds at `t`, 0 to 1."""
    age = t - job.start
    if age < 0.0 or t >= job.end:
        return 0.0
    full = job.memory_share * (1.0 - 0.012 * unit(job.key, rank, 81))
    match job.kind.style:
        case "train":
            loaded = min(1.0, age / LOADING_SECONDS)
            swing = 0.02 * wave(t, 13.0, job.key, rank, 82)
            return full * (0.06 + 0.94 * loaded) * (1.0 - swing)
        case "notebook":
            return full * (0.5 + 0.5 * wave(t, 160.0, job.key, 83))
        case _:
            return full * min(1.0, 0.1 + age / 20.0)
