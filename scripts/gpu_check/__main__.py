"""Checks gputop's agent on a machine with NVIDIA GPUs: `make gpu-check`, or `python3 gpu-check.pyz` (see --pack).

Reads the GPUs through NVML and through nvidia-smi and compares field by field, times every NVML call that the agent
makes, looks at how nvidia-smi passes its lines on, loads the first GPU for a few seconds, and leaves a report and the
tools' outputs without serial numbers. Python 3.6 or newer, no network, at most 3 minutes. It changes nothing but the
folder that it writes.
"""

import argparse
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
if os.path.isdir(HERE):
    sys.path.insert(0, os.path.dirname(os.path.dirname(HERE)))

import checks
import pack
import report
import scrub

LIMIT_SECONDS = 165


class OutOfTime(Exception):
    """The machine is slower than the check has time; or something hangs."""


def out_of_time(number: int, frame: object) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(10)  # for the report; then the end, whatever hangs
    raise OutOfTime("not all was checked within %d s" % LIMIT_SECONDS)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="gpu-check", description="Check gputop's agent on this machine's NVIDIA GPUs."
    )
    parser.add_argument("-o", "--output", default="gpu-check", help="folder to write (default: gpu-check)")
    parser.add_argument("--nvml-library", metavar="FILE", help="libnvidia-ml.so.1, if it is not found by itself")
    parser.add_argument("--load-seconds", type=float, default=8.0, help="how long to load GPU 0; 0: not at all")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between two looks (default: 1)")
    parser.add_argument("--pack", metavar="FILE", help="write all that is needed into one file for another machine")
    options = parser.parse_args()
    if options.pack:
        pack.write(HERE, options.pack)
        print(
            "%s: copy it to the machine, and run it there: python3 %s" % (options.pack, os.path.basename(options.pack))
        )
        return 0
    began = time.monotonic()
    found = {"failures": [], "notes": [], "python": "%d.%d.%d" % sys.version_info[:3]}
    signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(LIMIT_SECONDS)
    try:
        checks.run(found, options.nvml_library, options.load_seconds, options.interval)
    except OutOfTime as error:
        found["failures"].append(str(error))
    found["seconds"] = round(time.monotonic() - began, 1)
    clean = scrub.Scrubber(found)
    names = report.write(options.output, found, clean)
    print(report.summary(found))
    print("\nWritten: %s" % ", ".join(os.path.join(options.output, name) for name in names))
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
