"""Takes out of texts what belongs to one machine: serial numbers, UUIDs, names."""

import json
import re
import socket
from typing import Any, Dict, Tuple

_UUID = re.compile(r"\b(GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_ELEMENT = re.compile(
    r"<(serial|board_serial|chassis_serial_number|gpu_fabric_guid|gpu_pdi|cluster_uuid|clusterUuid|process_name)>"
    r"[^<]*</\1>"
)
_LINE = re.compile(
    r"^(\s*(?:Serial Number|Chassis Serial Number|GPU Fabric GUID|GPU PDI|ClusterUUID|Name)\s+: ).+$", re.MULTILINE
)
_SECRET_COLUMNS = ("serial", "gpu_serial", "hostname", "platform.", "fabric.clusterUuid", "pdi")
_LEAST_CHARACTERS = 4


class Scrubber:
    """The same value always becomes the same other one."""

    def __init__(self, found: Dict[str, Any]) -> None:
        self._uuids: Dict[str, str] = {}
        self._words = {}
        for number, device in enumerate(found.get("devices", ())):
            serial = device.get("serial")
            if serial and serial.strip("0"):
                self._words[serial] = "%013d" % (1650000000000 + number)
        name = socket.gethostname()
        if len(name) >= _LEAST_CHARACTERS:
            self._words[name] = "gpu-a"

    def text(self, name: str, text: str) -> str:
        """`name`: of the fixture, which tells what kind of output it is."""
        text = _UUID.sub(self._uuid, text)
        text = _ELEMENT.sub(r"<\1>N/A</\1>", text)
        if name == "q.txt":
            text = _LINE.sub(r"\1N/A", text)
        if name == "query-gpu.csv":
            text = _without_columns(
                text, ("serial", "gpu_serial", "hostname", "platform.", "fabric.clusterUuid", "pdi")
            )
        if name == "query-compute-apps.csv":
            text = re.sub(r"^([^,\n]+, \d+, ).*(, [^,\n]+)$", r"\1program\2", text, flags=re.MULTILINE)
        if name in ("table.txt", "pmon.txt"):
            text = "\n".join(_without_process(line) for line in text.split("\n"))
        for word, other in self._words.items():
            text = text.replace(word, other)
        return text

    def value(self, value: Any) -> Any:
        """The same for anything that JSON can say."""
        text = _UUID.sub(self._uuid, json.dumps(value, sort_keys=True, indent=1))
        for word, other in self._words.items():
            text = text.replace(word, other)
        return json.loads(text)

    def _uuid(self, found: Any) -> str:
        kind = found.group(1)
        other = "%s-00000000-0000-%d000-8000-%012d" % (kind, 4 if kind == "GPU" else 5, len(self._uuids))
        return self._uuids.setdefault(found.group(), other)


def _without_columns(text: str, names: Tuple[str, ...]) -> str:
    lines = text.split("\n")
    heads = [head.strip() for head in lines[0].split(",")]
    secret = [at for at, head in enumerate(heads) if head.startswith(names)]
    for number, line in enumerate(lines[1:], 1):
        cells = line.split(", ")
        if len(cells) == len(heads):
            for at in secret:
                cells[at] = "[N/A]"
            lines[number] = ", ".join(cells)
    return "\n".join(lines)


def _without_process(line: str) -> str:
    """Names of programs in the lists of the table and of pmon."""
    table = re.match(r"(\|\s+\d+\s+\S+\s+\S+\s+\d+\s+\S+\s+)(\S.*?)(\s+\S+\s+\|)$", line)
    if table:
        name = "program"
        return table.group(1) + name.ljust(len(table.group(2)))[: max(len(name), len(table.group(2)))] + table.group(3)
    monitor = re.match(r"(\s*\d+\s+\d+\s+[CGM+]+\s+.*\s)(\S+)(\s*)$", line)
    return monitor.group(1) + "program" + monitor.group(3) if monitor else line
