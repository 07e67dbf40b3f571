"""What a site allows and wants of acts on its hosts."""

from __future__ import annotations

from msgspec import Struct


class Policy(Struct, frozen=True, kw_only=True):
    """What a site allows and wants, per host (`policy` of the inventory)."""

    max_hosts: int = 10
    """The most hosts of one plan. One host is always allowed."""
    max_percent: float = 10.0
    """The most of any one group."""
    min_active: int = 0
    """Hosts of each group that stay active, whatever is asked."""
    at_once: int = 5
    """Hosts worked on at the same time, after the canary."""
    max_data_age_seconds: float = 30.0
    """Older frames are no ground to act on."""
    drain_deadline_seconds: float = 1800.0
    reboot_deadline_seconds: float = 1200.0
    idle_memory_bytes: int = 1024**3
    """Device memory that an idle driver may hold: more counts as busy."""
    idle_samples: int = 3
    idle_sample_seconds: float = 10.0
    ignore_processes: tuple[str, ...] = (
        "Xorg",
        "Xwayland",
        "nvidia-persistenced",
        "nv-hostengine",
        "nvidia-cuda-mps-server",
        "dcgm-exporter",
    )
    """Names of programs that do not make a device busy, as long as one of `ignore_users` runs them."""
    ignore_users: tuple[str, ...] = (
        "root",
        "nvidia-persistenced",
        "nvidia-dcgm",
        "dcgm",
        "dcgm-exporter",
        "gdm",
        "lightdm",
        "sddm",
    )
    """Accounts of the system: anybody may give a program of theirs any name."""
    compute_mode: bool = False
    """Set compute mode "prohibited" while drained."""
    stop_units: tuple[str, ...] = ()
    """systemd units that would start work again; stopped while drained, started by a resume."""
    nologin: bool = False
    """Write /run/nologin while drained: closes the door to everybody but root, gputop's own account included."""
    wall: bool = True
    dcgm_diag: bool = False
    """Run `dcgmi diag -r 1` before a resume."""
    pre_drain: tuple[str, ...] = ()
    """The site's own programs, on this machine, as an argv; `{host}` and `{reason}` are filled in."""
    is_drained: tuple[str, ...] = ()
    post_resume: tuple[str, ...] = ()
    hook_timeout_seconds: float = 60.0


POLICY = Policy()
"""Where a site says nothing."""
