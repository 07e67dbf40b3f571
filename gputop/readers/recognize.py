"""Which tool wrote a text: told from its content, or by the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gputop.domain.problem import ProblemKind
from gputop.readers import (
    bug_report,
    dcgm,
    nvidia_csv,
    nvidia_failures,
    nvidia_monitor,
    nvidia_table,
    nvidia_text,
    nvtop,
)
from gputop.readers.join import join
from gputop.remote import (
    amd,
    ascend,
    cambricon,
    failures,
    gaudi,
    hygon,
    iluvatar,
    intel_gpu_top,
    kernel_log,
    metax,
    mthreads,
    neuron,
    nvidia_lists,
    nvidia_xml,
    rocm_smi,
    tpu,
    xpu,
)
from gputop.remote.sample import Sample, new_sample, problem


class Format(NamedTuple):
    """One kind of output."""

    name: str
    """The command that prints it; `--tool` takes it, or its first words."""
    looks_like: Callable[[str], bool]
    """Cheap, and false for what another format in the table reads."""
    read: Callable[[str], Sample]
    """Never raises."""


NVIDIA: tuple[Format, ...] = (
    Format("nvidia-smi -q -x", nvidia_xml.looks_like, nvidia_xml.read),
    Format("nvidia-smi -q", nvidia_text.looks_like, nvidia_text.read),
    Format("nvidia-smi --query-gpu", nvidia_csv.looks_like, nvidia_csv.read),
    Format("nvidia-smi --query-compute-apps", nvidia_csv.looks_like, nvidia_csv.read),
    Format("nvidia-smi", nvidia_table.looks_like, nvidia_table.read),
    Format("nvidia-smi pmon", nvidia_monitor.looks_like_pmon, nvidia_monitor.read_pmon),
    Format("nvidia-smi dmon", nvidia_monitor.looks_like_dmon, nvidia_monitor.read_dmon),
    Format("nvidia-smi mig -lgi", nvidia_lists.looks_like_instances, nvidia_lists.read_instances),
    Format("nvidia-smi -L", nvidia_lists.looks_like_list, nvidia_lists.read_list),
    Format("nvidia-smi nvlink", nvidia_lists.looks_like_list, nvidia_lists.read_list),
    Format("nvidia-smi topo -m", nvidia_lists.looks_like_topology, nvidia_lists.read_topology),
    Format("nvidia-smi --version", nvidia_lists.looks_like_version, nvidia_lists.read_version),
    Format("dcgm-exporter", dcgm.looks_like_metrics, dcgm.read_metrics),
    Format("dcgmi discovery -l", dcgm.looks_like_discovery, dcgm.read_discovery),
    Format("dcgmi dmon", dcgm.looks_like_dmon, dcgm.read_dmon),
)

VENDORS: tuple[Format, ...] = (
    Format("hl-smi", gaudi.looks_like, gaudi.read),
    Format("ixsmi", iluvatar.looks_like, iluvatar.read),
    Format("mx-smi", metax.looks_like, metax.read),
    Format("mthreads-gmi", mthreads.looks_like, mthreads.read),
    Format("cnmon", cambricon.looks_like, cambricon.read),
    Format("npu-smi info", ascend.looks_like, ascend.read),
    Format("hy-smi", hygon.looks_like, hygon.read),
    Format("rocm-smi", rocm_smi.looks_like, rocm_smi.read),
    Format("amd-smi", amd.looks_like, amd.read),
    Format("xpu-smi", xpu.looks_like, xpu.read),
    Format("intel_gpu_top -J", intel_gpu_top.looks_like, intel_gpu_top.read),
    Format("neuron-monitor", neuron.looks_like, neuron.read),
    Format("neuron-ls", neuron.looks_like, neuron.read),
    Format("tpu-info", tpu.looks_like, tpu.read),
    Format("nvtop -s", nvtop.looks_like, nvtop.read),
    Format("dmesg", kernel_log.looks_like, kernel_log.read),
    Format("journalctl -k", kernel_log.looks_like, kernel_log.read),
)
"""Before NVIDIA's: several of these tools print in the layout of nvidia-smi, under a name of their own."""

LAST: tuple[Format, ...] = (
    Format("dcgmi diag", dcgm.looks_like_diag, dcgm.read_diag),
    Format("nvidia-smi", nvidia_table.looks_like_box, nvidia_table.read),
    Format("nvidia-smi", nvidia_failures.looks_like, nvidia_failures.read),
    Format("an error message", failures.looks_like, failures.read),
)
"""Words that may stand beside the output of any tool, so they count only where nothing else is found."""

FORMATS = VENDORS + NVIDIA + LAST
"""In the order in which they are tried: the more telling ones first."""


def recognize(text: str, formats: Sequence[Format] = FORMATS) -> Format | None:
    """The first format that `text` looks like."""
    return next((known for known in formats if known.looks_like(text)), None)


def matching(text: str, formats: Sequence[Format] = FORMATS) -> list[Format]:
    """The formats to read `text` by: one, and that of kernel logs as well where a log follows an output."""
    first = recognize(text, formats)
    if first is None or first in LAST:
        return [] if first is None else [first]
    logs = [known for known in formats if known.read is kernel_log.read][:1]
    if first in logs:
        other = recognize(text, [known for known in formats if known.read is not kernel_log.read and known not in LAST])
        return [first] if other is None else [other, first]
    return [first, *(log for log in logs if log.looks_like(text))]


def formats_of(tool: str) -> tuple[Format, ...]:
    """The formats that `tool` may mean: those of that name, or whose name begins with its words."""
    if nvidia_csv.columns_of(tool):
        return (Format(tool, lambda text: bool(text.strip()), lambda text: nvidia_csv.read_command(text, tool)),)
    words = tool.split()
    return tuple(known for known in FORMATS if known.name.split()[: len(words)] == words)


def is_known(text: str, tool: str | None = None) -> bool:
    """Whether some reader (of `tool`) takes `text`."""
    formats = FORMATS if tool is None else formats_of(tool)
    return bug_report.looks_like(text) or recognize(text, formats) is not None


def read_text(text: str, tool: str | None = None) -> Sample:
    """What `text` says. A text of no known tool is a sample with a problem that says what was looked for."""
    formats = FORMATS if tool is None else formats_of(tool)
    if bug_report.looks_like(text):
        parts = bug_report.sections(text)
        samples = [known.read(part) for part in parts if (known := recognize(part, formats)) is not None]
        return join(samples) if samples else unrecognized(text, formats)
    found = matching(text, formats)
    if found:
        return found[0].read(text) if len(found) == 1 else join([one.read(text) for one in found])
    forced = formats[0].read(text) if len(formats) == 1 else None
    is_something = forced is not None and any(forced[part] for part in ("devices", "events", "facts", "problems"))
    return forced if forced is not None and is_something else unrecognized(text, formats)


def looked_for(formats: Sequence[Format] = FORMATS) -> str:
    """The tools that are known, for a person."""
    return "Looked for: " + ", ".join(dict.fromkeys(known.name for known in formats))


def unrecognized(text: str, formats: Sequence[Format]) -> Sample:
    """A sample without devices that says why."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    begins = f"It begins with: {first[:200]}\n" if first else ""
    sample = new_sample("file")
    sample["problems"].append(
        problem(
            ProblemKind.UNREADABLE_FILE.value,
            "not the output of a known tool" if first else "the file is empty",
            begins + looked_for(formats),
            '--tool names the tool that wrote it, such as --tool "nvidia-smi -q"',
        )
    )
    return sample
