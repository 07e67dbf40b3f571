"""What was found, as files and in a few lines."""

import json
import os
from typing import Any, Dict, List

from scrub import Scrubber

Found = Dict[str, Any]


def write(folder: str, found: Found, clean: Scrubber) -> List[str]:
    """Names of the files, all below `folder`."""
    fixtures = os.path.join(folder, "fixtures")
    os.makedirs(fixtures, exist_ok=True)
    names = ["report.json", "report.md"]
    for name, text in sorted(found.get("outputs", {}).items()):
        _write(os.path.join(fixtures, name), clean.text(name, text))
        names.append(os.path.join("fixtures", name))
    values = clean.value({key: value for key, value in found.items() if key not in ("outputs", "program")})
    _write(os.path.join(folder, "report.json"), json.dumps(values, indent=1, sort_keys=True) + "\n")
    _write(os.path.join(folder, "report.md"), "\n".join(pages(values)) + "\n")
    return names


def summary(found: Found) -> str:
    lines = [
        "gpu-check: %d GPU, driver %s, %.0f s"
        % (len(found.get("devices", ())), found.get("facts", {}).get("driver_version"), found["seconds"])
    ]
    counts: Dict[str, int] = {}
    for row in found.get("comparison", ()):
        counts[row["verdict"]] = counts.get(row["verdict"], 0) + 1
    if counts:
        lines.append("NVML and nvidia-smi: " + ", ".join("%s %d" % pair for pair in sorted(counts.items())))
    slow = [row for row in found.get("calls", ()) if row["max_ms"] >= 10][:5]
    lines += ["slow: %(call)s  median %(median_ms)s ms, at most %(max_ms)s ms" % row for row in slow]
    lines += ["note: %s" % note for note in found["notes"]]
    lines += ["WRONG: %s" % failure for failure in found["failures"]]
    lines.append("%d wrong" % len(found["failures"]) if found["failures"] else "all well")
    return "\n".join(lines)


def pages(found: Found) -> List[str]:
    """The figures as Markdown, for docs/accuracy.md."""
    models = sorted({device.get("model") or "?" for device in found.get("devices", ())})
    lines = ["# %s, driver %s" % (", ".join(models), found.get("facts", {}).get("driver_version")), ""]
    lines += ["Python %s, %d GPU, %.0f s." % (found["python"], len(found.get("devices", ())), found["seconds"]), ""]
    lines += ["- WRONG: %s" % failure for failure in found["failures"]] + ["- %s" % note for note in found["notes"]]
    lines += ["", "## Values", ""]
    lines += _table(_grouped(found.get("comparison", ())), ("key", "GPUs", "nvml", "smi", "verdict"))
    lines += ["", "## NVML calls", ""]
    lines += _table(found.get("calls", ()), ("call", "count", "median_ms", "max_ms", "failed"))
    lines += ["", "## Numbered fields", ""]
    lines += _table(found.get("fields", ()), ("gpu", "field", "code", "type", "value", "ms", "words"))
    lines += ["", "## nvidia-smi", ""]
    lines += _table(found.get("programs", ()), ("name", "status", "seconds"))
    lines += ["", *_table(found.get("streams", ()), ("way", "first_seconds", "lines", "pieces", "words"))]
    lines += ["", "## Agent", ""]
    lines += _table([found["agent"]] if "agent" in found else [], tuple(sorted(found.get("agent", ()))))
    if "peak" in found:
        lines += ["", "## Load", "", "By %s:" % found["load"], ""]
        lines += _table(
            [{"value": key, "before": found["idle"][key], "most": most} for key, most in sorted(found["peak"].items())],
            ("value", "before", "most"),
        )
    return lines


def _grouped(rows: Any) -> List[Dict[str, Any]]:
    """One row a key and verdict, with the values of the first GPU of which it is so."""
    found: Dict[Any, Dict[str, Any]] = {}
    for row in rows:
        group = found.setdefault((row["key"], row["verdict"]), dict(row, GPUs=[]))
        group["GPUs"].append(row["position"])
    return [dict(row, GPUs=" ".join(str(position) for position in row["GPUs"])) for row in found.values()]


def _table(rows: Any, keys: Any) -> List[str]:
    if not rows:
        return ["none"]
    lines = ["| %s |" % " | ".join(keys), "|%s" % ("---|" * len(keys))]
    for row in rows:
        cells = ["" if row.get(key) is None else str(row[key]) for key in keys]
        lines.append("| %s |" % " | ".join(cell.replace("|", "\\|") for cell in cells))
    return lines


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
