#!/usr/bin/env python3
"""Compare what `gputop read` makes of a folder of recordings with the truth stated beside them.

    python scripts/compare_recordings.py FOLDER [PREFIX ...]

FOLDER holds `expected.json`: a list of {"file": path in FOLDER, "expect": {...}}. Prints each difference, then
"N of M files right"; exit 0 when all are. Only fields that `expected.json` states and the JSON document has are
compared; the order of devices, processes and events is free.
"""

import contextlib
import io
import json
import pathlib
import re
import sys

from gputop.cli.main import main as gputop

MIB = 1 << 20
PROBLEM = {
    "driver-library-mismatch": "driver-mismatch",
    "driver-not-running": "driver-not-loaded",
    "tool-missing": "tool-missing",
    "permission": "permission",
    "gpu-lost": "device-lost",
}
KIND = {"C": "compute", "G": "graphics", "C+G": "both"}
# one field of a device: its key in expected.json (or column of a query), its key in the contract
NUMBERS = [
    ("util_gpu_pct", "utilization_percent"),
    ("util_pct", "utilization_percent"),
    ("gfx_util_pct", "utilization_percent"),
    ("aicore_pct", "utilization_percent"),
    ("util", "utilization_percent"),
    ("temp_c", "temperature_celsius"),
    ("core_temp_c", "temperature_celsius"),
    ("fan_pct", "fan_percent"),
    ("power_w", "power_watts"),
    ("power_cap_w", "power_limit_watts"),
    ("power_cap", "power_limit_watts"),
    ("minor", "minor_number"),
    ("utilization.gpu [%]", "utilization_percent"),
    ("GPU use (%)", "utilization_percent"),
    ("temperature.gpu", "temperature_celsius"),
    ("temperature.memory", "memory_temperature_celsius"),
    ("fan.speed [%]", "fan_percent"),
    ("power.draw [W]", "power_watts"),
    ("power.limit [W]", "power_limit_watts"),
    ("Average Graphics Package Power (W)", "power_watts"),
]
BYTES = [
    ("mem_used_mib", "memory_used_bytes", MIB),
    ("mem_total_mib", "memory_total_bytes", MIB),
    ("memory.used [MiB]", "memory_used_bytes", MIB),
    ("memory.total [MiB]", "memory_total_bytes", MIB),
    ("VRAM Total Used Memory (B)", "memory_used_bytes", 1),
    ("VRAM Total Memory (B)", "memory_total_bytes", 1),
]
TEXTS = [("uuid", "uuid"), ("pstate", "performance_state")]


def num(text):
    m = re.search(r"-?\d+(?:\.\d+)?", str(text)) if text is not None else None
    return float(m.group()) if m else None


def near(have, expect, tolerance=0.011):
    if have is None or expect is None:
        return have is expect
    return isinstance(have, (int, float)) and abs(have - expect) <= max(tolerance, abs(expect) * 0.002)


def busid(text):
    """Domain (four hex digits), bus and device, in lower case; None for N/A. The function is kept when there is one."""
    parts = str(text or "").strip().lower().split(":")
    return (
        ":".join([parts[-3][-4:].rjust(4, "0") if len(parts) > 2 else "0000", *parts[-2:]]) if len(parts) > 1 else None
    )


def same_bus(a, b):
    a, b = busid(a), busid(b)
    if a is None or b is None:
        return a is b
    return a == b or (("." not in a or "." not in b) and a.split(".")[0] == b.split(".")[0])


def rows(doc, key):
    return [x for x in doc.get(key) or [] if isinstance(x, dict)]


