"""AMD: `rocm-smi` as JSON (ROCm 4 to 7), as CSV, as lines and as its concise table. Hygon's tools print the same."""

import re
from typing import Any, Callable, Dict, List, Optional, Tuple

from gputop.remote import cells, failures, lenient_json, quantities, tables
from gputop.remote.amd_partitions import fold
from gputop.remote.sample import Row, Sample, new_sample

ROUTE = "rocm-smi"
VENDOR = "amd"

_CARD = re.compile(r'"(?P<card>card\d{1,4})"\s*:\s*\{')
_PAIR = re.compile(
    r'"(?P<key>(?:[^"\\\n]|\\.)+)"\s*:\s*(?:"(?P<text>(?:[^"\\\n]|\\.)*)"|(?P<bare>[^\s",{}\[\]][^",}\n]*))'
)
_HEAD = re.compile(r"^\s*(?:GPU|DCU|HCU|Device)\s.*(?:Temp|AvgPwr|Power|VRAM%)", re.IGNORECASE)
_BANNER = re.compile(r"ROCm System Management Interface|End of ROCm SMI Log")
_FAILED = re.compile(r"rocm-?smi|ROCm SMI|No JSON data to report|amdgpu not found in modules", re.IGNORECASE)
_TEMPERATURE = re.compile(r"-?\d+(?:\.\d+)?\s*°?[cC](?![\w])")
_PID = re.compile(r"pid\s?(\d+)$", re.IGNORECASE)
_SPEED = re.compile(r"\(([\d.]+\s*GT/s)\s+x(\d+)\)")
_LISTED = re.compile(
    r"^(?:GPU|DCU|HCU)\[(?P<card>\d{1,4})\]\s*:\s*(?P<key>[^:\n]+?)\s*:[ \t]+(?P<cell>.*)$", re.MULTILINE
)
_CSV = re.compile(r"^device,.*\(", re.MULTILINE)
_CLOCK = re.compile(r"\d+\s*[MG]hz", re.IGNORECASE)


def _bytes(cell: Optional[str]) -> Optional[int]:
    return quantities.memory(cell, 1)


def _clock(cell: Optional[str]) -> Optional[float]:
    """The clock in `(300Mhz)` or `0: (300Mhz)`; a level alone is none."""
    found = _CLOCK.search(cell or "")
    return quantities.megahertz(found.group()) if found else None


_FIELDS: Tuple[Tuple[str, Callable[[Optional[str]], Any], Tuple[str, ...]], ...] = (
    # key; converter; beginnings of keys as `_key` spells them, in the order in which they are tried
    ("pci_bus_id", cells.text, ("pci bus",)),
    ("uuid", cells.text, ("unique id",)),
    ("serial", cells.text, ("serial number",)),
    ("model", cells.text, ("device name", "card series", "card model")),
    ("utilization_percent", quantities.percent, ("gpu use %", "dcu use %", "hcu use %")),
    ("memory_utilization_percent", quantities.percent, ("gpu memory read write activity %", "gpu memory use %")),
    ("memory_used_bytes", _bytes, ("vram total used memory b",)),
    ("memory_total_bytes", _bytes, ("vram total memory b",)),
    (
        "temperature_celsius",
        quantities.celsius,
        ("temperature sensor edge", "temperature sensor junction", "temperature sensor core"),
    ),
    (
        "memory_temperature_celsius",
        quantities.celsius,
        ("temperature sensor memory", "temperature sensor mem", "temperature sensor hbm 0"),
    ),
    ("fan_percent", quantities.percent, ("fan speed %",)),
    (
        "power_watts",
        quantities.watts,
        ("average graphics package power w", "current socket graphics package power w", "current socket power w"),
    ),
    ("power_average_watts", quantities.watts, ("average graphics package power w",)),
    ("power_instant_watts", quantities.watts, ("current socket graphics package power w", "current socket power w")),
    ("power_limit_watts", quantities.watts, ("max graphics package power w",)),
    ("sm_clock_mhz", _clock, ("sclk clock speed", "sclk clock level")),
    ("memory_clock_mhz", _clock, ("mclk clock speed", "mclk clock level")),
    ("pcie_replay_count", cells.count, ("pcie replay count",)),
)


