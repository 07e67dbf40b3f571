"""The shell pieces of `make`, with pretended interpreters: what they choose, repair and say."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT

TOOLS = ("sh", "cat", "cut", "cksum", "cp", "rm", "mkdir", "dirname", "mktemp", "tail", "chmod")

PYTHON = """\
#!/bin/sh
# A pretended Python {version}; what it is asked to do goes to $LOG.
case "$*" in
    *"version_info <"*) exit {too_old} ;;
    *"print("*) echo {version} ;;
    *"import ensurepip"*) [ -e "$LOG.venv-package" ] || exit {lacks_venv} ;;
    "-m venv .venv") echo "{name}: venv" >>"$LOG"; mkdir -p .venv/bin; cp "$0" .venv/bin/python ;;
    *"-m pip install"*) echo "pip install: $*" >>"$LOG"; [ ! -e "$LOG.offline" ] ;;
    *) echo "unexpected: $*" >>"$LOG"; exit 1 ;;
esac
"""


class Checkout:
    """A folder with the scripts and pyproject.toml alone, and a PATH that the test fills."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "gputop"
        shutil.copytree(ROOT / "scripts", self.root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", self.root)
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.log = folder / "log"
        for tool in TOOLS:
            path = shutil.which(tool)
            assert path is not None
            (self.bin / tool).symlink_to(path)
        self.be_user(1000)

    def program(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)

    def be_user(self, number: int) -> None:
        self.program("id", f"#!/bin/sh\necho {number}\n")

    def python(self, name: str, version: str, *, has_venv: bool = True) -> None:
        too_old = tuple(int(part) for part in version.split(".")) < (3, 11)
        text = PYTHON.format(name=name, version=version, too_old=int(too_old), lacks_venv=int(not has_venv))
        self.program(name, text)

    def run(self, script: str, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", f"{self.root}/scripts/{script}", *argv],
            env={"PATH": str(self.bin), "LOG": str(self.log)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def done(self) -> list[str]:
        """What the pretended programs did since the last call."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return [line.partition(" --")[0] for line in lines]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_fresh_checkout_gets_its_environment_and_a_second_run_does_nothing(checkout: Checkout) -> None:
    checkout.python("python3", "3.11")
    assert checkout.run("venv.sh", "run").returncode == 0
    assert checkout.done() == ["python3: venv", "pip install: -m pip install"]
    assert checkout.run("venv.sh", "run").returncode == 0
    assert checkout.done() == []


def test_the_newest_python_known_to_work_is_taken_first(checkout: Checkout) -> None:
    for name, version in (("python3", "3.14"), ("python3.11", "3.11"), ("python3.12", "3.12")):
        checkout.python(name, version)
    checkout.run("venv.sh", "run")
    assert checkout.done()[0] == "python3.12: venv"


def test_a_name_that_does_not_run_is_passed_over(checkout: Checkout) -> None:
    checkout.program("python3.13", "#!/bin/sh\necho 'pyenv: python3.13: command not found' >&2\nexit 127\n")
    checkout.python("python3", "3.11")
    assert checkout.run("venv.sh", "run").returncode == 0
    assert checkout.done()[0] == "python3: venv"


def test_a_python_that_can_make_an_environment_is_preferred_to_a_newer_one_that_cannot(checkout: Checkout) -> None:
    checkout.python("python3.13", "3.13", has_venv=False)
    checkout.python("python3.11", "3.11")
    assert checkout.run("venv.sh", "run").returncode == 0
    assert checkout.done()[0] == "python3.11: venv"


def test_a_python_that_is_too_old_is_named_in_one_line(checkout: Checkout) -> None:
    checkout.python("python3", "3.9")
    ran = checkout.run("venv.sh", "run")
    assert ran.returncode == 1
    assert ran.stderr.splitlines() == [
        "gputop: needs Python 3.11 or newer, and python3 is 3.9: install python3.11 (with its venv) or newer"
    ]


def test_no_python_at_all_is_said_in_one_line(checkout: Checkout) -> None:
    ran = checkout.run("venv.sh", "run")
    assert ran.returncode == 1
    assert ran.stderr.splitlines() == [
        "gputop: needs Python 3.11 or newer, and found no python3: apt-get install python3 python3-venv"
    ]


def test_without_ensurepip_an_ordinary_user_is_told_the_apt_line(checkout: Checkout) -> None:
    checkout.python("python3", "3.11", has_venv=False)
    ran = checkout.run("venv.sh", "run")
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1
    assert ran.stderr.rstrip().endswith("as root: apt-get install -y python3.11-venv")


def test_without_ensurepip_root_installs_it_and_goes_on(checkout: Checkout) -> None:
    checkout.python("python3", "3.11", has_venv=False)
    checkout.be_user(0)
    checkout.program("apt-get", '#!/bin/sh\necho "apt-get: $*" >>"$LOG"\n: >"$LOG.venv-package"\n')
    ran = checkout.run("venv.sh", "run")
    assert ran.returncode == 0, ran.stderr
    assert checkout.done() == ["apt-get: install -y", "python3: venv", "pip install: -m pip install"]


def test_a_failing_pip_is_explained_and_tried_again_the_next_time(checkout: Checkout) -> None:
    checkout.python("python3", "3.11")
    offline = Path(f"{checkout.log}.offline")
    offline.touch()
    ran = checkout.run("venv.sh", "run")
    assert ran.returncode == 1
    assert "PIP_INDEX_URL" in ran.stderr.splitlines()[-1]
    checkout.done()
    offline.unlink()
    assert checkout.run("venv.sh", "run").returncode == 0
    assert checkout.done() == ["python3: venv", "pip install: -m pip install"]


def test_a_half_built_environment_is_made_anew(checkout: Checkout) -> None:
    checkout.python("python3", "3.11")
    (checkout.root / ".venv" / "bin").mkdir(parents=True)
    (checkout.root / ".venv" / "leftover").touch()
    assert checkout.run("venv.sh", "dev").returncode == 0
    assert not (checkout.root / ".venv" / "leftover").exists()


def test_changed_dependencies_are_installed_into_the_environment_there_is(checkout: Checkout) -> None:
    checkout.python("python3", "3.11")
    checkout.run("venv.sh", "dev")
    checkout.done()
    with (checkout.root / "pyproject.toml").open("a") as file:
        file.write("# changed\n")
    assert checkout.run("venv.sh", "dev").returncode == 0
    assert checkout.done() == ["pip install: -m pip install"]


def test_a_checkout_that_was_moved_gets_a_new_environment(checkout: Checkout) -> None:
    checkout.python("python3", "3.11")
    checkout.run("venv.sh", "run")
    checkout.done()
    checkout.root = checkout.root.rename(checkout.root.with_name("elsewhere"))
    assert checkout.run("venv.sh", "run").returncode == 0
    assert checkout.done() == ["python3: venv", "pip install: -m pip install"]


def test_an_environment_whose_python_was_removed_is_made_anew(checkout: Checkout) -> None:
    checkout.python("python3", "3.11")
    checkout.run("venv.sh", "run")
    checkout.done()
    (checkout.root / ".venv" / "bin" / "python").unlink()
    assert checkout.run("venv.sh", "run").returncode == 0
    assert checkout.done() == ["python3: venv", "pip install: -m pip install"]


def test_the_tools_of_the_tests_are_enough_to_run_gputop_but_not_the_other_way_round(checkout: Checkout) -> None:
    checkout.python("python3", "3.11")
    checkout.run("venv.sh", "run")
    checkout.done()
    checkout.run("venv.sh", "dev")
    assert checkout.done() == ["pip install: -m pip install"]
    checkout.run("venv.sh", "run")
    assert checkout.done() == []


def test_services_are_named_to_an_ordinary_user_with_exit_code_2(checkout: Checkout) -> None:
    services = (checkout.root / "scripts" / "services.sh").read_text()
    # What this machine has installed must not count.
    (checkout.root / "scripts" / "services.sh").write_text(services.replace("PATH=$PATH:", "unused=$PATH:"))
    ran = checkout.run("services.sh")
    assert ran.returncode == 2
    assert "apt-get install -y --no-install-recommends openssh-server openssh-client tmux gcc" in ran.stderr


def test_the_ci_script_runs_from_any_folder_and_asks_nothing(tmp_path: Path) -> None:
    fake = tmp_path / "make"
    fake.write_text('#!/bin/sh\necho "$CI $PWD make $*"\ncat\n')
    fake.chmod(0o755)
    ran = subprocess.run(
        ["bash", ROOT / ".ci" / "run"],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        input="typed",
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert ran.stdout == f"true {ROOT} make services\ntrue {ROOT} make check\n"
