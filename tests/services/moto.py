"""An EC2 on loopback (moto) for tests and trials by hand:

    python -m tests.services.moto        # prints its URL; ends on Ctrl-C

Its instances are entries of a table. The addresses it invents belong to others: nothing may contact them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from tests.services.slurm import free_ports

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 30.0


def program(name: str) -> str | None:
    """Path of a program of `.venv-services`, which `make services` fills; else of one on the PATH."""
    own = ROOT / ".venv-services" / "bin" / name
    return str(own) if own.exists() else shutil.which(name)


class Moto:
    def __init__(self, argv0: str) -> None:
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [argv0, "-H", "127.0.0.1", "-p", str(self.port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "AWS_EC2_METADATA_DISABLED": "true"},
        )
        wait_for(f"{self.url}/moto-api/data.json", self.process)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=10)


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            with urlopen(url, timeout=5):
                return
        except (URLError, OSError) as error:
            if process.poll() is not None or time.monotonic() > end:
                process.kill()
                raise RuntimeError(f"{url} did not come up: {error}") from error
            time.sleep(0.1)


def main() -> None:
    path = program("moto_server")
    if path is None:
        sys.exit("needs moto: make services")
    moto = Moto(path)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        print(f"{moto.url}   # end it with Ctrl-C, or: kill {os.getpid()}", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        moto.stop()


if __name__ == "__main__":
    main()
