"""What is wrong, as the controller wants it told: `domain.problem.Problem` as a dict."""

import time
from typing import Dict, List, Optional

Problem = Dict[str, Optional[str]]

_DETAIL_CHARACTERS = 2000


def problem(
    kind: str, summary: str, detail: Optional[str] = None, hint: Optional[str] = None, since: Optional[float] = None
) -> Problem:
    """`since` in seconds since the epoch, UTC. What is `None` is left out."""
    found: Problem = {"kind": kind, "summary": summary}
    if detail and detail.strip():
        found["detail"] = detail.strip()[:_DETAIL_CHARACTERS]
    if hint:
        found["hint"] = hint
    if since is not None:
        found["since"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(since))
    return found


def driver_mismatch(detail: str, summary: str = "the NVIDIA driver and its library differ in version") -> Problem:
    return problem("driver-mismatch", summary, detail, "reboot, or unload and load the nvidia kernel modules")


def driver_not_loaded(detail: str) -> Problem:
    hint = "modprobe nvidia; dmesg tells why it does not load"
    return problem("driver-not-loaded", "the NVIDIA driver is not loaded", detail, hint)


def permission(detail: str) -> Problem:
    hint = "the account needs access to /dev/nvidia* (groups video or render)"
    return problem("permission", "the account may not read the devices", detail, hint)


def no_devices(detail: str) -> Problem:
    return problem("no-devices", "the driver lists no device", detail, "lspci and dmesg tell whether one is there")


def tool_missing(tried: List[str]) -> Problem:
    return problem(
        "tool-missing",
        "neither the NVML library nor nvidia-smi was found",
        "tried:\n" + "\n".join(tried),
        "install the NVIDIA driver, or name its library with nvml_library in the inventory",
    )


def tool_failed(summary: str, detail: str) -> Problem:
    return problem("tool-failed", summary, detail)


def device_lost(detail: Optional[str], since: Optional[float]) -> Problem:
    hint = "dmesg shows the Xid; a reset rarely helps, a reboot often does"
    return problem("device-lost", "the device does not answer any more", detail, hint, since)


def requires_reset(detail: Optional[str], since: Optional[float]) -> Problem:
    hint = "stop its processes, then nvidia-smi --gpu-reset, or reboot"
    return problem("requires-reset", "the device has to be reset", detail, hint, since)


def device_error(summary: str, detail: Optional[str] = None, since: Optional[float] = None) -> Problem:
    return problem("device-error", summary, detail, None, since)


def probe_hung(call: str, seconds: float, since: Optional[float]) -> Problem:
    hint = "the driver hangs; dmesg tells more, a reboot may be needed"
    waited = "%d s" % seconds if seconds < 120 else "%d min" % (seconds // 60)
    return problem("probe-hung", "%s has not returned for %s" % (call, waited), None, hint, since)


def processes_unreliable(detail: Optional[str]) -> Problem:
    hint = "this driver lists processes in another layout; rows that cannot be true are left out"
    return problem("processes-unreliable", "the list of processes is not reliable", detail, hint)
