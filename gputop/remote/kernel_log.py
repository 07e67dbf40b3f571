"""NVIDIA's events in the kernel log: Xid, SXid, "fallen off the bus", adapters that do not start.

Reads what dmesg (all its time formats), journalctl, syslog and /dev/kmsg print. One event a logged event: a 45 "caused
by previous Xid" is part of that one, `Data` and `Severity` lines of an SXid are part of it, and lines in which the
driver says the same again of the same GPU at once are one event. Severities come from the catalogue, elsewhere.
"""

import calendar
import re
from collections import deque
from typing import Any, Deque, Dict, List, NamedTuple, Optional, Tuple

from gputop.remote import cells, lenient_json, quantities
from gputop.remote.sample import Sample, new_sample

ROUTE = "kernel-log"

Event = Dict[str, Any]

_BUS = r"(?P<bus>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?)"
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?" + _BUS + r"(?P<mig>(?:\s+GPU-[A-Z]+:\w+)*)\s*\): (?P<code>\d{1,6})(?P<rest>.*)$"
)
_SXID = re.compile(r"SXid \((?:PCI:)?" + _BUS + r"\): (?P<code>\d{1,6})(?P<rest>.*)$")
_PROCESS = re.compile(
    r"^,\s*pid=(?P<pid>'[^']*'|<[^>]*>|\d+|[^,]*)(?:,\s*name=(?P<name>'[^']*'|<[^>]*>|[^,]*))?(?:,\s*|$)"
)
_NAME = re.compile(r"^name=(?P<name>'[^']*'|<[^>]*>|[^,]*)(?:,\s*|$)")
_CONSEQUENCE = re.compile(r"caused by previous Xid\s+\d+")
_DETAIL = re.compile(r"^(?:Data\s*\{|Severity\b)")
_OFF_BUS = re.compile(r"NVRM: GPU (?:at )?(?:PCI:)?" + _BUS + r":? GPU has fallen off the bus", re.IGNORECASE)
_OFF_BUS_BEGIN = re.compile(r"NVRM: The NVIDIA GPU (?:PCI:)?" + _BUS)
_OFF_BUS_END = re.compile(r"fallen off the bus", re.IGNORECASE)
_INIT = re.compile(
    r"NVRM: (?:GPU (?:at )?(?:PCI:)?" + _BUS + r":? )?(?P<words>RmInitAdapter failed!?.*|rm_init_adapter failed.*)$"
)
_REPEAT_LINES = 6
"""Lines within which the driver's other words for an event are the same event."""
_MESSAGE_LIMIT = 2000

_KMSG = re.compile(r"^(?P<prefix>\d{1,6}),\d+,(?P<us>\d{1,16}),[^;]*;(?P<rest>.*)$")
_LEVELS = re.compile(r"^(?:<\d{1,3}>)?(?:[a-z]+\s*:[a-z]+\s*:\s)?")
_BRACKETS = re.compile(r"\[\s*(?P<seconds>\d{1,12}\.\d{1,9})\]")
_DAY = r"(?P<h>\d{2}):(?P<m>\d{2}):(?P<s>\d{2})"
_FRACTION = r"(?:[.,](?P<fraction>\d{1,9}))?"
_WALL = re.compile(r"\[[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) " + _DAY + r" (?P<year>\d{4})\b")
_ISO = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})[T ]" + _DAY + _FRACTION + r"\s*(?P<zone>Z|[+-]\d{2}:?\d{2})?"
)
_UNIX = re.compile(r"^(?P<seconds>\d{9,11}\.\d{1,9})\s")
_SYSLOG = re.compile(r"^(?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) (?:(?P<year>\d{4}) )?" + _DAY + _FRACTION + r"\s")
_MONTHS = {name: at for at, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), start=1)}
_KERNEL_LINE = re.compile(
    r"^(?:\d{1,6},\d+,\d+,[^;]*;"  # /dev/kmsg
    r"|<\d{1,3}>\s*\["  # dmesg -r
    r"|(?:kern|user|daemon|syslog)\s*:[a-z]+\s*:"  # dmesg -x
    r"|\[\s*\d+\.\d{6}\]\s"  # dmesg
    r"|\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d"  # dmesg -T
    r"|\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}[.,]\d{6}[+-]\d{2}:\d{2} "  # dmesg --time-format iso
    r"|[A-Z][a-z]{2} +\d{1,2} \d{2}:\d{2}:\d{2}\S*\s+\S+\s+kernel:"  # syslog, journalctl
    r"|\d{4}-\d{2}-\d{2}T\S+\s+\S+\s+kernel:"  # journalctl -o short-iso
    r"|\[[A-Z][a-z]{2} \d{1,2} \d{4} \d{2}:\d{2}:\d{2}\])"  # the fabric manager's log
)