def looks_like(text: str) -> bool:
    head = text[:20000]
    if _CARD.search(head) or _CSV.search(head) or _BANNER.search(head) or _LISTED.search(head):
        return True
    if any(_is_head(line) for line in head.split("\n")[:60]):
        return True
    return len(text) < 4000 and _FAILED.search(text) is not None


def read(text: str, route: str = ROUTE, vendor: str = VENDOR) -> Sample:
    sample = new_sample(route)
    cards, system = _cards(text)
    if cards:
        rows = [_row(number, values, vendor) for number, values in cards]
        _add_processes(rows, system)
        sample["facts"]["driver_version"] = cells.text(system.get("driver version"))
        sample["devices"] = fold(rows)
    else:
        sample["devices"] = fold(_concise(text, vendor))
    return failures.explain_silence(sample, route, text)


def _cards(text: str) -> Tuple[List[Tuple[int, Dict[str, str]]], Dict[str, str]]:
    """Number and values of each card, and what stands beside the cards."""
    found: Dict[str, Dict[str, str]] = {}
    documents, wrong = lenient_json.documents(text)
    for document in documents:
        if isinstance(document, dict) and wrong is None:
            for name, values in document.items():
                if isinstance(values, dict):
                    found.setdefault(str(name), {}).update(_strings(values))
    if not found and _CARD.search(text):
        found = _scan(text)
    if not found and _CSV.search(text):
        found = _csv_cards(text)
    if not found:
        for line in _LISTED.finditer(text):
            found.setdefault("card" + line.group("card"), {}).setdefault(
                _key(line.group("key")), line.group("cell").strip()
            )
    cards = [(int(name[4:]), found[name]) for name in found if re.match(r"card\d{1,4}$", name)]
    return cards, found.get("system", {})


def _csv_cards(text: str) -> Dict[str, Dict[str, str]]:
    """A header that begins with `device`, then a row a card."""
    found: Dict[str, Dict[str, str]] = {}
    names: List[str] = []
    for line in text.split("\n"):
        row = tables.comma_separated(line)
        if row[:1] == ["device"]:
            names = [_key(name) for name in row]
        elif row and len(row) == len(names):
            found[row[0]] = dict(zip(names, row))
    return found


def _strings(values: Dict[str, Any]) -> Dict[str, str]:
    cells_by_key = ((_key(str(key)), quantities.said(value)) for key, value in values.items())
    return {key: cell.strip() for key, cell in cells_by_key if cell is not None}


def _scan(text: str) -> Dict[str, Dict[str, str]]:
    """Keys and values of a text that is no JSON: cut off, commas left out, words between."""
    found: Dict[str, Dict[str, str]] = {}
    starts = [(match.start(), match.end(), match.group("card")) for match in _CARD.finditer(text)]
    starts += [(match.start(), match.end(), "system") for match in re.finditer(r'"system"\s*:\s*\{', text)]
    starts.sort()
    for position, (_, begin, name) in enumerate(starts):
        end = starts[position + 1][0] if position + 1 < len(starts) else len(text)
        values = found.setdefault(name, {})
        for pair in _PAIR.finditer(text[begin:end]):
            cell = pair.group("text") if pair.group("text") is not None else pair.group("bare")
            values.setdefault(_key(pair.group("key")), cell.strip())
    return found


def _key(key: str) -> str:
    """A key in one spelling: its spelling changes from version to version."""
    return " ".join(re.findall(r"[a-z0-9%]+", key.lower()))


