"""What nvidia-smi and container runtimes say in place of an output."""

from __future__ import annotations

import re

from gputop.remote import nvidia_remarks
from gputop.remote.sample import Sample, new_sample, problem

_RESTART = "reboot, or unload and load the nvidia kernel modules"
_LOAD = "modprobe nvidia; dmesg tells why it does not load"
_LOOK = "lspci and dmesg tell whether one is there"
_GROUPS = "the account needs access to /dev/nvidia* (groups video or render)"

_FAILURES: tuple[tuple[str, str, str, str | None], ...] = (
    # words; kind of the problem; summary; hint
    (
        r"Driver/library version mismatch|API mismatch: the client has the version",
        "driver-mismatch",
        "the NVIDIA driver and its library differ in version",
        _RESTART,
    ),
    (
        r"couldn.t communicate with the NVIDIA driver|Driver Not Loaded|"
        r"could not open the device file /dev/nvidia\S* \(No such file|Module nvidia\S* not found",
        "driver-not-loaded",
        "the NVIDIA driver is not loaded",
        _LOAD,
    ),
    (
        r"couldn't find libnvidia-ml|load library failed: libnvidia-ml|NVML Shared Library Not Found|"
        r"nvml error: .*library not found",
        "tool-missing",
        "the NVML library was not found",
        "install the NVIDIA driver",
    ),
    (
        r"No such file or directory: ['\"](?:\S*/)?nvidia-smi['\"]",
        "tool-missing",
        "nvidia-smi not found",
        "install the NVIDIA driver, or name the folder: it may be off the PATH",
    ),
    (r"No devices were found|No supported GPUs? (?:was|were) found", "no-devices", "the driver lists no device", _LOOK),
    (
        r"(?:NVML|nvml error|initialization error|nvidia-smi).*insufficient permissions|"
        r"/dev/nvidia.*(?:Permission denied|not permitted)",
        "permission",
        "the account may not read the devices",
        _GROUPS,
    ),
    (
        r"Failed to initialize NVML: .*blocked",
        "permission",
        "the operating system blocks access to the GPU",
        "WSL: update the Windows driver; a container: give it the GPU again",
    ),
    (
        r"Failed to initialize NVML: (?P<why>.*)",
        "tool-failed",
        "NVML cannot be started",
        "in a container: start it anew, it has lost its devices",
    ),
    (r"Unable to determine the device handle", "device-error", "a GPU cannot be opened", "look for Xid lines in dmesg"),
    (
        r"GPU is lost|GPU has fallen off the bus",
        "device-lost",
        "a GPU is lost: the driver gets no answer from it",
        "reboot the server",
    ),
    (
        r'Field ".*" is not a valid field to query',
        "tool-failed",
        "nvidia-smi does not know a field that was asked for",
        "nvidia-smi --help-query-gpu lists what it knows",
    ),
    (
        r"ERROR: Option .*|Invalid combination of input arguments|ERROR: Unrecognized .*",
        "tool-failed",
        "nvidia-smi did not understand its options",
        "nvidia-smi -h lists what it knows",
    ),
    (
        r"nvidia-container-cli: .*|could not select device driver .*gpu",
        "tool-failed",
        "the container runtime cannot give the container its GPUs",
        None,
    ),
    (
        r"No MIG-?(?:enabled)? devices found|No (?:GPU|compute) instances found",
        "tool-failed",
        "there is no MIG instance",
        None,
    ),
    (r"nvidia-smi.*(?:Segmentation fault|core dumped|Killed)", "tool-failed", "nvidia-smi was ended by a signal", None),
)
_KNOWN = tuple((re.compile(words, re.IGNORECASE), kind, summary, hint) for words, kind, summary, hint in _FAILURES)


def looks_like(text: str) -> bool:
    return len(text) < 20_000 and any(pattern.search(text) for pattern, *_ in _KNOWN)


def read(text: str) -> Sample:
    """A problem, and the devices that the words name."""
    sample = new_sample("nvidia-smi")
    nvidia_remarks.attach(sample, text)
    if sample["devices"]:
        return sample
    for pattern, kind, summary, hint in _KNOWN:
        if pattern.search(text):
            sample["problems"].append(problem(kind, summary, text.strip()[:2000], hint))
            break
    return sample
