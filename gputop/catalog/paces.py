"""How old a value may be that stands in the newest frame: the agent reads some values less often than others."""

from __future__ import annotations

from collections.abc import Iterable

from gputop.domain.reading import Frame
from gputop.remote import nvidia_smi
from gputop.remote.options import Options
from gputop.remote.vendors import SELDOM

_AGENT = Options({})

MEDIUM = frozenset({
    "bar1_total_bytes", "bar1_used_bytes", "compute_mode", "ecc_mode", "ecc_pending_mode", "mig_mode",
    "pcie_generation", "pcie_replay_count", "pcie_width", "persistence_mode", "power_limit_watts",
    "recovery_action", "remapped_rows_corrected", "remapped_rows_failed", "remapped_rows_pending",
    "remapped_rows_uncorrected",
})  # fmt: skip
"""Metrics that change seldom, read through NVML."""

SLOW = frozenset({
    "ecc_corrected_aggregate", "ecc_corrected_volatile", "ecc_uncorrected_aggregate", "ecc_uncorrected_volatile",
    "memory_clock_max_mhz", "nvlink_error_count", "nvlink_links_active", "nvlink_links_total",
    "pcie_generation_max", "pcie_width_max", "power_default_limit_watts", "retired_pages_double_bit",
    "retired_pages_pending", "retired_pages_single_bit", "sm_clock_max_mhz", "temperature_shutdown_celsius",
    "temperature_slowdown_celsius",
})  # fmt: skip
"""Those that are dear to read, or hardly ever change."""


def period_seconds(metric: str, frame: Frame) -> float:
    """The longest time between two readings of a metric; 0: it is read for every frame, or all were read once."""
    if not frame.interval_seconds:
        return 0.0
    match frame.route:
        case "nvml":
            return _AGENT.medium if metric in MEDIUM else _AGENT.slow if metric in SLOW else 0.0
        case "nvidia-smi":
            is_medium = metric in nvidia_smi.MEDIUM or metric.startswith("ecc_")
            return 0.0 if metric in nvidia_smi.FAST else _AGENT.medium if is_medium else _AGENT.slow
    return SELDOM if metric in MEDIUM or metric in SLOW else 0.0


def ages_seconds(metrics: Iterable[str], frame: Frame, age_seconds: float) -> tuple[float, float]:
    """How old the newest and the oldest of these values may be, in a frame of that age."""
    periods = [period_seconds(metric, frame) for metric in metrics] or [0.0]
    return age_seconds + min(periods), age_seconds + max(periods)
