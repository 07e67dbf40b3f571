"""How long readers take.   usage: python -m benchmarks.readers

The XML of one GPU, repeated to 16, and a full `--query-gpu` with 200 columns; best of some runs, on one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from gputop.readers import nvidia_csv
from gputop.remote import nvidia_xml

RECORDINGS = Path(__file__).parents[1] / "tests" / "fixtures" / "recordings" / "nvidia"
XML = RECORDINGS / "rtx-4000-sff-ada-generation_driver-595.84_v13.xml"
CSV = RECORDINGS / "query-gpu_h100-80gb-hbm3_driver-590.48.01_load.csv"
GPUS, LINES, RUNS = 16, 100, 30


def best_milliseconds(job: Callable[[], object]) -> float:
    times = []
    for _ in range(RUNS):
        started = time.perf_counter()
        job()
        times.append(time.perf_counter() - started)
    return min(times) * 1000


def main() -> None:
    log = XML.read_text(encoding="utf-8")
    start, end = log.index("<gpu "), log.index("</gpu>") + len("</gpu>")
    big = log[:start] + log[start:end] * GPUS + log[end:]
    head, row, *_ = CSV.read_text(encoding="utf-8").splitlines()
    stream = "\n".join([head, *[row] * LINES])
    whole = best_milliseconds(lambda: nvidia_xml.read(big))
    print(f"XML of {GPUS} GPUs, {len(big) >> 10} KiB: {whole:.1f} ms (target 10)")
    line = best_milliseconds(lambda: nvidia_csv.read(stream)) / LINES
    print(f"a line of --query-gpu with {head.count(',') + 1} columns: {line:.3f} ms (target 0.2)")


if __name__ == "__main__":
    main()