def compare_device(want, got, say):
    for w, g in NUMBERS:
        if w in want and not near(got.get(g), num(want[w])):
            say(f"{g}: {got.get(g)!r}, should be {num(want[w])!r}")
    for w, g, unit in BYTES:
        expect = num(want.get(w))
        expect = None if expect is None else expect * unit
        if w in want and not near(got.get(g), expect, unit):
            say(f"{g}: {got.get(g)!r}, should be {expect!r}")
    for w, g in TEXTS:
        expect = None if str(want.get(w)).strip("[]") in ("N/A", "Not Supported") else want.get(w)
        if w in want and got.get(g) != expect:
            say(f"{g}: {got.get(g)!r}, should be {expect!r}")
    if want.get("name"):  # a table may cut a name, the reader may put the maker in front
        parts = want["name"].split("...")
        if not (
            str(got.get("model")).startswith(parts[0][:12].strip())
            if len(parts) > 1
            else parts[0].lower() in str(got.get("model")).lower()
        ):
            say(f"model: {got.get('model')!r}, should be {want['name']!r}")
    for key in ("bus_id", "pci.bus_id"):
        if key in want and not same_bus(got.get("pci_bus_id"), want[key]):
            say(f"pci_bus_id: {got.get('pci_bus_id')!r}, should be {want[key]!r}")
    for key in ("mig_mode", "mig.mode.current"):
        if key in want and got.get("mig_mode") != {"Enabled": "enabled", "Disabled": "disabled"}.get(want[key]):
            say(f"mig_mode: {got.get('mig_mode')!r}, should be {want[key]!r}")
    if "power_w_any_of" in want:  # XML: the card's instant or average figure, never the module's
        have = got.get("power_watts")
        if not (any(near(have, w) for w in want["power_w_any_of"]) if want["power_w_any_of"] else have is None):
            say(f"power_watts: {have!r}, should be {want['power_w_any_of'] or None!r}")
    if "power_cap" in want and not near(got.get("power_watts"), num(want.get("power"))):
        say(f"power_watts: {got.get('power_watts')!r}, should be {num(want.get('power'))!r}")
    if want.get("mem_pairs_mb"):  # Ascend: DDR or HBM, MB of either size
        have = got.get("memory_used_bytes"), got.get("memory_total_bytes")
        if not any(
            near(have[0], u * unit, unit) and near(have[1], t * unit, unit)
            for u, t in want["mem_pairs_mb"]
            if t
            for unit in (MIB, 10**6)
        ):
            say(f"memory: {have}, should be one of {want['mem_pairs_mb']} MB")
    for key in ("mig_devices", "mig"):
        if isinstance(want.get(key), list):
            compare_partitions(want[key], [p for p in rows(got, "partitions") if p.get("kind") in ("mig", None)], say)
    if isinstance(want.get("processes"), list):
        compare_processes(want["processes"], rows(got, "processes"), say)


def compare_partitions(want, have, say):
    if len(have) != len(want):
        return say(f"{len(have)} partitions, should be {len(want)}")
    for i, w in enumerate(want):
        same = (
            [
                p
                for p in have
                if (w.get("gi"), w.get("ci", p.get("compute_instance_id")))
                == (p.get("gpu_instance_id"), p.get("compute_instance_id"))
            ]
            if "gi" in w
            else [p for p in have if p.get("uuid") == w["uuid"]]
        )
        if not same:
            say(f"partition {i}: none with {'gi {} ci {}'.format(w['gi'], w.get('ci')) if 'gi' in w else w['uuid']}")
            continue
        for k, g in (("mem_used_mib", "memory_used_bytes"), ("mem_total_mib", "memory_total_bytes")):
            if k in w and not any(near(p.get(g), None if w[k] is None else w[k] * MIB, MIB) for p in same):
                say(f"partition {i} {g}: {same[0].get(g)!r}, should be {w[k]!r} MiB")
        if w.get("profile") and not any(str(p.get("profile")).split()[-1] == w["profile"].split()[-1] for p in same):
            say(f"partition {i} profile: {same[0].get('profile')!r}, should be {w['profile']!r}")