class Clock(NamedTuple):
    """What a log does not say itself about its times."""

    boot_time: Optional[float] = None
    """Seconds since the epoch: makes times since boot known."""
    year: Optional[int] = None
    """For formats without one."""
    utc_offset: float = 0.0
    """Seconds east of UTC, for formats without a zone."""


def looks_like(text: str) -> bool:
    """Lines of a kernel log, whatever they say; or NVIDIA's words without anything before them."""
    lines = [line for line in text[:60000].split("\n")[:400] if line.strip()]
    if any(_XID.search(line) or _SXID.search(line) or line.startswith("NVRM: ") for line in lines):
        return True
    kernel = sum(bool(_KERNEL_LINE.match(line)) for line in lines[:60])
    return kernel > 0 and kernel * 2 >= len(lines[:60])


def read(text: str, clock: Clock = Clock()) -> Sample:
    """A sample of events alone."""
    sample = new_sample(ROUTE)
    sample["events"] = events(text, clock)
    return sample


def events(text: str, clock: Clock = Clock()) -> List[Event]:
    """All events of a log, in its order."""
    reader = Reader(clock)
    told = (reader.feed(line) for line in text.split("\n"))
    return [event for event in told if event is not None]


class Reader:
    """Takes a log line by line, for as long as it goes on: `feed` gives the event that the line tells of, if any.

    A line that only tells the same again in better words changes the event that was given before.
    """

    def __init__(self, clock: Clock = Clock()) -> None:
        self._clock = clock
        self._line = 0
        self._latest: Deque[Tuple[int, Event]] = deque(maxlen=_REPEAT_LINES + 1)
        self._pending: Optional[Dict[str, Any]] = None

    def feed(self, line: str) -> Optional[Event]:
        self._line += 1
        if "NVRM" not in line and "SXid" not in line and "fallen off" not in line:
            return None
        line = _from_journal(line) if line.startswith("{") else line.rstrip()
        found = _XID.search(line)
        if found:
            return self._xid(line, found)
        found = _SXID.search(line)
        if found:
            return self._sxid(line, found)
        found = _OFF_BUS.search(line)
        if found:
            self._pending = None
            return self._off_bus(_time(line, self._clock), found.group("bus"), _message(line))
        found = _OFF_BUS_BEGIN.search(line)
        if found:
            self._pending = {"line": self._line, "at": _time(line, self._clock), "bus": found.group("bus")}
            self._pending["message"] = _message(line)
            return None
        if self._pending and _OFF_BUS_END.search(line):
            begun, self._pending = self._pending, None
            if self._line - begun["line"] <= _REPEAT_LINES:
                return self._off_bus(begun["at"], begun["bus"], begun["message"] + " " + _message(line))
        found = _INIT.search(line)
        if found:
            return self._init(line, found)
        return None

    def _add(
        self, kind: str, at: Optional[float], bus: Optional[str], message: str, code: Optional[int] = None
    ) -> Event:
        event = {
            "at": at,
            "kind": kind,
            "code": code,
            "pci_bus_id": bus,
            "pid": None,
            "process": None,
            "message": message[:_MESSAGE_LIMIT],
            "severity": None,
        }
        self._latest.append((self._line, event))
        return event

    def _recent(self, kind: str, bus: Optional[str], code: Optional[int] = None) -> Optional[Event]:
        """The same event in other words, a few lines above."""
        for line, event in reversed(self._latest):
            if self._line - line > _REPEAT_LINES:
                return None
            same = event["kind"] == kind and (code is None or event["code"] == code)
            if same and _slot(event["pci_bus_id"]) == _slot(bus):
                return event
        return None

    def _xid(self, line: str, found: Any) -> Optional[Event]:
        code, rest = int(found.group("code")), found.group("rest")
        if _CONSEQUENCE.search(rest):
            return None
        pid = name = None
        process = _PROCESS.match(rest)
        if process:
            pid, name = process.group("pid"), process.group("name")
            rest = rest[process.end() :]
        rest = rest.lstrip(", ")
        named = _NAME.match(rest) if not process else None
        if named:
            name, rest = named.group("name"), rest[named.end() :]
        before = self._recent("fell-off-bus", found.group("bus")) if code == 79 else None
        if before is not None:
            before.update(kind="xid", code=79, message=_clean(rest)[:_MESSAGE_LIMIT])
            event, fresh = before, None
        else:
            event = fresh = self._add("xid", _time(line, self._clock), found.group("bus"), _clean(rest), code)
        event["pid"] = quantities.pid((pid or "").strip("'"))
        event["process"] = _known(name)
        if found.group("mig").strip():
            event["message"] = (found.group("mig").strip() + ": " + event["message"])[:_MESSAGE_LIMIT]
        return fresh

    def _sxid(self, line: str, found: Any) -> Optional[Event]:
        rest = found.group("rest").lstrip(", ")
        if _DETAIL.match(rest):
            return None
        return self._add("sxid", _time(line, self._clock), found.group("bus"), _clean(rest), int(found.group("code")))

    def _off_bus(self, at: Optional[float], bus: str, message: str) -> Optional[Event]:
        if self._recent("xid", bus, 79) or self._recent("fell-off-bus", bus):
            return None
        return self._add("fell-off-bus", at, bus, message)

    def _init(self, line: str, found: Any) -> Optional[Event]:
        before = self._recent("rm-init-failed", found.group("bus"))
        if before is None:
            return self._add(
                "rm-init-failed", _time(line, self._clock), found.group("bus"), _clean(found.group("words"))
            )
        precise = "RmInitAdapter" in found.group("words")
        if precise and "RmInitAdapter" in before["message"]:
            return self._add(
                "rm-init-failed", _time(line, self._clock), found.group("bus"), _clean(found.group("words"))
            )
        if precise:
            before["message"] = _clean(found.group("words"))[:_MESSAGE_LIMIT]
        return None


