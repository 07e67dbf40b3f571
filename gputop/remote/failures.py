"""What tools and shells print in place of an answer, as problems."""

import re
from typing import Any, Dict, Optional

from gputop.remote.sample import Sample, new_sample, problem

ROUTES = {
    # program: route of docs/reference/json.md
    "nvidia-smi": "nvidia-smi",
    "amd-smi": "amd-smi",
    "rocm-smi": "rocm-smi",
    "npu-smi": "npu-smi",
    "hl-smi": "hl-smi",
    "xpu-smi": "xpu-smi",
    "xpumcli": "xpu-smi",
    "neuron-ls": "neuron",
    "neuron-monitor": "neuron",
    "neuron-top": "neuron",
    "tpu-info": "tpu-info",
    "mthreads-gmi": "mthreads-gmi",
    "cnmon": "cnmon",
    "hy-smi": "hy-smi",
    "ixsmi": "ixsmi",
    "mx-smi": "mx-smi",
    "intel_gpu_top": "intel_gpu_top",
    "nvtop": "nvtop",
}

_PROGRAM = "|".join(re.escape(program) for program in ROUTES)
_MISSING = (
    # bash, dash, busybox, zsh, fish, csh, env, sudo, exec; the last two name the program behind the words
    re.compile(
        r"(?:^|[\s/'\"`‘])(%s)['\"`’]?: (?:command )?not found" % _PROGRAM,
    ),
    re.compile(r"(?:^|[\s/'\"`‘])(%s)['\"`’]?: No such file or directory" % _PROGRAM),
    re.compile(r"(?:command not found|not found in \$?PATH|Unknown command)\S*:?\s+['\"`]?(?:\S*/)?(%s)\b" % _PROGRAM),
    re.compile(r"Command ['\"`‘](%s)['\"`’] not found" % _PROGRAM),
    re.compile(r"exec: ['\"](%s)['\"]: executable file not found" % _PROGRAM),
    re.compile(r"['\"`‘](%s)(?:\.exe)?['\"`’] is not recognized" % _PROGRAM),
)
_DENIED = re.compile(r"(?:^|[\s/'\"`‘])(%s)['\"`’]?: (?:Permission denied|Operation not permitted)" % _PROGRAM)

_SAYINGS = (
    # what a tool says; kind of the problem; summary; hint
    (
        r"not loaded|driver not initialized|amdgpu not found in modules|DRIVER_NOT_LOADED|no driver",
        "driver-not-loaded",
        "the driver is not loaded",
        "load the kernel module; dmesg tells why it does not load",
    ),
    (r"dcmi mod\w+ initializ\w+ failed.*-8020", "tool-failed", "npu-smi cannot start: the device is used", None),
    (
        r"dcmi mod\w+ initializ\w+ failed|DrvMng\w+ failed|drv\w* init\w* failed",
        "driver-not-loaded",
        "npu-smi cannot reach the Ascend driver",
        "check that driver and firmware match, that the account is in group HwHiAiUser, then reboot",
    ),
    (
        r"permission denied|missing the following required groups|must be run (?:as root|with sudo)|requires? root"
        r"|requires? sudo|insufficient permissions?|not permitted|NO_PERM\b|NoPermission",
        "permission",
        "the account may not read the devices",
        "run it as root, or add the account to the group that owns the device nodes",
    ),
    (
        r"version mismatch|(?:driver|library).{0,40}(?:do(?:es)? not match|incompatible)",
        "driver-mismatch",
        "the driver and its library differ in version",
        "reboot, or load the kernel module that belongs to the library",
    ),
    (
        r"no (?:amd |intel |compatible |supported |neuron |tpu |mlu |dcu |npu )*(?:gpus?|devices?|aips?|cards?"
        r"|chips?)\b.{0,20}(?:found|detected|available|specified)|unable to (?:detect|find) any (?:gpu )?devices?"
        r"|device not found|no neuron devices?|0 devices? found|unable to open any",
        "no-devices",
        "the tool finds no device",
        "lspci and dmesg tell whether one is there",
    ),
)
_SPOKEN = tuple((re.compile(words, re.IGNORECASE), kind, summary, hint) for words, kind, summary, hint in _SAYINGS)
_ERROR = re.compile(
    r"error|fail|exception|cannot|can ?not|unable|invalid|not (?:found|supported)|no json data|denied|timed? ?out",
    re.IGNORECASE,
)


def missing_program(text: str) -> Optional[str]:
    """The tool that a shell did not find."""
    for pattern in _MISSING:
        found = pattern.search(text)
        if found:
            return found.group(1)
    return None


def looks_like(text: str) -> bool:
    """A few lines in which a shell or a tool says that it could not do what it was asked."""
    return len(text) < 4000 and (missing_program(text) is not None or _DENIED.search(text) is not None)


def read(text: str) -> Sample:
    """A sample without devices that says what went wrong."""
    denied = _DENIED.search(text)
    tool = missing_program(text) or (denied.group(1) if denied else "")
    sample = new_sample(ROUTES.get(tool, "file"))
    return explain_silence(sample, tool or "the tool", text)


def explain(tool: str, text: str) -> Dict[str, Any]:
    """The problem that `text` of `tool` speaks of; `tool-failed` when it says nothing known."""
    text = text.strip()[:20000]
    detail = text[:2000] or None
    missing = missing_program(text)
    if missing:
        return problem(
            "tool-missing",
            missing + " not found",
            detail,
            "install it, or name its folder: it may be off the PATH of ssh",
        )
    for pattern, kind, summary, hint in _SPOKEN:
        if pattern.search(text):
            return problem(kind, summary, detail, hint)
    first = next((line.strip() for line in text.split("\n") if _ERROR.search(line)), None)
    summary = first[:200] if first else tool + " gave nothing that can be read"
    return problem("tool-failed", summary, detail)


def explain_cut(sample: Sample, text: str) -> Sample:
    """`sample`; with a problem when the text ends within a table. Lists of processes are then not known to be whole."""
    lines = [line for line in text.split("\n") if line.strip()]
    if lines and lines[-1].lstrip()[:1] in ("|", "│", "┃") and sample["devices"]:
        sample["problems"].append(problem("unreadable-file", "the text ends within a table", lines[-1][:200]))
        for row in sample["devices"]:
            row["processes_known"] = False
    return sample


def explain_silence(sample: Sample, tool: str, text: str) -> Sample:
    """`sample`; when it has no devices, with the problem that says why."""
    if not sample["devices"] and not sample["problems"]:
        sample["problems"].append(explain(tool, text))
    return sample