def compare_processes(want, have, say):
    """want: dicts with pid, rows with the pid in the second cell, or bare pids."""
    want = [p if isinstance(p, dict) else {"pid": p[1] if isinstance(p, list) else p} for p in want]
    want = [{**p, "pid": int(p["pid"])} for p in want if str(p["pid"]).isdigit()]
    if {p.get("pid") for p in have} != {p["pid"] for p in want}:
        return say(
            f"pids {sorted({p.get('pid') for p in have}, key=str)}, should be {sorted({p['pid'] for p in want})}"
        )
    for p in want:
        same = [h for h in have if h.get("pid") == p["pid"]]
        for key in ("used_mib", "used_gpu_memory [MiB]", "mem"):
            if key in p and not (key == "mem" and isinstance(p[key], int)):  # xpu-smi gives kB there
                expect = None if num(p[key]) is None else num(p[key]) * MIB
                if not any(near(h.get("memory_used_bytes"), expect, MIB) for h in same):
                    say(f"process {p['pid']} memory {same[0].get('memory_used_bytes')!r}, should be {expect!r}")
        if isinstance(p.get("gi"), int) and not any(h.get("gpu_instance_id") == p["gi"] for h in same):
            say(f"process {p['pid']} gpu_instance_id {same[0].get('gpu_instance_id')!r}, should be {p['gi']!r}")
        if p.get("type") in KIND and not any(h.get("kind") == KIND[p["type"]] for h in same):
            say(f"process {p['pid']} kind {same[0].get('kind')!r}, should be {KIND[p['type']]!r}")


def compare_events(want, events, say):
    for kind in ("xid", "sxid"):
        left = [e for e in events if e.get("kind") == kind]
        expect = [e for e in want.get("events", []) if kind in e and not e.get("detail_line")]
        codes = sorted(str(e.get("code")) for e in left), sorted(str(e[kind]) for e in expect)
        if codes[0] != codes[1]:
            say(f"{kind}s {codes[0]}, should be {codes[1]}")
            continue
        for w in expect:
            for e in left:
                if (
                    e.get("code") == w[kind]
                    and same_bus(e.get("pci_bus_id"), w["pci"].split()[0])
                    and all(e.get(g) == w[k] for k, g in (("pid", "pid"), ("name", "process")) if k in w)
                ):
                    left.remove(e)
                    break
            else:
                rest = [{k: e.get(k) for k in ("code", "pci_bus_id", "pid", "process")} for e in left]
                say(f"no event like {w}; left: {rest[:2]}")


