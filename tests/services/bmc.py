"""Management controllers on loopback, for tests and trials by hand: OpenIPMI's ipmi_sim and sushy-tools' Redfish.

python -m tests.services.bmc 3        # prints how to ask them; ends on Ctrl-C
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.services.moto import program
from tests.services.slurm import SBIN, free_ports

START_SECONDS = 30.0

LAN = """name "{name}"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 {port}
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcde{number:x}
  endlan
  chassis_control "{folder}/chassis 0x20"
  user 1 true  ""        "test" user     10 none md2 md5 straight
  user 2 true  "ops" "secret" admin    10 none md2 md5 straight
"""

EMULATION = """mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 1000 0x0a
sensor_add 0x20 0 1 0x01 0x01
sensor_set_value 0x20 0 1 42 0
mc_enable 0x20
"""

CHASSIS = """#!/bin/sh
# ipmi_sim runs this: ADDRESS get NAME... | set NAME VALUE...; the machine's power is the file `power`
cd {folder}
op=$2; shift 2
if [ "$op" = get ]; then
    for name in "$@"; do
        case $name in
            power) [ "$(cat power)" = on ] && echo power:1 || echo power:0 ;;
            boot) echo boot:default ;;
            *) echo "$name:0" ;;
        esac
    done
    exit
fi
while [ $# -gt 0 ]; do
    echo "$1 $2" >>asked
    case $1 in
        power) [ "$2" = 1 ] && echo on >power || echo off >power ;;
        shutdown) [ -e deaf ] || echo off >power ;;
    esac
    [ ! -e wire ] || ./wire "$(cat power)" >/dev/null 2>&1 &
    shift 2
done
"""


class IpmiBmc:
    """One BMC: account `ops`, password `secret`. Its machine is on at first."""

    def __init__(self, folder: Path, name: str, number: int) -> None:
        self.folder = folder
        (folder / "state").mkdir(parents=True)
        (self.port,) = free_ports(1)
        texts = {
            "lan.conf": LAN.format(name=name, port=self.port, number=number, folder=folder),
            "emulation": EMULATION,
            "chassis": CHASSIS.format(folder=folder),
            "asked": "",
        }
        for file, text in texts.items():
            (folder / file).write_text(text)
        (folder / "chassis").chmod(0o755)
        self.power = "on"
        environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{SBIN}"}
        self.process = subprocess.Popen(
            ["ipmi_sim", "-c", "lan.conf", "-f", "emulation", "-s", "state", "-n"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def power(self) -> str:
        return (self.folder / "power").read_text().strip()

    @power.setter
    def power(self, state: str) -> None:
        (self.folder / "power").write_text(f"{state}\n")

    def wire_to(self, script: str) -> None:
        """Run a script of /bin/sh with `on` or `off` after each change: the cable to a machine."""
        path = self.folder / "wire"
        path.write_text(f"#!/bin/sh\n{script}")
        path.chmod(0o755)

    def asked(self) -> list[str]:
        """What was asked of the machine since the last call."""
        lines = (self.folder / "asked").read_text().splitlines()
        (self.folder / "asked").write_text("")
        return lines

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(timeout=10)


SUSHY = """SUSHY_EMULATOR_LISTEN_IP = "127.0.0.1"
SUSHY_EMULATOR_LISTEN_PORT = {port}
SUSHY_EMULATOR_SSL_CERT = "{folder}/cert.pem"
SUSHY_EMULATOR_SSL_KEY = "{folder}/key.pem"
SUSHY_EMULATOR_AUTH_FILE = "{folder}/users"
SUSHY_EMULATOR_FAKE_DRIVER = True
SUSHY_EMULATOR_STATE_DIR = "{folder}"
SUSHY_EMULATOR_FAKE_SYSTEMS = {systems!r}
"""

USERS = "ops:$2b$04$vBcQf7yU1qnGDinmtydrLewCiB/OQXsU6Wtd2fgbWBSqe29WTGZT2\n"
"""`secret`, as bcrypt."""

CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=bmc "
    "-keyout key.pem -out cert.pem"
)

SHORT_DELAYS = (
    "import random, sys; random.randint = lambda low, high: low; "
    "from sushy_tools.emulator.main import main; sys.exit(main())"
)
"""The emulator with its machines' delays of 1 to 11 seconds cut to 1."""


class RedfishBmc:
    """Over TLS with a certificate that nobody signed; account `ops`, password `secret`. Systems gpu01, gpu02, …, on."""

    def __init__(self, folder: Path, emulator: str, systems: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        self.url = f"https://127.0.0.1:{self.port}"
        self.certificate = folder / "cert.pem"
        subprocess.run(
            [*CERTIFICATE.split(), "-addext", "subjectAltName=IP:127.0.0.1"],
            cwd=folder,
            check=True,
            capture_output=True,
        )
        (folder / "users").write_text(USERS)
        self.systems = [f"00000000-0000-0000-0000-{number:012}" for number in range(1, systems + 1)]
        made = [
            {"uuid": uuid, "name": f"gpu{number:02}", "power_state": "On", "nics": []}
            for number, uuid in enumerate(self.systems, 1)
        ]
        (folder / "conf.py").write_text(SUSHY.format(port=self.port, folder=folder, systems=made))
        self.process = subprocess.Popen(
            [Path(emulator).parent / "python", "-c", SHORT_DELAYS, "--config", folder / "conf.py"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        end = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5):
                return
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                raise RuntimeError("sushy-emulator did not come up")
            time.sleep(0.1)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=10)


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="gputop-bmc-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    running: list[IpmiBmc | RedfishBmc] = []
    try:
        for number in range(1, int(sys.argv[1]) + 1 if len(sys.argv) > 1 else 4):
            bmc = IpmiBmc(folder / f"bmc{number}", f"gpu{number:02}", number)
            running.append(bmc)
            print(f"ipmitool -I lanplus -C 3 -H 127.0.0.1 -p {bmc.port} -U ops -P secret chassis power status")
        emulator = program("sushy-emulator")
        if emulator is not None:
            redfish = RedfishBmc(folder / "redfish", emulator, 3)
            running.append(redfish)
            print(f"curl --cacert {redfish.certificate} -u ops:secret {redfish.url}/redfish/v1/Systems")
        print(f"# end them with Ctrl-C, or: kill {os.getpid()}", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        for bmc in running:
            bmc.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