def _row(number: int, values: Dict[str, str], vendor: str) -> Row:
    row: Row = {"index": number, "vendor": vendor, "problems": []}
    for key, convert, names in _FIELDS:
        for name in names:
            cell = next((values[known] for known in values if known == name or known.startswith(name + " ")), None)
            found = convert(cell.strip("()")) if cell is not None else None
            if found is not None and not (key == "model" and str(found).lower().startswith("0x")):
                row[key] = found
                break
    if row.get("serial") == "0":
        row["serial"] = None
    microjoules = next((values[key] for key in values if key.startswith("accumulated energy uj")), None)
    energy = quantities.amount(microjoules)
    row["energy_joules"] = energy / 1e6 if energy is not None else None
    link = _SPEED.search(values.get("pcie clock level", ""))
    if link:
        row["pcie_generation"], row["pcie_width"] = quantities.generation(link.group(1)), cells.count(link.group(2))
    row["xcp"] = {
        "id": cells.integer(values.get("partition id")),
        "compute": cells.text(values.get("compute partition")),
        "memory": cells.text(values.get("memory partition")),
    }
    return row


def _add_processes(rows: List[Row], system: Dict[str, str]) -> None:
    """`PID4242: name, number of GPUs, VRAM, SDMA, CU`: it tells no GPU, so it says something of a single one only."""
    listed = {
        found.group(1): cell for found, cell in ((_PID.match(key), cell) for key, cell in system.items()) if found
    }
    if len(rows) != 1 or not listed:
        return
    rows[0]["processes_known"] = True
    rows[0]["processes"] = []
    for number, cell in listed.items():
        parts = [part.strip() for part in cell.split(",")]
        pid = quantities.pid(number)
        if pid is not None:
            used = quantities.memory(parts[2], 1) if len(parts) > 2 else None
            rows[0]["processes"].append({"pid": pid, "name": cells.text(parts[0]), "memory_used_bytes": used})


def _is_head(line: str) -> bool:
    return _HEAD.match(line) is not None and ("VRAM%" in line or re.search(r"\bPerf\b", line) is not None)


def _concise(text: str, vendor: str) -> List[Row]:
    """The table of the tool without options: a line a device, in newer versions a second one with its name."""
    rows: Dict[int, Row] = {}
    heads: List[tables.Field] = []
    last: Optional[Row] = None
    lines = tables.lines_of(text)
    for position, line in enumerate(lines):
        if _is_head(line):
            below = lines[position + 1] if position + 1 < len(lines) else ""
            heads = tables.columns(line, below if below[:1] in (" ", "\x1b") and "(" in below else "")
        elif heads and line.strip()[:1].isdigit():
            values = tables.place(heads, line)
            index = cells.integer((values.get(tables.name(heads[0][2])) or "").split(" ")[0])
            last = _concise_row(index, values, vendor) if index is not None else None
            if last is not None:
                rows[last["index"]] = last
        elif last is not None and line.startswith("  ") and line.strip()[:1].isalpha() and not tables.is_rule(line):
            last["model"] = last.get("model") or cells.text(line)
            last = None
    return list(rows.values())


def _concise_row(index: int, values: Dict[str, str], vendor: str) -> Row:
    def pick(*labels: str) -> Optional[str]:
        return next((cell for key, cell in values.items() if key.startswith(labels)), None)

    temperature = _TEMPERATURE.search(pick("temp") or "")
    row: Row = {
        "index": index,
        "vendor": vendor,
        "temperature_celsius": quantities.celsius(temperature.group()) if temperature else None,
        "power_watts": quantities.watts(pick("avgpwr", "power", "avg pwr")),
        "power_limit_watts": quantities.watts(pick("pwrcap", "pwr cap", "power cap")),
        "sm_clock_mhz": quantities.megahertz(pick("sclk")),
        "memory_clock_mhz": quantities.megahertz(pick("mclk")),
        "fan_percent": quantities.percent(pick("fan")),
        "utilization_percent": quantities.percent(pick("gpu%", "dcu%", "hcu%")),
        "problems": [],
    }
    parts = [part.strip() for part in (pick("partitions") or "").split(",")]
    row["xcp"] = {
        "memory": cells.text(parts[0]),
        "compute": cells.text(parts[1]) if len(parts) > 1 else None,
        "id": cells.integer(parts[2]) if len(parts) > 2 else None,
    }
    return row