def check(entry, doc, text, say):
    want = entry["expect"]
    hosts = rows(doc, "hosts")
    host = hosts[0] if hosts else {}
    devices = [d for h in hosts for d in rows(h, "devices")]
    problems = [p for x in hosts + devices for p in rows(x, "problems")]
    if entry["file"].startswith("kernel/"):
        return compare_events(want, [e for h in hosts for e in rows(h, "events")], say)
    if "class" in want:
        kinds = {p.get("kind") for p in problems}
        if not kinds or (want["class"] in PROBLEM and PROBLEM[want["class"]] not in kinds):
            say(f"problems {sorted(map(str, kinds))}, should have {PROBLEM.get(want['class'], want['class'])}")
        if want.get("gpus") == 0 and any(
            d.get("state") == "ok" and not any(d.get(k) and str(d[k]) in text for k in ("uuid", "pci_bus_id", "model"))
            for d in devices
        ):
            say(f"{len(devices)} devices invented")
        for key, field in (("temp", "temperature_celsius"), ("power", "power_watts")):
            if key in want and want[key] is None and any(d.get(field) is not None for d in devices):
                say(f"{field} should be null")
        return
    lists = next(
        (
            want[k]
            for k in ("gpus", "npus", "aips", "cards", "devices")
            if isinstance(want.get(k), list) and want[k] and isinstance(want[k][0], dict)
        ),
        None,
    )
    if lists is None and isinstance(want.get("gpus"), list):  # mthreads-gmi: id, name, bus, util, used, total
        lists = [
            dict(zip(("index", "name", "bus_id", "util_pct", "mem_used_mib", "mem_total_mib"), row, strict=False))
            for row in want["gpus"]
        ]
    if lists is None and want.get("dcus"):  # hy-smi: id, temperature, power, ..., cap, VRAM%, DCU%
        lists = [
            {
                "index": int(r[0]),
                "temp_c": r[1],
                "power_w": r[2],
                "power_cap_w": [c for c in r if c.endswith("W")][-1],
                "util_pct": [c for c in r if c.endswith("%")][-1],
            }
            for r in want["dcus"]
        ]
    cells = (
        [v for v in want["values"] if isinstance(v, dict)] if isinstance(want.get("values"), list) else []
    )  # rows of a CSV with header
    if lists is None and cells and {"index", "name", "uuid"} & set(cells[0]):  # one row per device
        lists = cells
        if "driver_version" in cells[0] and host.get("driver_version") != cells[0]["driver_version"]:
            say(f"driver_version: {host.get('driver_version')!r}, should be {cells[0]['driver_version']!r}")
    if lists is None and isinstance(
        want.get("values"), dict
    ):  # rocm-smi JSON: devices by address or card number; partitions of one address may be folded
        buses = {busid(v["PCI Bus"]) for v in want["values"].values() if "PCI Bus" in v}
        if buses and {busid(d.get("pci_bus_id")) for d in devices} != buses:
            say(f"pci_bus_id: {[d.get('pci_bus_id') for d in devices]}, should be {sorted(map(str, buses))}")
        for card, v in want["values"].items():
            same = [d for d in devices if "PCI Bus" in v and same_bus(d.get("pci_bus_id"), v["PCI Bus"])]
            got = same[0] if len(same) == 1 else next((d for d in devices if d.get("index") == num(card)), {})
            compare_device(v, got, lambda m, c=card: say(f"{c} {m}"))
    if lists is None and isinstance(want.get("mem_used_mib"), int):  # one device, its values at the top
        lists = [
            {
                k: v
                for k, v in want.items()
                if k in ("name", "mem_used_mib", "mem_total_mib", "temp_c", "core_temp_c", "util_pct", "power_w")
            }
        ]
    count = (
        len(lists)
        if lists is not None
        else next((want[k] for k in ("numbered_rows", "physical_gpus", "gpus") if isinstance(want.get(k), int)), None)
    )
    if count is not None and count not in (len(devices), len([d for d in devices if d.get("state") != "lost"])):
        say(f"{len(devices)} devices, should be {count}")
    for i, w in enumerate(lists or []):
        bus, number = w.get("bus_id") or w.get("pci.bus_id"), num(w.get("index", w.get("card", w.get("id"))))
        got = (
            next((d for d in devices if busid(bus) and same_bus(d.get("pci_bus_id"), bus)), None)
            or next((d for d in devices if number is not None and d.get("index") == number), None)
            or (devices[i] if i < len(devices) else {})
        )
        if isinstance(want.get("mig_devices"), list):  # a table lists the instances of all GPUs below
            w = {**w, "mig_devices": [m for m in want["mig_devices"] if m["gpu"] == w["index"]]}
        compare_device(w, got, lambda m, i=i: say(f"device {i} {m}"))
    by_index = sorted(devices, key=lambda d: (d.get("index") is None, d.get("index") or 0))
    for i, t in enumerate(want.get("temps") or []):
        if i < len(by_index):
            compare_device({"temp_c": t}, by_index[i], lambda m, i=i: say(f"device {i} {m}"))
    for i, m in enumerate(want.get("mem") or []):
        if i < len(by_index):
            compare_device(
                {"mem_used_mib": m[0], "mem_total_mib": m[1]}, by_index[i], lambda m, i=i: say(f"device {i} {m}")
            )
    for name in want.get("names") or []:
        if not any(str(name) in str(d.get("model")) for d in devices):
            say(f"no device named {name!r}")
    if isinstance(want.get("bus_ids"), list) and sorted(map(busid, want["bus_ids"])) != sorted(
        str(busid(d.get("pci_bus_id"))) for d in devices
    ):
        say(f"pci_bus_id: {[d.get('pci_bus_id') for d in devices]}, should be {want['bus_ids']}")
    if "active_vgpus" in want and sorted(want["active_vgpus"]) != sorted(
        len([p for p in rows(d, "partitions") if p.get("kind") == "vgpu"]) for d in devices
    ):
        say(f"vGPUs per device: {[len(rows(d, 'partitions')) for d in devices]}, should be {want['active_vgpus']}")
    if isinstance(want.get("instances"), list):
        compare_partitions(want["instances"], [p for d in devices for p in rows(d, "partitions")], say)
    if isinstance(want.get("mig_devices"), int) and want["mig_devices"] != sum(
        len(rows(d, "partitions")) for d in devices
    ):
        say(f"{sum(len(rows(d, 'partitions')) for d in devices)} partitions, should be {want['mig_devices']}")
    if (
        "numbered_rows" in want and devices and "°C" in want.get("first_row", [])
    ):  # amd-smi monitor: the first W and the first °C
        row = want["first_row"]
        first = next((d for d in devices if d.get("index") == num(row[0])), {})
        compare_device(
            {"temp_c": row[row.index("°C") - 1], **({"power_w": row[row.index("W") - 1]} if "W" in row else {})},
            first,
            lambda m: say(f"device {row[0]} {m}"),
        )
    if isinstance(want.get("columns"), list) and want.get(
        "first_row"
    ):  # dmon, xpu-smi dump: a reader may show the first or the last sample
        first, last = (
            dict(zip(want["columns"], want.get(k) or want["first_row"], strict=False))
            for k in ("first_row", "last_row")
        )
        shown = devices[0] if devices else say("no device") or {}
        for key, field in (
            ("sm", "utilization_percent"),
            ("mtemp", "memory_temperature_celsius"),
            ("GPU Power (W)", "power_watts"),
            ("GPU Core Temperature (Celsius Degree)", "temperature_celsius"),
        ):
            blank = key in first and num(first[key]) is None
            if (blank and shown.get(field) is not None) or (
                key in first
                and "last_row" in want
                and not any(near(shown.get(field), num(r[key])) for r in (first, last))
            ):
                say(f"{field}: {shown.get(field)!r}, should be {num(first[key])!r} or {num(last[key])!r}")
    for w, g in (("driver", "driver_version"), ("cuda", "cuda_version")):
        for value in (want[w] if isinstance(want.get(w), list) else [want[w]])[:1] if w in want else []:
            if (str(host[g]).removeprefix("v") if host.get(g) is not None else None) != value:
                say(f"{g}: {host.get(g)!r}, should be {value!r}")
    everyone = [p for d in devices for p in rows(d, "processes")]
    if isinstance(want.get("processes"), list):
        compare_processes(want["processes"], everyone, say)
    if isinstance(want.get("pids"), list):
        compare_processes(
            [{"pid": p} for x in want["pids"] for p in (x if isinstance(x, list) else [x])], everyone, say
        )
    if cells and "pid" in cells[0]:
        compare_processes(cells, everyone, say)


def document_of(file):
    """The JSON document of one recording, as `gputop read FILE --format json` prints it."""
    out, words = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(words):
        gputop(["read", str(file), "--format", "json"])
    return json.loads(out.getvalue()), words.getvalue()


def main():
    folder, prefixes = pathlib.Path(sys.argv[1]), tuple(sys.argv[2:])
    entries = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    entries = [entry for entry in entries if entry["file"].startswith(prefixes or "")]
    right = 0
    for entry in entries:
        faults, file = [], folder / entry["file"]
        try:
            document, words = document_of(file)
            check(entry, document, file.read_text(encoding="utf-8", errors="replace"), faults.append)
        except ValueError as error:
            faults.append(f"no JSON: {error}")
        else:
            faults += ["traceback"] * ("Traceback" in words)
        right += not faults
        for fault in faults[:6]:
            print(f"{entry['file']}: {fault}")
    print(f"{right} of {len(entries)} files right")
    return right != len(entries)


if __name__ == "__main__":
    sys.exit(main())