def _known(name: Optional[str]) -> Optional[str]:
    """A process name; `<unknown>` is none."""
    word = _clean(name or "").strip("'").strip()
    return None if word.startswith("<") or cells.no_value(word) else word


def _slot(bus: Optional[str]) -> Optional[str]:
    """A bus id without the function, its domain four digits long."""
    if bus is None:
        return None
    parts = bus.lower().split(".")[0].split(":")
    return ":".join([parts[0][-4:], *parts[1:]])


def _clean(words: str) -> str:
    """Without control characters: a process chooses its own name."""
    return "".join(letter for letter in words if letter.isprintable()).strip()


def _message(line: str) -> str:
    return _clean(line.split("NVRM:", 1)[-1])


def _from_journal(line: str) -> str:
    """A line of `journalctl -o json` in the words of `-o short-unix`."""
    entry = lenient_json.document(line)
    message = entry.get("MESSAGE") if isinstance(entry, dict) else None
    if not isinstance(message, str):
        return ""
    stamp = cells.integer(quantities.said(entry.get("__REALTIME_TIMESTAMP")))
    return ("%.6f " % (stamp / 1e6) if stamp is not None else "") + message.replace("\n", " ")


def _time(line: str, clock: Clock) -> Optional[float]:
    """Seconds since the epoch of a line in any of the formats; `None` when it tells none or not enough."""
    kmsg = _KMSG.match(line)
    if kmsg:
        return _since_boot(int(kmsg.group("us")) / 1e6, clock)
    body = _LEVELS.sub("", line, count=1)
    head = body.split("NVRM:")[0].split("SXid")[0]
    unix = _UNIX.match(body)
    if unix:
        return float(unix.group("seconds"))
    for pattern in (_ISO, _WALL, _SYSLOG):
        found = pattern.search(head) if pattern is not _SYSLOG else pattern.match(head)
        if found:
            at = _wall(found.groupdict(), clock)
            if at is not None:
                return at
    brackets = _BRACKETS.search(head)
    return _since_boot(float(brackets.group("seconds")), clock) if brackets else None


def _since_boot(seconds: float, clock: Clock) -> Optional[float]:
    return None if clock.boot_time is None else clock.boot_time + seconds


def _wall(parts: Dict[str, Optional[str]], clock: Clock) -> Optional[float]:
    """A date and a time of day; without a zone they are of `clock.utc_offset`."""
    year = int(parts.get("year") or clock.year or 0)
    month = parts["month"] or ""
    number = int(month) if month.isdigit() else _MONTHS.get(month, 0)
    day, hour, minute, second = (int(parts[name] or 0) for name in ("day", "h", "m", "s"))
    if not (1970 <= year <= 9999 and 1 <= number <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60):
        return None
    zone = parts.get("zone")
    offset = clock.utc_offset
    if zone == "Z":
        offset = 0
    elif zone:
        digits = zone[1:].replace(":", "")
        offset = (-1 if zone[0] == "-" else 1) * (int(digits[:2]) * 3600 + int(digits[2:]) * 60)
    fraction = float("0." + (parts.get("fraction") or "0"))
    return calendar.timegm((year, number, day, hour, minute, min(second, 60), 0, 0, 0)) + fraction - offset
