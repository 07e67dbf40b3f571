"""`nvidia-smi -q -x`: every schema, with and without a header, whole or cut off.

The text before the root element is left out, so that a document type can declare no entities: nothing is ever
expanded or fetched.
"""

from typing import Any, Dict, Optional, Tuple, cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser, fromstring

from gputop.remote import nvidia_query, nvidia_remarks
from gputop.remote.sample import Sample, new_sample, problem

_ROOT = "<nvidia_smi_log"
_END = "</nvidia_smi_log>"
_BULK = (
    ("<supported_clocks>", "</supported_clocks>"),
    ("<accounted_processes>", "</accounted_processes>"),
)
"""Nine tenths of the text, and nothing of it is shown."""


def looks_like(text: str) -> bool:
    return _ROOT in text


def read(text: str) -> Sample:
    """The newest complete log of `text` (`-l` writes one after the other), else what there is of the last one."""
    sample = new_sample("nvidia-smi")
    log, rest = _newest(text)
    root, cut = _parse(_without_bulk(log))
    if root is not None:
        _read_log(root, sample, cut=cut)
    if cut:
        sample["problems"].append(
            problem(
                "unreadable-file",
                "the XML is cut off or damaged; what comes before is shown",
                None,
                "make it again: nvidia-smi -q -x",
            )
        )
    nvidia_remarks.attach(sample, rest)
    return sample


def _newest(text: str) -> Tuple[str, str]:
    """The log to read, and the words around the logs."""
    logs, rest, at = [], [], 0
    while True:
        start = text.find(_ROOT, at)
        if start < 0:
            break
        rest.append(text[at:start])
        following = text.find(_ROOT, start + 1)
        end = text.find(_END, start, following if following >= 0 else len(text))
        at = end + len(_END) if end >= 0 else following if following >= 0 else len(text)
        logs.append((end >= 0, text[start:at]))
    rest.append(text[at:])
    whole = [log for complete, log in logs if complete]
    return (whole or [log for _, log in logs] or [""])[-1], "\n".join(rest)


def _without_bulk(log: str) -> str:
    for opening, closing in _BULK:
        kept, at = [], 0
        while True:
            start = log.find(opening, at)
            if start < 0:
                break
            end = log.find(closing, start)
            kept.append(log[at:start])
            at = len(log) if end < 0 else end + len(closing)
        log = "".join([*kept, log[at:]])
    return log


def _parse(log: str) -> Tuple[Optional[Element], bool]:
    """The root element as far as it could be read, and whether something of it is missing."""
    try:
        return fromstring(log), False
    except (ParseError, UnicodeEncodeError):
        return _parse_damaged(log), True


def _parse_damaged(log: str) -> Optional[Element]:
    parser: XMLPullParser[Any] = XMLPullParser(("start",))
    try:
        parser.feed(log)
        parser.close()
    except (ParseError, UnicodeEncodeError):
        pass  # what was parsed until here stands in the tree
    events: Any = parser.read_events()
    try:
        _, root = next(events)
    except (ParseError, StopIteration):
        return None
    return cast(Element, root)


def _read_log(root: Element, sample: Sample, *, cut: bool) -> None:
    sample["facts"].update(nvidia_query.facts_of({child.tag: child.text or "" for child in root}))
    gpus = [child for child in root if child.tag == "gpu"]
    for index, gpu in enumerate(gpus):
        incomplete = cut and gpu is gpus[-1]
        sample["devices"].append(_row(gpu, index, incomplete=incomplete))
    missing = nvidia_query.count_problem(len(gpus), root.findtext("attached_gpus"))
    if missing is not None and not cut:
        sample["problems"].append(missing)


def _row(gpu: Element, index: int, *, incomplete: bool) -> Dict[str, object]:
    flat: Dict[str, str] = {}
    for child in gpu:
        if child.tag in nvidia_query.TOPS:
            _collect(flat, child, child.tag, 8)
    row = nvidia_query.row_of(flat, gpu.get("id"), index)
    devices = [device for device in gpu.iterfind("mig_devices/mig_device") if len(device)]
    row["partitions"] = [nvidia_query.partition_of(_flat(device), position) for position, device in enumerate(devices)]
    virtual = [_flat(element) for element in gpu.iter() if element.find("vgpu_id") is not None]
    vgpus = [nvidia_query.vgpu_of(flat, position) for position, flat in enumerate(virtual)]
    row["partitions"] += [vgpu for vgpu in vgpus if vgpu is not None]
    processes = gpu.find("processes")
    if processes is None:
        processes = gpu.find("compute_processes")
    found = [nvidia_query.process_of(_flat(info)) for info in (processes if processes is not None else ())]
    row["processes"] = [process for process in found if process is not None]
    word = "" if processes is None else (processes.text or "").strip().lower()
    row["processes_known"] = processes is not None and not incomplete and word in ("", "none")
    return row


def _flat(element: Element) -> Dict[str, str]:
    flat: Dict[str, str] = {}
    for child in element:
        _collect(flat, child, child.tag, 8)
    return flat


def _collect(flat: Dict[str, str], element: Element, name: str, depth: int) -> None:
    """The texts below `element`, at most `depth` levels down."""
    if len(element):
        for child in element if depth else ():
            _collect(flat, child, f"{name}/{child.tag}", depth - 1)
    elif element.text is not None:
        flat[name] = element.text
