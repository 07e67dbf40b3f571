"""The wire protocol between the agent and the controller, version 1.

The controller starts the agent, writes the payload (exactly the number of bytes named on its command line) and then
control lines to its standard input; the agent answers with lines on its standard output.

Framing: every line of the agent is `TOKEN + " " + JSON + "\\n"`, JSON in ASCII. TOKEN is made by the controller for
each session and passed on the command line, so that whatever login files or other programs print is never a line of
ours. Empty lines and lines without the token mean nothing. TOKEN alone on a line is printed by the shell script that
looks for a Python, before it does: it tells that the account has a shell. A line is at most `LINE_LIMIT` bytes.

Control lines (controller to agent, `\\n` ended):
    `options {"interval": 2.0, "nvml_library": null, "deadline": 5.0}`   once, directly after the payload; see `options`
    `interval SECONDS`      new time between two frames
    `sample`                one frame at once
    `stop`                  end
    an empty line           heartbeat, sent every 10 s; without any line for 30 s the agent ends itself
End of file ends the agent as well.

Lines of the agent, told apart by key `k`:

`{"k":"hello", "v":1, "route":"nvml", "interval":2.0, "facts":{HostFacts}, "devices":{column: [..]},
  "problems":[Problem]}`
    First line, and again whenever the devices, the driver or the route change. `devices` holds the columns of
    `domain.reading.Device` (index, uuid, pci_bus_id, vendor, model, serial, minor_number), one entry a device; a lost
    device stays listed in its old place. After a hello all carried values are forgotten.

`{"k":"frame", "n":17, "t":1764550000.123, "interval":2.0, "host":{HostReading}, "columns":{metric: [..]},
  "partitions":{column: [..]}, "processes":{column: [..]}, "problems":[Problem],
  "device_problems":{"3":[Problem]}, "events":[DeviceEvent]}`
    One sample. `t` is the server's wall clock in seconds, UTC. `columns` are those of `domain.reading.DeviceReading`
    and must have one entry a device. A metric, `host` key, `partitions`, `processes` that is left out keeps its last
    value (slow loops send it seldom); `null` in its place means it cannot be read any more. `problems` and
    `device_problems` are left out when there are none and are never carried on.
    `processes.started_at` and `events.at` are in seconds since the epoch, UTC; `since` of a problem is RFC 3339 text,
    UTC. `events` are those of the kernel log that no earlier frame of the session told of, oldest first, at most 200;
    left out when there are none. A session tells the log from the start of the server on, so the same events come
    again in the next one. `events.uptime_seconds` counts from the start of the server by the kernel's clock: with it an
    event is known again, whatever happened to the wall clock. An event brings the next frame forward.

`{"k":"bye", "reason":"stop"}`   last line of an orderly end.
"""

import json
from typing import Any, Dict

PROTOCOL_VERSION = 1
LINE_LIMIT = 4 * 1024 * 1024
"""Bytes; a longer line is dropped by the reader and counted as garbage."""
HEARTBEAT_SECONDS = 10.0
SILENCE_LIMIT_SECONDS = 30
"""Without a control line for so long the agent ends itself."""

EXIT_PAYLOAD_SHORT = 97
EXIT_NO_PYTHON = 96
EXIT_PROTOCOL = 95


def pack(token: str, message: Dict[str, Any]) -> bytes:
    """One line of the agent, ready to be written."""
    return (token + " " + json.dumps(message, separators=(",", ":")) + "\n").encode("ascii")
